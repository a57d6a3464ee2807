"""What the report and the index say, as text; test_report_browser.py opens them."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from inalab.testbed.record.runs import ResultsError, Run, load_run
from inalab.testbed.report import page as report
from inalab.testbed.report.index import _entry, write_index
from inalab.testbed.report.page import command, write_report
from inalab.testbed.report.tables import seed_table, trial_table
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
    own = record(source="/mine/one.py", schemes_added={"a.py": "0a", "b.py": "0b"}, capture=["h0", "tor1"])
    assert command(own) == "inalab run /mine/one.py --target embedded --seed 1 --scheme a.py --scheme b.py --capture h0,tor1"


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
    assert [row["median TAT"] for row in shown] == ["100.0", "100.0", "–"]
    assert [row["pause ms"] for row in shown] == ["–", "12.5", "–"]
    assert [row["valid"] for row in shown] == ["yes", "yes", "failed"]
    assert [row.verdict for row in table.rows] == ["valid", "valid", "failed"]


def test_requested_loss_stands_beside_what_was_achieved(tmp_path: Path) -> None:
    lossy = trial(loss_achieved=0.0123)
    lossy["settings"]["loss"] = 0.01
    table = trial_table(make_run(tmp_path, [lossy]))
    shown = dict(zip((c.heading for c in table.columns), table.rows[0].cells, strict=True))
    assert (shown["requested loss"].text, shown["loss"].text) == ("1", "1.230")
    assert (shown["requested loss"].value, shown["loss"].value) == (0.01, 0.0123)
    assert "requested loss" not in [c.heading for c in trial_table(make_run(tmp_path, [trial()])).columns]


def test_links_lead_from_a_row_to_its_reasons_and_back(tmp_path: Path) -> None:
    run = make_run(tmp_path, [trial(), invalid(trial(seed=2), "slow"), trial(seed=3), failed("no faults", 4, "died")])
    text = write_report(run, [], []).read_text()
    assert re.findall(r'href="#why-(\d+)">(\w+)<', text) == [("2", "no"), ("4", "failed")]
    assert re.findall(r'<dt id="why-(\d+)"><a href="#trials-(\d+)">no faults, seed (\d)</a>: (.*)</dt>\s*<dd>(\w+)</dd>', text) == [
        ("2", "2", "2", "not valid", "slow"), ("4", "4", "4", "failed", "died"),
    ]  # fmt: skip
    rows = re.findall(r'<tr id="trials-(\d)" class="(\w+)">', text)
    assert rows == [("1", "valid"), ("2", "invalid"), ("3", "valid"), ("4", "failed")]


def test_facts_and_what_was_set_by_hand(tmp_path: Path) -> None:
    kinds = [{"processor": p, "cores": 2, "kernel": "6.1", "trials": n} for p, n in (("one", 3), ("two", 1))]
    described = record(
        set=["loss.rate=0.1", "straggler=slow"], trials=["a"] * 4, finished=False, machines=kinds, capture=["h0", "h1"]
    )
    facts = dict(report._facts(Run(tmp_path / "my run", described, [trial(seed=s) for s in (2, 1, 2)])))
    assert facts == {
        "run": "my run", "target": "embedded", "seeds": "1, 2", "trials": "3 of 4, interrupted", "captured": "h0, h1",
        "started": "2026-01-02 03:04:05 +0000", "ended": "2026-01-02 03:05:05 +0000", "machines": "2 kinds, see below",
        "commit": "0123456789ab",
    }  # fmt: skip
    context = {title: {name: (value, changed) for name, value, changed in rows} for title, rows in report._context(described)}
    assert {name for name, (_, changed) in context["Settings"].items() if changed} == {"loss", "straggler"}
    assert context["Versions"] == {"python": ("3.11.7", False), "embedded: cc": ("cc 12", False)}
    assert context["Machines of the trials"] == {
        "one, 2 cores, kernel 6.1": ("3 trials", False), "two, 2 cores, kernel 6.1": ("1 trials", False),
    }  # fmt: skip


def test_medians_over_seeds_leave_out_what_is_not_valid(tmp_path: Path) -> None:
    trials = [trial(seed=s, tat=0.1 * s) for s in (1, 2, 3, 4, 5)]
    trials[4] = invalid(trials[4], "saturated")
    table = seed_table(make_run(tmp_path, trials))
    assert table is not None
    (row,) = table.rows
    cells = dict(zip((c.heading for c in table.columns), row.cells, strict=True))
    assert cells["valid"].text == "4 of 5"
    assert cells["median TAT"].text == "250.0"
    assert cells["median TAT"].under == "100.0 – 400.0"
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
    second = make_run(tmp_path, [], experiment="other", finished=False, git={}, seed=2, started="2026-01-03T00:00:00+0000")
    (tmp_path / "other" / "broken").mkdir()
    (tmp_path / "other" / "broken" / "run.json").write_text('{"half')
    (tmp_path / "other" / "none").mkdir()
    (tmp_path / "notes.txt").write_text("not a run")
    text = write_index(tmp_path).read_text()
    assert f'href="quickstart/{first.folder.name}/report.html"' in text
    assert f'src="quickstart/{first.folder.name}/plot.png"' in text
    assert second.folder.name in text
    assert "broken" not in text
    entry, other = (_entry(load_run(run.folder)) for run in (first, second))
    assert [entry[key] for key in ("done", "planned", "invalid", "failed", "state", "commit")] == [
        3,
        4,
        1,
        1,
        "finished",
        "0123456789",
    ]
    assert (entry["finding"], other["finding"], other["link"], other["picture"]) == ("It is so.", "–", "", "")
    assert other["state"] == "interrupted"
    assert _entry(Run(tmp_path, {k: v for k, v in second.record.items() if k != "ended"}))["state"] == "running, or killed"
    for wording in ("3 of 4", "It is so.", "0123456789", "finished", "interrupted"):
        assert wording in text, wording
    assert text.index(second.folder.name) < text.index(f"/{first.folder.name}/")  # the newest first
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


def test_the_index_is_written_aside_and_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process writes a file of its own, so two at once leave what either has written."""
    make_run(tmp_path, [trial()])
    before = write_index(tmp_path).read_text()
    make_run(tmp_path, [trial()], experiment="other")
    moved: list[tuple[str, str, str]] = []

    def replace(aside: str, to: Path) -> None:
        moved.append((aside, Path(aside).read_text(), to.read_text()))
        Path(aside).rename(to)

    monkeypatch.setattr(os, "replace", replace)
    write_index(tmp_path)
    after = write_index(tmp_path).read_text()
    (first, _, _), (second, content, replaced) = moved
    assert first != second and Path(second).parent == tmp_path and content == after == replaced
    assert moved[0][1:] == (after, before)
    assert after.endswith("</html>") and (before.count("<tr>"), after.count("<tr>")) == (2, 3)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["index.html"]
