"""BMv2's Thrift services in front of embedded switches: what real simple_switch answered, and what no client should be able to break."""

from __future__ import annotations

import errno
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from inalab.switches.bmv2 import installation
from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.sockets import socket_path
from inalab.switches.thrift.binding import CALLS, TYPES, client
from inalab.switches.thrift.learning import LearnList
from inalab.switches.thrift.modules import thrift_connect
from inalab.switches.thrift.server import ThriftServer
from tests.golden.record_thrift import COMMANDS, LEARNT, Subscriber, learn, recorded

ENDS_WITHIN = 10.0


@contextmanager
def served(program: str) -> Iterator[ThriftServer]:
    """A server for a switch that runs tests/programs/PROGRAM.p4."""
    with OfflineSwitch(build(Path(f"tests/programs/{program}.p4"), sanitize=True)) as switch:
        server = ThriftServer(switch, 0)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    assert switch.process.returncode == 0


def clients(server: ThriftServer, *services: str) -> list[Any]:
    return thrift_connect(*server.server_address, [(service, client(service)) for service in services])


# --- as real simple_switch


def told(data: bytes) -> tuple[str, int, Any]:
    """A reply's call, kind and struct. What is encoded again is the same: nothing in it was passed over."""
    read = TBinaryProtocol(TMemoryBuffer(data))
    name, kind, number = read.readMessageBegin()
    call = next(calls[name] for calls in CALLS.values() if name in calls)
    answer: Any = TApplicationException() if kind == TMessageType.EXCEPTION else call.returned()
    answer.read(read)
    again = TBinaryProtocol(TMemoryBuffer())
    again.writeMessageBegin(name, kind, number)
    answer.write(again)
    assert again.trans.getvalue() == data
    return name, kind, comparable(name, answer)


def comparable(name: str, answer: Any) -> Any:
    """A reply without what differs from run to run, and JSON without its spaces."""
    if name == "bm_mc_get_entries":
        return json.loads(answer.success)
    found = getattr(answer, "success", None)
    for entry in found if isinstance(found, list) else [found]:
        if getattr(entry, "life", None) is not None:
            entry.life.time_since_hit_ms = 0
    return repr(answer)


def replies(server: ThriftServer, requests: list[bytes]) -> Iterator[bytes]:
    """What a server answers to requests of one connection, of which no two are under way at once."""
    with socket.create_connection(server.server_address, timeout=ENDS_WITHIN) as connection:
        for request in requests:
            connection.sendall(request)
            reply = b""
            while not reply or not whole(reply):
                reply += connection.recv(1 << 16)
            yield reply


def whole(reply: bytes) -> bool:
    try:
        told(reply)
    except EOFError:
        return False
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_a_client_is_told_what_simple_switch_tells_it(name: str) -> None:
    """simple_switch_CLI's requests, byte for byte."""
    conversation = [(bytes.fromhex(request), bytes.fromhex(reply)) for request, reply in recorded(name)]
    with served(name) as server:
        for (request, wanted), reply in zip(conversation, replies(server, [one for one, _ in conversation]), strict=True):
            assert told(reply) == told(wanted), request


def test_types_and_calls_are_those_of_bmv2() -> None:
    if installation.missing():
        pytest.skip("BMv2's Python modules are not installed (inalab doctor)")
    from bm_runtime.simple_pre import SimplePre
    from bm_runtime.simple_pre_lag import SimplePreLAG
    from bm_runtime.standard import Standard, ttypes
    from sswitch_runtime import SimpleSwitch
    from sswitch_runtime import ttypes as more

    def shape(spec: Any) -> Any:
        return [one and (one[0], one[1], one[2], inner(one[3])) for one in spec or ()]

    def inner(parts: Any) -> Any:
        if isinstance(parts, list):  # a struct: its class, and once more its fields
            return shape(parts[0].thrift_spec)
        return [inner(one) for one in parts] if isinstance(parts, tuple) else parts

    for name, ours in TYPES.items():
        real = getattr(ttypes, name, None) or getattr(more, name, None) or getattr(SimplePreLAG, name)
        if hasattr(ours, "_NAMES_TO_VALUES"):
            assert ours._NAMES_TO_VALUES == real._NAMES_TO_VALUES
        else:
            assert shape(ours.thrift_spec) == shape(real.thrift_spec)
    modules = {"standard": Standard, "simple_pre": SimplePre, "simple_pre_lag": SimplePreLAG, "simple_switch": SimpleSwitch}
    for service, module in modules.items():
        assert {name for name in dir(module.Iface) if name[0] != "_"} == set(CALLS[service])
        for name, call in CALLS[service].items():
            assert shape(call.given.thrift_spec) == shape(getattr(module, f"{name}_args").thrift_spec), name  # type: ignore[attr-defined]
            assert shape(call.returned.thrift_spec) == shape(getattr(module, f"{name}_result").thrift_spec), name  # type: ignore[attr-defined]


