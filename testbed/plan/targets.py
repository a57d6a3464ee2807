"""What can run the switches, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inalab.schemes.scheme import Scheme
from inalab.switches.bmv2 import installation
from inalab.switches.embedded.errors import CompileError
from inalab.switches.embedded.target import EmbeddedTarget
from inalab.switches.target import Target
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.simulator import target as simulated
from inalab.testbed.simulator.target import SimulatedTarget

MOST_HOSTS = 256  # of a network on one machine

# by name: the settings that it can keep up with where an experiment's own are too much
REAL: dict[str, dict[str, str]] = {"embedded": {}, "bmv2": {"host_rate": "0.6", "uplink_rate": "0.6"}}
DEFAULTS: dict[str, dict[str, str]] = {**REAL, SimulatedTarget.name: {}}


def defaults(name: str) -> dict[str, str]:
    """What an experiment's settings are on a target where they are not set; SettingsError if it is unknown."""
    _check(name)
    return DEFAULTS[name]


def real_defaults(name: str) -> dict[str, str]:
    """Likewise, of a target that has switches."""
    _check_real(name)
    return DEFAULTS[name]


def _check(name: str) -> None:
    if name not in DEFAULTS:
        raise SettingsError(f"target {name} is unknown: choose one of {', '.join(DEFAULTS)}")


def _check_real(name: str) -> None:
    _check(name)
    if name not in REAL:
        raise SettingsError(f"target {name} computes trials, and runs nothing: choose one of {', '.join(REAL)}")


def check_trials(name: str, trials: Sequence[Trial], capture: Sequence[str] = ()) -> None:
    """Raise SettingsError for trials that a target cannot have, or packets that it cannot capture."""
    if capture and name == SimulatedTarget.name:
        raise SettingsError(f"target {name} has no packets to capture: leave --capture out, or choose another target")
    for trial in trials:
        if name == SimulatedTarget.name:
            simulated.check(trial.settings)
            continue
        trial.settings.check_switches()
        if trial.settings.beyond_default(["costs"]):
            raise SettingsError(f"costs are of target {SimulatedTarget.name}: leave them out, or choose that target")
        if (hosts := trial.settings.racks * trial.settings.workers) > MOST_HOSTS:
            raise SettingsError(
                f"{hosts:,} workers do not run on one machine, {MOST_HOSTS} may: set fewer, or --target {SimulatedTarget.name}"
            )


def make_target(name: str, program: Path, defines: dict[str, str]) -> Target:
    """A target that runs `program`; SettingsError if it is unknown, missing here, or cannot compile the program."""
    _check_real(name)
    return _bmv2(program, defines) if name == "bmv2" else _embedded(program, defines)


def target_for(name: str, scheme: Scheme, k: int) -> Target | SimulatedTarget:
    """A target for trials whose switches run a scheme's program for k integers a packet; see make_target."""
    return SimulatedTarget() if name == SimulatedTarget.name else real_target_for(name, scheme, k)


def real_target_for(name: str, scheme: Scheme, k: int) -> Target:
    """Likewise, one that has switches."""
    assert scheme.program is not None
    return make_target(name, scheme.program, {"K": str(k)})


def _embedded(program: Path, defines: dict[str, str]) -> Target:
    try:
        return EmbeddedTarget(program, defines)
    except CompileError as error:
        raise SettingsError(str(error)) from None


def _bmv2(program: Path, defines: dict[str, str]) -> Target:
    if missing := installation.missing():
        raise SettingsError(
            f"target bmv2 cannot run here: {', '.join(piece.name for piece in missing)} cannot be found; install "
            f"{', '.join(dict.fromkeys(piece.package for piece in missing))} (inalab doctor tells where each is had), or use "
            "--target embedded, which runs the same program"
        )
    if not program.is_file():
        raise SettingsError(f"there is no program {program}")
    from inalab.switches.bmv2.target import Bmv2Target, CompilationError  # importable only with P4-utils

    try:
        return Bmv2Target(program, defines)
    except CompilationError:
        raise SettingsError(f"p4c cannot compile {program}: its messages are above") from None
