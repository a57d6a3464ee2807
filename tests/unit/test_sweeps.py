"""Sweeps, their bounds and their plots: what is planned, what is drawn, what an interruption leaves."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

from inalab.experiments.quickstart import Settings as QuickstartSettings
from inalab.experiments.workers import Settings as WorkersSettings
from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.schemes.of_machines import OfMachines
from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend
from inalab.testbed.command import display, runner
from inalab.testbed.command.interruption import INTERRUPTED
from inalab.testbed.draw.curves import curve, estimate, look_of, ratio, values, words
from inalab.testbed.draw.plots import SMALLEST, WIDTH, new_figure, saved, styled
from inalab.testbed.measures import metric
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides
from inalab.testbed.plan.sweep import Point, SweepSettings, paired
from inalab.testbed.record import steps
from inalab.testbed.record.runs import Run, add_trial, load_run
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.theory import bounds
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation
from tests.runs import invalid, measured, record, trial

FEWEST = {"validation": 3}  # seeds; it is about many points, and repeats what depends on no seed
MOST = {"validation": 350}  # trials
DRAWN = ("scale_jobs",)  # whose jobs arrive as the seed has it
FIGURES = tuple(name for name in registry.names() if name != "quickstart")


def test_all_figures_are_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "figures.md").read_text()
    assert not [name for name in FIGURES if f"| `{name}` |" not in page]


def _kind(planned: Trial) -> object:
    """Trials of one kind can run or cannot: those of the same settings, and those of a scheme with so many workers that it takes long."""
    s = planned.settings
    return (s.scheme, s.racks * s.workers) if s.racks * s.workers > 64 else id(s)


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_plans_trials_that_can_run_at_five_paired_seeds(name: str, quick: bool) -> None:
    chosen = registry.load(name)
    settings = make_settings(chosen.Settings, chosen.QUICK if quick else {})
    plan = chosen.trials(settings, seed=7)
    for planned in {_kind(planned): planned for planned in plan}.values():
        planned.settings.check()
    seeds, runs_here = {planned.seed for planned in plan}, registry.target_of(chosen) == "embedded"
    assert seeds == set(range(7, 7 + settings.seeds)) and (quick or settings.seeds >= FEWEST.get(name, 5 if runs_here else 1))
    by_seed = [[(p.name, None if name in DRAWN else p.settings) for p in plan if p.seed == s] for s in sorted(seeds)]
    assert all(points == by_seed[0] for points in by_seed)
    assert len({name for name, _ in by_seed[0]}) == len(by_seed[0])
    assert len(plan) < (20 if quick else MOST.get(name, 200 if runs_here else 600))


def test_lists_are_set_with_commas() -> None:
    settings = make_settings(WorkersSettings, parse_overrides(["sizes=2, 5", "schemes=ring,ps"], WorkersSettings))
    assert settings.sizes == (2, 5) and settings.schemes == ("ring", "ps")
    with pytest.raises(SettingsError, match=r"setting sizes.1 is 'x'"):
        make_settings(WorkersSettings, {"sizes": "2,x"})


def test_bounds_are_the_closed_forms_with_headers() -> None:
    one = TrialSettings(racks=1, workers=8, k=256, slots=32, host_rate=10.0)
    chunks = 1000
    assert bounds.seconds(one, 256 * chunks) == pytest.approx((chunks * (1024 + 82) + 32 * 86) * 8 / 10e6)
    ring = one.model_copy(update={"scheme": "ring"})
    assert bounds.seconds(ring, 256 * chunks) == pytest.approx(1538 / 1448 * 2 * 7 / 8 * 1024 * chunks * 8 / 10e6)
    assert bounds.seconds(one.model_copy(update={"scheme": "gloo"}), 256 * chunks) == bounds.seconds(ring, 256 * chunks)
    narrow = one.model_copy(update={"racks": 2, "workers": 4, "uplink_rate": 5.0})
    assert bounds.seconds(narrow, 256 * chunks) == pytest.approx(2 * bounds.seconds(one, 256 * chunks))
    fixed = one.changed(scaling=1e6)  # no exponents go ahead
    assert bounds.seconds(fixed, 256 * chunks) == pytest.approx(chunks * (1024 + 82) * 8 / 10e6)
    assert bounds.framing(fixed, 256 * chunks) == pytest.approx((1024 + 58) / 1024)
    assert bounds.framing(ring, 256 * chunks) == pytest.approx(1514 / 1448)


def test_where_a_step_goes() -> None:
    early = {"step": 0, "begun": 0.0, "ended": 0.8, "tat": 0.6, "compute": 0.1, "padding": 0.1}
    late = {"step": 0, "begun": 0.1, "ended": 1.0, "tat": 0.5, "compute": 0.4, "padding": -0.05}
    assert steps.aggregation_time([early, late]) == pytest.approx(0.5)  # from 0.5, when the last one comes, to 1.0
    assert steps.duration([early, late]) == pytest.approx(1.0)
    found = steps.shares([[early, late]])
    assert found == pytest.approx({"compute_mean": 0.3, "waiting_mean": 0.15, "communication_mean": 0.4})
    both = steps.shares([[early, late], [late]])
    assert both == pytest.approx({"compute_mean": 0.35, "waiting_mean": 0.075, "communication_mean": 0.45})
    after = [early | {"step": 1, "begun": 1.2, "ended": 2.5}, late | {"step": 1, "begun": 1.1, "ended": 2.0}]
    assert steps.periods([early, late, *after]) == pytest.approx([1.1, 1.4])
    assert steps.exposed([early, after[0]]) == pytest.approx([1.2 - 0.2, 1.3 - 0.2])
    jobs = [early, {**late, "job": 1}, {**late, "job": 0}]
    assert steps.by_job(jobs) == [[jobs[0], jobs[2]], [jobs[1]]]
    assert steps.groups([{**late, "step": 3}, early, late]) == [[early, late], [{**late, "step": 3}]]


def _measured(planned: Trial, number: int, case: str) -> dict[str, Any]:
    """What a planned trial might have measured, or how it failed."""
    entry = trial(planned.name, planned.seed, tat=0.1 + 0.01 * number)
    entry |= {"factors": planned.factors, "settings": planned.settings.model_dump()}
    entry["metrics"] |= {
        "elements": 20_000, "tat_mean": 0.11, "compute_mean": 0.05, "waiting_mean": 0.01, "communication_mean": 0.1, "rtt": 0.003,
        "error_median": 1e-8, "loss_packets": 1000,
        "faults": [{"what": what, "whom": whom, "begun": 0.25, "ended": 0.3} for what, whom in (("down", "h0"), ("die", "s0"))],
        "queue_drops": 0, "jobs": [{"elements": 20_000, "tat_mean": 0.1}] * len(planned.settings.each()),
        "server_bytes": [{"up": 400_000, "down": 400_000}] * 2, "worker_bytes": [{"up": 90_000, "down": 80_000}] * 2, "distance_max": 0.4,
        "uplink_bytes": [{"up": 400_000, "down": 400_000}] * planned.settings.racks if planned.settings.racks > 1 else [],
    }  # fmt: skip
    noted: list[list[float]] = [[0.01 * i, 1, 0, 1, 4] for i in range(150)]
    if isinstance(scheme := planned.settings.of_scheme(), OfMachines):
        schedule = scheme.on(planned.settings.plan(), planned.settings.scheme_settings())
        noted = [[0.01 * i, 1, i, 0.01] for i in range(len(schedule))]
    entry["workers"] = [{"timeline": noted}] * 16
    update = {"computed_on": 1, "applied_at": 2, "norm": 0.5, "octets": 80_000, "requested": 0.1, "sent": 0.2, "applied": 0.3}
    measured: dict[str, Any] = {"version": 3, "delay": 1, "update": update | {"way": "server 0"}}
    measured = measured if planned.settings.pipeline == ASYNCHRONOUS else {}
    entry["steps"] = [{**record, "accuracy": 0.5 + 0.02 * record["step"]} | measured for record in entry["steps"]]
    if case == "none valid" or (case == "some not" and number % 3 == 1):
        return invalid(entry, "the processors were saturated")
    if case == "all failed" or (case == "some not" and number % 3 == 0):
        del entry["metrics"], entry["steps"], entry["workers"]
        return entry | {"valid": False, "failed": True, "problems": ["worker 1: job 0 cannot be completed: nothing came"]}
    return entry


@pytest.mark.parametrize("case", ["whole", "some not", "none valid", "all failed", "interrupted"])
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_be_drawn_of_whatever_there_is(name: str, case: str, tmp_path: Path) -> None:
    chosen = registry.load(name)
    settings = make_settings(chosen.Settings, chosen.QUICK | {"seeds": 3})
    plan = chosen.trials(settings, 1)
    if case == "interrupted":  # in the middle of the first seed: some points have no trial
        plan = plan[: max(len(plan) // 6, 1)]
    run = Run(tmp_path, record(experiment=name, settings=settings.model_dump(mode="json")))
    run.trials = [_measured(planned, number, case) for number, planned in enumerate(plan)]
    if run.finished:
        with styled():
            drawn = list(chosen.figures(run))
        for file, caption, figure in drawn:
            if case != "some not":  # which differs from the whole in its numbers alone
                figure.savefig(tmp_path / f"{file}.png", dpi=30)
            assert len(caption) > 50
            assert figure.get_figwidth() <= WIDTH  # of a page's text, so that sizes of fonts are those in print
            assert not [text for text in figure.findobj(Text) if text.get_text() and text.get_fontsize() < SMALLEST]
            if case == "whole":
                saved(file, figure, "png")  # which lays it out
                assert_legible(figure)
    sentences = " ".join(chosen.findings(run))
    assert ("are not valid and count nowhere" in sentences) is (case in ("some not", "none valid"))
    assert ("trials failed" in sentences) is (case in ("some not", "all failed"))
    assert "nan" not in sentences.replace("tenant", "")


def _run(tmp_path: Path, **tats: list[float | None]) -> Run:
    """A run with a trial for each name and seed; None: it is not valid."""
    entries = []
    for name, times in tats.items():
        for seed, tat in enumerate(times):
            entry = trial(name, seed, tat=tat or 99.0)
            entry["factors"] = {"scheme": name, "x": len(times)}
            entries.append(invalid(entry, "a problem") if tat is None else entry)
    return Run(tmp_path, record(), entries)


def test_what_is_not_valid_counts_nowhere_and_is_drawn_as_a_cross(tmp_path: Path) -> None:
    run = _run(tmp_path, a=[1.0, None, 3.0], b=[2.0, 5.0, 9.0])
    tat = metric("tat_median")
    assert values(run, tat, scheme="a") == [1.0, 3.0]
    assert estimate(run, tat, scheme="a").median == 2.0
    assert ratio(run, tat, {"scheme": "b"}, {"scheme": "a"}).median == 2.5  # of seeds 0 and 2: 2 and 3
    _, (ax,) = new_figure()

    curve(ax, run, "x", tat, look_of("ring"), scheme="a")
    crosses = [line.get_ydata() for line in ax.lines if line.get_marker() == "x"]
    assert [list(c) for c in crosses] == [[99.0]]
    points, medians = (
        [list(line.get_ydata()) for line in ax.lines if line.get_marker() == m] for m in (".", look_of("ring").marker)
    )
    assert points == [[1.0, 3.0]] and medians == [[2.0]]


def assert_legible(figure: Figure) -> None:
    """Titles and the names of axes are within the figure, and titles beside each other do not meet."""
    figure.canvas.draw()
    shown = [text for ax in figure.axes for text in (ax.title, ax.xaxis.label, ax.yaxis.label) if text.get_text()]
    boxes = {text: text.get_window_extent() for text in shown}
    whole = figure.bbox.padded(2.0)
    for text, box in boxes.items():
        inside = whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
        assert inside, f"{text.get_text()!r} is cut"
    titles = [boxes[ax.title] for ax in figure.axes if ax.title in boxes]
    assert not [(a, b) for a, b in combinations(titles, 2) if a.overlaps(b)], "titles meet"


def test_intervals_in_words() -> None:
    assert words(median_interval([])) == "? (no valid trial)"
    assert words(median_interval([1.5])) == "1.50 (n = 1)"
    assert words(median_interval([1.0] * 5)) == "1.00 (n = 5, all alike)"


class _Experiment:
    """Two points of a sweep."""

    Settings = SweepSettings

    @staticmethod
    def trials(settings: Any, seed: int) -> Any:
        return paired([Point("good", {"p": 1}, {}), Point("bad", {"p": 2}, {"steps": 3})], settings, seed)

    @staticmethod
    def figures(run: Run) -> Any:
        return []

    @staticmethod
    def findings(run: Run) -> list[str]:
        return []


@pytest.fixture
def ran() -> list[tuple[int, int]]:
    """Trials that ran, as (steps, seed); no network is made."""

    return []


def _sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]], failing: Any, resume: bool = False) -> int:
    class Made(Backend):
        def start(self, settings: TrialSettings, seed: int, capture: Any = None) -> Apart:
            ran.append((settings.steps, seed))
            if error := failing(settings.steps, seed):
                raise error
            return Apart(isolation.fork, lambda sender: measured(seed))

    monkeypatch.setattr(backends, "find", lambda name: Made())
    request = runner.Request("quickstart", "embedded", 1, [], resume=resume)
    experiment: Any = _Experiment()
    return runner.run_experiment(request, experiment, SweepSettings(seeds=2), tmp_path, Console(quiet=True))[0]


@pytest.mark.parametrize("failing", [False, True])
def test_trials_side_by_side_are_kept_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool) -> None:
    """The first one ends last."""

    class Made(Backend):
        side_by_side = True

        def start(self, settings: TrialSettings, seed: int, capture: Capture | None = None) -> Apart:
            def work(sender: Any) -> dict[str, Any]:
                if (settings.steps, seed) == (80, 1):
                    time.sleep(1.0)
                    if failing:
                        raise TrialError("no")
                return measured(seed)

            return Apart(isolation.fork, work)

    monkeypatch.setattr(backends, "find", lambda name: Made())
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    experiment: Any = _Experiment()
    request = runner.Request("quickstart", "embedded", 1, [])
    code, run = runner.run_experiment(request, experiment, SweepSettings(seeds=2), tmp_path, Console(quiet=True))
    assert code == failing
    assert [(t["name"], t["seed"]) for t in load_run(run.folder).trials] == [("good", 1), ("bad", 1), ("good", 2), ("bad", 2)]


def test_a_sweep_goes_on_after_a_failed_trial_and_resumes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    assert _sweep(tmp_path, monkeypatch, ran, lambda steps, seed: TrialError("no") if (steps, seed) == (3, 1) else None) == 1
    assert ran == [(80, 1), (3, 1), (80, 2), (3, 2)]
    ran.clear()
    assert _sweep(tmp_path, monkeypatch, ran, lambda *_: None, resume=True) == 0
    assert ran == [(3, 1)]
    (folder,) = (tmp_path / "quickstart").iterdir()
    again = load_run(folder)
    assert sorted((t["name"], t["seed"]) for t in again.finished) == [("bad", 1), ("bad", 2), ("good", 1), ("good", 2)]
    assert len(again.trials) == 4 and again.record["finished"] is True and again.record["failed"] == []


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    stop = lambda steps, seed: KeyboardInterrupt() if (steps, seed) == (80, 2) else None  # noqa: E731
    assert _sweep(tmp_path, monkeypatch, ran, stop) == INTERRUPTED
    (folder,) = (tmp_path / "quickstart").iterdir()
    assert json.loads((folder / "run.json").read_text())["finished"] is False
    ran.clear()
    assert _sweep(tmp_path, monkeypatch, ran, lambda *_: None, resume=True) == 0
    assert ran == [(80, 2), (3, 2)]
    ran.clear()
    assert _sweep(tmp_path, monkeypatch, ran, lambda *_: None, resume=True) == 0
    assert ran == [] and len(list((tmp_path / "quickstart").iterdir())) == 1
    assert _sweep(tmp_path, monkeypatch, ran, lambda *_: None) == 0  # without --resume: a new run
    assert len(ran) == 4 and len(list((tmp_path / "quickstart").iterdir())) == 2


def test_a_result_that_is_being_written_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    def interrupted(run: Run, entry: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        add_trial(run, entry)

    monkeypatch.setattr(runner, "add_trial", interrupted)
    assert _sweep(tmp_path, monkeypatch, ran, lambda *_: None) == INTERRUPTED
    (folder,) = (tmp_path / "quickstart").iterdir()
    assert ran == [(80, 1)] and len(load_run(folder).finished) == 1


@pytest.mark.parametrize(
    ("name", "word", "wording"),
    [
        ("workers", "sizes=1,2", "sizes is 1,2: an all-reduce is between two workers or more"),
        ("timeline", "workers=1", "workers is 1: the timeline shows a worker"),
        ("racks", "shapes=1,3", "shapes has 3: 8 workers cannot be spread evenly"),
        ("stragglers", "pipeline=barrier", "pipeline barrier overlaps compute and communication"),
        ("stragglers", "factors=0.5", "factors has 0.5: a slow worker takes at least once as long"),
        ("scaling", "powers=40", "setting scaling is"),
        ("loss", "rates=1", "setting loss is 1.0"),
    ],
)
def test_points_that_cannot_be_are_one_sentence(name: str, word: str, wording: str) -> None:
    chosen = registry.load(name)
    with pytest.raises(SettingsError, match=wording):
        chosen.trials(make_settings(chosen.Settings, parse_overrides([word], chosen.Settings)), 1)


def test_a_run_that_is_still_going_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    _sweep(tmp_path, monkeypatch, ran, lambda *_: None)
    (folder,) = (tmp_path / "quickstart").iterdir()
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    ran.clear()
    _sweep(tmp_path, monkeypatch, ran, lambda *_: None, resume=True)
    assert len(ran) == 4 and len(list((tmp_path / "quickstart").iterdir())) == 2
    os.close(other)


def test_an_outage_and_loss_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="loss and faults of links cannot be set together"):
        QuickstartSettings(loss=0.1, faults="down h0 at 1").check()


def test_progress_tells_how_long_a_run_still_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [100.0], io.StringIO()
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    shown_run = display.Display(Console(file=out, width=200), trials=10, to_run=6)
    entry = Trial("a", {}, TrialSettings(), 1)
    for number in (1, 2, 3):
        shown = shown_run.begin(number, entry)
        now[0] += 20.0
        shown.end("20.0 s")
    begun = [line.partition(": step 0/")[0] for line in out.getvalue().splitlines() if "step 0/" in line]
    assert begun == [f"trial {n}/10 a (seed 1){left}" for n, left in ((1, ""), (2, ", about 2 min left"), (3, ", about 80 s left"))]
