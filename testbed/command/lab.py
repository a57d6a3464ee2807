"""The command `inalab lab`: list, start, check, figure, grade."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from inalab.testbed.command.terminal import Terminal, styled
from inalab.testbed.lab import catalogue, confinement
from inalab.testbed.lab.lab import LabError, Outcome, Report

application = typer.Typer(
    add_completion=False, no_args_is_help=True, help="A course in labs: start one, check it, draw its figure, grade."
)
console = Terminal(soft_wrap=True)
NOT_PASSED = 3
Folder = Annotated[Path, typer.Argument(help="the folder that `inalab lab start` made")]
Which = Annotated[str | None, typer.Option("--lab", help="which lab it is, where its lab.toml does not say")]


@application.command("list")
def list_() -> None:
    """Show the labs."""
    table = Table(box=None, header_style="bold")
    for column in ("lab", "what", "language", "hours", "points"):
        table.add_column(column, justify="right" if column in ("hours", "points") else "left")
    for name in catalogue.names():
        lab = catalogue.load(name)
        table.add_row(name, lab.title, lab.language, str(lab.hours), str(lab.points))
    console.print(table)


@application.command()
def start(
    name: Annotated[str, typer.Argument(help="as `inalab lab list` shows it: 03-sum, sum, or 3")],
    folder: Annotated[Path | None, typer.Argument(help="a new folder to work in; default: the lab's name")] = None,
) -> None:
    """Copy a lab's starter and README into a folder."""
    lab = catalogue.find(name)
    folder = folder or Path(lab)
    for file in catalogue.begin(lab, folder):
        console.print(f"  {folder / file}")
    console.print(f"Read {folder / 'README.md'} first; check your work with: inalab lab check {folder}")


@application.command()
def check(
    folder: Folder = Path(),
    stop: Annotated[bool, typer.Option("--stop", help="end at the first task that is not complete")] = False,
    lab: Which = None,
) -> None:
    """Check work on a lab: points for each task, and how the first one fails.

    The exit code is 3 if points are missing.
    """
    from inalab.testbed.lab.check import check as outcomes

    name = catalogue.named(lab, folder)
    if not confinement.possible():
        console.print("Your programs run without confinement here: `inalab doctor` tells why.", style="dim")
    done: list[Outcome] = []
    shown = False
    loaded = catalogue.load(name)
    console.print(styled((name, "bold"), f": {loaded.title}\n"))
    for outcome in outcomes(loaded, folder):
        done.append(outcome)
        _show(outcome, not shown)
        shown = shown or not outcome.passed
        if stop and not outcome.passed:
            break
    points = sum(o.points for o in done)
    left = len(loaded.tasks) - len(done)
    console.print(styled("\n", (f"{points:g} of {loaded.points} points", "bold"), f"; {left} tasks not run" if left else ""))
    raise typer.Exit(0 if points >= loaded.points else NOT_PASSED)


def _show(outcome: Outcome, whole: bool) -> None:
    """A task's line, and below it what was wrong; the trace only where the `whole` is asked for."""
    mark = ("✓", "green") if outcome.passed else ("✗", "red") if outcome.points == 0 else ("~", "yellow")
    console.print(styled(mark, f" {outcome.task:<64} {outcome.points:>5g} of {outcome.most}"))
    if outcome.message:
        console.print(f"    {outcome.message}")
    if whole and not outcome.passed:
        for line in outcome.trace.splitlines():
            console.print(f"    {line}", style="red" if "<-- differs" in line else None)
        if outcome.output.strip():
            console.print("    Your program printed:")
            for line in outcome.output.rstrip().splitlines()[-20:]:
                console.print(f"      {line}")


@application.command()
def figure(
    folder: Folder = Path(),
    out: Annotated[Path | None, typer.Option(help="file to write (.png or .svg); default: figure.png in the folder")] = None,
    lab: Which = None,
) -> None:
    """Draw the lab's figure from your own work, beside the reference."""
    from inalab.testbed.lab.figures import draw

    name = catalogue.named(lab, folder)
    console.print(f"figure: {draw(name, folder, out or folder / 'figure.png')}")


@application.command()
def grade(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER…", help="submissions, one folder each")],
    lab: Which = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder to write: grades.json, grades.csv as nbgrader exports it, and NAME/results.json as Gradescope reads it"
        ),
    ] = None,
    unconfined: Annotated[
        bool, typer.Option("--unconfined", help="grade even where programs cannot be confined: they may read and write your files")
    ] = False,
) -> None:
    """Check many submissions: a table, and files for a grade book."""
    from inalab.testbed.lab import grading

    if not confinement.possible() and not unconfined:
        raise LabError(
            "programs of others cannot be confined here: install bubblewrap on a kernel that allows user namespaces, "
            "or say --unconfined"
        )
    reports: list[Report] = []
    if out:
        grading.writable(out)
    names = [grading.name_of(folder, folders) for folder in folders]
    with console.status("") as status:
        for folder, name in zip(folders, names, strict=True):
            status.update(styled(f"{len(reports) + 1} of {len(folders)}: {name}"))
            report = grading.graded(folder, lab, unconfined)
            reports.append(report)
            if out:  # as they come: grading takes hours, and may end before its end
                grading.write_gradescope(report, out / name)
                grades = grading.write_grades(reports, out)
                table = grading.write_table(reports, names[: len(reports)], out)
    for shown in grading.tables(reports):
        console.print(shown)
    for name, report in zip(names, reports, strict=True):
        if first := grading.lost(report, name):
            console.print(styled(first), soft_wrap=True)
    if out:
        console.print(f"grades: {grades}, {table}")
    strange = [o.message for report in reports for o in report.outcomes if not o.most]
    for wording in strange:
        console.print(f"not graded: {wording}")
    raise typer.Exit(1 if strange else 0)
