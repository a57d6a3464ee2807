"""What can run the switches, by name."""

from __future__ import annotations

import shutil
from pathlib import Path

from experiments.settings import SettingsError
from switches.embedded.errors import CompileError
from switches.embedded.target import EmbeddedTarget
from topologies.network import Target

TARGETS = ("embedded", "bmv2")


def make_target(name: str, program: Path, defines: dict[str, str]) -> Target:
    """A target that runs `program`; SettingsError if it is unknown, missing here, or cannot compile the program."""
    if name not in TARGETS:
        raise SettingsError(f"target {name} is unknown: choose one of {', '.join(TARGETS)}")
    if name == "bmv2":
        missing = [tool for tool in ("simple_switch", "p4c") if not shutil.which(tool)]
        reason = f"{' and '.join(missing)} cannot be found" if missing else "this version cannot drive it yet"
        raise SettingsError(f"target bmv2 is not available: {reason}; use --target embedded, which runs the same program")
    try:
        return EmbeddedTarget(program, defines)
    except CompileError as error:
        raise SettingsError(str(error)) from None