# --- what the recorded conversations leave out


def test_the_program_is_described_as_controllers_read_it() -> None:
    with served("runtime") as server:
        (standard,) = clients(server, "standard")
        made = json.loads(standard.bm_get_config())
        tables = {one["name"]: one for one in made["pipelines"][0]["tables"]}
        assert [key["match_type"] for key in tables["Work.masked"]["key"]] == ["ternary", "range", "ternary"]
        assert [tables[f"Work.{name}"]["support_timeout"] for name in ("exactly", "longest")] == [True, False]
        assert tables["Work.spread_out"]["type"] == "indirect_ws" and tables["Work.spread_out"]["action_profile"] == "Work.choice"
        assert {one["name"]: one.get("binding", one.get("size")) for one in made["counter_arrays"]} == {
            "Work.seen": 4,
            "Work.hits": "Work.exactly",
        }
        assert [one["type"] for one in made["meter_arrays"]] == ["packets", "packets"]
        assert made["register_arrays"] == [{"name": "Work.kept", "id": 0, "is_direct": False, "size": 4, "bitwidth": 16}]
        assert made["parse_vsets"] == [{"name": "Parse.strange", "id": 0, "compressed_bitwidth": 8}]
        assert [(one["id"], one["name"], len(one["elements"])) for one in made["learn_lists"]] == [(1, "learn_t", 3)]
        assert {one["name"]: one["runtime_data"] for one in made["actions"]}["Work.spread"] == [{"name": "port", "bitwidth": 9}]
        assert standard.bm_mgmt_get_info().thrift_port == server.server_address[1]
        assert len(standard.bm_get_config_md5()) == 16
        assert standard.bm_get_id_from_name(0, TYPES["BmResourceType"].REGISTER, "Work.kept") == 0
        assert standard.bm_get_id_from_name(0, TYPES["BmResourceType"].LEARNING_LIST, "learn_t") == 1
        with pytest.raises(TYPES["InvalidIdLookup"]):
            standard.bm_get_id_from_name(0, TYPES["BmResourceType"].REGISTER, "Work.lost")
        assert [one.port_num for one in standard.bm_dev_mgr_show_ports()][:2] == [0, 1]


def test_optional_keys_are_matched_with_the_masks_that_are_given() -> None:
    exact, ternary, ranged = (TYPES[f"BmMatchParam{kind}"] for kind in ("Exact", "Ternary", "Range"))
    kinds, make = TYPES["BmMatchParamType"], TYPES["BmMatchParam"]
    first = make(kinds.TERNARY, ternary=ternary(b"\1", b"\xff"))
    second = make(kinds.RANGE, range=ranged(b"\0\1", b"\0\2"))
    with served("runtime") as server:
        (standard,) = clients(server, "standard")

        def add(third: Any) -> int:
            data, options = [b"\0\1", b"\0\2"], TYPES["BmAddEntryOptions"](priority=5)
            number: int = standard.bm_mt_add_entry(0, "Work.masked", [first, second, third], "Work.forward", data, options)
            return number

        assert add(make(kinds.TERNARY, ternary=ternary(b"\0\0\0\7", b"\xff" * 4))) == 0
        assert add(make(kinds.TERNARY, ternary=ternary(bytes(4), bytes(4)))) == 1
        one, other = standard.bm_mt_get_entries(0, "Work.masked")
        assert (one.match_key[2].ternary.mask, other.match_key[2].ternary.mask) == (b"\xff" * 4, bytes(4))
        assert one.options.priority == 5 and one.match_key[1] == second
        add(make(kinds.TERNARY, ternary=ternary(b"\0\0\1\7", b"\0\0\0\xff")))
        assert standard.bm_mt_get_entry(0, "Work.masked", 2).match_key[2].ternary == ternary(b"\0\0\0\7", b"\0\0\0\xff")
        for wrong in (
            make(kinds.EXACT, exact=exact(bytes(4))),
            make(kinds.TERNARY, ternary=ternary(b"\1", b"\1")),
            make(kinds.TERNARY),
        ):
            with pytest.raises(TYPES["InvalidTableOperation"]) as caught:
                add(wrong)
            assert caught.value.code == TYPES["TableOperationErrorCode"].BAD_MATCH_KEY
        empty = standard.bm_mt_get_entry_from_key(0, "Work.masked", [], TYPES["BmAddEntryOptions"]())
        assert empty.action_entry.action_name == "Work.forward"


