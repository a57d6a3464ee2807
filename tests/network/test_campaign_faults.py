"""A campaign with TLS on this machine, whose worker, scheduler or own process is frozen, killed or out of room: nothing is lost or run twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from inalab.testbed.campaign.campaign import read_status
from inalab.testbed.campaign.keys import make
from tests.network.test_campaign import INALAB, SMALL, campaign_file, done, eventually

pytestmark = [pytest.mark.network, pytest.mark.quiet, pytest.mark.timeout(600)]

TTL = "20s"  # after which a frozen worker is lost; tests wait for it


def command_of(process: psutil.Process) -> str:
    """Empty where it has ended."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


class Machines:
    """A scheduler and a worker with a slot for each processor, which have keys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, make(folder / "keys").folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"tls://127.0.0.1:{self.port}"
        dask = {"DASK_TEMPORARY_DIRECTORY": str(folder), "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": TTL}
        self.environment = os.environ | dask
        self.processes: list[psutil.Popen] = []
        self.scheduler = self.begin("scheduler", "scheduler", "--port", str(self.port), "--host", "tls://127.0.0.1")
        self.worker = self.begin("worker", "worker", self.address, "--cores", "1")
        eventually(lambda: "Registered to" in self.said("worker"))  # a campaign ends where nobody listens yet

    def begin(self, log: str, *words: str, results: Path | None = None) -> psutil.Popen:
        """`inalab campaign WORDS`."""
        command = [*INALAB, "campaign", *words, "--keys", str(self.keys)]
        with open(self.folder / f"{log}.log", "w") as file:
            self.processes.append(psutil.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=self.environment))
        return self.processes[-1]

    def campaign(self, log: str, file: Path) -> psutil.Popen:
        return self.begin(log, "run", str(file), "--on", self.address, "--results", str(self.folder / "results"))

    def said(self, log: str) -> str:
        return (self.folder / f"{log}.log").read_text()

    def slots(self) -> list[psutil.Process]:
        """Dask's own processes of workers, which the nannies started."""
        return [each for each in self.worker.children(recursive=True) if "spawn_main" in command_of(each)]

    def trials(self) -> list[psutil.Process]:
        """Processes of trials under way."""
        running = [each for each in self.worker.children(recursive=True) if "one_process" in command_of(each)]
        with suppress(psutil.NoSuchProcess):
            return [child for each in running for child in each.children()]
        return self.trials()

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            process.wait(60)
        for log in self.folder.glob("*.log"):
            print(log.read_text())  # for a test that failed


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    try:
        yield made
    finally:
        made.end()


def long_campaign(folder: Path) -> Path:
    """A trial that does not end by itself in a test's time."""
    words = ", ".join(f'"{word}"' for word in [*(word for word in SMALL if "steps" not in word), "steps=100000"])
    path = folder / "long.toml"
    path.write_text(f'[[run]]\nexperiment = "quickstart"\nset = [{words}]\n')
    return path


def kept(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_ino, file.read_bytes()) for file in (folder / "results/campaigns/many/trials").iterdir()}


def test_a_campaign_that_is_killed_goes_on_and_a_frozen_worker_is_replaced(machines: Machines, tmp_path: Path) -> None:
    path = campaign_file(tmp_path, 3)
    killed = machines.campaign("killed", path)
    eventually(lambda: done(tmp_path / "results") >= 2)
    killed.kill()
    killed.wait()
    before = kept(tmp_path)
    frozen = machines.slots()[0]
    frozen.suspend()
    again = machines.campaign("again", path)
    assert again.wait(400) == 0, machines.said("again")
    assert f"{len(before)} of them already there" in machines.said("again")
    assert not frozen.is_running()  # its nanny has another in its place
    after = kept(tmp_path)
    assert len(after) == 15 and before.items() <= after.items()


def test_trials_end_with_the_campaign_that_is_killed(machines: Machines, tmp_path: Path) -> None:
    killed = machines.campaign("killed", long_campaign(tmp_path))
    eventually(machines.trials)
    killed.kill()
    killed.wait()
    eventually(lambda: not machines.trials())


def test_ctrl_c_ends_a_campaign_whose_scheduler_is_frozen(machines: Machines, tmp_path: Path) -> None:
    asking = machines.campaign("asking", long_campaign(tmp_path))
    eventually(machines.trials)
    machines.scheduler.suspend()
    eventually(lambda: "does not answer: looking for it again and again" in machines.said("asking"))
    asking.send_signal(signal.SIGINT)
    assert asking.wait(60) == 130
    machines.scheduler.resume()
    eventually(lambda: not machines.trials())


def test_a_scheduler_that_was_frozen_goes_on(machines: Machines, tmp_path: Path) -> None:
    asking = machines.campaign("asking", campaign_file(tmp_path, 3))
    eventually(lambda: done(tmp_path / "results") >= 2)
    machines.scheduler.suspend()
    eventually(lambda: "does not answer: looking for it again and again" in machines.said("asking"))
    machines.scheduler.resume()
    assert asking.wait(400) == 0, machines.said("asking")
    assert len(kept(tmp_path)) == 15


def test_ctrl_c_ends_a_campaign_with_a_frozen_worker(machines: Machines, tmp_path: Path) -> None:
    asking = machines.campaign("asking", long_campaign(tmp_path))
    eventually(machines.trials)
    for slot in machines.slots():
        slot.suspend()
    asking.send_signal(signal.SIGINT)
    assert asking.wait(60) == 130
    assert "interrupted: the trials so far are kept" in machines.said("asking")
    assert not read_status(tmp_path / "results/campaigns/long")[1]


def test_a_results_folder_without_room_ends_the_campaign_with_a_sentence(machines: Machines, tmp_path: Path) -> None:
    asking = machines.campaign("asking", path := campaign_file(tmp_path, 1))
    eventually(lambda: done(tmp_path / "results") >= 1)
    asking.kill()
    asking.wait()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path / "results/campaigns/many/trials")], check=True)
    try:
        (tmp_path / "results/campaigns/many/trials/room").write_bytes(bytes(60 << 10))
        full = machines.campaign("full", path)
        assert full.wait(200) == 1
        last = machines.said("full").splitlines()[-1]
        assert last.startswith("inalab: ") and last.endswith("cannot be written: No space left on device")
    finally:
        subprocess.run(["umount", str(tmp_path / "results/campaigns/many/trials")], check=True)
