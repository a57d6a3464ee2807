"""What is measured of a trial, from its workers' records, and how numbers are shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inalab.experiments import quickstart
from inalab.hosts.collective import Counters
from inalab.hosts.messages import Done, Failure, Step
from inalab.testbed.draw.curves import by_name, levels, matching, not_valid, ratio
from inalab.testbed.draw.plots import aggregation_time, by_step, learning_curves, retransmissions, step_time, style
from inalab.testbed.measures import metric
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.plan.sweep import Point, SweepSettings, paired
from inalab.testbed.record.metrics import COMPARED, DETAIL, MAIN, MISSING, Metric, named, present
from inalab.testbed.record.runs import ResultsError, Run, add_trial, claim, create_run, keep_trials, load_run, release, write_whole
from inalab.testbed.report.compare import compare
from inalab.testbed.report.tables import seed_table, trial_table, verdict
from inalab.testbed.theory import bounds
from inalab.testbed.trial.job_run import JobRun, together
from inalab.topologies.jobs import deal
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from tests.runs import failed, invalid, make_run, record, trial


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("final_accuracy", 0.9234, "92.3"),
        ("tat_median", 0.0123, "12.3"),
        ("step_median", 0.5, "500.0"),
        ("duration", 12.345, "12.35"),
        ("ate_per_second", 1234567.0, "1,234,567"),
        ("loss_achieved", 0.00123, "0.123"),
        ("cpu_others", 0.62, "62"),
        ("rtt", 0.00321, "3.21"),
        ("error_median", 1.5e-8, "1.50e-08"),
        ("retransmissions", 12345, "12,345"),
        ("retransmissions", 0, "0"),
        ("tat_median", None, MISSING),
        ("tat_median", math.nan, MISSING),
        ("tat_median", math.inf, MISSING),
        ("unlisted", True, "yes"),
        ("unlisted", False, "no"),
        ("saturated_by", "", MISSING),
        ("saturated_by", "switch root", "switch root"),
    ],
)
def test_numbers_are_shown_in_their_units(key: str, value: Any, shown: str) -> None:
    assert named(key).text(value) == shown


def test_every_metric_is_listed_once_and_unlisted_ones_are_shown() -> None:
    keys = [m.key for m in (*MAIN, *DETAIL)]
    assert len(set(keys)) == len(keys)
    assert set(COMPARED) <= set(keys)
    assert named("pause_ms") == Metric("pause_ms", "pause ms")
    scales = {"ms": 1000.0, "%": 100.0}
    assert not [m.key for m in (*MAIN, *DETAIL) if m.scale != scales.get(m.unit, 1.0)]
    main, detail = present([{}, {"metrics": {"duration": 1.0, "mine": 2, "jobs": [], "model_digest": "ab", "rtt": 0.1}}])
    assert [m.key for m in main] == ["duration", "mine"]
    assert [m.key for m in detail] == ["rtt"]


def _job() -> JobRun:
    plan = NetworkPlan(Racks(1, 2))
    (job,) = deal(plan, [[2]], [0])
    return JobRun(job, TrialSettings(racks=1, workers=2), start=2.0, several=False)


def _step(number: int, rank: int, begun: float, ended: float, tat: float, **more: Any) -> Step:
    whole = {"busy": 0.3, "compute": 0.1, "padding": 0.2, "elements": 500, "rtt": 0.01 * (rank + 1)} | more
    return Step(number=number, rank=rank, begun=begun, ended=ended, tat=tat, **whole)


def test_a_jobs_metrics_are_of_its_workers_records() -> None:
    """Three steps of two workers: sums of 1, 2 and 6 s from the later worker's beginning."""
    job, start = _job(), 1000.0
    for step, (at, tat) in enumerate(((10.0, 1.0), (20.0, 2.0), (30.0, 6.0))):
        evaluated = {"accuracy": 0.5 + 0.1 * step, "test_loss": 2.0 - step, "error": 10.0 ** -(step + 1)}
        job.hear(_step(step, 1, start + at - 3, start + at + tat, tat + 1.0, padding=0.3 - 0.1 * step))
        job.hear(_step(step, 0, start + at - 2, start + at + tat - 0.5, tat - 0.5, **evaluated))
    for rank in (1, 0):
        counters = Counters(retransmissions=3 + rank, queries=5 + rank, sent=100 + rank)
        job.hear(Done(rank, "ab", counters, [(start + 1.0, 1, 2, 3, 4)]))
    job.finish(start)
    assert [(step.number, step.rank) for step in job.steps] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert job.done[0].timeline == [[1.0, 1, 2, 3, 4]]
    found = job.metrics()
    expected = {
        "duration": 36.0 - 2.0, "elements": 500, "tat_median": 2.0, "tat_mean": 3.0, "step_median": 5.0, "retransmissions": 7, "queries": 11,
        "packets_sent": 201, "padding_min": 0.1, "model_digest": "ab", "ate_per_second": 250.0, "final_accuracy": 0.7,
        "final_test_loss": 0.0, "error_median": 0.01, "rtt": 0.015,
    }  # fmt: skip
    for key, value in expected.items():
        assert found[key] == (value if isinstance(value, str) else pytest.approx(value)), key
    job.done[1] = replace(job.done[1], digest="cd")
    assert job.metrics()["model_digest"] == ""


