"""The settings of a trial in groups, each with what is made of it.

A setting may be written with its group's name: `loss.burst` is `burst`, and `straggler.kind` is `straggler`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from inalab.hosts.training import stragglers
from inalab.hosts.training.architectures import catalog
from inalab.hosts.training.layers import FORWARD
from inalab.hosts.training.pipeline import ASYNCHRONOUS, BLOCKING, LAYERED, OF_TORCH, PIPELINES
from inalab.hosts.training.replica import MOMENTUM
from inalab.hosts.training.stragglers import PARAMETERS, Straggler
from inalab.hosts.training.workloads import PROFILES, WORKLOADS
from inalab.switches.disorder import HOLD, Disorder
from inalab.switches.loss import Loss
from inalab.testbed.plan.faults import Fault, faults_of
from inalab.testbed.plan.rates import FIXED, KINDS, MARKOV, Markov, Rates, of_file
from inalab.topologies.catalog import TOPOLOGIES, find, own_fields
from inalab.topologies.leaf_spine import ROUTINGS, TREE
from inalab.topologies.topology import Topology, TopologyError

NAMES = *WORKLOADS, *PROFILES, *catalog.ARCHITECTURES


class Group(BaseModel):
    """Settings that belong together. An unknown one, and one out of range, is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def idle(self) -> dict[str, str]:
        """The group's settings that count for nothing as the others are set, each with what to change."""
        return {}


class NetworkSettings(Group):
    """The network, and what else it carries."""

    topology: str = Field("racks", description=f"one of {', '.join(TOPOLOGIES)}")
    racks: int = Field(2, description="one rack has no root switch")
    workers: int = Field(4, ge=1, description="workers in each rack")
    host_rate: float = Field(10.0, description="Mbit/s between a worker and its switch")
    uplink_rate: float = Field(10.0, description="Mbit/s of links between switches")
    spines: int = Field(2, description="leaf-spine: roots, which the jobs have in turn")
    routing: str = Field(TREE, description=f"leaf-spine: which root a packet takes: one of {', '.join(ROUTINGS)}")
    skew: float = Field(
        0.0,
        description="leaf-spine: ms that a root's links take longer than those of the one before (not bmv2)",
    )
    pods: int = Field(2, description="pods: how many, to which racks are dealt in their order")
    core_rate: float = Field(10.0, description="pods: Mbit/s of links between pods and the core")
    slow_share: float = Field(0.1, description="mixed-rates: share of the workers whose links are slow")
    slow_rate: float = Field(5.0, description="mixed-rates: Mbit/s of their links")
    pcie_rate: float = Field(10.0, description="machines: Mbit/s between a PCIe switch and the CPU")
    nvlink_rate: float = Field(100.0, description="nvlink-machines: Mbit/s between a GPU and NVLink's switch")
    queue: int | None = Field(None, ge=1, le=65536, description="packets that a switch's port holds; default: more than can come")
    latency: float = Field(0.0, ge=0, le=100, description="ms that what a switch sends takes longer (targets embedded and virtual)")
    background: float = Field(0.0, ge=0, le=10_000, description="Mbit/s of datagrams from the last rack into the first")

    def idle(self) -> dict[str, str]:
        return {"uplink_rate": "one rack has no uplink; set racks to 2 or more"} if self.racks == 1 else {}

    def shape(self, workers: int, servers: int) -> Topology:
        """The topology with so many workers in each rack. TopologyError for what cannot be, or is of another topology."""
        kind = find(self.topology)
        for other in TOPOLOGIES.values():
            for name in (set(own_fields(other)) - set(own_fields(kind))) & NetworkSettings.model_fields.keys():
                if getattr(self, name) != NetworkSettings.model_fields[name].default:
                    raise TopologyError(f"topology {self.topology} has no {name}: leave it out, or choose another topology")
        own = {name: getattr(self, name) for name in own_fields(kind) if name in NetworkSettings.model_fields}
        return kind(self.racks, workers, self.host_rate, self.uplink_rate, servers, **own)


