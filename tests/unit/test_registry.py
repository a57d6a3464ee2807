"""What the registry knows, and how it refuses a file that is no scheme, or an experiment's file that is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.hosts.collective import Membership
from inalab.hosts.place import Place
from inalab.schemes import registry
from inalab.schemes.registry import SchemeError
from inalab.testbed.plan import experiment
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, refuse_others, with_scheme
from inalab.testbed.record.runs import ROOT
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks

WHOLE = """
from inalab.schemes.scheme import Look, Scheme, SchemeSettings

class Settings(SchemeSettings):
    depth: int = 2

class Mine(Scheme):
    name = "mine"
    look = Look("mine", "#000000")
    Settings = Settings
    def join(self, place, epoch, pulse=None): ...
    def bound(self, plan, settings, elements): return elements * settings.depth / plan.topology.host_rate
    def framing(self, settings, elements): return 1.0
    def uplink_tensors(self, racks, settings, elements): return 1.0

SCHEME = Mine()
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test has added is not known to the next one."""
    before = dict(registry._known())
    yield
    registry._known().clear()
    registry._known().update(before)


def file(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_every_scheme_has_what_experiments_need() -> None:
    for name in registry.names():
        scheme = registry.find(name)
        settings = scheme.Settings()
        plan = NetworkPlan(Racks(2, 2, servers=scheme.servers(settings)))
        assert scheme.name == name and scheme.look.label
        assert scheme.bound(plan, settings, 10_000) > 10_000 * 32 / 10e6
        assert scheme.framing(settings, 10_000) > 1
        assert scheme.uplink_tensors(plan, settings, 10_000) >= scheme.framing(settings, 10_000)
        place = Place(scheme, settings, Membership(0, 1, 2, [[0, 1]]), ["10.0.0.1", "10.0.0.2"], [], ["10.0.0.254"], [], [])
        assert Place.loads(place.dumps()) == place


def test_no_two_schemes_look_alike() -> None:
    looks = [registry.find(name).look for name in registry.names()]
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(looks)


def test_a_scheme_of_a_file_has_settings_of_its_own(tmp_path: Path) -> None:
    scheme = registry.add(file(tmp_path, WHOLE))
    settings: TrialSettings = make_settings(TrialSettings, {"scheme": "mine", "mine.depth": "5", "host_rate": "20"})
    settings.check()
    assert settings.scheme_settings().depth == 5
    assert settings.resolved()["mine.depth"] == 5
    place = Place(scheme, settings.scheme_settings(), Membership(0, 0, 1, [[0]]), ["10.0.0.1"], [], [], [], [])
    assert Place.loads(place.dumps()).settings.depth == 5
    assert list(registry.added()) == [str((tmp_path / "mine.py").resolve())]
    assert registry.add(scheme.source) is scheme
    with pytest.raises(SettingsError, match="depth"):
        make_settings(TrialSettings, {"depth": "deep"})


SCHEDULED = """
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled

class Mine(Scheduled):
    name, look = "mine", Look("mine", "black", "o")

SCHEME = Mine()
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not define SCHEME"),
        ("SCHEME = 3", "is a int: make it an instance of a subclass of inalab.schemes.scheme.Scheme"),
        ("from inalab.schemes.scheme import Scheme\nSCHEME = Scheme()", "lacks name and look"),
        (WHOLE.replace("    def bound", "    def bounds"), "scheme mine of .* lacks bound()"),
        (SCHEDULED, r"scheme mine of .* lacks schedule()"),
        (WHOLE.replace('"mine"', '"ring"', 1), "there is a scheme ring already"),
        ("import nosuch", ", line 1, cannot be imported: ModuleNotFoundError"),
        ("import numpy.nosuch", ", line 1, cannot be imported: ModuleNotFoundError: No module named 'numpy.nosuch'$"),
        ("from inalab.hosts.nosuch import X", ", line 1, cannot be imported: ModuleNotFoundError: No module named"),
        ("def (", ", line 1, cannot be imported: SyntaxError"),
    ],
)
def test_a_file_that_is_no_scheme_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SchemeError, match=sentence.replace("()", r"\(\)")) as caught:
        registry.add(file(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_of_before_the_package_had_its_name_is_told_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT])
    with pytest.raises(SchemeError, match=r"ModuleNotFoundError: No module named 'schemes'; it is inalab\.schemes$"):
        registry.add(file(tmp_path, "from schemes.scheme import Scheme", "earlier.py"))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(SchemeError, match=r"^there is no file \./nosuch\.py$"):
        registry.add("./nosuch.py")
    with pytest.raises(SettingsError, match=r"^there is no file \./nosuch\.py$"):
        experiment.load("./nosuch.py")


def test_a_file_that_is_no_experiment_is_told_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is no experiment: it does not define QUICK, findings$"):
        experiment.load(file(tmp_path, "Settings = trials = figures = None", "half.py"))


def test_what_nobody_has_is_refused_where_it_is_set() -> None:
    settings = TrialSettings(aggregators=64, scaling=1e6)  # type: ignore[call-arg] # settings of schemes
    refuse_others(settings, {"ring", "atp"})
    with pytest.raises(SettingsError, match=r"^aggregators is of atp and esa: ring and switchml have no such setting$"):
        refuse_others(settings, {"switchml", "ring"})
    with pytest.raises(SettingsError, match=r"^aggregators is 5000: a switch has from 1 to 4096$"):
        make_settings(TrialSettings, {"atp.aggregators": "5000"})


def test_the_schemes_name_counts_more_than_its_absence() -> None:
    settings = TrialSettings(**{"recovery": "paper", "atp.recovery": "ask"})
    assert settings.own == {
        "atp": {"recovery": "ask"},
        "esa": {"recovery": "paper"},
        "switchml": {"recovery": "paper"},
        "switchml-machine": {"recovery": "paper"},
    }
    assert settings.changed(recovery="ask").own["switchml"] == {"recovery": "ask"}
    assert TrialSettings(**settings.model_dump()) == settings


def test_records_of_earlier_releases_are_read() -> None:
    """Their settings of schemes have no name before them, are all there, and are None where a job did not set them."""
    old = {"scheme": "atp", "servers": 2, "scaling": None, "aggregators": 64, "congestion": True, "recovery": "paper"}
    job = {"start": 0.0, "scheme": None, "servers": None, "scaling": None, "aggregators": 32, "congestion": None, "recovery": None}
    read = TrialSettings(**old, jobs=[job, {}])  # type: ignore[arg-type]
    first, second = (each.scheme_settings() for each in read.each())
    assert (first.servers, first.aggregators, first.congestion, first.recovery) == (2, 32, "paper", "paper")
    assert (second.aggregators, second.scaling) == (64, None)
    assert TrialSettings(**read.resolved()).each()[0].scheme_settings() == first


@pytest.mark.parametrize("jobs", ["3", "[3]", '["atp"]', '[{"own": 3}]', '[{"own": {"atp": 3}}]', '[{"atp.aggregators": "many"}]'])
def test_jobs_that_are_none_are_one_sentence(jobs: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_settings(TrialSettings, {"jobs": jobs}).check()
    assert "\n" not in str(caught.value)


def test_a_scheme_is_compared_where_schemes_are_and_set_where_not() -> None:
    assert with_scheme(experiment.load("workers"), {"schemes": "switchml,gloo"}, "ring") == ["schemes=switchml,gloo,ring"]
    assert with_scheme(experiment.load("workers"), {"schemes": ("gloo",)}, "gloo") == ["schemes=gloo"]
    assert with_scheme(experiment.load("quickstart"), {}, "ring") == ["scheme=ring"]
