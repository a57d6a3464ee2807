"""A campaign over three machines, which are namespaces: a machine dies, the scheduler dies, and every result is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inalab.testbed.campaign.campaign import read_status
from inalab.testbed.campaign.keys import make
from inalab.topologies import isolation

pytestmark = [pytest.mark.network, pytest.mark.quiet, pytest.mark.timeout(600)]

INALAB = [sys.executable, "-m", "inalab.testbed.command.cli"]
SMALL = ["racks=1", "workers=2", "steps=2", "compute_ms=1", "host_rate=50"]
MEASURED = {"tat", "ended", "begun", "compute", "padding", "busy"}  # what no two runs have in common
SAME = ("model_digest", "final_accuracy", "final_test_loss", "elements", "error_median")
ADDRESS = "10.77.0.254"
SCHEDULER = f"tls://{ADDRESS}:8786"


def campaign_file(folder: Path, seeds: int) -> Path:
    """Five trials a seed."""
    words = ", ".join(f'"{word}"' for word in SMALL)
    runs = [f'[[run]]\nexperiment = "quickstart"\nseed = {seed}\nset = [{words}]\n' for seed in range(1, 1 + seeds)]
    path = folder / "many.toml"
    path.write_text("\n".join(runs))
    return path


def command(*words: str) -> None:
    subprocess.run(words, check=True)


def eventually(what: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.2)


def done(results: Path) -> int:
    folder = results / "campaigns/many/trials"
    return len(list(folder.glob("*.json"))) if folder.exists() else 0


class Cluster:
    """A scheduler, and machines that are namespaces, on a bridge."""

    def __init__(self, folder: Path) -> None:
        self.log = open(folder / "cluster.log", "w")  # noqa: SIM115 (as long as the test)
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "br0", "type", "bridge")
        command("ip", "addr", "add", f"{ADDRESS}/24", "dev", "br0")
        command("ip", "link", "set", "br0", "up")
        self.machines: list[int] = []
        self.keys = make(folder / "keys").folder
        self.begin_scheduler()

    def begin_scheduler(self) -> None:
        words = [*INALAB, "campaign", "scheduler", "--host", ADDRESS, "--keys", str(self.keys)]
        self.scheduler = subprocess.Popen(words, stdout=self.log, stderr=self.log)

    def add_machine(self) -> int:
        number = len(self.machines) + 1

        def machine() -> int:
            command("ip", "link", "set", "lo", "up")
            eventually(lambda: Path("/sys/class/net/eth0").exists())
            command("ip", "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            command("ip", "link", "set", "eth0", "up")
            words = [*INALAB, "campaign", "worker", SCHEDULER, "--cores", str(os.cpu_count()), "--keys", str(self.keys)]
            return subprocess.run(words, stdout=self.log, stderr=self.log, check=False).returncode

        own = Path("/proc/self/ns/net").readlink()
        pid = isolation.start(machine)
        eventually(lambda: Path(f"/proc/{pid}/ns/net").readlink() != own)
        command("ip", "link", "add", f"m{number}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        command("ip", "link", "set", f"m{number}", "master", "br0", "up")
        self.machines.append(pid)
        return pid


def test_every_result_is_there_once_whatever_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path))
    path, results = campaign_file(tmp_path, 12), tmp_path / "results"

    def work() -> int:
        cluster = Cluster(tmp_path)
        first, *_ = [cluster.add_machine() for _ in range(3)]
        sentences = open(tmp_path / "said.log", "w")  # noqa: SIM115
        words = [*INALAB, "campaign", str(path), "--on", SCHEDULER, "--keys", str(cluster.keys), "--results", str(results)]
        asking = subprocess.Popen(words, stdout=sentences, stderr=sentences)
        eventually(lambda: done(results) >= 8)
        os.kill(first, signal.SIGKILL)
        isolation.wait(first)
        eventually(lambda: done(results) >= 20)
        status, running = read_status(results / "campaigns/many")
        assert running and len(status.running) <= 2 and status.trials == 60
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        time.sleep(2)
        cluster.begin_scheduler()
        assert asking.wait(timeout=400) == 0
        return 0

    code = isolation.isolated(work)
    sentences = (tmp_path / "said.log").read_text() if (tmp_path / "said.log").exists() else ""
    assert code == 0, sentences + (tmp_path / "cluster.log").read_text()[-3000:]
    assert "is gone, and quickstart: " in sentences and "no machine is there: waiting for one" in sentences
    trials = [json.loads(file.read_text()) for file in (results / "campaigns/many/trials").iterdir()]
    assert len(trials) == 60 and all(trial["machine"]["one_core"] > 0 for trial in trials)
    assert not [file for file in (results / "campaigns/many/trials").iterdir() if file.name.startswith(".")]
    one_machine(tmp_path, results)


def one_machine(folder: Path, results: Path) -> None:
    """A run without a campaign has what the campaign's report of that seed has, as far as it measures no time."""
    words = [word for setting in SMALL for word in ("--set", setting)]
    alone = folder / "alone"
    run = [*INALAB, "run", "quickstart", "--seed", "5", "--results", str(alone), *words]
    assert subprocess.run(run, stdout=subprocess.DEVNULL, check=False).returncode == 0
    (one,) = alone.glob("quickstart/*/trials.jsonl")
    reports = [file.parent for file in results.glob("quickstart/*/run.json") if json.loads(file.read_text())["seed"] == 5]
    assert len(reports) == 1
    ours, theirs = ([json.loads(line) for line in file.read_text().splitlines()] for file in (reports[0] / "trials.jsonl", one))
    assert [key(t) for t in ours] == [key(t) for t in theirs]
    assert {path.name for path in reports[0].iterdir()} == {path.name for path in one.parent.iterdir()}
    pages = [(where / "report.html").read_text() for where in (reports[0], one.parent)]
    assert pages[0].count("<tr") == pages[1].count("<tr")
    assert "Compared bit for bit, the final model is the same" in pages[0]


def key(trial: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: trial["metrics"][name] for name in SAME if name in trial["metrics"]}
    return {name: trial[name] for name in ("name", "factors", "seed", "settings", "data_sha256")} | metrics


def test_an_interrupted_campaign_goes_on(tmp_path: Path) -> None:
    path, results = campaign_file(tmp_path, 2), tmp_path / "results"
    words = [*INALAB, "campaign", str(path), "--results", str(results)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asking:
        eventually(lambda: done(results) >= 3)
        asking.send_signal(signal.SIGINT)
        sentences = asking.communicate(timeout=30)[0]
    assert asking.returncode == 130 and "interrupted: the trials so far are kept" in sentences
    there = done(results)
    assert 3 <= there < 10
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and f"{there} of them already there" in again.stdout
    assert done(results) == 10


def test_a_scheduler_that_does_not_answer_is_told(tmp_path: Path) -> None:
    path = campaign_file(tmp_path, 1)
    words = [*INALAB, "campaign", str(path), "--results", str(tmp_path), "--on", "tcp://127.0.0.1:9"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "inalab: no Dask scheduler answers at tcp://127.0.0.1:9: start one with `inalab campaign scheduler`"
    )
    assert len(refused.stderr.splitlines()) == 1
