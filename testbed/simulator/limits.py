"""What is not simulated, and why: settings and schemes that the simulator refuses."""

from __future__ import annotations

from inalab.hosts.training.pipeline import BARRIER, BLOCKING, LAYERED
from inalab.schemes.scheme import Scheme, Simulation
from inalab.testbed.plan.rates import FIXED
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.simulator import costs
from inalab.topologies.leaf_spine import TREE

STREAM = ("k", "slots", "scaling")
NEEDED = {  # settings
    Simulation.POOL: (*STREAM, "recovery"), Simulation.QUEUE_PAIRS: (*STREAM, "message"),
    Simulation.AGGREGATORS: (*STREAM, "recovery", "aggregators", "congestion"),
}  # fmt: skip
MOST_OF_ALL_TO_ALL = 512  # workers of schemes whose messages grow with the square of their number
UNTOLD = {  # settings that say what is not simulated, and the values with which it is not there
    "faults": (), "elastic": False, "background": 0.0, "latency": 0.0, "timeline": False,
    "changing": FIXED, "routing": TREE, "skew": 0.0, "reorder": 0.0, "duplicate": 0.0, "jitter": 0.0,
    "measure_error": False,
}  # fmt: skip


def check(settings: TrialSettings) -> None:
    """Raise SettingsError for what is not simulated."""
    for key, value in UNTOLD.items():
        if getattr(settings, key) != value:
            raise SettingsError(f"{key} is not simulated: leave it out, or choose target embedded")
    try:
        costs.of(settings.costs)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    each = settings.each()
    if len((running := settings.running()).schemes) > 1:
        raise SettingsError(f"jobs of {running.name} at once are not simulated: choose one of them, or target virtual")
    for job in each:
        scheme = job.of_scheme()
        pipelines = (BLOCKING,) if scheme.native else (BLOCKING, BARRIER) if scheme.by_priority else (BLOCKING, *LAYERED)
        if scheme.simulated() is not Simulation.UPDATES and job.pipeline not in pipelines:
            raise SettingsError(
                f"pipeline {job.pipeline} of scheme {scheme.name} is not simulated: set pipeline={BLOCKING}, or choose target "
                "embedded"
            )
        if wrong := _unlike(scheme):
            raise SettingsError(f"scheme {scheme.name} is not simulated: {wrong}")
        if not scheme.simulated().of_packets:
            _check_messages(settings, scheme)
        own, usual = job.scheme_settings(), scheme.Settings()
        for name in scheme.unsimulated:
            if getattr(own, name) != getattr(usual, name):
                raise SettingsError(f"{scheme.name}.{name} is not simulated: leave it out, or choose target embedded")


def _unlike(scheme: Scheme) -> str:
    """What a scheme lacks that the simulation needs which it states."""
    how = scheme.simulated()
    if lacking := [name for name in NEEDED.get(how, ()) if name not in scheme.Settings.model_fields]:
        return f"it states {how.name}, and its settings have no {' and no '.join(lacking)}"
    if how is Simulation.UPDATES and not scheme.keeps_weights:
        return f"it states {how.name}, and keeps no weights"
    if how is Simulation.MESSAGES and not scheme.native and type(scheme).transfers is Scheme.transfers:
        return f"it states {how.name}, and does not define transfers"
    return ""


def _check_messages(settings: TrialSettings, scheme: Scheme) -> None:
    how = scheme.simulated()
    if how is Simulation.NONE:
        raise SettingsError(f"scheme {scheme.name} is not simulated: choose another scheme, or target embedded")
    if settings.queue is not None:
        raise SettingsError(f"queues of scheme {scheme.name} are not simulated: leave queue out, or choose target embedded")
    if settings.loss:
        raise SettingsError(f"losses of scheme {scheme.name} are not simulated: set loss=0, or choose target embedded")
    if settings.jobs:
        raise SettingsError(f"jobs are not simulated of scheme {scheme.name}, whose packets are not: leave jobs out")
    workers = settings.racks * settings.workers
    if workers == 1 and how is not Simulation.UPDATES:
        raise SettingsError(f"a worker alone is not simulated of scheme {scheme.name}: set workers to 2 or more")
    if scheme.all_to_all and workers > MOST_OF_ALL_TO_ALL:
        wording = f"{workers:,} workers of scheme {scheme.name} send too many messages to simulate"
        raise SettingsError(f"{wording}: choose at most {MOST_OF_ALL_TO_ALL}")
