"""Connections over RDMA on networks: sums and models are those of TCP, packets are RoCEv2 to tshark, and who is gone is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.utils import RawPcapNgReader

from inalab.hosts.messages import Message, Step
from inalab.hosts.roce.wire import OPCODES, UDP_PORT
from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.harness import Job, all_reduce, as_tensors, in_network, on_hosts
from inalab.topologies.plan import HostPlan
from inalab.topologies.racks import Racks
from tests.network.running import run_trial
from tests.network.test_pairwise import told_without_the_second
from tests.network.test_trials import SMALL, worker_pid
from tests.roce import icrc
from tests.tshark import column, needs_tshark

RDMA: dict[str, Any] = {"transport": "rdma"}
SELECTIVE = RDMA | {"retransmission": "selective"}
KNOWN = {value for name, value in OPCODES.items() if not name.startswith("UC")}


@pytest.mark.parametrize("loss", [0.0, 0.02])
@pytest.mark.parametrize(
    ("scheme", "racks", "settings"),
    [
        ("ring", Racks(2, 2, 100.0, 100.0), RDMA),
        ("ring", Racks(1, 3, None, None), SELECTIVE),
        ("ps", Racks(1, 3, 100.0, None, servers=2), RDMA | {"servers": 2}),
        ("byteps", Racks(2, 2, 100.0, 100.0, 2), SELECTIVE | {"servers": 2, "partition": 8.0}),
    ],
)
def test_sums_are_those_of_tcp(scheme: str, racks: Racks, settings: dict[str, Any], loss: float, target: Target) -> None:
    tensors, own = as_tensors(racks, 40_000), {key: value for key, value in settings.items() if key not in SELECTIVE}
    over = [
        all_reduce(Job(racks, scheme, chosen, Loss.bernoulli(loss) if loss else None), target, tensors, times=2)
        for chosen in (settings, own)
    ]
    sums = {turn["sum"].tobytes() for hosts in over for turns in hosts for turn in turns}
    assert len(sums) == 1


def settings(**change: object) -> TrialSettings:
    return TrialSettings(**{**SMALL, "scheme": "ring", "ring.transport": "rdma", **change})


@needs_tshark
def test_tshark_reads_roce_and_finds_nothing_malformed(target: Target, tmp_path: Path) -> None:
    """Of both kinds of retransmission; every ICRC is right by zlib. The rest is what the ends met by, and ARP."""
    for retransmission in ("go-back-n", "selective"):
        folder = tmp_path / retransmission
        folder.mkdir()
        chosen = settings(loss=0.02, **{"ring.retransmission": retransmission})
        metrics = run_trial(chosen, 1, target, lambda message: None, Capture(["h1"], folder))["metrics"]
        assert metrics["retransmissions"] > 0
        nothing = folder / "none.lua"
        nothing.write_text("")
        (path,) = folder.glob("*.pcapng")
        frames = [data for data, _ in RawPcapNgReader(str(path)) if data[12:14] == b"\x08\x00" and data[23] == 17]
        assert {int.from_bytes(data[36:38], "big") for data in frames} == {UDP_PORT}
        assert all(icrc(data[14:]) == int.from_bytes(data[-4:], "little") for data in frames)
        fields = ("infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.invariant.crc")
        seen = [[int(value, 0) if value else None for value in row] for row in column(path, nothing, *fields, only="infiniband")]
        bits = [d[42] == OPCODES["RC_ACKNOWLEDGE"] and len(d) > 42 + 12 + 4 + 4 for d in frames]  # not InfiniBand's
        expected = [
            [d[42], int.from_bytes(d[51:54], "big"), None if own else int.from_bytes(d[-4:], "big")]
            for d, own in zip(frames, bits, strict=True)
        ]
        assert seen == expected
        assert any(bits) == (retransmission == "selective")
        assert {opcode for opcode, *_ in seen} <= KNOWN
        assert len(seen) > 100
        assert column(path, nothing, "frame.number", only="_ws.malformed") == []


def test_the_processor_handles_fewer_messages_than_segments(target: Target) -> None:
    over = {
        transport: run_trial(settings(**{"ring.transport": transport}), 1, target, lambda message: None)["metrics"]
        for transport in ("tcp", "rdma")
    }
    assert over["tcp"]["model_digest"] == over["rdma"]["model_digest"]
    assert 0 < over["rdma"]["handled"] < over["tcp"]["handled"] / 2


def test_a_worker_that_is_gone_is_named(target: Target) -> None:
    sentences = told_without_the_second(Job(Racks(1, 3, None, None), "ring", RDMA | {"patience": 5.0}), target)
    assert all("job 0 cannot be completed: step 0: worker" in sentences[rank] for rank in (0, 2))
    assert "worker 1 is gone" in sentences[0] + sentences[2]


def test_a_killed_worker_ends_the_trial_by_name(target: Target) -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 2 and not killed:
            killed.append(worker_pid(1))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(TrialError, match="worker 1 was killed by SIGKILL"):
        run_trial(settings(steps=2000), 1, target, on_event)
    assert killed


def test_nodes_with_another_transport_are_named(target: Target) -> None:
    racks = Racks(1, 2, None, None)
    jobs = [Job(racks, "ring", {"transport": transport, "patience": 3.0}) for transport in ("rdma", "tcp")]

    def on_host(host: HostPlan) -> str:
        try:
            worker = jobs[host.rank].worker(host)
            worker.all_reduce(np.ones(5000, np.float32))
        except RuntimeError as error:
            return str(error)
        return "finished"

    sentences = in_network(jobs[0], target, lambda deployment: on_hosts(deployment.network, on_host))
    assert "node 1" in sentences[0] or "worker 1" in sentences[0]
    assert "finished" not in sentences
