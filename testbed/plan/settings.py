"""What a trial is made of: settings with a line each, checked before anything starts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from inalab.hosts.plugins import is_file
from inalab.hosts.training.pipeline import ASYNCHRONOUS, HSDP, OF_TORCH, PIPELINES
from inalab.hosts.training.workloads import check_memory, find
from inalab.schemes import registry
from inalab.schemes.registry import Running
from inalab.schemes.scheme import Admitted, Scheme
from inalab.schemes.streaming import StreamSettings
from inalab.switches.sizes import MAX_JOBS
from inalab.testbed.plan.fault_rules import check_faults
from inalab.testbed.plan.faults import DISORDER
from inalab.testbed.plan.groups import (
    GROUPS,
    DisorderSettings,
    FaultSettings,
    LossSettings,
    NetworkSettings,
    RateSettings,
    SimulationSettings,
    StragglerSettings,
    WorkSettings,
    ungrouped,
)
from inalab.testbed.plan.rates import Change, Markov, due
from inalab.testbed.plan.window import window
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import TopologyError

MOST_JOBS = 256


class SettingsError(ValueError):
    """A setting that cannot be; str() is one sentence that says what to change."""


class RefusedError(ValueError):
    """What a scheme does not take; str() is the whole sentence."""


class WithSchemes(BaseModel):
    """Settings with those of schemes among them: `atp.aggregators`, or `aggregators` for every scheme that has it.

    Records have the first form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    own: dict[str, dict[str, Any]] = Field({}, repr=False)  # what is set, by scheme

    @model_validator(mode="before")
    @classmethod
    def _sort_out(cls, values: Any) -> Any:
        """Put what is a scheme's where it belongs; what has the scheme's name before it counts more. None is as if not set."""
        if not isinstance(values, dict) or not isinstance(given := values.get("own", {}), dict):
            return values  # which is refused, or made already
        own = {scheme: dict(its) if isinstance(its, dict) else its for scheme, its in given.items()}
        rest = [key for key in values if key not in cls.model_fields]
        for key in sorted(rest, key=lambda key: "." in key):
            for scheme, name in owners(key):
                if values[key] is not None:
                    own.setdefault(scheme, {})[name] = values[key]
        return {key: value for key, value in values.items() if key in cls.model_fields or not owners(key)} | {"own": own}

    @field_validator("own")
    @classmethod
    def _taken(cls, own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """As the schemes' own models have it."""
        return {scheme: _checked(registry.find(scheme).Settings, its) for scheme, its in own.items()}

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        record: dict[str, Any] = handler(self)
        own = record.pop("own", {})
        return record | {f"{scheme}.{name}": value for scheme, its in own.items() for name, value in its.items()}


def owners(key: str) -> list[tuple[str, str]]:
    """The schemes that have a setting of this name, and its name there. `atp.aggregators` is of one alone."""
    scheme, dot, name = key.rpartition(".")
    return [(other, name) for other in registry.names() if (other == scheme or not dot) and name in own_names(other)]


def own_names(scheme: str) -> list[str]:
    """The settings that a scheme has beside those that a trial has for all."""
    return [name for name in registry.find(scheme).Settings.model_fields if name not in TrialSettings.model_fields]


def refuse_others(settings: WithSchemes, schemes: set[str]) -> None:
    """Raise SettingsError where something is set that is of none of the schemes in use."""
    used = {name for scheme in schemes for name in settings.own.get(scheme, {})}
    for name in sorted({name for its in settings.own.values() for name in its} - used):
        whose = sorted(scheme for scheme, its in settings.own.items() if name in its)
        if any(name in own_names(scheme) for scheme in schemes):
            raise SettingsError(f"{whose[0]}.{name} is set, and no trial uses {whose[0]}: set {name} for every scheme that has it")
        has = "has" if len(schemes) == 1 else "have"
        raise SettingsError(f"{name} is of {' and '.join(whose)}: {' and '.join(sorted(schemes))} {has} no such setting")


def _checked(kind: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """The values as the model has them. Raises RefusedError."""
    try:
        made = kind(**values)
    except ValidationError as error:
        raise RefusedError(_sentence(error)) from None
    return {name: getattr(made, name) for name in values}


class JobSettings(WithSchemes):
    """One of several jobs on a network: what is not set is as the trial has it."""

    start: float = Field(0.0, ge=0, le=3600, description="seconds after the first job's start")
    workers: tuple[NonNegativeInt, ...] = Field((), description="hosts of its own in each rack: one number, or one for every rack")
    scheme: str | None = None
    slots: int | None = None
    workload: str | None = None
    steps: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    compute_ms: float | None = None

    @field_validator("workers", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value

    def changes(self) -> dict[str, Any]:
        """What differs from the trial's settings."""
        given = {key: value for key, value in self.model_dump().items() if value is not None and key not in ("start", "workers")}
        return given | ({"workers": self.workers[0]} if len(self.workers) == 1 else {})


class TrialSettings(
    WithSchemes, SimulationSettings, StragglerSettings, FaultSettings, RateSettings, DisorderSettings, LossSettings, WorkSettings,
    NetworkSettings,
):  # fmt: skip
    """Everything that one trial depends on, besides its seed."""

    @field_validator("jobs", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        """On the command line jobs are a JSON list of objects."""
        try:
            return json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error}") from None

    scheme: str = Field("switchml", description=f"one of {', '.join(registry.names())}")
    k: int = Field(64, description="integers in a packet: 32, 64 or 256")
    slots: int | None = Field(
        None, description="chunks under way: a pool's slots, or a window; unless set, as many as fill the slowest link"
    )
    timeline: bool = Field(False, description="note packets in bins of 10 ms, or steps of a schedule, where the scheme can")
    jobs: tuple[JobSettings, ...] = Field((), description="several jobs on one network; each has what differs from the above")
    patience: float = Field(30.0, gt=0, le=86_400, description="seconds without progress before a worker gives up")

    def each(self) -> list[TrialSettings]:
        """Each job's own settings, as a trial of one job."""
        return [self.changed(**job.changes(), jobs=()) for job in self.jobs] or [self]

    def changed(self, **changes: Any) -> TrialSettings:
        """The same with these settings changed. SettingsError for what cannot be."""
        record = self.model_dump()
        common = {key: value for key, value in record.items() if key in TrialSettings.model_fields or "." in key}
        for key in changes:
            for scheme, name in owners(key):
                common.pop(f"{scheme}.{name}", None)
        settings: TrialSettings = make_settings(TrialSettings, common | changes)
        return settings

    def resolved(self) -> dict[str, Any]:
        """Every setting, those of the jobs' schemes included, for a record."""
        record = self.model_dump() | {"slots": next((slots for job in self.each() if (slots := job.chosen_slots())), None)}
        for scheme in {job.scheme: job.of_scheme() for job in self.each()}.values():
            whole = scheme.Settings(**self.own.get(scheme.name, {})).model_dump(mode="json")
            record |= {f"{scheme.name}.{name}": whole[name] for name in own_names(scheme.name)}
        return record

    def chosen_slots(self) -> int | None:
        """Chunks under way, for a trial of one job; None where its scheme has no such. SettingsError for an impossible network."""
        scheme = self.of_scheme()
        if self.slots is not None or not issubclass(scheme.Settings, StreamSettings):
            return self.slots
        try:
            plan = NetworkPlan(self.shape(max(self.workers_by_rack(), default=self.workers), 0))
        except (TopologyError, ValueError) as error:
            raise SettingsError(str(error)) from None
        return window(plan, scheme.bits_on_wire(self.k), self.latency / 1000)

    def of_scheme(self) -> Scheme:
        """Its scheme, for a trial of one job; SettingsError if there is none of that name."""
        try:
            return registry.find(self.scheme)
        except registry.SchemeError as error:
            raise SettingsError(str(error)) from None

    def scheme_settings(self) -> Any:
        """What its scheme is set to, for a trial of one job. SettingsError for what the scheme refuses."""
        kind = self.of_scheme().Settings
        shared = {name: getattr(self, name) for name in kind.model_fields.keys() & TrialSettings.model_fields.keys()}
        chosen = {"slots": self.chosen_slots()} if "slots" in shared else {}
        return make_settings(kind, shared | chosen | self.own.get(self.scheme, {}))

    def idle(self) -> dict[str, str]:
        """Settings that count for nothing as the others are set, each with what to change."""
        return {name: why for group in GROUPS.values() for name, why in group.idle(self).items()}

    def beyond_default(self, keys: Iterable[str]) -> list[str]:
        """Those of the settings `keys` that are not at their defaults."""
        return [key for key in keys if getattr(self, key) != TrialSettings.model_fields[key].default]

    def running(self) -> Running:
        """What the switches run. SettingsError where no program serves the jobs' schemes."""
        try:
            return registry.running([job.of_scheme() for job in self.each()])
        except registry.SchemeError as error:
            raise SettingsError(str(error)) from None

    @property
    def disorderly(self) -> bool:
        """Whether some links disturb the order or the times of packets."""
        return self.disorder() is not None or any(fault.what in DISORDER for fault in self.faults)

    def rate_changes(self, plan: NetworkPlan, seed: int) -> Iterable[Change]:
        """Of links, while the trial runs."""
        return due(self.schedule(), plan, seed)

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
        return [job.of_scheme().servers(job.scheme_settings()) for job in self.each()]

    def workers_by_rack(self) -> list[int]:
        """The workers in each rack, of all jobs together."""
        return [sum(of_jobs) for of_jobs in zip(*self._workers(), strict=True)]

    def samples(self) -> int:
        """Of a worker's step, for a trial of one job."""
        return self.batch or find(self.workload).batch

    def worker_rates(self) -> set[float]:
        """Mbit/s of the workers' links; 0 where it is not limited."""
        shape = self.shape(max(self.workers_by_rack(), default=self.workers), 0)
        return {shape.rate(rank) or 0.0 for rank in range(shape.size)}

    def plan(self) -> NetworkPlan:
        """The network that the jobs need."""
        workers = max((sum(by_rack) for by_rack in zip(*self._workers(), strict=True)), default=self.workers)
        bystanders = int(self.background > 0)  # a host of each rack that is in no job
        return NetworkPlan(self.shape(workers + bystanders, sum(self._servers())))

    def plans(self, plan: NetworkPlan) -> list[JobPlan]:
        """The jobs' hosts."""
        return deal(plan, self._workers(), self._servers())

    def admitted(self, plan: NetworkPlan) -> list[Admitted]:
        """The jobs: their hosts, their schemes, and what those are set to."""
        return [
            Admitted(own, job.of_scheme(), job.scheme_settings()) for own, job in zip(self.plans(plan), self.each(), strict=True)
        ]

    def fallen_back(self, plan: NetworkPlan) -> Admitted | None:
        """The only job with the scheme to which it falls back; None where there is none."""
        if self.fallback is None:
            return None
        (job,) = self.changed(scheme=self.fallback, fallback=None, faults=()).admitted(plan)
        return job

    def check(self) -> None:
        """Raise SettingsError for a combination that cannot run."""
        each = self.each()
        for job in each:
            job._check_job()
        for given, job in zip(self.jobs, each, strict=False):  # one job alone is not in `jobs`
            refuse_others(given, {job.scheme})
        self.running()
        try:
            plan = self.plan()
            jobs = self.admitted(plan)
            self.loss_model()
            self.straggler_model()
            for scheme in {job.scheme for job in jobs}:
                scheme.check([job for job in jobs if job.scheme is scheme], plan)
        except (TopologyError, ValueError) as error:
            raise SettingsError(str(error)) from None
        adding = sorted({job.scheme.name for job in jobs if job.scheme.program and not job.scheme.multi_gpu})
        if plan.inner and adding:
            fitting = ", ".join(name for name in registry.names() if registry.find(name).multi_gpu)
            raise SettingsError(
                f"scheme {adding[0]} adds in switches, and those inside machines only forward: choose one of {fitting}"
            )
        sizes = [job.plan.size for job in jobs]
        if not all(sizes):
            raise SettingsError(f"job {sizes.index(0)} has no workers: give it at least one")
        if not 0 <= self.straggler_rank < min(sizes):
            raise SettingsError(f"straggler_rank is {self.straggler_rank}: the ranks are 0 to {min(sizes) - 1}")
        if self.jobs and self.pipeline in OF_TORCH:
            raise SettingsError(f"pipeline {self.pipeline} is of one job alone: leave jobs out, or choose another pipeline")
        if len(sizes) > MOST_JOBS:
            raise SettingsError(f"there are {len(sizes)} jobs: packets tell {MOST_JOBS} apart")
        if self.background and self.racks < 2:
            raise SettingsError("background goes from the last rack into the first: set racks to 2 or more")
        try:
            if isinstance(schedule := self.schedule(), Markov):
                schedule.check(plan)
            check_faults(self, plan, jobs)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def check_emulated(self) -> None:
        """Raise SettingsError for what can be computed, and switches or hosts do not hold."""
        if len(self.jobs) > MAX_JOBS:
            raise SettingsError(f"there are {len(self.jobs)} jobs: the switches hold {MAX_JOBS}")
        try:
            for job in self.each():
                check_memory(job.workload)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def _check_job(self) -> None:
        scheme = self.of_scheme()
        self.scheme_settings()
        if self.timeline and not scheme.timeline:
            raise SettingsError(f"scheme {self.scheme} notes no timeline: leave timeline out, or choose another scheme")
        streams = {name: value for name in ("k", "slots") if (value := getattr(self, name)) is not None}
        make_settings(StreamSettings, streams)  # the switches are compiled for k, whatever the scheme
        if self.pipeline not in PIPELINES:
            raise SettingsError(f"pipeline {self.pipeline} is unknown: choose one of {', '.join(PIPELINES)}")
        if self.pipeline == ASYNCHRONOUS and not scheme.keeps_weights:
            keeping = [name for name in registry.names() if registry.find(name).keeps_weights]
            raise SettingsError(
                f"scheme {self.scheme} keeps no weights, which pipeline {ASYNCHRONOUS} needs: choose one of {', '.join(keeping)}"
            )
        if self.pipeline != ASYNCHRONOUS and not scheme.sums:
            raise SettingsError(f"scheme {self.scheme} trains asynchronously alone: set pipeline={ASYNCHRONOUS}")
        if self.pipeline == HSDP and self.racks < 2:
            raise SettingsError(f"pipeline {HSDP} keeps a whole model in each rack: set racks to 2 or more, or pipeline=fsdp2")
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
        key = ungrouped(key)
        if key not in known.model_fields.keys() - {"own"} and not owners(key):
            raise SettingsError(f"there is no setting {key}{_meant(key, known)}: choose one of {', '.join(setting_names(known))}")
        values[key] = value
    return values


def _meant(key: str, known: type[BaseModel]) -> str:
    """The setting that was probably meant, for a sentence."""
    near = get_close_matches(key, setting_names(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def named_scheme(name: str) -> str:
    """The name of a scheme that is given by name or by file. SettingsError if there is none, or the file's lacks something."""
    try:
        return registry.add(name).name if is_file(name) else registry.find(name).name
    except registry.SchemeError as error:
        raise SettingsError(str(error)) from error.__cause__


def with_scheme(experiment: Any, values: dict[str, Any], scheme: str) -> list[str]:
    """The `key=value` words that put a scheme into an experiment: among those that it compares, or as the one that it has."""
    fields = experiment.Settings.model_fields
    if "schemes" not in fields:
        return [f"scheme={scheme}"]
    compared = values.get("schemes", fields["schemes"].default)
    compared = compared.split(",") if isinstance(compared, str) else compared
    return [f"schemes={','.join(dict.fromkeys([*compared, scheme]))}"]


def make_settings(kind: type[BaseModel], values: dict[str, Any]) -> Any:
    """Settings of `kind`; SettingsError tells the first value that is wrong, and why."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from None


def setting_names(kind: type[BaseModel]) -> list[str]:
    """What can be set, with what schemes have of their own as `atp.aggregators`."""
    own = [f"{scheme}.{name}" for scheme in registry.names() for name in own_names(scheme)]
    return [*sorted(kind.model_fields.keys() - {"own"}), *own]


def _sentence(error: ValidationError) -> str:
    """The first value that is wrong, and why."""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "value_error":
        name = name.removeprefix("own.")
        why = first["ctx"]["error"]
        whole = isinstance(why, RefusedError) or not name  # a sentence about settings together names them itself
        return str(why) if whole else f"{name} is {first['input']}: {why}"
    return f"setting {name} is {first['input']!r}: {first['msg'].lower()}"
