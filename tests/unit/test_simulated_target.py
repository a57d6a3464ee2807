"""Target simulated: into the same records, report and figures as a trial that runs; and the comparison with what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from inalab.experiments import scale_jobs
from inalab.testbed.plan.arrivals import starts
from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.record.runs import Run, load_run
from inalab.testbed.simulator import calibration, costs, validation
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.validation import Compared, Measured, compare, flips, passes, verdicts
from tests.command_line import inalab

DOCS = Path(__file__).parents[2] / "docs" / "reference"
LIKE = TrialSettings().model_dump()


def point(scheme: str, at: float, fitted: bool = False, where: str = "8 workers") -> Measured:
    return Measured(scheme, where, fitted, (1, 2, 3), at, 0.99 * at, 1.01 * at, LIKE)


def test_a_run_is_computed_into_the_same_files(tmp_path: Path) -> None:
    done = inalab("run", "workers", "--quick", "--target", "simulated", "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "workers").iterdir()
    run = load_run(folder)
    assert run.record["target"] == "simulated" and run.record["finished"] and len(run.finished) == 6
    assert "All numbers are simulated" in run.record["findings"][0]
    assert (folder / "workers.png").stat().st_size > 10_000 and "simulated" in (folder / "report.html").read_text()
    groups = run.finished[0]["steps"]
    assert len(groups) == 2 * 4 and {r["busy"] for r in groups} == {0.06}
    for rank in range(2):  # each step begins where the one before has ended
        own = [r for r in groups if r["rank"] == rank]
        assert [after["begun"] for after in own[1:]] == pytest.approx([before["ended"] for before in own[:-1]])
        assert own[0]["begun"] == pytest.approx(0.0, abs=1e-9)


def test_the_same_words_give_the_same_numbers(tmp_path: Path) -> None:
    words = ["run", "scale_loss", "--quick", "--results"]
    for name in "ab":
        assert inalab(*words, str(tmp_path / name)).returncode == 0
    one, other = (load_run(next((tmp_path / name / "scale_loss").iterdir())) for name in "ab")
    assert one.record["target"] == "simulated"  # the experiment's own
    assert [t["metrics"] for t in one.trials] == [t["metrics"] for t in other.trials]


def test_stragglers_are_those_of_the_seed() -> None:
    settings = make_settings(TrialSettings, {"racks": 1, "steps": 5, "straggler": "exponential", "costs": "none"})
    trial = computed_trial(settings, 7)
    model = settings.straggler_model()
    for record in trial["steps"]:
        assert record["busy"] == pytest.approx(0.05 * model.slowdown(7, record["rank"], record["step"]))


def test_jobs_start_when_they_are_to() -> None:
    jobs = json.dumps([{"workers": 2}, {"workers": 2, "start": 3.0}])
    settings = make_settings(TrialSettings, {"jobs": jobs, "steps": 2, "compute_ms": 10.0})
    trial = computed_trial(settings, 1)
    first = [min(r["begun"] for r in trial["steps"] if r["job"] == job) for job in range(2)]
    assert first == pytest.approx([0.0, 3.0])
    assert len(trial["metrics"]["jobs"]) == 2


def test_jobs_arrive_as_the_seed_has_it() -> None:
    assert starts(8, 0.2, 1)[:3] == starts(3, 0.2, 1) and starts(3, 0.2, 1) != starts(3, 0.2, 2)
    gaps = np.diff(starts(4000, 0.2, 7))
    assert gaps.mean() == pytest.approx(0.2, rel=0.05) and gaps.std() == pytest.approx(0.2, rel=0.05)  # as of a Poisson process
    settings = make_settings(scale_jobs.Settings, {"numbers": (3,), "memories": (128,), "seeds": 2})
    planned = scale_jobs.trials(settings, 5)
    assert [(t.seed, t.settings.scheme) for t in planned] == [(5, "atp"), (5, "switchml"), (6, "atp"), (6, "switchml")]
    assert [t.settings.starts() for t in planned] == [starts(3, 0.2, seed) for seed in (5, 5, 6, 6)]


@pytest.mark.parametrize(
    ("words", "wording"),
    [
        (["run", "scale_jobs", "--set", "schemes=ring"], "takes no memory of switches"),
        (["run", "scale_jobs", "--set", "schemes=foo"], "foo is unknown"),
        (["run", "validation", "--set", "schemes=swichml"], "swichml is unknown"),
        (["run", "mlfabric_replica", "--target", "simulated"], "mlfabric.distance is not simulated"),
        (
            ["simulate", "--set", "scheme=ring", "--set", "racks=32", "--set", "workers=32"],
            "1,024 workers of scheme ring send too many",
        ),
        (["run", "loss", "--target", "simulated"], "losses of scheme ring are not simulated"),
        (["run", "rdma", "--target", "simulated", "--set", "roce=kernel"], "switchml-rdma.roce is not simulated"),
        (["run", "scale_workers", "--target", "embedded", "--set", "rack_sizes=32"], "512 workers do not run on one machine"),
        (["run", "workers", "--set", "costs=none"], "costs are of targets virtual and simulated"),
        (
            ["run", "workers", "--target", "simulated", "--set", "costs=x"],
            "costs x are unknown: choose one of none, dpdk, embedded",
        ),
        (["run", "workers", "--target", "simulated", "--capture", "all"], "target simulated has no packets to capture"),
        (["run", "scale_loss", "--set", "sizes=34"], "34 workers do not fill 3 racks alike"),
        (["run", "scale_workers", "--set", "levels=1,2"], "levels has 1: there are networks of 2 and of 3 levels"),
        (["run", "scale_jobs", "--set", "numbers=33"], "numbers has 33: from 1 to 32 jobs can have a worker each in a rack"),
        (["run", "scale_jobs", "--target", "embedded"], "there are 32 jobs: the switches hold 16"),
        (["simulate", "--set", "scheme=atp", "--set", "topology=pods", "--set", "racks=4"], "choose a topology without pods"),
        (["simulate", "--set", "burst=5"], "there is no loss"),
        (["simulate", "--set", "switchml.scaling=3", "--set", "scheme=ring"], "scaling"),
        (["simulate", "--write", "x.md"], "--write is of --validate"),
        (["simulate", "--validate", "--write", "/nowhere/x.md"], "/nowhere/x.md cannot be written"),
        (["launch", "--target", "simulated", "--", "x.py"], "target simulated computes trials"),
        (["simulate", "--set", "racks=40"], "from 1 to 32 are possible"),
        (["simulate", "--calibrate", "results/reference/quickstart"], "is no run of experiment validation"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: list[str], wording: str, tmp_path: Path) -> None:
    where = ["--results", str(tmp_path)] if words[0] == "run" else []
    done = inalab(*words, *where)
    assert done.returncode != 0 and wording in done.stderr and "Traceback" not in done.stderr
    assert words[0] != "run" or not list(tmp_path.iterdir())


def test_one_sum_of_a_thousand_workers(tmp_path: Path) -> None:
    size = ["--set", "racks=32", "--set", "workers=32", "--set", "k=256"]
    done = inalab("simulate", *size, "--set", "costs=none", "--elements", "20000")
    assert done.returncode == 0 and "1,024 in 32 racks" in done.stdout


def test_the_page_of_the_comparison_is_what_the_simulator_says_now() -> None:
    found = compare(calibration.measured(), costs.of("embedded"))
    assert (DOCS / "validation.md").read_text() == calibration.page(found)
    assert calibration.failed() == calibration.failing(found)


def test_costs_are_found_again_that_made_what_is_fitted() -> None:
    """Simulated times with other costs, as if measured: they are fitted to three percent, and so are points that were held out."""
    seconds = {"host": 4e-6, "batch": 4e-4, "switch": 4e-6, "delay": 2e-4, "message": 1.3e-3}
    known = costs.emulated(seconds, "")
    made = []
    for scheme in ("switchml", "ring"):
        for n in (2, 4, 8):
            changes = {"scheme": scheme, "racks": 1, "workers": n, "k": 256, "slots": 8, "workload": "tensor-40000", "steps": 2}
            settings = make_settings(TrialSettings, changes)
            tat = computed_trial(settings, 1, known)["metrics"]["tat_median"]
            made.append(Measured(scheme, f"{n} workers", n < 8, (1,), tat, tat, tat, settings.model_dump()))
    found = compare(made, costs.emulated(calibration.fit([p for p in made if p.fitted]), ""))
    assert all(abs(c.error) < 0.03 for c in found)


def test_the_gate_takes_the_median_of_what_was_held_out() -> None:
    fits = [Compared(point("ring", 1.0, fitted=True), 2.0), *(Compared(point("ring", 1.0), 1 + e) for e in (0.05, -0.09, 0.5))]
    assert validation.held_out(fits, "ring") == pytest.approx([0.05, -0.09, 0.5])
    assert median(map(abs, validation.held_out(fits, "ring"))) < 0.1 and passes(fits, "ring")
    assert not passes([Compared(point("ring", 1.0), 1.2)], "ring") and not passes(fits[:1], "ring")
    assert "ring: passes; median error 9.0 % over 3 held-out points, worst +50.0 %." in verdicts(fits)


def test_a_flip_is_told_where_the_intervals_are_apart() -> None:
    apart = [Compared(point("ring", 1.0), 1.1), Compared(point("switchml", 0.9), 1.2)]
    assert [(a.scheme, b.scheme) for a, b in flips(apart)] == [("switchml", "ring")]
    assert not passes(apart, "ring")
    assert "At 8 workers switchml was faster than ring, and is simulated as slower." in verdicts(apart)
    near = [Compared(point("ring", 1.0), 1.1), Compared(point("switchml", 0.995), 1.2)]
    elsewhere = [Compared(point("ring", 1.0), 1.1), Compared(point("switchml", 0.9, where="4 workers"), 1.2)]
    assert not flips(near) and not flips(elsewhere)


def test_what_was_measured_is_kept_as_it_was() -> None:
    points = calibration.measured()
    assert validation.from_record(json.loads(json.dumps(validation.record(points)))) == points
    assert {p.point for p in points if p.fitted} == {"2 workers", "4 workers"}
    assert len({p.scheme for p in points}) >= 8


def test_times_in_virtual_time_stand_beside_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MEASURED", tmp_path / "measured.json")
    (tmp_path / "measured.json").write_text(
        json.dumps({"lacking": [], "points": validation.record([point("ring", 0.2), point("ps", 0.3)])})
    )
    calibration._record.cache_clear()
    trial = {
        "name": "ring, 8 workers", "valid": True, "seed": 1, "settings": {}, "metrics": {"tat_median": 0.19},
        "factors": {"scheme": "ring", "point": "8 workers", "fitted": False},
    }  # fmt: skip
    calibration.keep_virtual(Run(tmp_path, {"trials": [trial["name"]]}, [trial]))
    ring, ps = calibration.measured()
    assert (ring.median, ring.virtual, ps.virtual) == (0.2, 0.19, None)
    page = calibration.page([Compared(ring, 0.21), Compared(ps, 0.3)])
    calibration._record.cache_clear()
    assert "| ring | 1 | 5.0 % | +5.0 % | passes | 5.0 % | -5.0 % |" in page and "| passes | – | – |" in page
    assert "| 210.0 | +5.0 % | 190.0 | -5.0 % |" in page
