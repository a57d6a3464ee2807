"""Numbers in the documentation come from kept runs: each page is as they fill it, and none has a measured number that was typed."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inalab.testbed.document import kept, numbers
from inalab.testbed.draw.curves import matching
from inalab.testbed.plan import experiment
from inalab.testbed.plan.settings import make_settings
from inalab.testbed.record.runs import PACKED, ROOT, ResultsError, Run, load_run
from tests.runs import invalid, record, trial

DOCS = ROOT / "docs"
FREE_OF_TYPED = [ROOT / "README.md", *sorted((DOCS / "explanation").glob("*.md"))]
MEASURED = re.compile(
    r"\d[\d.,]*(?: to \d[\d.,]*)? ?(?:times|×|ms|s|seconds|minutes|hours|packets|tensors|%)(?!\w)|(?<![\d.])\d+\.\d+(?![\d.])"
)
NOT_MEASURED = {  # what a match may stand in: a definition, a setting, a version, or another's figure with its source
    "README.md": ("Python 3.11",),
    "atp.md": ("touched that for 17 s", "2 % less", "-0.0", "is 0.0"),
    "byteps.md": ("4 kB takes 3 ms", "takes 52 ms"),
    "security.md": ("127.0.0.1",),
    "simulator.md": ("CSIT report 22.06", "29.61 million", "to 1 % where no packets"),
    "switchml.md": ("75.7 % efficiency", "92.6 % at K = 256", "-0.0", "is 0.0"),
}


@pytest.mark.parametrize("page", numbers.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_numbers_of_the_kept_runs(page: Path) -> None:
    assert numbers.filled(page.read_text(), page.parent) == page.read_text(), "run make docs"


def test_the_figures_of_every_experiment_are_on_one_page() -> None:
    shown = [name for page in numbers.PAGES for name, _ in numbers.RECORD.findall(page.read_text())]
    assert sorted(shown) == sorted(set(experiment.names()) - {"quickstart", "validation"})


QUERIES = sorted({" ".join(query.split()) for page in numbers.PAGES for query, _ in numbers.NUMBER.findall(page.read_text())})


@cache
def planned(name: str) -> Any:
    """The factors of an experiment's trials, as those of a run."""
    chosen = experiment.load(name)
    trials = [{"factors": t.factors} for t in chosen.trials(make_settings(chosen.Settings, {}), 1)]
    return SimpleNamespace(trials=trials, finished=trials)


@pytest.mark.parametrize("query", QUERIES)
def test_a_number_names_a_point_that_its_experiment_has(query: str) -> None:
    """Also where no run is kept yet."""
    name, *words = shlex.split(query)
    run = planned(name)
    point, other = numbers._split([word for word in words if not word.startswith(":")])
    factors = numbers._factors(run, point)
    base = {k: v for k, v in (factors | numbers._factors(run, other)).items() if f"-{k}" not in other}
    assert matching(run, **factors) and matching(run, **base)


def typed(page: Path) -> list[str]:
    """Lines of a page with a number that looks measured, outside of code and of what is filled in."""
    text = re.sub(r"^```.*?^```|^    .*?$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", numbers.RECORD.sub("", numbers.NUMBER.sub("", text)))
    for phrase in NOT_MEASURED.get(page.name, ()):
        text = re.sub(r"\s+".join(map(re.escape, phrase.split())), "", text)
    return [line for line in text.splitlines() if MEASURED.search(line)]


@pytest.mark.parametrize("page", FREE_OF_TYPED, ids=lambda page: page.name)
def test_no_measured_number_is_typed(page: Path) -> None:
    assert typed(page) == []


def test_a_typed_number_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A ring takes 1.26 (1.21 to 2.18) times as long.\nIt took 84 ms.\nAt 0.98 of its bound.\nOne in ten.\n")
    assert len(typed(page)) == 3
    page.write_text("A ring takes <!--= loss tat_mean scheme=ring -->1.26<!--.--> times as long.\n    84 ms\n`--set rate=1.5`\n")
    assert typed(page) == []


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Run]:
    """What `kept.load` finds: a run of experiment workers with two schemes, three seeds each."""
    tats = {"ring": [0.3, 0.2, 0.4], "switchml": [0.1, 0.1, 0.2]}
    entries: list[dict[str, Any]] = [
        trial(scheme, seed, tat=tat) | {"factors": {"scheme": scheme, "workers": 4}}
        for scheme, its in tats.items()
        for seed, tat in enumerate(its)
    ]
    slow = trial("ring", 9, tat=9.0) | {"factors": entries[0]["factors"]}
    found = {"workers": Run(Path("nowhere"), record() | {"experiment": "workers"}, [*entries, invalid(slow, "slow")])}
    monkeypatch.setattr(kept, "load", found.get)
    return found


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("workers tat_median scheme=ring", "0.30 (0.20 to 0.40)"),
        ("workers tat_median scheme=ring :short", "0.30"),
        ("workers tat_median scheme=ring :1000 :.0f", "300 (200 to 400)"),
        ("workers tat_median scheme=ring / scheme=switchml", "2.00 (2.00 to 3.00)"),
        ("workers tat_median workers=4 scheme=ring :largest :.1f", "0.4"),
        ("workers tat_median scheme=ring / scheme=switchml :100 :.0f", "200 (200 to 300)"),
        ("loss tat_mean loss=0.01", "(not measured yet)"),
    ],
)
def test_a_number_is_that_of_the_trials(runs: dict[str, Run], query: str, shown: str) -> None:
    page = f"It takes <!--= {query} -->?<!--.--> s."
    assert numbers.filled(page, DOCS) == page.replace("?", shown)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("workers tat_median scheme=tree", "no trial has these factors"),
        ("workers tat_median scheme=ring / scheme=tree", "no valid trial has it"),
        ("workers no_such_metric scheme=ring", "no_such_metric"),
        ("workers", "not enough values"),
        ("workers tat_median / scheme=ring :largest", "a ratio has no largest value"),
    ],
)
def test_a_number_that_there_is_not_ends_the_filling(runs: dict[str, Run], query: str, reason: str) -> None:
    with pytest.raises(ResultsError, match=f"names a number that does not exist: .*{reason}"):
        numbers.filled(f"<!--= {query} -->1<!--.-->", DOCS)


def test_a_kept_run_is_read_as_any_other_and_names_no_folder_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "figures")
    monkeypatch.setattr(kept, "figures_of", lambda run, experiment: [])
    monkeypatch.setattr(kept, "findings_of", lambda run, experiment: ["It is flat."])
    made = tmp_path / "results"
    made.mkdir()
    whole = record() | {"experiment": "workers", "finished": True, "command": "inalab run workers --results /home/me"}
    (made / "run.json").write_text(json.dumps(whole))
    (made / "trials.jsonl").write_text("".join(json.dumps(trial("a", seed)) + "\n" for seed in range(3)))
    folder = kept.keep(made)
    again = load_run(folder)
    assert again.trials == load_run(made).trials and again.record["findings"] == ["It is flat."]
    assert "/home/me" not in (folder / "run.json").read_text()
    packed = (folder / PACKED).read_bytes()
    for damaged in (packed[:-8], packed[:60], b"no archive"):
        (folder / PACKED).write_bytes(damaged)
        with pytest.raises(ResultsError, match="is not the folder of a run"):
            load_run(folder)
    (made / "run.json").write_text(json.dumps(whole | {"finished": False}))
    with pytest.raises(ResultsError, match="was interrupted"):
        kept.keep(made)
