"""What a trial is made of: settings with a line each, checked before anything starts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.places import place_of
from hosts.schedules import SCHEDULES
from hosts.schemes import SCHEMES, SERVED, Place
from hosts.stragglers import KINDS, Straggler
from hosts.workloads import WORKLOADS, find
from switches.loss import Loss
from topologies.racks import HostPlan, NetworkPlan, Racks, TopologyError

K_CHOICES = (32, 64, 256)
POOL_CELLS = 4096  # as p4/include/switchml/configuration.p4 has it


class SettingsError(ValueError):
    """A setting that cannot be; str() is one sentence that says what to change."""


class TrialSettings(BaseModel):
    """Everything that one trial depends on, besides its seed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scheme: str = Field("switchml", description=f"one of {', '.join(SCHEMES)}")
    racks: int = Field(2, description="one rack has no root switch")
    workers: int = Field(4, description="workers in each rack")
    host_rate: float = Field(10.0, description="Mbit/s between a worker and its switch")
    uplink_rate: float = Field(10.0, description="Mbit/s between a rack's switch and the root")
    k: int = Field(64, description="integers in a packet: 32, 64 or 256")
    slots: int = Field(64, description="slots of the job's pool")
    servers: int = Field(1, ge=1, description="ps: dedicated servers, on hosts of their own")
    scaling: float | None = Field(None, gt=0, le=1e30, description="switchml: a fixed scaling factor instead of block exponents")
    workload: str = Field("digits-mlp", description=f"one of {', '.join(WORKLOADS)}, or tensor-N")
    steps: int = Field(80, ge=1, le=100_000, description="of training")
    batch: int | None = Field(None, ge=1, le=100_000, description="samples of a worker's step; default: the workload's")
    learning_rate: float | None = Field(None, gt=0, le=1e6, description="of SGD with momentum 0.9; default: the workload's")
    compute_ms: float = Field(50.0, gt=0, le=600_000, description="virtual compute time of a step, in ms")
    evaluate_every: int = Field(5, ge=1, description="steps between evaluations")
    measure_error: bool = Field(False, description="compare the sum with one in float64 wherever the model is evaluated")
    loss: float = Field(0.0, ge=0, lt=1, description="loss rate on every link, in each direction")
    burst: float = Field(1.0, ge=1, le=1e6, description="mean length of a burst of losses; 1: Bernoulli")
    outage_at: float | None = Field(None, ge=0, le=86_400, description="seconds into the training: worker 0's link loses all")
    outage_ms: float = Field(50.0, gt=0, le=60_000, description="how long it does, in ms")
    timeline: bool = Field(False, description="note packets in bins of 10 ms (switchml)")
    straggler: str = Field("none", description=f"one of {', '.join(KINDS)}")
    straggler_rank: int = Field(0, ge=0, description="slow: which worker")
    straggler_factor: float = Field(3.0, ge=1, le=1000, description="slow, bimodal: how many times as long")
    straggler_mean: float = Field(1.0, ge=0, le=1000, description="exponential: mean of what is added to 1")
    straggler_shape: float = Field(2.0, gt=0, le=1000, description="pareto: its shape")
    straggler_probability: float = Field(0.1, ge=0, le=1, description="bimodal: of a slow step")
    straggler_sigma: float = Field(0.5, ge=0, le=10, description="lognormal: of the exponent")
    patience: float = Field(30.0, gt=0, le=86_400, description="seconds of silence before a worker gives up")

    def topology(self) -> Racks:
        servers = self.servers if self.scheme == SERVED else 0
        return Racks(self.racks, self.workers, self.host_rate, self.uplink_rate, servers)

    def place(self, plan: NetworkPlan, host: HostPlan) -> Place:
        """A host's place in the job."""
        return place_of(plan, host, self.scheme, self.slots, self.k, self.patience, self.scaling)

    def loss_model(self) -> Loss | None:
        if not self.loss:
            return None
        return Loss.bernoulli(self.loss) if self.burst == 1 else Loss.gilbert_elliott(self.loss, self.burst)

    def straggler_model(self) -> Straggler:
        return Straggler(
            self.straggler, self.straggler_rank, self.straggler_factor, self.straggler_mean, self.straggler_shape,
            self.straggler_probability, self.straggler_sigma,
        )  # fmt: skip

    def check(self) -> None:
        """Raise SettingsError for a combination that cannot run."""
        try:
            size = self.topology().size
            self.loss_model()
            self.straggler_model()
        except (TopologyError, ValueError) as error:
            raise SettingsError(str(error)) from None
        if self.scheme not in SCHEMES:
            raise SettingsError(f"scheme {self.scheme} is unknown: choose one of {', '.join(SCHEMES)}")
        if self.scheme in SCHEDULES:
            try:
                SCHEDULES[self.scheme](size, self.servers)
            except ValueError as error:
                raise SettingsError(str(error)) from None
        for key in ("scaling", "timeline") if self.scheme != "switchml" else ():
            if getattr(self, key):
                raise SettingsError(f"{key} is switchml's: scheme {self.scheme} does not have it")
        if self.k not in K_CHOICES:
            raise SettingsError(
                f"k is {self.k}: the program can be compiled for {', '.join(map(str, K_CHOICES))} integers a packet"
            )
        if not 1 <= self.slots <= POOL_CELLS // 2:
            raise SettingsError(f"slots is {self.slots}: from 1 to {POOL_CELLS // 2} fit in the switch's pool")
        try:
            find(self.workload)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        if self.outage_at is not None and self.loss:
            raise SettingsError("outage_at and loss cannot be set together: both are decided by the loss of worker 0's link")
        if not 0 <= self.straggler_rank < size:
            raise SettingsError(f"straggler_rank is {self.straggler_rank}: the ranks are 0 to {size - 1}")


def parse_overrides(texts: list[str], known: type[BaseModel]) -> dict[str, Any]:
    """`key=value` words as a dictionary of strings; SettingsError names the keys there are."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--set takes key=value, not {text!r}")
        if key not in known.model_fields:
            raise SettingsError(f"there is no setting {key}: choose one of {', '.join(sorted(known.model_fields))}")
        values[key] = value
    return values


def make_settings(kind: type[BaseModel], values: dict[str, Any]) -> Any:
    """Settings of `kind`; SettingsError tells the first value that is wrong, and why."""
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SettingsError(f"setting {name} is {first['input']!r}: {first['msg'].lower()}") from None
