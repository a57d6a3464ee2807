"""hosts/roce's reliable connections with the kernel's Soft-RoCE as the other end: each judges the other's PSNs, answers and ICRCs."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing import Pipe

import pytest

from inalab.hosts.cores import enum
from inalab.hosts.drivers import verbs
from inalab.hosts.roce.settings import PAYLOAD, SIZES
from inalab.topologies import isolation
from tests.network.test_ptf_scenarios import isolated_test
from tests.network.test_rdma import interfaces
from tests.soft_roce import BEGIN, BUFFERS, ITS, KEY, MEMORY, MOST, OURS, PATIENCE, Both, joined

LACKING = verbs.missing()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)

SYNDROMES, ENDS = enum("roce_syndrome"), enum("rc_end")
MESSAGES = [1, 3, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 2 * PAYLOAD, 5000, MOST]  # bytes


def text(size: int, seed: int = 0) -> bytes:
    return random.Random(size + seed).randbytes(size)


def left(name: str) -> list[str]:
    """An interface of the machine's network namespace and a device with this name."""
    return [one for one in (*interfaces(), *os.listdir(verbs.DEVICES)) if name in one]


def against_the_kernel(work: Callable[[Both], None], loss: float = 0.0) -> None:
    """A test's body, in namespaces of its own."""

    def inside() -> None:
        with joined() as device:
            both = Both(device, loss)
            work(both)
            both.kernel.close()
        assert not left(device.name)

    isolated_test(inside)


def test_the_kernel_takes_what_our_end_sends() -> None:
    """Of all sizes; an immediate comes with its message."""

    def body(both: Both) -> None:
        both.kernel.await_messages(BUFFERS)
        expected: list[tuple[bytes, int | None]] = [(text(size), None) for size in (0, *MESSAGES)]
        expected += [(text(size), size) for size in MESSAGES]
        for message, immediate in expected:
            assert both.own.post(message, immediate=immediate)
        both.settle()
        both.run(lambda: len(both.kernel.came) == len(expected))
        assert [(one.message, one.immediate) for one in both.kernel.came] == expected
        assert set(both.own.syndromes[ITS]) == {SYNDROMES["POSITIVE"]}

    against_the_kernel(body)


def test_our_end_takes_what_the_kernel_sends() -> None:
    def body(both: Both) -> None:
        enums = both.kernel.enums
        for opcode in (enums.IBV_WR_SEND, enums.IBV_WR_SEND_WITH_IMM):
            for size in (0, *MESSAGES):
                both.kernel.post(text(size, opcode), opcode, immediate=size)
        both.run(lambda: len(both.kernel.came) == both.kernel.posted[1])
        assert {one.status for one in both.kernel.came} == {0}
        sent = [text(size, opcode) for opcode in (enums.IBV_WR_SEND, enums.IBV_WR_SEND_WITH_IMM) for size in MESSAGES]
        assert both.own.came == b"".join(sent)
        assert both.own.q.counters.messages_received == both.kernel.posted[1]
        assert set(both.own.dropped().values()) == {0}

    against_the_kernel(body)


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.05])
def test_all_comes_once_and_in_order_in_both_directions(loss: float) -> None:
    """Go-back-N on both sides, and the duplicates, gaps and timeouts that it brings."""

    def body(both: Both) -> None:
        rng = random.Random(2)
        there, back = ([text(rng.randrange(1, MOST + 1), i) for i in range(BUFFERS)] for _ in range(2))
        both.kernel.await_messages(BUFFERS)
        for message in back:
            both.kernel.post(message, both.kernel.enums.IBV_WR_SEND)
        for message in there:
            while not both.own.post(message):
                both.turn()
        both.settle()
        both.run(lambda: len(both.kernel.came) == 2 * BUFFERS)
        assert {one.status for one in both.kernel.came} == {0}
        assert [one.message for one in both.kernel.came if one.opcode == both.kernel.enums.IBV_WC_RECV] == there
        assert both.own.came == b"".join(back)
        assert {lost > 0 for lost in both.own.lost.values()} == {loss > 0}
        if loss:
            assert both.own.q.counters.again > 0
            assert all(SYNDROMES["NEGATIVE_SEQUENCE"] in told for told in both.own.syndromes.values())

    against_the_kernel(body, loss)


