"""The coordinator's rendezvous: silent, slow and wrong clients hold no worker up, and their number and time are bounded."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from inalab.hosts.coordination import SILENCE, connect
from inalab.testbed.trial import rendezvous
from inalab.testbed.trial.rendezvous import Rendezvous

SECRET = b"sixteen bytes..."


@pytest.fixture
def opened() -> Iterator[Rendezvous]:
    with Rendezvous(("127.0.0.1", 0), SECRET, expected=2) as made:
        yield made


def dial(opened: Rendezvous, words: bytes = b"") -> socket.socket:
    made = socket.create_connection(opened.listener.getsockname(), timeout=5)
    if words:
        made.sendall(words)
    return made


def admitted_while(opened: Rendezvous, seconds: float) -> int:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for connection in opened.look(0.02):
            connection.close()
            count += 1
    return count


@pytest.mark.parametrize(
    "words", [b"", SECRET[:-1], b"x" * 16, b"GET / HTTP/1.1\r\n\r\n" * 100], ids=["silent", "short", "wrong", "long"]
)
def test_clients_without_the_secret_hold_no_worker_up(opened: Rendezvous, words: bytes) -> None:
    strangers = [dial(opened, words) for _ in range(50)]
    begun = time.monotonic()
    threading.Thread(target=lambda: connect(opened.listener.getsockname(), SECRET).send("hello")).start()
    found = []
    while not found and time.monotonic() < begun + 60:
        found = opened.look(0.05)
    assert found[0].recv() == "hello"
    assert len(opened.strangers) <= opened.room
    for made in [*strangers, *found]:
        made.close()


def test_a_secret_that_trickles_in_has_little_time(opened: Rendezvous, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "SECONDS", 0.3)
    with closing(dial(opened)) as slow:
        for byte in SECRET[:8]:
            slow.sendall(bytes([byte]))
            assert not opened.look(0.01)
            time.sleep(0.05)
        assert admitted_while(opened, 0.1) == 0
        assert slow.recv(1) == b""  # it was closed
    assert opened.strangers == []


def test_a_secret_in_pieces_is_as_good(opened: Rendezvous) -> None:
    with closing(dial(opened, SECRET[:5])) as made:
        assert admitted_while(opened, 0.05) == 0
        made.sendall(SECRET[5:])
        assert admitted_while(opened, 0.2) == 1


def test_both_ends_notice_a_network_that_is_cut(opened: Rendezvous) -> None:
    ours = connect(opened.listener.getsockname(), SECRET)
    theirs = opened.look(1.0) or opened.look(1.0)
    for connection in (ours, theirs[0]):
        with socket.socket(fileno=connection.fileno()) as made:
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * SILENCE
            made.detach()
        connection.close()
