"""What is set and would change nothing is refused, with a sentence that says why."""

from __future__ import annotations

import pytest

from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.effect import refuse_idle, refuse_without_effect
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides


def refuse(name: str, *words: str, quick: bool = False) -> None:
    experiment = registry.load(name)
    refuse_without_effect(experiment, experiment.QUICK if quick else {}, parse_overrides(list(words), experiment.Settings), 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("workers", ("loss=0.01", "loss.burst=4")),
        ("quickstart", ("loss=0.05", "burst=4")),  # a trial "as set"
        ("atp_memory", ("atp.congestion=none",)),
        ("atp_memory", ("uplink_rate=10",)),
        ("workers", ("straggler=bimodal", "straggler.factor=5")),
        ("workers", ("schemes=switchml", "sizes=2")),
        ("workers", ("seeds=2", "k=256", "patience=10")),
        ("atp_memory", ("slots=32",)),
        ("workers", ("burst=1", "straggler.mean=1")),  # as they are anyway
        ("workers", ("topology=leaf-spine", "racks=2", "spines=3")),  # which need each other
    ],
)
def test_what_counts_is_taken(name: str, words: tuple[str, ...]) -> None:
    refuse(name, *words)


@pytest.mark.parametrize(
    ("name", "words", "why"),
    [
        ("workers", ("loss.burst=4",), "burst would change nothing: there is no loss; set loss.rate, too"),
        ("quickstart", ("loss.burst=4",), "burst would change nothing here"),
        ("workers", ("fallback=ring",), "fallback would change nothing: members do not change; set elastic=yes, too"),
        ("workers", ("straggler.mean=2",), "straggler_mean .* none has no mean; leave it out, or set straggler=exponential"),
        (
            "workers",
            ("straggler=slow", "straggler.sigma=1"),
            "straggler_sigma .* straggler slow has no sigma; leave it out, or set",
        ),
        ("workers", ("straggler=foo",), "straggler foo is unknown"),
        ("workers", ("uplink_rate=1",), "uplink_rate would change nothing: one rack has no uplink"),
        ("workers", ("batch=8",), "batch would change nothing: workload tensor-.* has no samples"),
        ("atp_memory", ("aggregators=64",), "aggregators would change nothing here"),
        ("atp_racks", ("servers=2",), "servers would change nothing here"),
        ("recovery", ("atp.recovery=paper",), "atp.recovery is set, and no trial uses atp"),
        (
            "pool_size",
            ("scheme=ring",),
            "slots varies in this experiment, and scheme ring does not have it: choose one of atp, esa, switchml, switchml-machine, switchml-rdma",
        ),
        (
            "recovery",
            ("scheme=gloo",),
            "recovery varies in this experiment, and scheme gloo does not have it: choose one of atp, esa, switchml, switchml-machine",
        ),
        ("atp_loss", ("scheme=atp",), "scheme would change nothing here: the experiment sets it in every trial itself"),
        ("workers", ("workers=3",), "workers would change nothing here"),
        ("loss", ("loss=0.1", "steps=2"), "loss would change nothing here"),
    ],
)
def test_what_does_not_is_refused(name: str, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(SettingsError, match=f"^{why}"):
        refuse(name, *words)


@pytest.mark.parametrize("name", registry.names())
def test_more_steps_count_in_every_experiment(name: str) -> None:
    refuse(name, "steps=7", quick=True)


def test_of_a_single_trial() -> None:
    given = parse_overrides(["loss=0.01", "burst=4", "straggler=pareto", "straggler.shape=3"], TrialSettings)
    refuse_idle(make_settings(TrialSettings, given), given)
    with pytest.raises(
        SettingsError,
        match=r"^straggler_rank would change nothing: straggler none has no rank; leave it out, or set straggler=slow$",
    ):
        refuse_idle(make_settings(TrialSettings, {"straggler_rank": 2}), ["straggler_rank"])
