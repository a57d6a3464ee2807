"""What an experiment is: a module with a docstring, Settings, QUICK, trials(), figures(), findings(), and RUNS_ON, if need be."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from matplotlib.figure import Figure

from inalab import experiments
from inalab.hosts.plugins import PluginError, is_file, load_module
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.record.runs import Run

PARTS = ("Settings", "QUICK", "trials", "figures", "findings")


@dataclass(frozen=True)
class Trial:
    """One trial of an experiment: a name, the factors that tell it from the others, its settings and its seed."""

    name: str
    factors: dict[str, Any]
    settings: TrialSettings
    seed: int


class Experiment(Protocol):
    """The names that an experiment's module has."""

    __doc__: str
    Settings: type[TrialSettings]
    QUICK: dict[str, Any]  # settings that differ where it is to take less than a minute

    @staticmethod
    def trials(settings: Any, seed: int) -> list[Trial]:
        """The trials, in the order in which they run."""
        ...

    @staticmethod
    def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
        """(file name without suffix, caption, figure) of each plot."""
        ...

    @staticmethod
    def findings(run: Run) -> list[str]:
        """What the run shows, a sentence each, from its numbers."""
        ...


def names() -> list[str]:
    """All experiments, by module name: the package holds nothing else."""
    return [info.name for info in pkgutil.iter_modules(experiments.__path__)]


def load(name: str) -> Experiment:
    """The experiment of that name, or in that file. SettingsError lists those there are, or tells what the file lacks."""
    if is_file(name):
        try:
            module = load_module(name)
        except PluginError as error:
            raise SettingsError(str(error)) from error.__cause__
        if lacks := [part for part in PARTS if not hasattr(module, part)]:
            raise SettingsError(f"{name} is no experiment: it does not define {', '.join(lacks)}")
        return cast(Experiment, module)
    known = names()
    if name not in known:
        raise SettingsError(f"there is no experiment {name}: choose one of {', '.join(known)}, or give a file, such as ./{name}.py")
    return cast(Experiment, importlib.import_module(f"inalab.experiments.{name}"))


def target_of(experiment: Experiment) -> str:
    """The target on which it runs where none is asked for: its RUNS_ON, or the embedded one."""
    return str(getattr(experiment, "RUNS_ON", "embedded"))


def has_target(name: str) -> bool:
    """Whether the experiment of that name is for one target, whatever others run on."""
    return hasattr(load(name), "RUNS_ON")


def short(name: str) -> str:
    """What an experiment's runs are kept under: its name, or its file's."""
    return Path(name).stem if is_file(name) else name


def summary(experiment: Experiment) -> str:
    """The first line of an experiment's docstring."""
    return next(iter((experiment.__doc__ or "").strip().splitlines()), "")
