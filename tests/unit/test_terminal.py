"""Text from outside is printed as it stands: as itself, in tables, in titles and beside a bar."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from inalab.switches.bmv2 import installation
from inalab.testbed.command import doctor
from inalab.testbed.command.display import Display
from inalab.testbed.command.terminal import Terminal, styled
from inalab.testbed.lab import grading
from inalab.testbed.lab.lab import Outcome, Report
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings

HOSTILE = "m[/x] [red]9[/red] :car: \x1b[2J\x9b0m\r\x07é"
SHOWN = "m[/x] [red]9[/red] :car: ␛[2J\ufffd0m␍␇é"


def printed(*what: Any, **options: Any) -> str:
    out = io.StringIO()
    Terminal(file=out, width=200, **options).print(*what)
    return out.getvalue()


def titled() -> Table:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    return table


@pytest.mark.parametrize(("what", "times"), [(HOSTILE, 1), (styled(HOSTILE, (HOSTILE, "bold")), 2), (titled(), 3)])
def test_brackets_are_no_markup_and_no_character_moves_the_cursor(what: Any, times: int) -> None:
    assert printed(what).count(SHOWN) == times
    coloured = printed(what, force_terminal=True, color_system="standard")
    assert "\x1b[31m" not in coloured and "\x1b[2J" not in coloured


def test_lines_and_tabs_stay() -> None:
    assert printed("a\n\tb").split() == ["a", "b"] and printed("a\nb") == "a\nb\n"


@pytest.mark.parametrize("live", [False, True])
def test_a_trials_name_and_what_became_of_it_are_shown_as_they_are(live: bool) -> None:
    out = io.StringIO()
    display = Display(Terminal(file=out, width=200, force_terminal=live), 1)
    with display.progress:
        shown = display.begin(1, Trial(HOSTILE, {}, TrialSettings(), 1))
        shown.end(("failed", "red"), f": {HOSTILE}")
    assert out.getvalue().count("m[/x] [red]9[/red] :car: ␛[2J") >= 3


def test_a_submission_of_any_name_is_graded() -> None:
    report = Report("01-forward", "m[red]x", [Outcome("[/]", 3, 10, HOSTILE)])
    (table,) = grading.tables([report])
    assert "m[red]x" in printed(table)
    assert "m[red]x: 1, [/]: " in printed(styled(grading.lost(report, "m[red]x")))


def test_what_doctor_advises_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", [c for c in doctor.CHECKS if c.name == "thrift"])
    monkeypatch.setattr(installation, "missing", list)
    monkeypatch.setattr(installation, "_locate", lambda name: "")  # whatever this machine has
    out = io.StringIO()
    doctor.examine(Terminal(file=out, width=200))
    assert 'thrift missing: pip install "inalab[bmv2]"' in out.getvalue()


def test_nothing_prints_but_through_the_terminal() -> None:
    """No module makes a console of its own, or has markup read."""
    for path in Path("testbed").rglob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                assert name not in ("Console", "from_markup", "rprint"), f"{path}:{node.lineno}"
                own = {k.arg: k.value for k in node.keywords}
                plain = isinstance(own.get("markup"), ast.Constant) and own["markup"].value is False  # type: ignore[attr-defined]
                assert name != "TextColumn" or plain, f"{path}:{node.lineno}"
                assert name == "TextColumn" or "markup" not in own, f"{path}:{node.lineno}"
                title = own.get("title")
                assert name != "Panel" or title is None or isinstance(title, ast.Call), (
                    f"{path}:{node.lineno}"
                )  # str is markup there
