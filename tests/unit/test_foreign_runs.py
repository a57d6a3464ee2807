"""A run's folder may come from anywhere: it is data, whatever it says of itself, and no code that it names is run."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemes import registry
from testbed.command.again import report_again
from testbed.command.runner import results_table
from testbed.command.terminal import Terminal
from testbed.draw.curves import look_of, near_bound
from testbed.record.runs import ResultsError, load_run
from testbed.record.table import write_csv
from testbed.report.compare import show_comparison
from testbed.report.index import write_index
from testbed.report.page import write_report
from tests.runs import failed, make_run, record, trial

LOOK = {"label": "Mine", "colour": "#123456", "marker": "v", "line": ":", "of_bound": [0.5, 1.5]}
ODD = ("../x[/y]", [1])
MISSING = object()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file that leaves a trace when it is run."""
    path = tmp_path / "mine.py"
    path.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    return path


def told(folder: Path, experiment: str | None = None) -> str:
    """What `inalab report` prints."""
    out = io.StringIO()
    report_again(folder, experiment, Terminal(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    "named", [{"source": "mine.py"}, {"experiment": "mine.py"}, {"experiment": "mine"}, {"experiment": "experiments.loss"}]
)
def test_no_experiment_that_a_run_names_is_run(
    tmp_path: Path, code: Path, named: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "results", [trial()], **named)
    with pytest.raises(ResultsError, match="name it with --experiment FILE"):
        told(run.folder)
    assert not (tmp_path / "was_run").exists()


def test_no_scheme_that_a_run_names_is_run_and_it_is_drawn_as_recorded(tmp_path: Path, code: Path) -> None:
    mine = trial()
    mine["settings"]["scheme"] = "of-theirs"
    run = make_run(tmp_path, [mine], schemes_added={str(code): "0a"}, looks={"of-theirs": LOOK})
    assert "plots and report" in told(run.folder)
    assert not (tmp_path / "was_run").exists() and "of-theirs" not in registry.names()
    assert look_of("of-theirs").colour == "#123456" and near_bound("of-theirs").high == 1.5


def test_what_is_recorded_of_a_scheme_replaces_none_that_there_is(tmp_path: Path) -> None:
    before = look_of("switchml")
    told(make_run(tmp_path, [trial()], looks={"switchml": LOOK}).folder)
    assert look_of("switchml") == before


def test_an_experiment_that_is_named_by_hand_is_run_and_must_be_the_runs(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(Path("experiments/quickstart.py").read_text())
    run = make_run(tmp_path, [trial()], experiment="own", source="/elsewhere/own.py")
    assert f"{own} has changed since the run" in told(run.folder, str(own))
    with pytest.raises(ResultsError, match="is another experiment"):
        told(run.folder, "experiments/loss.py")


def changes(content: dict[str, Any], depth: int = 0) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each entry, and each entry of an entry, with each odd value, or missing."""
    for key, value in content.items():
        yield from (((key,), odd) for odd in (*ODD, MISSING))
        if isinstance(value, dict) and depth == 0:
            yield from (((key, *path), odd) for path, odd in changes(value, 1))


def changed(content: dict[str, Any], path: tuple[str, ...], odd: Any) -> dict[str, Any]:
    whole = copy.deepcopy(content)
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    if odd is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = odd
    return whole


@pytest.mark.parametrize("part", ["run.json", "trials.jsonl"])
def test_an_odd_folder_is_refused_in_a_sentence_or_shown(tmp_path: Path, part: str) -> None:
    looks = {"of-theirs": LOOK}
    few = {"loss": 0.01, "scheme": "switchml", "costs": "embedded"}  # of the settings, all of which are handled alike
    content = record(settings=few, looks=looks, git={"commit": "ab", "changed": False}, plots=["tat"], findings=["it is so"])
    entries = [trial() | {"settings": few}, failed("1 % loss", 1, "worker 3 died")]
    good = make_run(tmp_path / "good", entries)
    odd = make_run(tmp_path / "odd", entries, looks=looks)
    console, refused = Terminal(file=io.StringIO()), 0
    for path, value in changes(content if part == "run.json" else entries[0]):
        if part == "run.json":
            (odd.folder / part).write_text(json.dumps(changed(content, path, value)))
        else:
            (odd.folder / part).write_text("".join(json.dumps(t) + "\n" for t in (changed(entries[0], path, value), entries[1])))
        try:
            run = load_run(odd.folder)
        except ResultsError as error:
            assert "is not the folder of a run" in str(error)
            refused += 1
            continue
        write_csv(run, io.StringIO())
        show_comparison(run, good, console, every=True)
        console.print(results_table(run))
        write_report(run, [], [])
        write_index(tmp_path / "odd")
    assert refused > 20


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, "NaN", '"x"', "", "\x00"])
def test_what_is_no_record_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path, [trial()])
    for name in ("trials.jsonl", "run.json"):
        (run.folder / name).write_text(text + "\n")
        if (name, text) != ("trials.jsonl", ""):
            with pytest.raises(ResultsError, match="is not the folder of a run"):
                load_run(run.folder)
