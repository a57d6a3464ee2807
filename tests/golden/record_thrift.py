"""Record what simple_switch_CLI and real simple_switch say to each other: python -m tests.golden.record_thrift, as root.

Needs what the target bmv2 needs (inalab doctor). Writes tests/golden/thrift/NAME.json: the commands, and each request with its reply,
as bytes on the wire. Left out are calls whose replies tell of the program's JSON or of the time. In digests.json there are the messages
that come of DIGESTS.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from thrift.protocol.TBase import TExceptionBase

from inalab.switches.thrift.binding import client
from inalab.switches.thrift.modules import thrift_connect
from inalab.topologies import isolation
from tests.interfaces import far_end
from tests.scenarios import PROGRAMS

FOLDER = Path(__file__).parent / "thrift"
OTHERWISE = (b"bm_get_config", b"get_time_")  # calls whose replies are not compared
PATIENCE = 10.0
Conversation = list[list[str]]

COMMANDS = {
    "runtime": """
        table_add exactly forward 1 => 2 0x1234
        table_add exactly forward 1 => 2 0x1234
        table_add exactly drop 2 =>
        table_add exactly drop 3 =>
        table_add exactly drop 4 =>
        table_add exactly drop 5 =>
        table_num_entries exactly
        table_dump exactly
        table_set_timeout exactly 1 60000
        table_dump_entry_from_key exactly 2
        table_set_timeout exactly 9 60000
        table_set_timeout paced 9 60000
        table_dump_entry_from_key exactly 9
        table_modify exactly forward 1 3 4
        table_modify exactly forward 9 3 4
        table_delete exactly 1
        table_delete exactly 1
        table_set_default exactly drop
        table_reset_default exactly
        table_add longest forward 10.0.0.0/8 => 1 1
        table_add longest drop 10.1.0.0/16 =>
        table_add longest drop 0/0 =>
        table_add longest forward 10.2.0.0/16 => 0 0x100
        table_dump longest
        table_set_default longest forward 1 1
        table_add paced colour 7 =>
        table_dump paced
        table_add fixed drop 2 =>
        table_dump fixed
        table_clear longest
        table_num_entries longest
        counter_read hits 0
        counter_write hits 0 5 6
        counter_read hits 0
        counter_reset hits
        counter_write Work.seen 1 7 8
        counter_read Work.seen 1
        counter_read Work.seen 4
        counter_write seen 1 7 8
        counter_reset Work.seen
        counter_read Work.seen 1
        meter_array_set_rates Work.pace 0.5:10 1:20
        meter_set_rates Work.pace 1 0.25:1 0.5:2
        meter_get_rates Work.pace 1
        meter_get_rates Work.pace 0
        meter_get_rates Work.pace 2
        meter_set_rates Work.pace 1 0.5:1 0.25:1
        meter_set_rates limit 0 0.5:10 1:20
        meter_get_rates limit 0
        meter_array_set_rates limit 0.25:5 0.5:6
        meter_get_rates limit 0
        register_write Work.kept 1 77
        register_read Work.kept 1
        register_read Work.kept
        register_write Work.kept 4 1
        register_reset Work.kept
        register_read Work.kept 1
        act_prof_create_member choice spread 3
        act_prof_create_member choice drop
        act_prof_create_group choice
        act_prof_add_member_to_group choice 0 0
        act_prof_add_member_to_group choice 1 0
        act_prof_add_member_to_group choice 1 0
        act_prof_dump choice
        act_prof_dump_member choice 0
        act_prof_dump_group choice 0
        table_indirect_add_with_group spread_out 5 => 0
        table_indirect_add spread_out 6 => 1
        table_dump spread_out
        act_prof_delete_member choice 0
        act_prof_delete_group choice 0
        table_indirect_delete spread_out 0
        act_prof_remove_member_from_group choice 0 0
        act_prof_remove_member_from_group choice 0 0
        act_prof_delete_group choice 0
        act_prof_modify_member choice spread 1 4
        act_prof_delete_member choice 7
        pvs_get Parse.strange
        pvs_get strange
        pvs_clear Parse.strange
        mc_mgrp_create 5
        mc_node_create 9 1 2
        mc_node_associate 5 0
        mc_dump
        mc_node_update 0 3
        mc_dump
        mc_node_dissociate 5 0
        mc_node_destroy 0
        mc_node_destroy 0
        mc_mgrp_destroy 5
        mirroring_add 9 2
        mirroring_get 9
        mirroring_delete 9
        mirroring_get 9
        mirroring_add_mc 8 5
        mirroring_get 8
        set_queue_depth 100
        set_queue_depth 100 1
        set_queue_rate 1000 1
        swap_configs
    """,
    "tables": """
        table_add by_mask set_second 0x10&&&0xf0 7&&&0xffff => 1 2 10
        table_add by_mask set_second 0x10&&&0xf0 7&&&0xffff => 1 2 10
        table_add by_mask nothing 0x10&&&0xf0 7&&&0xffff => 11
        table_dump_entry by_mask 0
        table_dump_entry by_mask 9
        table_dump_entry_from_key by_mask 0x10&&&0xf0 7&&&0xffff 11
        table_num_entries by_mask
        table_add by_range set_third 0x10->0x20 5 => 9 1
        table_dump by_range
        table_set_default exactly add 4
        table_dump exactly
        table_reset_default exactly
        table_dump exactly
    """,
}


LEARNT = [
    bytes([5, even, 0, 0, 0, 0, c, 0xFF]) + bytes(52) for even, c in ((0, 1), (1, 2), (0, 3), *((1, c) for c in range(4, 21)))
]
# of the program runtime, in order: packets of LEARNT that come at port 1, calls, and how many messages are waited for
DIGESTS: list[tuple[str, Any]] = [
    ("packets", [0, 0, 1]), ("messages", 1),
    ("bm_learning_set_timeout", [0, 1, 200]),
    ("packets", [0, 2]), ("messages", 1),
    ("bm_learning_ack_buffer", [0, 1, 0]),
    ("packets", [0, 2]), ("messages", 1),
    ("bm_learning_ack", [0, 1, 1, [0, 7]]),
    ("packets", [2, 0]), ("messages", 1),
    ("packets", range(3, 20)), ("messages", 2),
    ("bm_learning_ack_buffer", [0, 1, 77]),
    ("bm_learning_ack_buffer", [0, 0, 0]), ("bm_learning_ack", [0, 2, 0, []]),
    ("bm_learning_set_timeout", [0, 9, 1]), ("bm_learning_set_buffer_size", [0, 9, 1]),
    ("bm_reset_state", []),
    ("bm_learning_set_buffer_size", [0, 1, 2]), ("bm_learning_set_timeout", [0, 1, 0]),
    ("packets", [0, 1]), ("messages", 1),
    ("bm_learning_set_buffer_size", [0, 1, 1]),
    ("packets", [3]), ("messages", 1),
]  # fmt: skip


class Subscriber:
    """A client of nanomsg's that wants a socket's messages of digests. Raises TimeoutError where one does not come."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address.removeprefix("ipc://"))
        self.socket.sendall(bytes.fromhex("0053500000210000"))
        self.greeting = self._read(8)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def message(self) -> bytes:
        """The next one, as it is on the wire."""
        while True:
            head = self._read(9)
            body = self._read(int.from_bytes(head[1:], "big"))
            if body.startswith(b"LEA|"):
                return head + body


