"""The run that results/ comes with is a run as today's code reads it, of trials as the quickstart has them."""

from __future__ import annotations

from pathlib import Path

from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import load_run, rounded

REFERENCE = Path("results/reference/quickstart")


def test_it_is_what_a_users_first_run_is_compared_with() -> None:
    run, quickstart = load_run(REFERENCE), registry.load("quickstart")
    planned = quickstart.trials(quickstart.Settings(), 1)
    assert [(t["name"], t["factors"], t["seed"]) for t in run.trials] == [(p.name, p.factors, p.seed) for p in planned]
    recorded = [rounded(TrialSettings(**t["settings"]).resolved()) for t in run.trials]
    assert recorded == rounded([p.settings.resolved() for p in planned])
    assert all(t["valid"] for t in run.trials) and run.record["git"]["changed"] is False
    assert len({t["metrics"]["model_digest"] for t in run.trials}) == 1


def test_it_names_no_folder_of_the_machine_that_made_it() -> None:
    texts = [(REFERENCE / name).read_text() for name in ("run.json", "trials.jsonl")]
    assert not [word for text in texts for word in ("/home", "/root", "/tmp", "/work") if word in text]
