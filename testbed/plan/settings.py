"""What a trial is made of: settings with a line each, checked before anything starts."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, field_validator

from hosts.atp.congestion import CONTROLS, NONE, PAPER
from hosts.atp.tree import Tree
from hosts.collective import Membership
from hosts.recovery import RECOVERIES
from hosts.schedules import SCHEDULES
from hosts.schemes import SCHEMES, SERVERS, Parameters
from hosts.stragglers import KINDS, Straggler
from hosts.workloads import WORKLOADS, find
from switches import atp
from switches.loss import Loss
from topologies.jobs import JobPlan, deal
from topologies.racks import NetworkPlan, Racks, TopologyError

K_CHOICES = (32, 64, 256)
POOL_CELLS = 4096  # as p4/include/switchml/configuration.p4 has it


class SettingsError(ValueError):
    """A setting that cannot be; str() is one sentence that says what to change."""


def _as_word(value: Any) -> Any:
    """What `congestion` was in the records of 0.4: whether the window followed marks and losses."""
    return {True: PAPER, False: NONE}.get(value, value) if isinstance(value, bool) else value


class JobSettings(BaseModel):
    """One of several jobs on a network: what is not set is as the trial has it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    start: float = Field(0.0, ge=0, le=3600, description="seconds after the first job's start")
    workers: tuple[NonNegativeInt, ...] = Field((), description="hosts of its own in each rack: one number, or one for every rack")
    scheme: str | None = None
    slots: int | None = None
    servers: int | None = None
    scaling: float | None = None
    aggregators: int | None = None
    congestion: str | None = None
    recovery: str | None = None
    workload: str | None = None
    steps: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    compute_ms: float | None = None

    _congestion = field_validator("congestion", mode="before")(_as_word)

    @field_validator("workers", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value

    def changes(self) -> dict[str, Any]:
        """What differs from the trial's settings."""
        told = {key: value for key in self.model_fields_set - {"start", "workers"} if (value := getattr(self, key)) is not None}
        return told | ({"workers": self.workers[0]} if len(self.workers) == 1 else {})


class TrialSettings(BaseModel):
    """Everything that one trial depends on, besides its seed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    _congestion = field_validator("congestion", mode="before")(_as_word)

    @field_validator("jobs", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        """On the command line jobs are a JSON list of objects."""
        try:
            return json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error}") from None

    scheme: str = Field("switchml", description=f"one of {', '.join(SCHEMES)}")
    racks: int = Field(2, description="one rack has no root switch")
    workers: int = Field(4, description="workers in each rack")
    host_rate: float = Field(10.0, description="Mbit/s between a worker and its switch")
    uplink_rate: float = Field(10.0, description="Mbit/s between a rack's switch and the root")
    k: int = Field(64, description="integers in a packet: 32, 64 or 256")
    slots: int = Field(64, description="chunks under way: slots of the job's pool, or atp's window")
    servers: int = Field(1, ge=1, description="ps, atp: dedicated servers, on hosts of their own")
    scaling: float | None = Field(None, gt=0, le=1e30, description="switchml, atp: a fixed factor; default: block exponents; 1e8")
    aggregators: int = Field(atp.AGGREGATORS, description="atp: of each switch, shared by all jobs")
    congestion: str = Field("marks", description="atp: what halves the window: marks, paper (marks and losses), or none")
    recovery: str = Field(
        "ask", description="switchml, atp: ask what became of an overdue chunk, or send it again as the paper does"
    )
    workload: str = Field("digits-mlp", description=f"one of {', '.join(WORKLOADS)}, or tensor-N")
    steps: int = Field(80, ge=1, le=100_000, description="of training")
    batch: int | None = Field(None, ge=1, le=100_000, description="samples of a worker's step; default: the workload's")
    learning_rate: float | None = Field(None, gt=0, le=1e6, description="of SGD with momentum 0.9; default: the workload's")
    compute_ms: float = Field(50.0, gt=0, le=600_000, description="virtual compute time of a step, in ms")
    evaluate_every: int = Field(5, ge=1, description="steps between evaluations")
    measure_error: bool = Field(False, description="compare the sum with one in float64 wherever the model is evaluated")
    loss: float = Field(0.0, ge=0, lt=1, description="loss rate on every link, in each direction")
    burst: float = Field(1.0, ge=1, le=1e6, description="mean length of a burst of losses; 1: Bernoulli")
    queue: int | None = Field(None, ge=1, le=65536, description="packets that a switch's port holds; default: more than can come")
    latency: float = Field(0.0, ge=0, le=100, description="ms that what a switch sends takes longer (embedded target)")
    background: float = Field(0.0, ge=0, le=10_000, description="Mbit/s of datagrams from the last rack into the first")
    outage_at: float | None = Field(None, ge=0, le=86_400, description="seconds into the training: worker 0's link loses all")
    outage_ms: float = Field(50.0, gt=0, le=60_000, description="how long it does, in ms")
    timeline: bool = Field(False, description="note packets in bins of 10 ms (switchml, atp)")
    straggler: str = Field("none", description=f"one of {', '.join(KINDS)}")
    straggler_rank: int = Field(0, ge=0, description="slow: which worker")
    straggler_factor: float = Field(3.0, ge=1, le=1000, description="slow, bimodal: how many times as long")
    straggler_mean: float = Field(1.0, ge=0, le=1000, description="exponential: mean of what is added to 1")
    straggler_shape: float = Field(2.0, gt=0, le=1000, description="pareto: its shape")
    straggler_probability: float = Field(0.1, ge=0, le=1, description="bimodal: of a slow step")
    straggler_sigma: float = Field(0.5, ge=0, le=10, description="lognormal: of the exponent")
    jobs: tuple[JobSettings, ...] = Field((), description="several jobs on one network; each has what differs from the above")
    patience: float = Field(30.0, gt=0, le=86_400, description="seconds of silence before a worker gives up")

    def each(self) -> list[TrialSettings]:
        """Each job's own settings, as a trial of one job."""
        return [self.model_copy(update={**job.changes(), "jobs": ()}) for job in self.jobs] or [self]

    @property
    def program(self) -> str:
        """Whose program the switches run."""
        return "atp" if any(job.scheme == "atp" for job in self.each()) else "switchml"

    def starts(self) -> list[float]:
        """When each job begins, in seconds after the first."""
        return [job.start for job in self.jobs] or [0.0]

    def _workers(self) -> list[list[int]]:
        """Of each job in each rack."""
        chosen = [job.workers or (self.workers,) for job in self.jobs] or [(self.workers,)]
        if wrong := [w for w in chosen if len(w) not in (1, self.racks)]:
            raise SettingsError(f"a job's workers are {wrong[0]}: give one number, or one for each of the {self.racks} racks")
        return [list(w) * (self.racks if len(w) == 1 else 1) for w in chosen]

    def _servers(self) -> list[int]:
        return [job.servers if job.scheme in SERVERS else 0 for job in self.each()]

    def topology(self) -> Racks:
        """The network that the jobs need."""
        workers = max((sum(by_rack) for by_rack in zip(*self._workers(), strict=True)), default=self.workers)
        bystanders = int(self.background > 0)  # a host of each rack that is in no job
        return Racks(self.racks, workers + bystanders, self.host_rate, self.uplink_rate, sum(self._servers()))

    def plans(self, plan: NetworkPlan) -> list[JobPlan]:
        """The jobs' hosts."""
        return deal(plan, self._workers(), self._servers())

    def admitted(self, plan: NetworkPlan) -> list[tuple[JobPlan, Parameters]]:
        """The jobs' hosts, and what their nodes and the switches are told of the schemes."""
        return list(zip(self.plans(plan), (job.parameters() for job in self.each()), strict=True))

    def parameters(self) -> Parameters:
        """Of the scheme, for a trial of one job."""
        return Parameters(
            self.scheme, self.slots, self.k, self.patience, self.scaling, self.aggregators, self.congestion, self.recovery
        )

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
        for job in self.each():
            make_settings(TrialSettings, job.model_dump())._check_job()
        try:
            plan = NetworkPlan(self.topology())
            hosts = self.plans(plan)
            sizes = [job.size for job in hosts]
            self.loss_model()
            self.straggler_model()
            for job, size in zip(self.each(), sizes, strict=True):
                if job.scheme in SCHEDULES:
                    SCHEDULES[job.scheme](size, job.servers)
            for job, own in zip(self.each(), hosts, strict=True):
                for server in own.servers if job.scheme == "atp" else ():
                    Tree(Membership(own.number, 0, own.size, own.members(self.racks)), server.rack)
        except (TopologyError, ValueError) as error:
            raise SettingsError(str(error)) from None
        if not all(sizes):
            raise SettingsError(f"job {sizes.index(0)} has no workers: give it at least one")
        if not 0 <= self.straggler_rank < min(sizes):
            raise SettingsError(f"straggler_rank is {self.straggler_rank}: the ranks are 0 to {min(sizes) - 1}")
        schemes = {job.scheme for job in self.each()}
        if {"switchml", "atp"} <= schemes:
            raise SettingsError("switchml and atp cannot be on one network: its switches run one program")
        if len(sizes) > atp.MAX_JOBS:
            raise SettingsError(f"there are {len(sizes)} jobs: the switches hold {atp.MAX_JOBS}")
        if (slots := sum(job.slots for job in self.each() if job.scheme == "switchml")) > POOL_CELLS // 2:
            raise SettingsError(f"slots is {slots}: from 1 to {POOL_CELLS // 2} fit in the switch's pool, all jobs together")
        if self.background and self.racks < 2:
            raise SettingsError("background goes from the last rack into the first: set racks to 2 or more")
        if self.k not in K_CHOICES:
            raise SettingsError(
                f"k is {self.k}: the program can be compiled for {', '.join(map(str, K_CHOICES))} integers a packet"
            )
        if self.outage_at is not None and hosts[0].hosts[0].name != "h0":
            raise SettingsError("outage_at is about the link of job 0's worker 0 in the first rack: give job 0 a worker there")
        if self.outage_at is not None and self.loss:
            raise SettingsError("outage_at and loss cannot be set together: both are decided by the loss of worker 0's link")

    def _check_job(self) -> None:
        if self.scheme not in SCHEMES:
            raise SettingsError(f"scheme {self.scheme} is unknown: choose one of {', '.join(SCHEMES)}")
        own = {"scaling": ("switchml", "atp"), "timeline": ("switchml", "atp")}
        for key, schemes in own.items():
            if getattr(self, key) and self.scheme not in schemes:
                raise SettingsError(f"{key} is of {' and '.join(schemes)}: scheme {self.scheme} does not have it")
        if self.congestion not in CONTROLS:
            raise SettingsError(f"congestion is {self.congestion}: choose one of {', '.join(CONTROLS)}")
        if self.recovery not in RECOVERIES:
            raise SettingsError(f"recovery is {self.recovery}: choose one of {', '.join(RECOVERIES)}")
        if not 1 <= self.slots <= POOL_CELLS // 2:
            raise SettingsError(f"slots is {self.slots}: from 1 to {POOL_CELLS // 2} fit in the switch's pool")
        if not 1 <= self.aggregators <= atp.AGGREGATORS:
            raise SettingsError(f"aggregators is {self.aggregators}: a switch has from 1 to {atp.AGGREGATORS}")
        try:
            find(self.workload)
        except ValueError as error:
            raise SettingsError(str(error)) from None


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
