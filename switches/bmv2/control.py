"""Commands to a running simple_switch through P4-utils' Thrift API, whose errors it prints and forgets: here they are raised."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from p4utils.utils import thrift_API
from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI
from p4utils.utils.thrift_API import MatchType, ResType, UIn_Error
from thrift.protocol import TBinaryProtocol, TMultiplexedProtocol
from thrift.transport import TSocket, TTransport

from ..control import ControlError
from . import profiles

TIMEOUT_MS = 10_000

# commands whose words are the API's arguments as they stand
PLAIN = {
    "table_reset_default", "table_delete", "table_clear", "table_num_entries", "table_dump", "mc_mgrp_create", "mc_mgrp_destroy",
    "mc_node_associate", "mc_node_dissociate", "mc_node_destroy", "mc_dump", "mirroring_add", "mirroring_add_mc",
    "mirroring_delete", "register_write", "register_reset", "counter_read", "counter_reset", "set_queue_depth", "set_queue_rate",
    "get_time_elapsed", "reset_state", "act_prof_delete_member", "act_prof_create_group", "act_prof_delete_group",
    "act_prof_add_member_to_group", "act_prof_remove_member_from_group", "act_prof_dump", "act_prof_dump_member",
    "act_prof_dump_group",
}  # fmt: skip


def connect(address: str, port: int, services: list[tuple[str | None, Any]]) -> list[Any]:
    """P4-utils' own connection waits for ever, and ends the process when nothing listens; this one does neither."""
    socket = TSocket.TSocket(address, port)
    socket.setTimeout(TIMEOUT_MS)
    transport = TTransport.TBufferedTransport(socket)
    protocol = TBinaryProtocol.TBinaryProtocol(transport)
    transport.open()
    return [kind(TMultiplexedProtocol.TMultiplexedProtocol(protocol, name)) if name else None for name, kind in services]


thrift_API.thrift_connect = connect


