"""Captured trials: what the files have is what workers and links counted, and tshark reads it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapNgReader

from inalab.hosts.switchml import wire
from inalab.switches.target import Target
from inalab.testbed import dissector
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.packet_ring import RETIRE_MS, PacketRing
from inalab.topologies import isolation
from tests.command_line import inalab
from tests.interfaces import far_end
from tests.network.running import run_trial
from tests.network.test_ordinary_user import as_ordinary_user
from tests.network.test_trials import SMALL
from tests.tshark import column, needs_tshark


def captured(target: Target, names: str, folder: Path, **change: Any) -> dict[str, Any]:
    settings = TrialSettings(**{**SMALL, "steps": 2, **change})
    return run_trial(settings, 1, target, lambda message: None, Capture(names.split(","), folder))


def unread(result: dict[str, Any]) -> int:
    """At most so many answers may find that the worker has left: of packets that were sent again, and of queries."""
    return sum(worker["counters"]["retransmissions"] + worker["counters"]["queries"] for worker in result["workers"])


@needs_tshark
@pytest.mark.parametrize(("scheme", "up", "down"), [("switchml", "UPDATE", "RESULT"), ("atp", "GRADIENT", "RESULT")])
def test_a_file_has_what_the_worker_sent(
    scheme: str, up: str, down: str, target: Target, atp_target: Target, tmp_path: Path
) -> None:
    begun = time.time()
    result = captured(atp_target if scheme == "atp" else target, "h1,tor0-root", tmp_path, scheme=scheme)
    dissector.write(script := tmp_path / "inalab.lua")
    assert sorted(path.name for path in tmp_path.glob("*.pcapng")) == ["h1-tor0.pcapng", "tor0-root.pcapng"]
    assert {link: its["dropped"] for link, its in result["captured"].items()} == {"h1-tor0": 0, "tor0-root": 0}
    path = tmp_path / "h1-tor0.pcapng"
    assert len(list(RawPcapNgReader(str(path)))) == result["captured"]["h1-tor0"]["packets"]
    counters = next(worker["counters"] for worker in result["workers"] if worker["rank"] == 1)
    for kind, direction, least, most in (
        (up, 1, counters["sent"], 0),
        (down, 2, counters["results"] + counters["duplicates"], unread(result)),
    ):
        seen = column(path, script, "frame.packet_flags_direction", only=f'ina.{scheme}.kind == "{kind}"')
        assert least <= len(seen) <= least + most
        assert {int(way, 16) for (way,) in seen} == {direction}
    times = [float(stamp) for (stamp,) in column(path, script, "frame.time_epoch")]
    assert (
        begun < min(times) and max(times) < time.time()
    )  # two processors may stamp two packets, and take them in, in other orders


def test_losses_on_the_way_up_are_in_the_file_and_on_the_way_down_are_not(target: Target, tmp_path: Path) -> None:
    result = captured(target, "all", tmp_path, loss=0.05, steps=4)
    assert len(result["captured"]) == 6
    for worker in result["workers"]:
        directions = [
            metadata.direction for data, metadata in RawPcapNgReader(str(tmp_path / f"h{worker['rank']}-tor{worker['rank'] // 2}.pcapng"))
            if len(data) > 200 or (len(data) == 62 and data[44] in (wire.KIND_UPDATE, wire.KIND_RESULT))  # bare
        ]  # fmt: skip
        counters = worker["counters"]
        assert counters["retransmissions"] > 0
        assert directions.count(1) == counters["sent"]
        read = counters["results"] + counters["duplicates"]
        assert read <= directions.count(2) <= read + unread(result)


def test_a_trial_that_fails_keeps_its_packets(target: Target, tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="job 0, slot"):
        captured(target, "h0", tmp_path, steps=400, faults="down h0 at 0.2", patience=1)
    assert len(list(RawPcapNgReader(str(tmp_path / "h0-tor0.pcapng")))) > 10


def test_a_run_has_its_captures_in_its_folder_and_says_so(tmp_path: Path) -> None:
    small = ("sizes=2", "schemes=switchml", "seeds=1", "steps=2", "workload=tensor-2000")
    words = [word for one in small for word in ("--set", one)]
    done = inalab("run", "workers", "--results", str(tmp_path), *words, "--capture", "h0,tor0", "--capture", "h1")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.glob("workers/*/run.json")
    assert json.loads(run.read_text())["capture"] == ["h0", "tor0", "h1"]
    (line,) = (run.parent / "trials.jsonl").read_text().splitlines()
    links = json.loads(line)["captured"]
    for its in links.values():
        assert its["packets"] == len(list(RawPcapNgReader(str(run.parent / its["file"]))))
        assert its["dropped"] == 0
    assert {path.name for path in run.parent.glob("captures/*/*")} == {f"{link}.pcapng" for link in links}
    assert "--capture h0,tor0,h1" in (run.parent / "report.html").read_text()


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_what_a_ring_does_not_hold_is_counted(user: str) -> None:
    def inside() -> int:
        with far_end(0) as sender:
            ring = PacketRing("s0", blocks=4)
            for number in range(3000):
                sender.send(bytes(12) + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(482))
            time.sleep(5 * RETIRE_MS / 1000)
            frames = [frame for block in ring.read() for frame in block if frame.data[12:14] == b"\x88\xb5"]
            assert [int.from_bytes(frame.data[14:18], "big") for frame in frames] == list(range(len(frames)))
            assert 500 < len(frames) < 1500  # 512 KiB
            assert {(len(frame.data), frame.length, frame.outgoing) for frame in frames} == {(500, 500, False)}
            assert ring.dropped() >= 3000 - len(frames)
            subprocess.run(["ip", "link", "set", "s0", "down"], check=True)
            assert list(ring.read()) == []
            ring.close()
        return 0

    assert (as_ordinary_user(lambda: isolation.isolated(inside)) if user == "ordinary" else isolation.isolated(inside)) == 0


def test_a_folder_that_cannot_be_written_is_named(target: Target, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TrialError, match=r"file/h0-tor0\.pcapng cannot be written: File exists"):
        captured(target, "h0", tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_is_full_is_the_trials_error(target: Target, tmp_path: Path) -> None:
    (tmp_path / "h0-tor0.pcapng").symlink_to("/dev/full")
    with pytest.raises(TrialError, match="captures cannot be written: No space left on device"):
        captured(target, "h0", tmp_path)