def test_ranges_of_cells_and_hashes_are_set() -> None:
    with served("runtime") as server:
        (standard,) = clients(server, "standard")
        standard.bm_register_write_range(0, "Work.kept", 1, 3, 9)
        standard.bm_register_write_range(0, "Work.kept", 2, 2, 7)
        for first, end in ((3, 5), (3, 2), (-1, 2)):
            with pytest.raises(TYPES["InvalidRegisterOperation"]) as refused:
                standard.bm_register_write_range(0, "Work.kept", first, end, 7)
            assert refused.value.code == TYPES["RegisterOperationErrorCode"].INVALID_INDEX
        assert standard.bm_register_read_all(0, "Work.kept") == [0, 9, 9, 0]
        for first, end in ((-1, 2), (2, 1 << 31 - 1), (3, 2)):
            with pytest.raises(TYPES["InvalidRegisterOperation"]):
                standard.bm_register_write_range(0, "Work.kept", first, end, 8)
        assert standard.bm_register_read_all(0, "Work.kept") == [0, 9, 9, 0]
        for bad in (-1, 1 << 16):
            with pytest.raises(TYPES["InvalidRegisterOperation"]):
                standard.bm_register_write(0, "Work.kept", 4 if bad < 0 else 0, bad)
    with served("externs") as server:
        (standard,) = clients(server, "standard")
        hashes = {one["name"]: one["algo"] for one in json.loads(standard.bm_get_config())["calculations"]}
        assert hashes and set(hashes.values()) <= {"crc16_custom", "crc32_custom"}
        for name, kind in hashes.items():
            bits = kind[3:5]
            config = TYPES[f"BmCrc{bits}Config"](0x1021, -1, 0, True, False)
            getattr(standard, f"bm_set_crc{bits}_custom_parameters")(0, name, config)
            with pytest.raises(TYPES["InvalidCrcOperation"]):
                getattr(standard, f"bm_set_crc{bits}_custom_parameters")(0, "lost", config)


def test_cells_of_more_than_63_bits_are_told_as_bmv2_tells_them() -> None:
    """Measured with simple_switch: 2^63 - 1 for all that Thrift's numbers cannot hold."""
    with served("registers") as server:
        (standard,) = clients(server, "standard")
        (name,) = [one["name"] for one in json.loads(standard.bm_get_config())["register_arrays"] if one["bitwidth"] == 64]
        for written, told in ((-1, (1 << 63) - 1), ((1 << 63) - 1, (1 << 63) - 1), (5, 5)):
            standard.bm_register_write(0, name, 0, written)
            assert standard.bm_register_read(0, name, 0) == standard.bm_register_read_all(0, name)[0] == told


def test_what_the_switch_does_not_have_is_said() -> None:
    with served("runtime") as server:
        standard, switch, groups = clients(server, "standard", "simple_switch", "simple_pre_lag")
        with pytest.raises(TApplicationException, match="keep the commands that made the state"):
            standard.bm_serialize_state()
        with pytest.raises(TApplicationException, match="one queue"):
            switch.set_egress_priority_queue_depth(1, 3, 10)
        assert switch.set_egress_priority_queue_depth(1, 0, 10) == 0
        with pytest.raises(TApplicationException, match="a session has a port or a group"):
            switch.mirroring_session_add(1, TYPES["MirroringSessionConfig"](2, 3))
        with pytest.raises(TYPES["InvalidDevMgrOperation"]):
            standard.bm_dev_mgr_add_port("eth7", 7, "")
        with pytest.raises(TYPES["InvalidMcOperation"]):
            groups.bm_mc_node_create(0, 1, "110", "1")
        for action in ("drop\nreset_state", "drop\0"):
            with pytest.raises(TApplicationException, match="one word"):
                standard.bm_mt_set_default_action(0, "Work.exactly", action, [])
        with pytest.raises(TApplicationException, match="too long"):
            standard.bm_mt_set_default_action(0, "Work.exactly", "drop", [bytes(1 << 19)])
        for name in ("exactly", "Work.exactly\0", "two words", ""):
            with pytest.raises(TYPES["InvalidTableOperation"]) as caught:
                standard.bm_mt_clear_entries(0, name, False)
            assert caught.value.code == TYPES["TableOperationErrorCode"].INVALID_TABLE_NAME
        with pytest.raises(TYPES["InvalidCrcOperation"]):
            standard.bm_set_crc16_custom_parameters(0, "lost", TYPES["BmCrc16Config"]())


