"""The pages of docs/reference that are written from the code: commands, settings, schemes, experiments, and what carries a script's
collectives.

`make docs` writes them; a test compares them with what is committed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import typer
import typer.cli
import typer.main

from inalab.schemes import registry
from inalab.testbed.command.listing import Row, first_line, of_groups, of_schemes, of_trials
from inalab.testbed.document import carriers
from inalab.testbed.plan import experiment as experiments
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import ROOT

SETTINGS = ("setting", "unless set", "range", "what it is")


def commands() -> str:
    """Every command with its arguments and options."""
    from inalab.testbed.command.cli import application

    command = typer.main.get_command(application)
    page: str = typer.cli.get_docs_for_click(obj=command, ctx=typer.Context(command), name="inalab")
    return html.unescape(page).replace("# `inalab`\n", f"{carriers.NOTE}\n# Commands\n", 1)


def settings() -> str:
    """The settings of a trial, by group, and those that schemes have of their own."""
    parts = [
        carriers.NOTE,
        "# Settings\n",
        "`--set KEY=VALUE` changes one. `inalab list EXPERIMENT` shows what an experiment has unless it is set, and what it",
        "varies. A key may have its group's name before it: `loss.burst`, `straggler.factor`.\n",
        _table("Of every trial", "", of_trials(TrialSettings)),
    ]
    parts += [_table(name.capitalize(), about, its) for name, about, its in of_groups(TrialSettings)]
    parts += [_table(f"Scheme {name}", "", its) for name, its in of_schemes()]
    return "\n".join(parts)


def schemes() -> str:
    """Every scheme, as figures show it."""
    rows = []
    for name in registry.names():
        scheme = registry.find(name)
        program = scheme.program.name if scheme.program else "none"
        rows.append((f"`{name}`", scheme.look.label, program, first_line(scheme)))
    intro = "`--scheme NAME` chooses one; [extending.md](../how-to/extending.md) says how to add one.\n"
    return "\n".join([carriers.NOTE, "# Schemes\n", intro, _rows_of(("scheme", "in figures", "P4 program", "what it is"), rows)])


def all_experiments() -> str:
    """Every experiment."""
    rows = [(f"`{name}`", experiments.summary(experiments.load(name))) for name in experiments.names()]
    intro = "`inalab run NAME` runs one; [figures.md](figures.md) says what was measured.\n"
    return "\n".join([carriers.NOTE, "# Experiments\n", intro, _rows_of(("experiment", "what it shows"), rows)])


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "settings.md": settings,
    "collectives.md": carriers.page,
    "schemes.md": schemes,
    "experiments.md": all_experiments,
}


def _table(title: str, about: str, body: Iterable[Row]) -> str:
    return f"## {title}\n\n" + (f"{about}\n\n" if about else "") + _rows_of(SETTINGS, [(f"`{key}`", *its) for key, *its in body])


def _rows_of(headings: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    cells = [headings, ["---"] * len(headings), *([re.sub(r"([|<])", r"\\\1", cell) for cell in row] for row in body)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def main(folder: Path = ROOT / "docs" / "reference") -> None:
    """Write the pages into a folder, which has to be there."""
    if not folder.is_dir():
        raise SystemExit(f"inalab: there is no folder {folder}: name one, or run this in a checkout")
    for name, page in PAGES.items():
        (folder / name).write_text(page())
    print(f"{', '.join(PAGES)} are written in {folder}")


if __name__ == "__main__":
    typer.run(main)
