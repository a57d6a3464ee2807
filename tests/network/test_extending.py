"""The scheme and the experiment of docs/how-to/extending.md, as they stand there, run from outside the tree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import inalab
from tests.network.test_figures import OF_THE_MACHINE

PAGE = Path("docs/how-to/extending.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's files."""
    for name, code in re.findall(r"[Ss]ave [\w ]* as `(\w+\.py)`:\n\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        (tmp_path / name).write_text(code)
    return tmp_path


def run(folder: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]], Path]:
    """run.json, the trials and the run's folder."""
    results = folder / "results"
    done = inalab("run", *words, "--quick", "--results", str(results), timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = results.glob("*/*/run.json")
    trials = [json.loads(line) for line in (made.parent / "trials.jsonl").read_text().splitlines()]
    assert all("metrics" in t and t["metrics"]["model_digest"] for t in trials)
    assert not [p for t in trials for p in t["problems"] if not any(kind in p for kind in OF_THE_MACHINE)]
    return json.loads((made.parent / "run.json").read_text()), trials, made.parent


@pytest.mark.parametrize(
    ("experiment", "own"),
    [
        ("workers", ["--set", "sizes=2", "--set", "steps=2"]),
        ("loss", ["--set", "rates=0,0.01", "--set", "steps=2", "--set", "measure_error=true"]),
        ("speedup", ["--set", "steps=2"]),
    ],
)
def test_a_scheme_from_a_file_stands_beside_the_others(experiment: str, own: list[str], folder: Path) -> None:
    record, trials, made = run(folder, experiment, "--scheme", str(folder / "star.py"), "--set", "schemes=switchml", *own)
    assert {t["factors"]["scheme"] for t in trials} == {"switchml", "star"}
    assert [sentence for sentence in record["findings"] if "star at worker 0" in sentence]
    assert (made / f"{experiment}.png").stat().st_size > 10_000
    assert str(folder / "star.py") in (made / "report.html").read_text()  # in the command that runs it again
    assert inalab("report", str(made)).returncode == 0


def test_an_experiment_from_a_file_runs_and_is_reported(folder: Path) -> None:
    record, trials, made = run(folder, str(folder / "window.py"))
    assert record["experiment"] == "window" and record["source"] == str(folder / "window.py")
    assert [t["factors"] for t in trials] == [{"window": 4}, {"window": 32}]
    assert (made / "window.png").stat().st_size > 10_000
    assert str(folder / "window.py") in (made / "report.html").read_text()  # in the command that runs it again


MEAN = """
import numpy as np
from inalab.schemes.ring import Ring
from inalab.schemes.scheme import Look

class Mean(Ring):
    name, look = "mean", Look("mean", "#000000")

    def join(self, place, epoch, pulse=None):
        collective = super().join(place, epoch, pulse)
        exact = collective._sum
        collective._sum = lambda flat, *of: (exact(flat, *of) / place.membership.size).astype(flat.dtype)
        return collective

SCHEME = Mean()
"""


def test_a_scheme_that_computes_something_else_is_not_valid(tmp_path: Path) -> None:
    (tmp_path / "mean.py").write_text(MEAN)
    words = [word for text in ("schemes=mean", "sizes=2", "seeds=1", "steps=3") for word in ("--set", text)]
    results = tmp_path / "results"
    done = inalab("run", "workers", "--scheme", str(tmp_path / "mean.py"), *words, "--results", str(results), timeout=200)
    assert done.returncode == 0, done.stderr
    (made,) = results.glob("*/*/trials.jsonl")
    (trial,) = map(json.loads, made.read_text().splitlines())
    assert not trial["valid"] and trial["metrics"]["sampled"] > 100 and "sample" not in trial["steps"][0]
    assert [p for p in trial["problems"] if "mean does not sum as exactly as it states" in p], trial["problems"]


@pytest.mark.parametrize(("scheme", "code"), [("mean.py", 1), ("switchml", 0)])
def test_a_launch_compares_sums_on_request(tmp_path: Path, scheme: str, code: int) -> None:
    (tmp_path / "mean.py").write_text(MEAN)
    named = str(tmp_path / scheme) if scheme == "mean.py" else scheme
    words = ["--scheme", named, "--set", "racks=1", "--set", "workers=2", "--set", "host_rate=50", "--check-sums"]
    done = inalab("launch", *words, "--", "experiments/scripts/train_ddp.py", "--steps", "3", timeout=200)
    assert done.returncode == code, done.stderr
    if code:
        assert re.search(r"^inalab: a sum is wrong: in sum 1 element \d+ of the sum is .*mean does not sum as", done.stderr, re.M)
    else:
        assert re.search(r"^inalab: [\d,]+ elements of \d+ sums checked: as exact as switchml states$", done.stderr, re.M)