class ThriftControl:
    """See switches.control.Control. What a command prints is in P4-utils' words."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connect()

    def _connect(self) -> None:
        try:
            self.api = _quietly(SimpleSwitchThriftAPI, self.port)
        except Exception as error:
            raise ControlError(f"no simple_switch answers on Thrift port {self.port}: {error}") from None

    def _guarded(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function; whatever it raises is a ControlError about `what`.

        A refusal leaves the connection in order. After anything else half a message may be under way, which would be read
        as part of the next: the connection is made anew.
        """
        try:
            return function(*arguments)
        except ControlError:
            raise
        except UIn_Error as error:
            raise ControlError(f"simple_switch refused `{what}`: {error}") from None
        except Exception as error:
            if reason := _reason(error):
                raise ControlError(f"simple_switch refused `{what}`: {reason}") from None
            self.close()
            self._connect()
            raise ControlError(f"`{what}` could not be passed to simple_switch: {error}") from None

    def command(self, line: str) -> str:
        """Run one command; see Control. A # begins a comment."""
        words = line.partition("#")[0].split()
        printed = io.StringIO()
        with redirect_stdout(printed):
            result = self._guarded(line.strip(), self._run, *words) if words else None
        return printed.getvalue() or ("" if result is None else f"{result}\n")

    def _run(self, name: str, *words: str) -> Any:
        if name in PLAIN:
            return self._call(name, *words)
        own: dict[str, Callable[..., Any]] = {
            "table_add": self._table_add, "table_set_default": self._table_set_default, "table_modify": self._table_modify,
            "mc_node_create": self._mc_node_create, "mc_node_update": self._mc_node_update, "register_read": self._register_read,
            "show_ports": self._show_ports, "show_tables": self._show_tables, "act_prof_create_member": self._create_member,
            "act_prof_modify_member": self._modify_member, **profiles.commands(self.api),
        }  # fmt: skip
        if name not in own:
            raise ControlError(f"there is no command {name}: choose one of {', '.join(sorted(PLAIN | set(own)))}")
        return own[name](*words)

    def _call(self, method: str, *arguments: Any) -> Any:
        """A method of the API as it is below the decorators that turn exceptions into text."""
        return inspect.unwrap(getattr(type(self.api), method))(self.api, *arguments)

    def _table_add(self, table: str, action: str, *words: str) -> Any:
        if "=>" not in words:
            raise ControlError("table_add takes TABLE ACTION KEYS => PARAMETERS [PRIORITY]; => is missing")
        at = words.index("=>")
        keys, parameters = list(words[:at]), list(words[at + 1 :])
        priority = "0"
        if self.api.get_res("table", table, ResType.table).match_type in (MatchType.TERNARY, MatchType.RANGE):
            if not parameters:
                raise ControlError(f"an entry of table {table} needs a priority, after its parameters")
            priority = parameters.pop()
        return self._call("table_add", table, action, keys, parameters, priority)

    def _table_set_default(self, table: str, action: str, *parameters: str) -> Any:
        return self._call("table_set_default", table, action, [p for p in parameters if p != "=>"])

    def _table_modify(self, table: str, action: str, handle: str, *parameters: str) -> Any:
        return self._call("table_modify", table, action, handle, [p for p in parameters if p != "=>"])

    def _create_member(self, profile: str, action: str, *parameters: str) -> Any:
        return self._call("act_prof_create_member", profile, action, [p for p in parameters if p != "=>"])

    def _modify_member(self, profile: str, action: str, handle: str, *parameters: str) -> Any:
        return self._call("act_prof_modify_member", profile, action, handle, [p for p in parameters if p != "=>"])

    def _mc_node_create(self, rid: str, *ports: str) -> Any:
        return self._call("mc_node_create", rid, list(ports))

    def _mc_node_update(self, handle: str, *ports: str) -> Any:
        return self._call("mc_node_update", handle, list(ports))

    def _register_read(self, name: str, cell: str | None = None) -> None:
        values = self._call("register_read", name, cell)
        print(f"{name}[{cell}]= {values}" if cell else f"{name}= {', '.join(map(str, values))}")

    def _show_ports(self) -> None:
        for number, fields in self.ports().items():
            print(f"port={number}", *(f"{key}={value}" for key, value in fields.items()))

    def _show_tables(self) -> None:
        for table in sorted(self.api.get_tables()):
            print(table)

    def register(self, name: str, cell: int) -> int:
        """One cell of a register."""
        return int(self._read("register_read", name, cell))

    def registers(self, name: str) -> list[int]:
        """All cells of a register."""
        return [int(value) for value in self._read("register_read", name)]

    def counter(self, name: str, cell: int) -> int:
        """Packets counted in one cell of a counter."""
        return int(self._read("counter_read", name, cell)[1])

    def _read(self, method: str, *arguments: Any) -> Any:
        return self._guarded(" ".join(map(str, (method, *arguments))), _quietly, self._call, method, *arguments)

    def pauses(self) -> int:
        """None: simple_switch cannot be paused."""
        return 0

    def ports(self) -> dict[int, dict[str, int]]:
        """Packets received and sent, as the kernel counted them on the interfaces; simple_switch tells of no drops."""
        return self._guarded("show_ports", self._counted)  # type: ignore[no-any-return]

    def _counted(self) -> dict[int, dict[str, int]]:
        table = {}
        for port in self.interfaces():
            counted = Path("/sys/class/net") / port.iface_name / "statistics"
            table[port.port_num] = {
                "received": int((counted / "rx_packets").read_text()), "sent": int((counted / "tx_packets").read_text()),
            }  # fmt: skip
        return table

    def interfaces(self) -> list[Any]:
        """The ports that simple_switch has, each with port_num, iface_name and is_up."""
        return self._guarded("show_ports", self.api.client.bm_dev_mgr_show_ports)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End both connections; the switch goes on."""
        for client in (self.api.client, self.api.sswitch_client):
            client._iprot.trans.close()


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    with redirect_stdout(io.StringIO()):
        return function(*arguments)


def _reason(error: Exception) -> str:
    """What simple_switch answered, by name; empty if this is no answer of its own.

    BMv2's exceptions carry a number, whose names are in the module that they come from.
    """
    kind = type(error).__name__
    names = getattr(inspect.getmodule(type(error)), f"{kind.removeprefix('Invalid')}ErrorCode", None)
    return str(names._VALUES_TO_NAMES.get(error.code, error.code)) if names is not None and hasattr(error, "code") else ""
