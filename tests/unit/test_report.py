"""What the report and the index say, as text; test_report_browser.py opens them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from testbed.record.runs import ResultsError, load_run
from testbed.report import page as report
from testbed.report.index import write_index
from testbed.report.page import command, write_report
from testbed.report.tables import seed_table, trial_table
from tests.runs import failed, invalid, make_run, record, trial


def figure() -> Figure:
    drawn = Figure(figsize=(4, 2))
    drawn.subplots().plot([1, 2, 3])
    return drawn


def test_command_is_what_a_shell_takes() -> None:
    words = shlex.split(command(record(set=["k=256", "workload=a b'c"], seed=7, quick=True)))
    assert words == [
        "inalab", "run", "quickstart", "--target", "embedded", "--seed", "7", "--quick", "--set", "k=256", "--set", "workload=a b'c",
    ]  # fmt: skip
    assert "--quick" not in command(record())


def test_table_has_every_trial_and_an_en_dash_for_what_is_missing(tmp_path: Path) -> None:
    odd = trial(seed=2, pause_ms=12.5) | {"factors": {"faults": "no faults", "k": 256}}
    del odd["metrics"]["final_accuracy"]
    run = make_run(tmp_path, [trial(), odd, failed("1 % loss", 1, "worker 3 died")])
    table = trial_table(run)
    headings = [c.heading for c in table.columns]
    assert headings[:4] == ["trial", "seed", "k", "valid"]  # `faults` only repeats the name
    shown = [dict(zip(headings, (c.text for c in row.cells), strict=True)) for row in table.rows]
    assert [row["seed"] for row in shown] == ["1", "2", "1"]
    assert [row["accuracy"] for row in shown] == ["90.0", "–", "–"]
    assert [row["TAT"] for row in shown] == ["100.0", "100.0", "–"]
    assert [row["pause ms"] for row in shown] == ["–", "12.5", "–"]
    assert [row["valid"] for row in shown] == ["yes", "yes", "failed"]
    assert [row.verdict for row in table.rows] == ["valid", "valid", "failed"]


def test_medians_over_seeds_leave_out_what_is_not_valid(tmp_path: Path) -> None:
    trials = [trial(seed=s, tat=0.1 * s) for s in (1, 2, 3, 4, 5)]
    trials[4] = invalid(trials[4], "saturated")
    table = seed_table(make_run(tmp_path, trials))
    assert table is not None
    (row,) = table.rows
    cells = dict(zip((c.heading for c in table.columns), row.cells, strict=True))
    assert cells["valid"].text == "4 of 5"
    assert cells["TAT"].text == "250.0"
    assert cells["TAT"].under == "100.0 – 400.0"
    assert seed_table(make_run(tmp_path / "single", [trial()])) is None


def test_everything_is_escaped(tmp_path: Path) -> None:
    evil = "</td><script>alert(1)</script>\"'&"
    run = make_run(
        tmp_path, [trial(evil), invalid(trial("b", 2, saturated_by=evil), evil)], set=[f"workload={evil}"], trials=[evil, "b"]
    )
    text = write_report(run, [evil], [("plot", evil, figure())]).read_text()
    index = (tmp_path / "index.html").read_text()
    assert "alert(1)" in text
    assert "alert(1)" in index
    assert "<script>alert" not in text + index
    assert text.count("<script>") == index.count("<script>") == 1


def test_report_of_a_run_without_what_newer_ones_record(tmp_path: Path) -> None:
    few = {"experiment": "quickstart", "target": "embedded", "seed": 1, "set": [], "trials": ["a"]}
    run = make_run(tmp_path, [{"name": "a"}])
    (run.folder / "run.json").write_text(json.dumps(few))
    page = write_report(load_run(run.folder), [], [])
    assert "no reason was recorded" in page.read_text()


def test_a_plot_with_too_much_to_draw_is_shown_as_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, [trial()])
    assert "data:image/svg+xml;base64," in write_report(run, [], [("plot", "a plot", figure())]).read_text()
    monkeypatch.setattr(report, "LARGEST_SVG", 100)
    text = write_report(run, [], [("plot", "a plot", figure())]).read_text()
    assert "data:image/png;base64," in text
    assert "data:image/svg" not in text


def test_index_has_all_runs_and_passes_over_the_rest(tmp_path: Path) -> None:
    first = make_run(tmp_path, [trial(), invalid(trial(seed=2), "saturated"), failed("b", 1, "died")], trials=["a", "b", "c", "d"])
    write_report(first, ["It is so."], [("plot", "a plot", figure())])
    second = make_run(tmp_path, [], experiment="other", finished=False, git={})
    (tmp_path / "other" / "broken").mkdir()
    (tmp_path / "other" / "broken" / "run.json").write_text('{"half')
    (tmp_path / "other" / "none").mkdir()
    (tmp_path / "notes.txt").write_text("not a run")
    text = write_index(tmp_path).read_text()
    assert f'href="quickstart/{first.folder.name}/report.html"' in text
    assert f'src="quickstart/{first.folder.name}/plot.png"' in text
    assert second.folder.name in text
    assert "broken" not in text
    for told in ("3 of 4", "It is so.", "0123456789", "finished", "interrupted"):
        assert told in text, told
    assert json.loads((first.folder / "run.json").read_text())["findings"] == ["It is so."]
    with pytest.raises(ResultsError, match="there is no results folder"):
        write_index(tmp_path / "nowhere")


def test_a_report_outside_of_a_results_folder_writes_no_index(tmp_path: Path) -> None:
    run = make_run(tmp_path / "results", [trial()])
    moved = tmp_path / "elsewhere" / "copy"
    moved.parent.mkdir()
    run.folder.rename(moved)
    write_report(load_run(moved), [], [])
    assert (moved / "report.html").exists()
    assert not (tmp_path / "index.html").exists()


def test_two_that_write_the_index_at_once_leave_it_whole(tmp_path: Path) -> None:
    for n in range(10):
        make_run(tmp_path, [trial()], experiment=f"e{n}")
    write_index(tmp_path)
    program = "import sys, pathlib, testbed.report.index as i\nfor _ in range(40): i.write_index(pathlib.Path(sys.argv[1]))"
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]
    end = time.monotonic() + 60
    reads = 0
    while any(w.poll() is None for w in writers) and time.monotonic() < end:
        text = (tmp_path / "index.html").read_text()
        assert text.endswith("</html>")
        assert text.count("<tr>") == 11
        reads += 1
        time.sleep(0.001)
    assert [w.wait(1) for w in writers] == [0, 0]
    assert reads > 10
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["index.html"]