# --- digests


def arrive(server: ThriftServer, packets: list[bytes]) -> None:
    """Packets at port 1, while no command is under way."""
    switch = server.notifications.learning.switch
    with switch.lock:
        for packet in packets:
            switch.control.send(1, packet)  # type: ignore[attr-defined]


def test_digests_are_published_as_simple_switch_publishes_them() -> None:
    """Messages, byte for byte: what is in one, what is not sent twice, and what acknowledgements and sizes change."""
    with served("runtime") as server:
        (standard,) = clients(server, "standard")
        assert learn(lambda packets: arrive(server, packets), standard) == recorded("digests")


def listening(server: ThriftServer, subscribers: int) -> None:
    """Wait until so many subscribers are heard."""
    end = time.monotonic() + ENDS_WITHIN
    while len(server.notifications.subscribers) != subscribers:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_samples_are_acknowledged_one_by_one() -> None:
    kept = LearnList(1, [1], most=2)
    assert kept.add([5], 0.0) == [] and [message[32:] for message in kept.add([6], 0.0)] == [b"\5\6"]
    kept.acknowledge(0, [1])
    assert kept.add([5], 0.0) == kept.add([6], 0.0) == []
    assert [message[32:] for message in kept.due(1.0)] == [b"\6"]


def test_a_subscriber_hears_what_comes_after_it_until_it_goes() -> None:
    with served("runtime") as server:
        arrive(server, LEARNT[:1])
        first, second = (Subscriber(server.notifications.address) for _ in range(2))
        listening(server, 2)
        arrive(server, LEARNT[1:2])
        heard = first.message()
        assert heard == second.message() and heard.endswith(b"\0\0\2\xff\0\1\0")
        assert heard[9 + 28 :][:4] == b"\1\0\0\0"  # samples
        first.socket.close()
        listening(server, 1)
        arrive(server, LEARNT[2:3])
        assert second.message().endswith(b"\0\0\3\xff\0\1\1")
    with pytest.raises(EOFError):
        second.message()
    assert not server.notifications.path.exists()


def test_garbage_is_no_subscriber() -> None:
    with served("runtime") as server:
        for garbage in (b"GET / HTTP/1.0\r\n\r\n", bytes.fromhex("0053500000200000")):  # the second is a publisher
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(ENDS_WITHIN)
                one.connect(str(server.notifications.path))
                one.sendall(garbage)
                assert one.recv(9) == bytes.fromhex("0053500000200000")
                with suppress(ConnectionResetError):
                    assert one.recv(1) == b""
        talkative = Subscriber(server.notifications.address)
        listening(server, 1)
        talkative.socket.sendall(b"more")
        listening(server, 0)
        listened = Subscriber(server.notifications.address)
        listening(server, 1)
        arrive(server, LEARNT[:1])
        assert listened.message().endswith(b"\0\0\1\xff\0\1\1")


def test_who_publishes_ends_with_the_switch() -> None:
    with OfflineSwitch(build(Path("tests/programs/runtime.p4"), sanitize=True)) as switch:
        server = ThriftServer(switch, 0)
        server.start()
        subscriber = Subscriber(server.notifications.address)
        listening(server, 1)
        switch.process.kill()
        with pytest.raises(EOFError):
            subscriber.message()
        server.stop()


# --- what no client may break


def test_garbage_ends_a_connection_and_nothing_else() -> None:
    draw = random.Random(1)
    request = bytes.fromhex(recorded("runtime")[0][0])
    with served("runtime") as server:
        for _ in range(200):
            spoiled = bytearray(request)
            for _ in range(draw.randrange(1, 6)):
                spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
            with socket.create_connection(server.server_address, timeout=ENDS_WITHIN) as connection:
                connection.sendall(spoiled[: draw.randrange(1, len(spoiled) + 1)])
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
        (standard,) = clients(server, "standard")
        assert standard.bm_register_read_all(0, "Work.kept") == [0, 0, 0, 0]


