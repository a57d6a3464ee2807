"""SwitchML by RDMA on networks: what tshark reads in a capture, and workers whose packets the kernel's Soft-RoCE makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader

from inalab.hosts.drivers import verbs
from inalab.testbed import backends
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.capture import Capture
from tests.network.running import run_trial
from tests.network.test_trials import SMALL
from tests.roce import read
from tests.tshark import column, needs_tshark

IPV4 = b"\x08\x00"
LACKING = verbs.missing()


def settings(**change: object) -> TrialSettings:
    return TrialSettings(**{**SMALL, "scheme": "switchml-rdma", "steps": 3, **change})  # type: ignore[arg-type]


def digest(chosen: TrialSettings) -> str:
    target = backends.with_switches("embedded").target(chosen.running(), chosen.k)
    result = run_trial(chosen, 1, target, lambda message: None)
    assert len(result["metrics"]["model_digest"]) == 64
    return str(result["metrics"]["model_digest"])


@needs_tshark
def test_tshark_reads_roce_and_finds_nothing_malformed(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Between a worker and its switch, and between switches; every ICRC is right by scapy and zlib."""
    chosen, name = settings(loss=0.02), request.config.getoption("target")
    target = backends.with_switches(name).target(chosen.running(), chosen.k)
    result = run_trial(chosen, 1, target, lambda message: None, Capture(["h1", "tor0-root"], tmp_path))
    nothing = tmp_path / "none.lua"
    nothing.write_text("")
    for path in tmp_path.glob("*.pcapng"):
        frames = [data for data, _ in RawPcapNgReader(str(path)) if data[12:14] == IPV4]
        packets = [read(data) for data in frames]
        fields = ("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.invariant.crc")
        seen = [[int(value, 0) for value in row] for row in column(path, nothing, *fields, only="infiniband")]
        assert seen == [
            [p.opcode, p.queue_pair, p.psn, int.from_bytes(data[-4:], "big")] for p, data in zip(packets, frames, strict=True)
        ]
        assert len(seen) > 100
        assert column(path, nothing, "frame.number", only="_ws.malformed || (ip && !infiniband)") == []
    counters = next(worker["counters"] for worker in result["workers"] if worker["rank"] == 1)
    directions = [way.direction for data, way in RawPcapNgReader(str(tmp_path / "h1-tor0.pcapng")) if data[12:14] == IPV4]
    sent = directions.count(1)
    assert sent == counters["sent"] + counters["queries"]
    assert counters["malformed"] == 0


def test_the_model_is_that_of_udp() -> None:
    assert digest(settings(message=2)) == digest(settings(scheme="switchml", loss=0.01))


def interfaces() -> list[str]:
    """Of the machine's network namespace."""
    network = os.environ.get(verbs.MACHINE)
    enter = ["nsenter", f"--net=/proc/self/fd/{network}"] if network else []
    shown = subprocess.run(
        [*enter, "ip", "-o", "link"], pass_fds=[int(network)] if network else [], capture_output=True, check=True
    )
    return [line.split(":")[1] for line in shown.stdout.decode().splitlines()]


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_the_kernels_own_rdma_trains_the_same_model(loss: float) -> None:
    before = interfaces()
    assert digest(settings(roce="kernel", loss=loss)) == digest(settings())
    assert interfaces() == before
