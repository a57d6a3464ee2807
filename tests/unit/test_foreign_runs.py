"""A run's folder may come from anywhere: it is data, whatever it says of itself, and no code that it names is run."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inalab.schemes import registry
from inalab.testbed.command.again import report_again
from inalab.testbed.command.cli import export_csv
from inalab.testbed.command.conclusion import results_table
from inalab.testbed.command.terminal import Terminal
from inalab.testbed.draw.curves import look_of, near_bound
from inalab.testbed.record.runs import ResultsError, load_run
from inalab.testbed.record.table import write_csv
from inalab.testbed.report.compare import show_comparison
from inalab.testbed.report.index import write_index
from inalab.testbed.report.page import write_report
from tests.runs import failed, make_run, record, trial
from tests.unit.test_reference_run import REFERENCE

LOOK = {"label": "Mine", "colour": "#123456", "marker": "v", "line": ":", "of_bound": [0.5, 1.5]}
ODD = ("../x[/y]", [1])
MISSING = object()


def measured(**change: Any) -> dict[str, Any]:
    """A trial that a machine has run, of a few steps; `change` is of its metrics."""
    line = (REFERENCE / "trials.jsonl").read_text().splitlines()[0]
    entry: dict[str, Any] = json.loads(line)
    entry["steps"] = entry["steps"][:80]
    entry["metrics"] |= change
    return entry


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file that leaves a trace when it is run."""
    path = tmp_path / "mine.py"
    path.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    return path


def printed(folder: Path, experiment: str | None = None, schemes: tuple[str, ...] = (), drawn: bool | None = True) -> str:
    """What `inalab report` prints."""
    out = io.StringIO()
    could = report_again(folder, experiment, schemes, Terminal(file=out, width=200))
    assert drawn is None or could is drawn
    return out.getvalue()


@pytest.mark.parametrize(
    "named", [{"source": "mine.py"}, {"experiment": "mine.py"}, {"experiment": "mine"}, {"experiment": "inalab.experiments.loss"}]
)
def test_no_experiment_that_a_run_names_is_run(
    tmp_path: Path, code: Path, named: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "results", [trial()], **named)
    with pytest.raises(ResultsError, match="name it with --experiment FILE"):
        printed(run.folder)
    assert not (tmp_path / "was_run").exists()


def test_no_scheme_that_a_run_names_is_run_and_it_is_drawn_as_recorded(tmp_path: Path, code: Path) -> None:
    mine = measured() | {"bounds": {"sum": 0.05, "step": 0.1}}
    mine["settings"]["scheme"] = "of-theirs"
    run = make_run(tmp_path, [mine], schemes_added={str(code): "0a"}, looks={"of-theirs": LOOK})
    assert "plots and report" in printed(run.folder)
    assert not (tmp_path / "was_run").exists() and "of-theirs" not in registry.names()
    assert look_of("of-theirs").colour == "#123456" and near_bound("of-theirs").high == 1.5


OWN = """
from inalab.schemes.ring import Ring
from inalab.schemes.scheme import Look

class Mine(Ring):
    name, look = "of-somebody", Look("Mine", "#123456")

SCHEME = Mine()
"""


def test_figures_that_need_a_schemes_code_need_its_file_and_what_was_drawn_before_stays(tmp_path: Path) -> None:
    known, path = dict(registry._known()), tmp_path / "own.py"
    path.write_text(OWN)
    mine = measured() | {"factors": {"scheme": "of-somebody", "workers": 8}, "name": "Mine, 8"}
    mine["settings"] |= {"scheme": "of-somebody"}
    look = LOOK | {"label": "Mine"}
    run = make_run(
        tmp_path / "r",
        [mine],
        experiment="workers",
        schemes_added={str(path): "0a"},
        looks={"of-somebody": look},
        plots=["workers"],
        settings=mine["settings"] | {"schemes": ["of-somebody"], "sizes": [8]},
    )
    (run.folder / "report.html").write_text("as it was")
    sentences = printed(run.folder, drawn=False)
    assert f"a bound may need the code of {path}: name it with --scheme FILE" in sentences
    assert (run.folder / "report.html").read_text() == "as it was" and load_run(run.folder).record["plots"] == ["workers"]
    try:
        assert "plots and report" in printed(run.folder, schemes=(str(path),))
        assert (run.folder / "workers.png").stat().st_size > 1000
    finally:
        registry._known().clear()
        registry._known().update(known)


def test_no_link_in_a_runs_folder_leads_out_of_it(tmp_path: Path) -> None:
    run, victims = make_run(tmp_path / "r", [measured()]), tmp_path / "victims"
    victims.mkdir()
    for name in ("report.html", "run.json", "learning.png", "learning.svg", "trials.csv"):
        (victims / name).write_text((run.folder / name).read_text() if name == "run.json" else "mine")
        (run.folder / name).unlink(missing_ok=True)
        (run.folder / name).symlink_to(victims / name)
    before = {path.name: path.read_text() for path in victims.iterdir()}
    printed(run.folder)
    export_csv(run.folder)
    assert {path.name: path.read_text() for path in victims.iterdir()} == before
    assert not [name for name in before if (run.folder / name).is_symlink()]


@pytest.mark.parametrize(
    "changes_of",
    [
        {"machines": [{}, {}]}, {"target": "simulated", "settings": {}}, {"looks": {"switchml": LOOK | {"label": "$\\frac$"}}},
        {"versions": {"python": float("nan")}}, {"versions": {"python": 10**400}}, {"description": "\ud800"},
    ],
)  # fmt: skip
def test_records_that_nobody_measured_are_refused_or_shown(tmp_path: Path, changes_of: dict[str, Any]) -> None:
    run = make_run(tmp_path, [measured() if "looks" in changes_of else trial()])
    (run.folder / "run.json").write_text(json.dumps(run.record | changes_of))
    with suppress(ResultsError):
        printed(run.folder, drawn=None)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "-1e305"])
def test_numbers_that_nobody_measured_are_refused_or_not_known(tmp_path: Path, value: str) -> None:
    run = make_run(tmp_path, [trial(tat_median=123.456)])
    path = run.folder / "trials.jsonl"
    path.write_text(path.read_text().replace("123.456", value))
    with suppress(ResultsError):
        printed(run.folder, drawn=None)


def test_what_is_recorded_of_a_scheme_replaces_none_that_there_is(tmp_path: Path) -> None:
    before = look_of("switchml")
    printed(make_run(tmp_path, [measured()], looks={"switchml": LOOK}).folder)
    assert look_of("switchml") == before


def test_an_experiment_that_is_named_by_hand_is_run_and_must_be_the_runs(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(Path("experiments/quickstart.py").read_text())
    run = make_run(tmp_path, [measured()], experiment="own", source="/elsewhere/own.py")
    assert f"{own} has changed since the run" in printed(run.folder, str(own))
    with pytest.raises(ResultsError, match="is another experiment"):
        printed(run.folder, "experiments/loss.py")


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