@pytest.mark.parametrize(
    ("losses", "tested", "step"),
    [([1.0, 2.0], 3.0, None), ([1.0, math.nan], 3.0, 2), ([math.inf, math.nan], math.nan, 1), ([1.0, 2.0], math.nan, 2)],
)
def test_a_model_diverged_in_the_first_step_whose_loss_is_no_finite_number(
    losses: list[float], tested: float, step: int | None
) -> None:
    job = _job()
    for number, loss in enumerate(losses):
        for rank in (0, 1):
            job.hear(_step(number, rank, 2.0, 3.0, 1.0, train_loss=loss if rank else 1.0))
    job.steps[-1] = replace(job.steps[-1], accuracy=0.1, test_loss=tested)
    for rank in (0, 1):
        job.hear(Done(rank, "ab", Counters(sent=1), []))
    job.finish(0.0)
    assert job.metrics().get("diverged") == step


def test_a_record_has_no_number_that_json_has_not(tmp_path: Path) -> None:
    entry = trial(final_test_loss=math.nan, rtt=math.inf, diverged=2)
    for record_ in entry["steps"]:
        record_["train_loss"] = math.nan if record_["step"] else 1.0
    run = make_run(tmp_path, [entry])

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    (line,) = (run.folder / "trials.jsonl").read_text().splitlines()
    read = json.loads(line, parse_constant=refuse)
    assert read["metrics"]["final_test_loss"] is read["metrics"]["rtt"] is None
    assert math.isnan(metric("final_test_loss")(read)) and metric("diverged")(read) == 2
    learning_curves(Run(run.folder, run.record, [read]))


def test_models_that_diverged_are_compared_with_no_other(tmp_path: Path) -> None:
    entries = [trial(), trial("0.1 % loss"), trial("1 % loss", diverged=7)]
    run = make_run(tmp_path / "a", entries)
    sentences = " ".join(quickstart.findings(run))
    assert "the same as without faults" in sentences and "under: 0.1 % loss." in sentences
    assert "The model diverged, so that it is compared with no other, under: 1 % loss." in sentences
    wording = compare(run, make_run(tmp_path / "b", [*entries[:2], trial("1 % loss", diverged=7, model_digest="ff")]))
    assert not wording.differences and wording.notes == [
        "1 % loss: the model diverged at seed 1, so that it is compared with no other"
    ]