def test_writes_go_where_their_addresses_say() -> None:
    def body(both: Both) -> None:
        kernel, enums = both.kernel, both.kernel.enums
        kernel.await_messages(1)
        for size in (1, PAYLOAD, 5000):
            payload = text(size)
            kernel.post(payload, enums.IBV_WR_RDMA_WRITE, write=(BEGIN + 12, KEY))
            assert both.own.post(payload, (kernel.place(0, 1) + 12, kernel.region.rkey))
            both.settle()
            both.run(lambda: len(kernel.came) == kernel.posted[1])
            for memory, before in ((both.own.memory, MEMORY + 12), (kernel.memory[0, 1], 12)):
                assert memory[before : before + size].tobytes() == payload
            assert set(both.own.memory[: MEMORY + 12].tolist() + both.own.memory[MEMORY + 12 + size :].tolist()) == {0xEE}
            assert not {*kernel.memory[0, 1, :12].tolist(), *kernel.memory[0, 1, 12 + size :].tolist()} - {0}
        assert both.own.post(text(2000), (kernel.place(0, 2), kernel.region.rkey), immediate=5)
        both.settle()
        both.run(lambda: len(kernel.came) == 4)
        assert (kernel.came[3].opcode, kernel.came[3].immediate) == (enums.IBV_WC_RECV_RDMA_WITH_IMM, 5)
        assert {one.status for one in kernel.came} == {0}
        kernel.post(text(2000), enums.IBV_WR_RDMA_WRITE_WITH_IMM, immediate=6, write=(BEGIN, KEY))
        both.run(lambda: len(kernel.came) == 5)
        assert both.own.q.counters.messages_received == 1

    against_the_kernel(body)


@pytest.mark.parametrize(
    ("opcode", "write", "status"),
    [
        ("RDMA_WRITE", (BEGIN, KEY + 1), "REM_ACCESS_ERR"),
        ("RDMA_WRITE", (BEGIN + MEMORY - 1020, KEY), "REM_ACCESS_ERR"),
        ("RDMA_WRITE", (BEGIN - 4, KEY), "REM_ACCESS_ERR"),
        ("RDMA_READ", (BEGIN, KEY), "REM_INV_REQ_ERR"),  # our end takes none
    ],
)
def test_what_our_end_refuses_the_kernel_understands(opcode: str, write: tuple[int, int], status: str) -> None:
    def body(both: Both) -> None:
        enums = both.kernel.enums
        both.kernel.post(text(PAYLOAD), getattr(enums, f"IBV_WR_{opcode}"), write=write)
        both.run(lambda: both.kernel.came)
        assert both.kernel.came[0].status == getattr(enums, f"IBV_WC_{status}")
        assert set(both.own.memory.tolist()) == {0xEE}

    against_the_kernel(body)


@pytest.mark.parametrize(
    ("write", "end"),
    [((0, 1), "RC_ACCESS"), ((MOST * BUFFERS * 2 - 1020, 0), "RC_ACCESS"), (None, "RC_REFUSED")],
)
def test_what_the_kernel_refuses_our_end_understands(write: tuple[int, int] | None, end: str) -> None:
    """A write with another key, or beyond the region's end; a message that is larger than its buffer."""

    def body(both: Both) -> None:
        both.kernel.await_messages(1, size=100)
        place, key = both.kernel.place(0, 0), both.kernel.region.rkey
        both.own.post(text(PAYLOAD), write and (place + write[0], key + write[1]))
        both.run(lambda: both.own.q.ended)
        assert both.own.q.ended == ENDS[end]
        assert not both.kernel.memory.any()

    against_the_kernel(body)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_our_end_waits_while_the_kernel_has_no_buffer(loss: float) -> None:
    def body(both: Both) -> None:
        sent = [text(MOST, i) for i in range(8)]
        for message in sent:
            assert both.own.post(message)
        for _ in sent:
            both.pass_time(0.05)
            both.kernel.await_messages(1)
        both.settle()
        both.run(lambda: len(both.kernel.came) == len(sent))
        assert [one.message for one in both.kernel.came] == sent
        assert any(one >> 5 == SYNDROMES["NOT_READY"] >> 5 for one in both.own.syndromes[ITS])

    against_the_kernel(body, loss)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_the_kernel_waits_while_our_end_is_not_read(loss: float) -> None:
    def body(both: Both) -> None:
        both.own.reading = False
        sent = [text(MOST, i) for i in range(40)]
        for message in sent:
            both.kernel.post(message, both.kernel.enums.IBV_WR_SEND)
        both.run(lambda: SYNDROMES["NOT_READY"] | 14 in both.own.syndromes[OURS])
        both.pass_time(0.2)
        assert len(both.kernel.came) <= SIZES["RC_BUFFER"] // MOST
        both.own.reading = True
        both.run(lambda: len(both.kernel.came) == len(sent))
        assert {one.status for one in both.kernel.came} == {0}
        assert both.own.came == b"".join(sent)

    against_the_kernel(body, loss)


def test_of_a_test_that_is_killed_nothing_is_left() -> None:
    receiver, sender = Pipe(duplex=False)

    def inside() -> int:
        with joined() as device:
            both = Both(device, 0.0)
            sender.send(device.name)
            both.pass_time(PATIENCE)
        return 0

    pid = isolation.start(inside)
    name = receiver.recv()
    assert len(left(name)) == 2
    os.kill(pid, signal.SIGKILL)
    isolation.wait(pid)
    until = time.monotonic() + PATIENCE
    while left(name) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left(name)
