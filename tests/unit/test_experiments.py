"""Settings, validity, results and the command line, as far as they need no network."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from inalab.experiments import quickstart
from inalab.switches.loss import Loss, decisions, link_seed
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides
from inalab.testbed.record.runs import ResultsError, add_trial, create_run, load_run
from inalab.testbed.trial.validity import Problem, Reason, judge
from inalab.topologies import isolation
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import TopologyError
from tests.command_line import inalab

GOOD = {
    "padding_min": 0.01, "retransmissions": 0, "packets_sent": 1000, "handled": 2000, "saturated": 0.0, "saturated_by": "", "queue_drops": 0, "loss_achieved": 0.0, "loss_packets": 0, "model_digest": "ab",
}  # fmt: skip

OTHERS = {"idle": 0.01, "stolen": 0.02, "switches": 0.2, "hosts": 0.1, "others": 0.62}
STOLEN = {"idle": 0.01, "stolen": 0.5, "switches": 0.2, "hosts": 0.1, "others": 0.15}
SWITCHES = {"idle": 0.01, "stolen": 0.0, "switches": 0.6, "hosts": 0.25, "others": 0.1}
HOSTS = {"idle": 0.01, "stolen": 0.0, "switches": 0.3, "hosts": 0.55, "others": 0.1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": "many"}, "steps"),
        ({"k": "48"}, "32, 64, 256"),
        ({"workers": "33"}, "from 1 to 32"),
        ({"racks": "0"}, "from 1 to 32"),
        ({"slots": "9999"}, "fit in the switch's pool"),
        ({"workload": "gpt"}, "digits-mlp"),
        ({"scheme": "magic"}, "choose one of async, atp, byteps, byteps-machine, esa, gloo"),
        ({"loss": "1.5"}, "loss"),
        ({"loss": "0.9", "burst": "1.05"}, "not possible"),
        ({"straggler": "lazy"}, "choose one of"),
        (
            {"pipeline": "asynchronous"},
            "scheme switchml keeps no weights, which pipeline asynchronous needs: choose one of async, ",
        ),
        ({"scheme": "async"}, "scheme async trains asynchronously alone: set pipeline=asynchronous"),
        ({"scheme": "ssp", "pipeline": "barrier"}, "scheme ssp trains asynchronously alone: set pipeline=asynchronous"),
        ({"straggler_rank": "8"}, "ranks are 0 to 7"),
        ({"host_rate": "0"}, "host_rate"),
        ({"compute_ms": "inf"}, "compute_ms"),
        ({"patience": "nan"}, "patience"),
        ({"batch": "100000000"}, "batch"),
    ],
)
def test_impossible_settings_are_one_sentence(values: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_settings(TrialSettings, values).check()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_settings_name_those_there_are() -> None:
    with pytest.raises(
        SettingsError, match=r"there is no setting stepz \(did you mean steps\?\): choose one of background, batch, burst"
    ):
        parse_overrides(["stepz=1"], TrialSettings)
    with pytest.raises(SettingsError, match="key=value"):
        parse_overrides(["steps"], TrialSettings)
    with pytest.raises(SettingsError, match="quickstart"):
        registry.load("nosuch")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"padding_min": -0.002}, "raise compute_ms"),
        ({"saturated": 0.5, "saturated_by": "switch root"}, "switch root was saturated for 50 % of the time: lower host_rate"),
        (
            {"saturated": 0.32, "saturated_by": "the processors"},
            "the processors were saturated for 32 % of the time: lower host_rate",
        ),
        (
            {"saturated": 0.11, "saturated_by": "the processors", "saturated_shares": OTHERS},
            "the processors were saturated for 11 % of the time, and other processes took 62 % of the processors in these moments: close them and run again",
        ),
        (
            {"saturated": 0.5, "saturated_by": "the processors", "saturated_shares": STOLEN},
            "withheld 50 % of the processors (steal) in these moments: run again when it is idle",
        ),
        (
            {"saturated": 0.5, "saturated_by": "the processors", "saturated_shares": SWITCHES},
            "of which the trial's own switches took 60 % and its hosts 25 %: lower host_rate",
        ),
        (
            {"saturated": 0.5, "saturated_by": "the processors", "saturated_shares": HOSTS},
            "its hosts 55 %: lower host_rate, or take fewer workers",
        ),
        (
            {"saturated": 0.5, "saturated_by": "switch root", "saturated_shares": OTHERS},
            "switch root was saturated for 50 % of the time: lower host_rate",
        ),
        (
            {"padding_min": -0.002, "cpu_idle": 0.1, "cpu_others": 0.4, "cpu_stolen": 0.1},
            "2.0 ms longer than its virtual time, and other processes took 40 % of the processors: close them",
        ),
        ({"padding_min": -0.002, "cpu_idle": 0.5, "cpu_others": 0.4, "cpu_stolen": 0.1}, "virtual time: raise compute_ms"),
        (
            {"retransmissions": 30, "cpu_idle": 0.1, "cpu_others": 0.2, "cpu_stolen": 0.3},
            "although none was to be lost, and the hypervisor withheld 30 %",
        ),
        (
            {"retransmissions": 30, "cpu_idle": 0.1, "cpu_others": 0.19, "cpu_stolen": 0.1},
            "although none was to be lost: lower host_rate",
        ),
        (
            {"cpu_idle": 0.65, "cpu_stolen": 0.16},
            "the hypervisor withheld 16 % of the processors (steal): run again when it is idle",
        ),
        ({"retransmissions": 11}, "11 of 1000 packets were retransmitted although none was to be lost"),
        ({"queue_drops": 3}, "3 packets were dropped"),
        ({"pauses": 2}, "paused a switch: run again"),
        ({"loss_achieved": 0.02, "loss_packets": 100_000}, "loss was 2.000 %"),
        ({"model_digest": ""}, "different models"),
        ({"diverged": 3}, "the model diverged: in step 3 its loss is no finite number; lower learning_rate"),
    ],
)
def test_what_makes_a_trial_invalid(change: dict[str, Any], message: str) -> None:
    problems = judge({**GOOD, **change}, TrialSettings())
    assert len(problems) == 1
    assert message in problems[0].text


@pytest.mark.parametrize(("largest", "valid"), [(4, True), (5, False)])
def test_an_update_that_is_later_than_its_bound_makes_a_trial_invalid(largest: int, valid: bool) -> None:
    settings = TrialSettings(scheme="mlfabric", pipeline="asynchronous", **{"mlfabric.delay": 4})
    problems = judge({**GOOD, "delay_max": largest}, settings)
    late = Problem(Reason.BOUND, "an update was applied 5 updates late, where mlfabric allows 4")
    assert problems == ([] if valid else [late])


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ({"distance_max": 0.5}, ""),
        ({"distance_max": 0.51}, "the replica lacked updates with norms of 0.51, where mlfabric allows 0.5"),
        ({"single_from": 2.0}, "from 2.00 s on the server had no replica"),
        ({"single_from": 2.0, "faults": [{"what": "die", "whom": "s0", "begun": 1.9}]}, ""),
        ({"single_from": 2.0, "faults": [{"what": "die", "whom": "s0", "begun": 2.1}]}, "from 2.00 s on the server had no replica"),
    ],
)
def test_a_replica_beyond_its_bound_or_lost_makes_a_trial_invalid(measured: dict[str, Any], problem: str) -> None:
    settings = TrialSettings(scheme="mlfabric", pipeline="asynchronous", **{"mlfabric.distance": 0.5})
    assert judge({**GOOD, **measured}, settings) == [Problem(Reason.BOUND, problem)] * bool(problem)


def test_a_good_trial_is_valid() -> None:
    assert judge(GOOD, TrialSettings()) == []
    assert judge({**GOOD, "cpu_idle": 0.6, "cpu_stolen": 0.1}, TrialSettings()) == []
    at_the_limit = {"saturated": 0.1, "saturated_by": "the processors", "saturated_shares": HOSTS, "retransmissions": 10}
    assert judge({**GOOD, **at_the_limit, "padding_min": 0.0}, TrialSettings()) == []
    assert judge({**GOOD, "cpu_idle": 0.0, "cpu_others": 0.9, "cpu_stolen": 0.0}, TrialSettings()) == []  # it was in nobody's way
    assert judge({**GOOD, "queue_drops": 3}, TrialSettings(queue=8)) == []  # asked for
    achieved = {**GOOD, "loss_achieved": 0.0104, "loss_packets": 50_000}
    assert judge(achieved, TrialSettings(loss=0.01)) == []


@pytest.mark.parametrize("model", [Loss.bernoulli(0.01), Loss.gilbert_elliott(0.01, 8), Loss.gilbert_elliott(0.2, 3)])
def test_loss_has_its_mean_and_its_bursts(model: Loss) -> None:
    lost = decisions(model, link_seed(1, 2, 0), 300_000)
    assert sum(lost) / len(lost) == pytest.approx(model.mean, rel=0.12)
    bursts = sum(1 for a, b in zip([False, *lost], lost, strict=False) if b and not a)
    expected = 1 / model.leave if model.enter else 1 / (1 - model.mean)
    assert sum(lost) / bursts == pytest.approx(expected, rel=0.12)


def test_loss_differs_between_links_directions_and_seeds() -> None:
    seeds = {link_seed(s, link, d) for s in range(5) for link in range(20) for d in (0, 1)}
    assert len(seeds) == 200
    a = decisions(Loss.bernoulli(0.1), link_seed(1, 0, 0), 2000)
    b = decisions(Loss.bernoulli(0.1), link_seed(1, 0, 1), 2000)
    both = sum(x and y for x, y in zip(a, b, strict=True))
    assert both / 2000 == pytest.approx(0.01, abs=0.008)  # independent: 0.1 × 0.1


def test_plan_of_two_racks() -> None:
    plan = NetworkPlan(Racks(2, 3))
    assert sorted(plan.switches) == ["root", "tor0", "tor1"]
    assert len({h.station.ip for h in plan.hosts} | {s.station.ip for s in plan.switches.values()}) == 9
    assert len({h.station.mac for h in plan.hosts}) == 6
    assert [(link.lower, link.upper) for link in plan.links][-2:] == [("tor0", "root"), ("tor1", "root")]


def test_impossible_topologies() -> None:
    with pytest.raises(TopologyError, match="33 racks"):
        Racks(33, 1)
    with pytest.raises(TopologyError, match="uplink_rate"):
        Racks(2, 2, 10, -1)


def test_results_survive_an_interruption(tmp_path: Path) -> None:
    run = create_run(tmp_path, "quickstart", {"seed": 1, "experiment": "quickstart", "target": "embedded", "set": [], "trials": []})
    add_trial(run, {"name": "one", "value": 1 / 3})
    with open(run.folder / "trials.jsonl", "a") as out:
        out.write('{"name": "tw')  # killed while writing
    again = load_run(run.folder)
    assert again.trials == [{"name": "one", "value": round(1 / 3, 9)}]
    with pytest.raises(ResultsError, match="not the folder of a run"):
        load_run(tmp_path)


def test_results_folder_that_cannot_be_written() -> None:
    with pytest.raises(ResultsError, match="cannot be written"):
        create_run(Path("/proc/nowhere"), "quickstart", {"seed": 1})


def test_quickstart_has_its_faults() -> None:
    trials = quickstart.trials(quickstart.Settings(), 7)
    assert [t.settings.loss for t in trials] == [0, 0.001, 0.01, 0.01, 0]
    assert trials[3].settings.burst > 1
    assert trials[4].settings.straggler == "slow"
    assert {t.seed for t in trials} == {7}
    for trial in quickstart.trials(quickstart.Settings(racks=1, workers=2), 7):
        trial.settings.check()


def test_faults_that_are_set_by_hand_are_a_trial_of_their_own() -> None:
    trials = quickstart.trials(quickstart.Settings(loss=0.05, burst=4, straggler="pareto"), 7)
    assert [t.name for t in trials][0::5] == ["no faults", "as set"]
    assert [t.settings.loss for t in trials] == [0, 0.001, 0.01, 0.01, 0, 0.05]
    assert [t.settings.straggler for t in trials] == ["none"] * 4 + ["slow", "pareto"]
    assert [t.settings.burst for t in trials] == [1, 1, 1, 8, 1, 4]


def test_list_and_errors_on_the_command_line(tmp_path: Path) -> None:
    done = inalab("list")
    assert done.returncode == 0
    assert "quickstart" in done.stdout
    for words, message in (
        (["run", "nosuch"], "there is no experiment nosuch"),
        (["run", "quickstart", "--set", "k=5"], "k is 5"),
        (["run", "quickstart", "--set", "scheme=halving-doubling", "--set", "workers=3"], "a power of two of workers, not 6"),
        (["run", "quickstart", "--target", "tofino"], "target tofino is unknown"),
        (["report", str(tmp_path)], "is not the folder of a run"),
        (["run", "quickstart", "--seed", "-1"], "--seed"),
        (["run", "quickstart", "--set", "workers=-1"], "setting workers is '-1'"),
        (["run", "quickstart", "--on", "bogus"], "bogus is no address of a Dask scheduler"),
        (["run", "quickstart", "--on", "10.0.0.1:8786", "--keys", "/none"], "/none/cert.pem is missing: make keys with"),
        (["campaign", "worker", "nonsense://x"], "nonsense://x is no address of a Dask scheduler"),
        (["export-p4app", "rack", "--out", "/dev/null/x"], "/dev/null/x/commands: Not a directory"),
        (["rnu"], "rnu"),
    ):
        done = inalab(*words, env={"COLUMNS": "200"})
        assert done.returncode != 0
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_without_bmv2_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """On a search path that has no simple_switch; doctor says the same, and that the embedded target can run without."""
    bare = {"PATH": str(tmp_path), "PYTHONPATH": "", "COLUMNS": "200"}
    done = inalab("run", "quickstart", "--target", "bmv2", env=bare)
    assert done.returncode == 1
    # its Python modules may be installed all the same: they are looked for where the distribution keeps its own
    assert re.match(r"inalab: target bmv2 cannot run here: simple_switch, p4c(, [\w-]+)* cannot be found; ", done.stderr)
    assert "p4lang-bmv2" in done.stderr
    assert "or use --target embedded" in done.stderr
    assert done.stderr.count("\n") == 1
    wording = inalab(
        "doctor",
        env={**bare, "PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"}
        if not shutil.which("simple_switch", path="/usr/bin")
        else bare,
    )
    assert "simple_switch missing: p4lang's package p4lang-bmv2" in wording.stdout
    assert "target bmv2 cannot run: " in wording.stdout


def test_where_no_namespaces_can_be_made_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(isolation, "possible", lambda *work: False)
    done = inalab("run", "workers", "--results", str(tmp_path))
    assert done.returncode != 0
    whose = "cannot be made here" if os.geteuid() == 0 else "does not let an ordinary user make network namespaces: run inalab with"
    assert done.stderr.startswith("inalab: ") and whose in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
    there = inalab("run", "quickstart", "--set", "steps=1", "--set", "workers=1", "--results", str(tmp_path))
    assert there.returncode == 0 and "the trials run in virtual time (--target virtual)" in there.stdout
    wording = inalab("doctor", env={"COLUMNS": "200"})
    assert wording.returncode == 1 and "target embedded cannot run: namespaces, HTB missing" in wording.stdout
    assert "target virtual can run" in wording.stdout


def test_recorded_run_is_json(tmp_path: Path) -> None:
    run = create_run(tmp_path, "quickstart", {"seed": 2})
    assert json.loads((run.folder / "run.json").read_text()) == {"seed": 2}
