"""Every experiment at its quick size, end to end: trials valid or told why not, plots drawn, findings said."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from tests.command_line import inalab
from tests.unit.test_sweeps import FIGURES

MINUTE = 60  # of a processor; how long that takes depends on who else uses the machine
OF_THE_MACHINE = ("saturated for", "longer than its virtual time", "were retransmitted", "withheld")  # where others use it, too
UNDISTURBED = 0.01  # share of the processors that may be withheld; two pauses of a tenth of a second halve a tensor's rate
AS_LONG_AS_IT_IS = ("packet_size", "mlfabric_replica")  # what the one finds is asserted below; in the other a server dies midway


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_a_quick_run(name: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    steps = [] if name in AS_LONG_AS_IT_IS else ["--set", "steps=2"]
    done = inalab("run", name, "--quick", *steps, "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MINUTE
    (folder,) = (tmp_path / name).iterdir()
    record = json.loads((folder / "run.json").read_text())
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert record["finished"] and record["quick"] and len(trials) == len(record["trials"])
    assert all("metrics" in t for t in trials)
    assert not [p for t in trials for p in t["problems"] if not any(kind in p for kind in OF_THE_MACHINE)]
    if name == "packet_size" and all(t["metrics"]["cpu_stolen"] < UNDISTURBED for t in trials):
        assert not [sentence for sentence in record["findings"] if "OUTSIDE" in sentence]
    for suffix in ("png", "svg"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert record["findings"] and f"{name} --" in page and "--quick" in page
    assert (tmp_path / "index.html").exists()