def learn(arrive: Callable[[list[bytes]], None], standard: Any) -> list[str]:
    """Go through DIGESTS: what the subscriber of a switch gets, in hexadecimal digits, and the codes of refused calls."""
    subscriber = Subscriber(standard.bm_mgmt_get_info().notifications_socket)
    came = [subscriber.greeting.hex()]
    time.sleep(0.5)  # a publisher has no answer that says when it has heard of a subscriber
    for what, of in DIGESTS:
        if what == "packets":
            arrive([LEARNT[number] for number in of])
        elif what == "messages":
            came += [subscriber.message().hex() for _ in range(of)]
        else:
            try:
                getattr(standard, what)(*of)
            except TExceptionBase as error:
                came.append(f"{what}: {error.code}")
    subscriber.socket.close()
    return came


def record_digests() -> int:
    """Go through DIGESTS with simple_switch, and write the file."""
    near = far_end(1)
    with _switch("runtime", "-i", "1@s1"):
        (standard,) = thrift_connect("127.0.0.1", 9090, [("standard", client("standard"))])
        came = learn(lambda packets: [near.send(packet) for packet in packets] and None, standard)
    (FOLDER / "digests.json").write_text(json.dumps(came, indent=0) + "\n")
    return 0


def commands(name: str) -> list[str]:
    """Of a conversation, as simple_switch_CLI has them."""
    return [line.strip() for line in COMMANDS[name].splitlines() if line.strip()]


def recorded(name: str) -> Any:
    """Each request with its reply, in hexadecimal digits; of digests, what `learn` returns."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def _relay(listener: socket.socket, port: int, said: Conversation) -> None:
    """Pass one client's bytes on, and write down who said what: requests and replies take turns."""
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    with client, server:
        while request := client.recv(1 << 20):
            server.sendall(request)
            reply = server.recv(1 << 20)
            while reply and _more(server):
                reply += server.recv(1 << 20)
            if not reply:
                return  # the switch has ended
            client.sendall(reply)
            said.append([request.hex(), reply.hex()])


def _more(server: socket.socket) -> bool:
    """Whether more of a reply comes."""
    server.settimeout(0.05)
    try:
        return bool(server.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        server.settimeout(None)


@contextmanager
def _switch(name: str, *words: str) -> Iterator[None]:
    """simple_switch with one program, at port 9090."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / f"{name}.json"
        subprocess.run(["p4c-bm2-ss", "-o", str(made), str(PROGRAMS / f"{name}.p4")], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        address = f"ipc://{scratch}/notifications"
        command = ["simple_switch", "--thrift-port", "9090", "--notifications-addr", address, *words, str(made)]
        switch = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", 9090)).close()
                break
            time.sleep(0.1)
        yield
        switch.terminate()
        switch.wait()


def record(name: str) -> int:
    """Have simple_switch_CLI give one program's commands to simple_switch, and write the file."""
    with _switch(name):
        said: Conversation = []
        with socket.create_server(("127.0.0.1", 9999)) as listener:
            relay = threading.Thread(target=_relay, args=(listener, 9090, said), daemon=True)
            relay.start()
            lines = "\n".join([*commands(name), ""])
            command = ["simple_switch_CLI", "--thrift-port", "9999"]
            shown = subprocess.run(command, input=lines, text=True, capture_output=True, check=False)
            relay.join(PATIENCE)
        print(shown.stdout, shown.stderr)
    kept = [pair for pair in said if not any(call.hex() in pair[0] for call in OTHERWISE)]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("[\n" + ",\n".join(json.dumps(pair) for pair in kept) + "\n]\n")
    return 0


def main() -> None:
    for name in sys.argv[1:] or [*COMMANDS, "digests"]:
        if isolation.isolated(record_digests if name == "digests" else partial(record, name)):
            sys.exit(f"{name} could not be recorded")


if __name__ == "__main__":
    main()