def test_a_comparison_says_what_it_leaves_out(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", [trial(seed=1), trial(seed=2, final_test_loss=math.nan)])
    wording = compare(a, make_run(tmp_path / "b", [trial(seed=1), trial(seed=2)]))
    assert wording.notes == ["no faults: test loss is left out of 1 trials, where it is no finite number"]


def test_metrics_of_several_jobs_are_put_together() -> None:
    one = {
        "elements": 10,
        "ate_per_second": 5.0,
        "duration": 4.0,
        "padding_min": 0.2,
        "tat_median": 1.0,
        "model_digest": "a",
        "x": 1,
    }
    two = {"elements": 30, "ate_per_second": 7.0, "duration": 3.0, "padding_min": -0.1, "tat_median": 2.0, "model_digest": "b"}
    found = together([one, two])
    assert found == {
        "elements": 40, "ate_per_second": 12.0, "duration": 4.0, "padding_min": -0.1, "tat_median": 1.5, "model_digest": "a+b",
        "jobs": [one, two],
    }  # fmt: skip
    assert together([one]) == one
    assert together([one, two | {"model_digest": ""}])["model_digest"] == ""


def test_who_is_blamed_for_a_job_that_failed() -> None:
    job = _job()
    job.hear(Failure(0, 1, "job 0 cannot be completed: nothing came", incomplete=True))
    job.hear(Failure(0, 0, "job 0 cannot be completed: slot 3 has not seen worker 1", incomplete=True, missing=(1,)))
    assert job.why() == "job 0 cannot be completed: slot 3 has not seen worker 1"
    job.fail(1, "what a worker has said itself stays")
    assert job.why() == "job 0 cannot be completed: slot 3 has not seen worker 1"
    job.hear(Failure(0, 1, "worker 1 was killed"))
    assert job.why() == "worker 1 was killed; job 0 cannot be completed: slot 3 has not seen worker 1"
    job.hear(Failure(0, 0, "worker 0: job 0 cannot be completed: slot 3 has not seen worker 0", incomplete=True, missing=(0,)))
    job.hear(Failure(0, 2, "worker 2: job 0 cannot be completed: slot 4 has not seen worker 1", incomplete=True, missing=(1,)))
    assert job.why() == "worker 1 was killed; worker 2: job 0 cannot be completed: slot 4 has not seen worker 1"
    several = JobRun(job.plan, job.settings, 0.0, several=True)
    assert several.named("worker 1 was killed") == "job 0: worker 1 was killed"
    assert several.named("job 0 is gone") == "job 0 is gone"


def test_points_have_the_same_seeds_and_their_own_settings() -> None:
    points = [Point("a", {"k": 64}, {}), Point("b", {"k": 256}, {"k": 256, "steps": 9})]
    plan = paired(points, SweepSettings(seeds=3, steps=5), 11)
    assert [(t.name, t.seed, t.settings.k, t.settings.steps) for t in plan] == [
        (name, seed, k, steps) for seed in (11, 12, 13) for name, k, steps in (("a", 64, 5), ("b", 256, 9))
    ]
    assert [t.factors for t in plan[:2]] == [{"k": 64}, {"k": 256}]


def _points() -> Run:
    """Two points at three seeds; one trial is not valid, and one failed."""
    entries = [
        (trial(name, seed, tat=tat * seed) | {"factors": {"p": name, "x": x}})
        for name, tat, x in (("a", 1.0, 2), ("b", 4.0, 1))
        for seed in (1, 2, 3)
    ]
    entries[0] = invalid(entries[0], "slow: lower host_rate", "loss was off")
    return Run(Path("nowhere"), record(), [*entries, failed("c", 1, "worker 1 died")])


def test_points_of_a_run() -> None:
    run = _points()
    assert {name: len(found) for name, found in by_name(run).items()} == {"a": 3, "b": 3}
    assert levels(run, "x") == [1, 2] and levels(run, "x", p="a") == [2]
    assert [t["seed"] for t in matching(run, p="b")] == [1, 2, 3] and matching(run, p="d") == [] == matching(run, p="a", x=1)
    tat = lambda t: float(t["metrics"]["tat_median"])  # noqa: E731
    assert ratio(run, tat, {"p": "b"}, {"p": "a"})[:1] == (4.0,)
    assert ratio(run, tat, {"p": "b"}, {"p": "a"}).n == 2
    assert not_valid(run) == [
        "1 of 7 trials are not valid and count nowhere (crosses in the plots): slow: lower host_rate; loss was off.",
        "1 of 7 trials failed, and medians are of the others: c (1).",
    ]


def test_verdicts_and_tables_count_what_is_not_valid_apart() -> None:
    run = _points()
    assert [verdict(t) for t in run.trials] == ["invalid", *["valid"] * 5, "failed"]
    table = trial_table(run)
    assert [row.verdict for row in table.rows] == [verdict(t) for t in run.trials]
    column = [c.heading for c in table.columns].index("valid")
    assert [(row.cells[column].text, row.cells[column].link) for row in table.rows] == [
        ("no", "#why-1"), *[("yes", "")] * 5, ("failed", "#why-7"),
    ]  # fmt: skip
    medians = seed_table(run)
    assert medians is not None
    assert [(row.cells[0].text, row.cells[1].text, row.verdict) for row in medians.rows] == [
        ("a", "2 of 3", ""), ("b", "3 of 3", ""), ("c", "0 of 1", "invalid"),
    ]  # fmt: skip


def test_plots_show_each_trials_numbers(tmp_path: Path) -> None:
    entries = [trial("a", tat=0.1, retransmissions=617), invalid(trial("b", tat=0.3), "a problem")]
    for entry in entries:
        entry["metrics"]["elements"] = 16810
        for r in entry["steps"]:
            r |= {
                "train_loss": 1.0 + r["rank"] + 50 * (r["step"] == 7),
                "compute": 0.03,
                "padding": 0.02 - 0.1 * r["rank"],
                "retransmissions": r["step"],
            } | ({"accuracy": 0.5 + 0.01 * r["step"]} if r["step"] % 10 == 9 and r["rank"] == 0 else {})
    run = Run(tmp_path, record(), entries)
    assert [style(run, t)["linestyle"] for t in entries] == ["-", "--"]
    assert [style(run, t)["label"] for t in entries] == ["a", "b (not valid)"]
    assert style(run, entries[0])["color"] != style(run, entries[1])["color"]
    assert by_step(entries[0], lambda g: float(len(g))).tolist() == [2.0] * 20
    series, spread = aggregation_time(run).axes
    drawn = series.lines[0].get_ydata()
    assert len(drawn) == 20 and min(drawn) == pytest.approx(99.0) and max(drawn) == pytest.approx(101.0)
    assert list(spread.lines[0].get_ydata()) == sorted(drawn)
    assert list(spread.lines[0].get_xdata())[::19] == [5.0, 100.0]  # percent of the steps
    assert set(series.lines[-1].get_ydata()) == {1000 * bounds.of_trial(entries[0])}
    by_steps, by_seconds, accuracy, _ = learning_curves(run).axes
    assert set(by_steps.lines[0].get_ydata()) == {1.5}  # the mean over workers, and a running median over steps
    assert list(by_seconds.lines[0].get_xdata()) == pytest.approx([2.0 * n + 0.1 + 0.001 * (n - 9.5) / 9.5 for n in range(20)])
    assert (list(accuracy.lines[0].get_xdata()), list(accuracy.lines[0].get_ydata())) == ([10, 20], pytest.approx([59, 69]))
    cumulated, shares = retransmissions(run).axes
    assert list(cumulated.lines[0].get_ydata()) == [2.0 * step for step in range(20)]
    assert [patch.get_width() for patch in shares.patches] == [500.0, 0.0]
    bars = [patch.get_height() for patch in step_time(run).axes[0].patches]
    assert bars[:2] == pytest.approx([50.0, 30.0])  # compute and positive padding, by worker
    assert bars[2:] == pytest.approx([1950.0, 1970.0])  # what is left of 2 s


def test_a_runs_folder_keeps_what_was_put_in(tmp_path: Path) -> None:
    described = record()
    run = create_run(tmp_path, "quickstart", described)
    again = create_run(tmp_path, "quickstart", described)  # of the same second
    assert run.folder != again.folder
    assert run.folder.name.endswith("-seed1") and (again.folder.name.endswith("-seed1-2") or again.folder.name.endswith("-seed1"))
    add_trial(run, {"name": "a", "value": [0.1234567890123, {"x": 1 / 3}], "whole": 7, "text": "t"})
    add_trial(run, trial("b"))
    assert run.trials[0] == {"name": "a", "value": [0.123456789, {"x": 0.333333333}], "whole": 7, "text": "t"}
    loaded = load_run(run.folder)
    assert loaded.trials == json.loads(json.dumps(run.trials)) and loaded.record == json.loads(json.dumps(described))
    assert loaded.trial("b") == loaded.trials[1] and loaded.trial("c") is None
    assert loaded.finished == loaded.trials[1:]
    assert Run(tmp_path, {}, [trial("b", 1), trial("b", 2)]).trial("b") == trial("b", 1)
    keep_trials(loaded, loaded.finished)
    assert [t["name"] for t in load_run(run.folder).trials] == ["b"]
    assert not list(run.folder.glob(".*"))
    with pytest.raises(ResultsError, match="cannot be written"):
        write_whole(tmp_path / "no" / "where", "text")


def test_a_run_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    run = make_run(tmp_path, [])
    assert claim(run)
    other = load_run(run.folder)
    assert not claim(other)
    release(run)
    assert claim(other)
    release(other)
    release(other)
