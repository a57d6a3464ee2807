"""What runs trials: the targets that `--target` names, objects of one interface (testbed.backends.backend)."""

from __future__ import annotations

from typing import Any

from inalab.testbed.backends.backend import Backend
from inalab.testbed.backends.networks import Bmv2, Embedded, Networks
from inalab.testbed.backends.simulated import Simulated
from inalab.testbed.backends.virtual import Virtual
from inalab.testbed.plan.settings import SettingsError

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (Embedded(), Bmv2(), Virtual(), Simulated())}


def find(name: str) -> Backend:
    """The target of that name. SettingsError if there is none."""
    if name not in BACKENDS:
        raise SettingsError(f"target {name} is unknown: choose one of {', '.join(BACKENDS)}")
    return BACKENDS[name]


def with_switches(name: str) -> Networks:
    """Likewise, one whose switches run P4 on a network, as a script's need."""
    found = find(name)
    if not isinstance(found, Networks):
        real = [each.name for each in BACKENDS.values() if isinstance(each, Networks)]
        raise SettingsError(f"target {name} computes trials, and runs nothing: choose one of {', '.join(real)}")
    return found


def of_record(record: dict[str, Any]) -> Backend:
    """The target that a run was made with; one that does nothing of its own where the record names an unknown one."""
    return BACKENDS.get(record.get("target", ""), Backend())