class WorkSettings(Group):
    """What the workers train."""

    workload: str = Field("digits-mlp", description=f"one of {', '.join(NAMES)}, tensor-N, or layers-N+N+…")
    steps: int = Field(80, ge=1, le=100_000, description="of training")
    batch: int | None = Field(None, ge=1, le=100_000, description="samples of a worker's step; default: the workload's")
    learning_rate: float | None = Field(None, gt=0, le=1e6, description="of SGD with momentum; default: the workload's")
    momentum: float = Field(MOMENTUM, ge=0, lt=1, description="of SGD")
    compute_ms: float = Field(50.0, gt=0, le=600_000, description="virtual compute time of a step, in ms")
    gpu: str | None = Field(None, description="of an architecture: the GPU whose measured time a step takes, not compute_ms")
    pipeline: str = Field(BLOCKING, description=f"when layers' sums begin: one of {', '.join(PIPELINES)}")
    forward_share: float = Field(FORWARD, ge=0, le=1, description="of a layer's compute time, which is before the backward pass")
    evaluate_every: int = Field(5, ge=1, description="steps between evaluations")
    measure_error: bool = Field(False, description="compare the sum with one in float64 wherever the model is evaluated")

    @model_validator(mode="before")
    @classmethod
    def _of_gpu(cls, values: Any) -> Any:
        """What a GPU takes counts more than what is set."""
        if not isinstance(values, dict) or (gpu := values.get("gpu")) is None:
            return values
        name = str(values.get("workload", cls.model_fields["workload"].default))
        if (architecture := catalog.find(name)) is None:
            known = ", ".join(catalog.ARCHITECTURES)
            raise ValueError(f"gpu is {gpu}: workload {name} is no architecture; choose one of {known}, or leave gpu out")
        try:
            batch = int(given) if (given := values.get("batch")) is not None else None
        except (TypeError, ValueError, OverflowError):
            return values  # which is refused
        times = {"compute_ms": architecture.step(str(gpu), batch)}
        return values | times | ({"forward_share": forward} if (forward := architecture.forward) is not None else {})

    def idle(self) -> dict[str, str]:
        found = {}
        if self.workload not in WORKLOADS and self.gpu is None:
            found["batch"] = f"workload {self.workload} has no samples"
        if self.gpu is not None:
            found["compute_ms"] = f"a step takes what it takes on gpu {self.gpu}; leave gpu out"
        if self.pipeline not in (*LAYERED, *OF_TORCH):
            found["forward_share"] = f"pipeline {self.pipeline} exchanges once, after both passes; set pipeline, too"
        if self.pipeline == ASYNCHRONOUS:
            found["measure_error"] = f"pipeline {ASYNCHRONOUS} has no sums of gradients"
        if self.pipeline in OF_TORCH:
            found["measure_error"] = f"pipeline {self.pipeline} keeps no gradient as it was before its sum"
        return found


class LossSettings(Group):
    """Packets that every link loses."""

    loss: float = Field(0.0, ge=0, lt=1, description="loss rate on every link, in each direction")
    burst: float = Field(1.0, ge=1, le=1e6, description="mean length of a burst of losses; 1: Bernoulli")

    def idle(self) -> dict[str, str]:
        return {} if self.loss else {"burst": "there is no loss; set loss.rate, too"}

    def loss_model(self) -> Loss | None:
        if not self.loss:
            return None
        return Loss.bernoulli(self.loss) if self.burst == 1 else Loss.gilbert_elliott(self.loss, self.burst)


class DisorderSettings(Group):
    """What every link does to packets other than losing them (targets embedded and virtual)."""

    reorder: float = Field(0.0, ge=0, le=1, description="share of the packets on every link that are held back, in each direction")
    duplicate: float = Field(0.0, ge=0, le=1, description="share of the packets that come twice")
    hold: float = Field(HOLD, ge=0, le=10_000, description="ms that a packet is held back, and that a copy comes later")
    jitter: float = Field(0.0, ge=0, le=10_000, description="ms that packets take longer, at most; they stay in order")

    def idle(self) -> dict[str, str]:
        return {} if self.reorder or self.duplicate else {"hold": "no packet comes late; set reorder or duplicate, too"}

    def disorder(self) -> Disorder | None:
        """Of every link; None where packets keep their order and their times."""
        if not (self.reorder or self.duplicate or self.jitter):
            return None
        return Disorder(self.reorder, self.duplicate, self.hold, self.jitter)


class RateSettings(Group):
    """Links whose rates change while the trial runs."""

    changing: str = Field(FIXED, description=f"rates of links: one of {', '.join(KINDS)}, or a file with a schedule as RATES")
    changing_share: float = Field(0.1, gt=0, le=1, description="markov: of the workers' links that change")
    changing_factor: float = Field(0.5, gt=0, description="markov: of its rate, what a link has in its other state")
    changing_mean: float = Field(3.0, gt=0, le=3600, description="markov: seconds in a state, on average")

    @field_validator("changing")
    @classmethod
    def _known(cls, changing: str) -> str:
        if changing.endswith(".py"):
            of_file(changing)
        elif changing not in KINDS:
            raise ValueError(f"choose one of {', '.join(KINDS)}, or a file")
        return changing

    def idle(self) -> dict[str, str]:
        if self.changing == MARKOV:
            return {}
        return dict.fromkeys(
            ("changing_share", "changing_factor", "changing_mean"), f"changing is {self.changing}; set changing={MARKOV}"
        )

    def schedule(self) -> Rates | None:
        """Of changes; None where rates stay as they are."""
        if self.changing == FIXED:
            return None
        return (
            Markov(self.changing_share, self.changing_factor, self.changing_mean)
            if self.changing == MARKOV
            else of_file(self.changing)
        )


