"""Targets embedded and bmv2: a network on this machine, whose switches run the P4 programs."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from inalab.hosts.drivers import verbs
from inalab.schemes.registry import Running
from inalab.schemes.streaming import K_CHOICES
from inalab.switches.bmv2 import installation
from inalab.switches.embedded.errors import CompileError
from inalab.switches.target import Target
from inalab.testbed.backends.backend import Backend
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.hosted import Runner
from inalab.topologies import isolation

MOST_HOSTS = 256  # of a network on one machine
MOST_GROWTH = 512  # bytes that a packet may gain in simple_switch, which does not check that (SimpleSwitch::receive_, BMv2 1.15)


class Networks(Backend):
    """Each trial's network is in namespaces of its own; its switches run a program for each number of integers in a packet."""

    def __init__(self) -> None:
        self.targets: dict[tuple[Path, str], Target] = {}

    def require(self) -> None:
        if not find_spec("mininet"):
            raise SettingsError(
                "Mininet is not installed: sudo apt-get install mininet (inalab doctor tells what else is missing), or choose "
                "--target virtual"
            )
        if not isolation.possible():
            if os.geteuid() == 0:
                raise SettingsError(
                    "network namespaces cannot be made here: if this is a container, allow them, or choose --target virtual"
                )
            raise SettingsError(
                "this kernel does not let an ordinary user make network namespaces: run inalab with sudo, or with --target virtual"
            )

    def refuse(self, settings: TrialSettings) -> None:
        settings.check_emulated()
        if any(job.of_scheme().of_machine(job.scheme_settings()) for job in settings.each()) and (lacking := verbs.missing()):
            raise SettingsError(lacking)
        if settings.beyond_default(["costs"]):
            raise SettingsError("costs are of targets virtual and simulated: leave them out, or choose one of those")
        if (hosts := settings.racks * settings.workers) > MOST_HOSTS:
            raise SettingsError(f"{hosts:,} workers do not run on one machine, {MOST_HOSTS} may: set fewer, or --target simulated")

    def prepare(self, trials: Iterable[Trial]) -> None:
        self.targets.clear()  # programs may have changed; what has not is in the cache on disk
        for trial in trials:
            self.target(trial.settings.running(), trial.settings.k)

    def start(self, settings: TrialSettings, seed: int, capture: Capture | None = None) -> Apart:
        from inalab.testbed.trial.coordinator import start_trial  # which takes a moment to load

        return start_trial(settings, seed, self.target(settings.running(), settings.k), capture)

    def launch(self, settings: TrialSettings, seed: int, script: Sequence[str], runner: Runner, check_sums: bool) -> int:
        from inalab.testbed.trial.launch import launch  # which loads PyTorch

        self.refuse(settings)
        return launch(settings, seed, self.target(settings.running(), settings.k), list(script), runner, check_sums)

    def versions(self) -> dict[str, str]:
        return next(iter(self.targets.values())).versions() if self.targets else {}

    def target(self, running: Running, k: int) -> Target:
        """What runs the schemes' program for k integers a packet. SettingsError as of `program`."""
        return self.program(running.program, {"K": str(k)})

    def program(self, program: Path, defines: Mapping[str, str]) -> Target:
        """What runs a program, which is compiled once. SettingsError if that cannot be here, or the program is wrong."""
        key = program, repr(sorted(defines.items()))
        if key not in self.targets:
            self.targets[key] = self._compiled(program, dict(defines))
        return self.targets[key]

    @abstractmethod
    def _compiled(self, program: Path, defines: dict[str, str]) -> Target:
        raise NotImplementedError


class Embedded(Networks):
    """The project's own switch."""

    name = "embedded"

    def _compiled(self, program: Path, defines: dict[str, str]) -> Target:
        from inalab.switches.embedded.target import EmbeddedTarget  # importable only with Mininet

        try:
            return EmbeddedTarget(program, defines)
        except CompileError as error:
            raise SettingsError(str(error)) from None


class Bmv2(Networks):
    """simple_switch, through P4-utils."""

    name = "bmv2"
    largest_k = max(k for k in K_CHOICES if 4 * k <= MOST_GROWTH)
    usual: Mapping[str, str] = {"host_rate": "0.6", "uplink_rate": "0.6"}

    def refuse(self, settings: TrialSettings) -> None:
        super().refuse(settings)
        if settings.disorderly:
            raise SettingsError("simple_switch cannot reorder or double packets: leave disorder out, or choose --target embedded")
        if settings.latency or settings.skew:
            raise SettingsError("simple_switch cannot delay packets: leave latency and skew out, or choose --target embedded")
        if settings.k > self.largest_k:
            raise SettingsError(
                f"simple_switch adds at most {MOST_GROWTH} bytes to a packet, and would write an answer of {settings.k} integers "
                f"over other memory: set k to {self.largest_k} or less, or choose --target embedded"
            )

    def _compiled(self, program: Path, defines: dict[str, str]) -> Target:
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
