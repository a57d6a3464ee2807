"""Commands to a running simple_switch through P4-utils' Thrift API, whose errors it prints and forgets: here they are raised."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI
from p4utils.utils.thrift_API import MatchType, ResType, UIn_Error
from thrift.Thrift import TException

from switches.control import ControlError

# commands whose words are the API's arguments as they stand
PLAIN = {
    "table_reset_default", "table_delete", "table_clear", "table_num_entries", "table_dump", "mc_mgrp_create", "mc_mgrp_destroy",
    "mc_node_associate", "mc_node_dissociate", "mc_node_destroy", "mc_dump", "mirroring_add", "mirroring_add_mc",
    "mirroring_delete", "register_write", "register_reset", "counter_read", "counter_reset", "set_queue_depth", "set_queue_rate",
    "get_time_elapsed",
}  # fmt: skip


class ThriftControl:
    """See switches.control.Control. What a command prints is in P4-utils' words."""

    def __init__(self, port: int) -> None:
        self.port = port
        try:
            self.api = _quietly(SimpleSwitchThriftAPI, port)
        except (TException, OSError, SystemExit) as error:
            raise ControlError(f"no simple_switch answers on Thrift port {port}: {error}") from None

    def command(self, line: str) -> str:
        """Run one command; see Control."""
        name, *words = line.split()
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                result = self._run(name, words)
        except ControlError:
            raise
        except UIn_Error as error:
            raise ControlError(f"simple_switch refused `{line}`: {error}") from None
        except TException as error:
            raise ControlError(f"simple_switch refused `{line}`: {_reason(error)}") from None
        except (TypeError, ValueError, AssertionError, ImportError, OSError) as error:
            raise ControlError(f"`{line}` could not be passed to simple_switch: {error}") from None
        return printed.getvalue() or ("" if result is None else f"{result}\n")

    def _run(self, name: str, words: list[str]) -> Any:
        if name in PLAIN:
            return self._call(name, *words)
        own: dict[str, Callable[..., Any]] = {
            "table_add": self._table_add, "table_set_default": self._table_set_default, "table_modify": self._table_modify,
            "mc_node_create": self._mc_node_create, "mc_node_update": self._mc_node_update, "register_read": self._register_read,
            "show_ports": self._show_ports, "show_tables": self._show_tables,
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
        kind = self.api.get_res("table", table, ResType.table).match_type
        priority = parameters.pop() if kind in (MatchType.TERNARY, MatchType.RANGE) and parameters else 0
        return self._call("table_add", table, action, keys, parameters, priority)

    def _table_set_default(self, table: str, action: str, *parameters: str) -> Any:
        return self._call("table_set_default", table, action, list(parameters))

    def _table_modify(self, table: str, action: str, handle: str, *parameters: str) -> Any:
        return self._call("table_modify", table, action, handle, [p for p in parameters if p != "=>"])

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
        try:
            return _quietly(self._call, method, *arguments)
        except (UIn_Error, TException) as error:
            raise ControlError(f"simple_switch refused {method} {arguments[0]}: {_reason(error)}") from None

    def ports(self) -> dict[int, dict[str, int]]:
        """Packets received and sent, as the kernel counted them on the interfaces; simple_switch tells of no drops."""
        table = {}
        for port in self.api.client.bm_dev_mgr_show_ports():
            counted = Path("/sys/class/net") / port.iface_name / "statistics"
            table[port.port_num] = {
                "received": int((counted / "rx_packets").read_text()), "sent": int((counted / "tx_packets").read_text()),
            }  # fmt: skip
        return table

    def close(self) -> None:
        """End both connections; the switch goes on."""
        for client in (self.api.client, self.api.sswitch_client):
            client._iprot.trans.close()


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    with redirect_stdout(io.StringIO()):
        return function(*arguments)


def _reason(error: Exception) -> str:
    """The name of a refusal's code: BMv2's exceptions carry a number whose names are in the module they come from."""
    kind = type(error).__name__
    names = getattr(inspect.getmodule(type(error)), f"{kind.removeprefix('Invalid')}ErrorCode", None)
    code = getattr(error, "code", None)
    return names._VALUES_TO_NAMES.get(code, str(error)) if names is not None else f"{kind}: {error}"