class SimulationSettings(Group):
    """What a trial whose times are computed depends on, besides."""

    costs: str = Field("embedded", description="targets virtual and simulated: whose costs hosts and switches have, or none")


class FaultSettings(Group):
    """What fails in the midst of the training, and whether it goes on."""

    faults: tuple[Fault, ...] = Field((), description="what happens to whom, and when: `die h3 at 2; down h0-tor0 at 1 for 0.05`")
    fallback: str | None = Field(None, description="elastic: the scheme that sums while a switch has restarted and admits no job")
    checkpoint: int | None = Field(
        None,
        ge=1,
        description="elastic: steps between checkpoints, from which all begin again in new processes when members change",
    )
    elastic: bool = Field(False, description="go on without workers that are lost, and with those that come (again)")

    def idle(self) -> dict[str, str]:
        return {} if self.elastic else dict.fromkeys(("fallback", "checkpoint"), "members do not change; set elastic=yes, too")

    @field_validator("faults", mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        return faults_of(given) if isinstance(given, str) else given

    @field_serializer("faults")
    def _as_text(self, faults: tuple[Fault, ...]) -> list[str]:
        return [str(fault) for fault in faults]

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_records(cls, values: Any) -> Any:
        """Before 0.6 they have an outage of worker 0's link, and the death of the first server."""
        if not isinstance(values, dict) or not {"outage_at", "outage_ms", "death_at"} & values.keys():
            return values
        kept = {key: value for key, value in values.items() if key not in ("outage_at", "outage_ms", "death_at")}
        faults = list(kept.get("faults", ()))
        if values.get("outage_at") is not None:
            faults.append(f"down h0 at {values['outage_at']} for {values.get('outage_ms', 50.0) / 1000}")
        if values.get("death_at") is not None:
            faults.append(f"die s0 at {values['death_at']}")
        return kept | {"faults": faults}


class StragglerSettings(Group):
    """Workers whose steps take longer."""

    straggler: str = Field("none", description=f"one of {', '.join(stragglers.KINDS)}")
    straggler_rank: int = Field(0, ge=0, description="slow: which worker")
    straggler_factor: float = Field(3.0, ge=1, le=1000, description="slow, bimodal: how many times as long")
    straggler_mean: float = Field(1.0, ge=0, le=1000, description="exponential: mean of what is added to 1")
    straggler_shape: float = Field(2.0, gt=0, le=1000, description="pareto: its shape")
    straggler_probability: float = Field(0.1, ge=0, le=1, description="bimodal: of a slow step")
    straggler_sigma: float = Field(0.5, ge=0, le=10, description="lognormal: of the exponent")

    def idle(self) -> dict[str, str]:
        of_others = {name for names in PARAMETERS.values() for name in names} - set(PARAMETERS.get(self.straggler, ()))
        return {
            f"straggler_{name}": f"straggler {self.straggler} has no {name}; leave it out, or set straggler={_with(name)}"
            for name in of_others
        }

    def straggler_model(self) -> Straggler:
        parameters = [field.name for field in fields(Straggler) if field.name != "kind"]
        return Straggler(self.straggler, **{name: getattr(self, f"straggler_{name}") for name in parameters})


def _with(parameter: str) -> str:
    return " or ".join(kind for kind, names in PARAMETERS.items() if parameter in names)


GROUPS: dict[str, type[Group]] = {
    "network": NetworkSettings,
    "work": WorkSettings,
    "loss": LossSettings,
    "disorder": DisorderSettings,
    "changing": RateSettings,
    "faults": FaultSettings,
    "straggler": StragglerSettings,
    "simulation": SimulationSettings,
}
CHOICE = {"loss.rate": "loss", "straggler.kind": "straggler"}  # settings that have their group's name


def ungrouped(key: str) -> str:
    """A setting's name in records: `straggler.factor` is `straggler_factor`. What is of no group comes back as it is."""
    group, dot, name = key.partition(".")
    if not dot or group not in GROUPS:
        return key
    known = GROUPS[group].model_fields
    return next((found for found in (CHOICE.get(key), f"{group}_{name}", name) if found in known), key)
