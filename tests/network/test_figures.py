"""Every experiment at its quick size, end to end: trials valid or told why not, plots drawn, findings said."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.test_sweeps import FIGURES

MINUTE = 60


@pytest.mark.parametrize("name", FIGURES)
def test_the_quick_figure_takes_less_than_a_minute(name: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    words = [sys.executable, "-m", "experiments.cli", "run", name, "--quick", "--results", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert time.monotonic() - begun < MINUTE
    (folder,) = (tmp_path / name).iterdir()
    record = json.loads((folder / "run.json").read_text())
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert record["finished"] and record["quick"] and len(trials) == len(record["trials"])
    assert all("metrics" in t for t in trials)
    if name == "packet_size" and all(t["valid"] for t in trials):  # nothing else ran on the machine
        assert not [sentence for sentence in record["findings"] if "OUTSIDE" in sentence]
    for suffix in ("png", "svg"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert record["findings"] and f"{name} --" in page and "--quick" in page
    assert (tmp_path / "index.html").exists()
