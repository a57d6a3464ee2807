"""Which links of a network `--capture` names: a link such as h0-tor0, all links of a host or of a switch, or all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.topologies.plan import LinkPlan, NetworkPlan

ALL = "all"


def parse(texts: Iterable[str]) -> list[str]:
    """The names in the values of the option, each once. SettingsError for an empty one."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if "" in names:
        raise SettingsError("--capture takes names with commas between them, such as h0,h1")
    return list(dict.fromkeys(names))


def chosen(plan: NetworkPlan, names: Sequence[str]) -> list[LinkPlan]:
    """The links that these names mean, in the order of the plan; none for a name that this network does not have."""
    return [link for link in plan.links if {ALL, link.name, link.lower, link.upper} & set(names)]


def refuse_unknown(names: Sequence[str], trials: Sequence[Trial]) -> None:
    """Raise SettingsError for a name that no trial's network has."""
    links = {link.name: link for trial in trials for link in trial.settings.plan().links}
    known = {ALL, *links, *(end for link in links.values() for end in (link.lower, link.upper))}
    for name in names:
        if name not in known:
            there_are = f"{', '.join(links)}, a host or switch for all of its links, or {ALL}"
            raise SettingsError(f"there is no link {name} to capture: choose one of {there_are}")


def folder(run: Path, number: int, trial: Trial) -> Path:
    """Where the captures of a run's trial are: its number in the run, its name and its seed, without what a shell would read."""
    return run / "captures" / f"{number}-{re.sub(r'[^A-Za-z0-9.,=+-]+', '-', trial.name)}-seed{trial.seed}"