def test_many_clients_at_once_are_all_answered() -> None:
    with served("runtime") as server, ExitStack() as open_ones:
        waiting = [
            open_ones.enter_context(socket.create_connection(server.server_address, timeout=ENDS_WITHIN)) for _ in range(100)
        ]
        for one in waiting:
            one.sendall(b"\x80\1")  # half a message
        (standard,) = clients(server, "standard")
        assert standard.bm_register_read(0, "Work.kept", 1) == 0


def test_a_server_that_may_open_no_more_files_waits_before_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    with served("runtime") as server:
        monkeypatch.setattr("inalab.switches.thrift.server.time.sleep", pauses.append)
        monkeypatch.setattr(server, "socket", SimpleNamespace(accept=raising(OSError(errno.EMFILE, "too many"))))
        with pytest.raises(OSError, match="too many"):
            server.get_request()
        monkeypatch.undo()
    assert len(pauses) == 1


def raising(error: Exception) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


class Restarted:
    """The control of a switch that ends, and is started again with another program: the first command after that is lost."""

    def __init__(self, *switches: OfflineSwitch) -> None:
        self.switches, self.ended = list(switches), False

    def command(self, line: str) -> str:
        if self.ended:
            self.ended = False
            raise ControlError("the switch closed the connection")
        return self.switches[0].command(line)

    def restart(self) -> None:
        self.switches.pop(0)
        self.ended = True


@pytest.mark.parametrize(
    "lost",
    [
        lambda standard: standard.bm_get_config(),
        lambda standard: standard.bm_mt_get_num_entries(0, "Work.by_mask"),
        lambda standard: standard.bm_mt_get_num_entries(0, "Work.exactly"),
        lambda standard: standard.bm_register_read_all(0, "Work.other"),
        lambda standard: standard.bm_get_id_from_name(0, TYPES["BmResourceType"].REGISTER, "Work.other"),
    ],
)
def test_a_switch_that_is_started_again_is_asked_for_its_program_again(lost: Callable[[Any], object]) -> None:
    first, second = (build(Path(f"tests/programs/{name}.p4"), sanitize=True) for name in ("runtime", "tables"))
    with OfflineSwitch(first) as before, OfflineSwitch(second) as after:
        control = Restarted(before, after)
        server = ThriftServer(control, 0)  # type: ignore[arg-type]
        server.start()
        (standard,) = clients(server, "standard")
        old = standard.bm_get_config()
        control.restart()
        with pytest.raises(TApplicationException, match="closed the connection"):
            lost(standard)
        new = json.loads(standard.bm_get_config())
        assert new != json.loads(old)
        table = new["pipelines"][0]["tables"][0]["name"]
        assert standard.bm_mt_get_num_entries(0, table) == 0
        server.stop()


def test_calls_that_there_are_not_and_calls_with_too_little_are_refused() -> None:
    with served("runtime") as server:
        (standard,) = clients(server, "standard")
        with pytest.raises(TApplicationException, match="bm_register_read is not given all"):
            standard.bm_register_read(0, "Work.kept")
        (wrong,) = thrift_connect(*server.server_address, [("standard", client("simple_switch"))])
        with pytest.raises(TApplicationException, match="there is no call get_time_elapsed_us"):
            wrong.get_time_elapsed_us()
        assert standard.bm_register_read(0, "Work.kept", 1) == 0


MODULES = """
import sys
from inalab.switches.thrift.modules import provide
provide()
import bmpy_utils
from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import *
from bm_runtime.simple_pre_lag import SimplePreLAG
from sswitch_runtime import SimpleSwitch
from sswitch_runtime.ttypes import *
services = [("standard", Standard.Client), (None, None), ("simple_switch", SimpleSwitch.Client)]
standard, nobody, switch = bmpy_utils.thrift_connect("127.0.0.1", int(sys.argv[1]), services)
try:
    standard.bm_register_read(0, "lost", 0)
except InvalidRegisterOperation as error:
    print(RegisterOperationErrorCode._VALUES_TO_NAMES[error.code], nobody, switch.get_time_elapsed_us() > 0)
"""


def test_bmv2s_modules_are_there_without_bmv2() -> None:
    with served("runtime") as server:
        words = [sys.executable, "-c", MODULES, str(server.server_address[1])]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("INVALID_REGISTER_NAME None True\n", "")


def test_the_command_says_what_is_wrong() -> None:
    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "inalab.switches.thrift", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and not done.stdout
        return done.stderr

    assert run("nobody") == f"error: no switch answers at {socket_path('nobody')}: No such file or directory\n"
    assert run("s1=99999") == "error: 99999 is not a port: 1 to 65535\n"
