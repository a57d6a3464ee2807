"""The runtime's parts that recordings cannot hold: random numbers, counters of entries, loss that is set meanwhile."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.forwarding import forwarding
from inalab.switches.loss import Loss, decisions, link_seed, set_loss
from tests.packets import program
from tests.scenarios import ETHERNET

QUEUES = Path("tests/programs/queues.p4")
PROBE = struct.Struct(">BIIIH")


def probe(op: int) -> bytes:
    return ETHERNET + PROBE.pack(op, 0, 0, 0, 0)


def draws(seed: int) -> list[int]:
    with OfflineSwitch(build(QUEUES), seed=seed) as switch:
        return [PROBE.unpack(switch.send(0, probe(0))[0][1][14:])[4] for _ in range(200)]


def test_random_is_seeded_and_within_its_bounds() -> None:
    first = draws(5)
    assert set(first) == set(range(10, 20))
    assert first == draws(5)
    assert first != draws(6)


def test_direct_counters_count_each_entry() -> None:
    with OfflineSwitch(build(QUEUES)) as switch:
        switch.command("table_add by_op to 1 => 2")
        switch.command("table_add by_op to 2 => 3")
        for op in (1, 1, 2, 7):
            switch.send(0, probe(op))
        assert switch.command("counter_read hits 0") == f"hits[0]= BmCounterValue(packets=2, bytes={2 * len(probe(0))})\n"
        assert switch.counter("hits", 1) == 1
        assert switch.ports()[0]["received"] == 4


def test_entries_can_be_changed_and_removed() -> None:
    with OfflineSwitch(build(QUEUES)) as switch:
        switch.command("table_add by_op to 1 => 2")
        switch.command("table_modify by_op to 0 3")
        assert [port for port, _ in switch.send(0, probe(1))] == [3]
        switch.command("table_delete by_op 0")
        assert [port for port, _ in switch.send(0, probe(1))] == [1]
        switch.command("table_set_default by_op to 4")
        assert [port for port, _ in switch.send(0, probe(1))] == [4]
        switch.command("table_reset_default by_op")
        assert [port for port, _ in switch.send(0, probe(1))] == [1]


@pytest.mark.parametrize("loss", [Loss.bernoulli(0.3), Loss.gilbert_elliott(0.3, 4)])
def test_loss_can_be_set_and_unset_while_packets_flow(loss: Loss) -> None:
    packet = b"\xff" * 6 + b"\x02" + bytes(5) + b"\x88\xb5"
    with OfflineSwitch(program()) as switch:
        for line in forwarding(range(3), {}):
            switch.command(line)
        assert len(switch.send(0, packet)) == 2
        for line in [*set_loss(0, 0, loss, link_seed(1, 0, 0)), *set_loss(1, 2, loss, link_seed(1, 2, 1))]:
            switch.command(line)
        at_ingress, at_egress = decisions(loss, link_seed(1, 0, 0), 300), iter(decisions(loss, link_seed(1, 2, 1), 300))
        for lost in at_ingress:
            out = [port for port, _ in switch.send(0, packet)]
            assert out == ([] if lost else [1] if next(at_egress) else [1, 2])
        assert switch.counter("loss_in.dropped", 0) == sum(at_ingress)
        for line in ("register_write loss_in.mode 0 0", "register_write loss_out.mode 2 0"):
            switch.command(line)
        assert all(len(switch.send(0, packet)) == 2 for _ in range(20))
