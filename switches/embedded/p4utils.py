"""The embedded switch for users of P4-utils: change one import, and keep the network, the programs and the controllers.

    from inalab.switches.embedded.p4utils import NetworkAPI              # was: from p4utils.mininetlib.network_API
    from inalab.switches.embedded.p4utils import SimpleSwitchThriftAPI   # was: from p4utils.utils.sswitch_thrift_API

A p4app.json names the classes instead: `inalab export-p4app --target embedded` writes one that does. Errors that P4-utils
prints and forgets are raised. P4-utils' clean-up of the whole machine is left out: call `mn -c` yourself if you want it.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p4utils.mininetlib import network_API
from p4utils.mininetlib.node import P4Switch
from p4utils.utils.client import ThriftClient
from p4utils.utils.compiler import P4C, P4InfoDisabled
from p4utils.utils.helper import wait_condition

from ..control import ControlError
from ..sockets import is_alive, socket_path
from ..target import SwitchError, last_lines
from .build import build
from .control import SocketControl

STOP_SECONDS = 5


def _by_port(thrift_port: int) -> Path:
    """What a controller that knows a Thrift port finds its switch by: a link to the switch's socket."""
    return socket_path(f"thrift-{thrift_port}")


def _unlink(link: Path) -> None:
    """Remove a link that EmbeddedP4Switch has made; any other file stays."""
    if link.is_symlink():
        link.unlink()


class EmbeddedCompiler(P4C):
    """P4-utils' compiler class over the embedded compiler. Its product is not JSON but an executable. Raises CompileError."""

    def compile(self) -> None:
        """Compile; -D and -I of the options are followed, those for other targets and versions are not for us."""
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("-D", dest="defines", action="append", default=[])
        parser.add_argument("-I", dest="folders", action="append", default=[], type=Path)
        given, _ = parser.parse_known_args(shlex.split(self.opts))
        defines = dict(d.split("=", 1) if "=" in d else (d, "1") for d in given.defines)
        self.json_out = str(build(Path(self.p4_src), defines, given.folders))
        self.sources = self._newest()
        self.compiled = True

    def get_p4rt_out(self) -> str:
        """There is no P4Runtime."""
        raise P4InfoDisabled

    def new_source(self) -> bool:
        """Whether a file beside or below the program has changed since it was compiled."""
        return self._newest() != self.sources

    def _newest(self) -> float:
        program = Path(self.p4_src)
        return max(path.stat().st_mtime for path in [program, *program.parent.rglob("*.p4")])

    def clean(self) -> None:
        """The executable stays: it is in a cache that others use."""
        self.compiled = False


class EmbeddedP4Switch(P4Switch):
    """P4-utils' switch node, running a program that EmbeddedCompiler has built."""

    def set_binary(self, sw_bin: str) -> None:
        """The program is its own binary: see set_json."""

    def set_json(self, json_path: str | None) -> None:
        """What EmbeddedCompiler has built."""
        super().set_json(json_path)
        self.sw_bin = json_path

    def thrift_listening(self) -> bool:
        """Whether the switch answers; it has a socket by its name instead of a Thrift port."""
        return is_alive(socket_path(self.name))

    def add_arguments(self) -> list[str]:
        """The built program's own arguments."""
        if self.sw_bin is None:
            raise SwitchError(f"switch {self.name} has no program: give it one with setP4Source")
        ports = [word for port, i in self.intfs.items() if not i.IP() for word in ("-i", f"{port}@{i.name}")]
        return [self.sw_bin, *ports, "--socket", str(socket_path(self.name))]

    def add_target_arguments(self) -> list[str]:
        """There is one queue a port."""
        return []

    def start(self, controllers: Any = None) -> None:
        """Start the switch, and make it known by its Thrift port, too."""
        try:
            super().start(controllers)
        except ChildProcessError:
            log = Path(self.log_dir) / f"p4s.{self.name}.log"
            sentences = last_lines(log) if self.log_enabled else "enable its log to see why"
            raise SwitchError(f"switch {self.name} did not start: {sentences}") from None
        link = _by_port(self.thrift_port)
        _unlink(link)
        try:
            link.symlink_to(socket_path(self.name))
        except FileExistsError:
            raise SwitchError(f"{link} is in the way of switch {self.name}: remove that file") from None

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the switch cleanly, so that its socket goes with it."""
        if self.switch_running():
            os.kill(self.switch_pid, signal.SIGTERM)
            wait_condition(self.thrift_listening, False, timeout=STOP_SECONDS)
        _unlink(_by_port(self.thrift_port))
        super().stop(deleteIntfs)

    def describe(self) -> None:
        """How to talk to the switch."""
        network_API.output(f"{self.name} -> python -m inalab.switches.cli {self.name} COMMAND\n")


class EmbeddedClient(ThriftClient):
    """P4-utils' client that gives a switch its commands file. Raises ControlError at the first command that is refused."""

    def configure(self) -> None:
        """Run the commands of the file; its comments begin with # or //."""
        lines = Path(self.cli_input).read_text().splitlines()
        with SocketControl(socket_path(self.sw_name)) as control:
            for number, line in enumerate(lines, start=1):
                if line.strip() and not line.lstrip().startswith(("#", "//")):
                    try:
                        control.command(line)
                    except ControlError as error:
                        raise ControlError(f"switch {self.sw_name}, {self.cli_input}:{number}: {error}") from None


class NetworkAPI(network_API.NetworkAPI):
    """P4-utils' NetworkAPI on embedded switches."""

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.setCompiler(EmbeddedCompiler)
        self.setSwitchClient(EmbeddedClient)

    def setCompiler(self, compilerClass: Any = None, **options: Any) -> None:  # noqa: N802, N803 (P4-utils' names)
        """Options are taken over; P4-utils' own compiler class is replaced."""
        super().setCompiler(EmbeddedCompiler if compilerClass in (None, P4C) else compilerClass, **options)

    def addP4Switch(self, name: str, **options: Any) -> str:  # noqa: N802 (P4-utils' name)
        """Add an embedded switch."""
        return str(super().addP4Switch(name, **{"cls": EmbeddedP4Switch, **options}))

    def cleanup(self) -> None:
        """Not P4-utils' clean-up: it kills by name and deletes links and files of others."""


class SimpleSwitchThriftAPI:
    """The calls of P4-utils' SimpleSwitchThriftAPI that the embedded switch has, by the same names. All may raise ControlError.

    Not here: meters, value sets and timeouts of entries, which have commands of their own; link aggregation groups, priority queues
    and swapping of programs, which the switch does not have.
    """

    def __init__(self, thrift_port: int, thrift_ip: str = "localhost", json_path: str | None = None) -> None:
        self.control = SocketControl(_by_port(thrift_port))
        self.handles: dict[tuple[str, ...], int] = {}  # of entries made here, by table and keys

    def _run(self, *words: Any) -> str:
        return self.control.command(" ".join(map(str, words)))

    def _number(self, *words: Any) -> int:
        """Run a command that answers with a number."""
        return int(self._run(*words).split()[-1])

    def _show(self, *words: Any) -> None:
        print(self._run(*words), end="")

    def table_add(
        self, table_name: str, action_name: str, match_keys: Sequence[Any], action_params: Sequence[Any] = (), prio: int = 0
    ) -> int:
        """The handle of the new entry. `prio` counts where a key is ternary, a range or optional."""
        kinds = self._run("table_info", table_name).partition("\n")[0]
        priority = [prio] if any(f"({kind}," in kinds for kind in ("ternary", "range", "optional")) else []
        handle = self._number("table_add", table_name, action_name, *match_keys, "=>", *action_params, *priority)
        self.handles[table_name, *map(str, match_keys)] = handle
        return handle

    def get_handle_from_match(self, table_name: str, match_keys: Sequence[Any], pop: bool = False) -> int | None:
        """The handle of an entry that was added here with these keys."""
        key = (table_name, *map(str, match_keys))
        return self.handles.pop(key, None) if pop else self.handles.get(key)

    def table_set_default(self, table_name: str, action_name: str, action_params: Sequence[Any] = ()) -> None:
        self._run("table_set_default", table_name, action_name, *action_params)

    def table_reset_default(self, table_name: str) -> None:
        self._run("table_reset_default", table_name)

    def table_modify(self, table_name: str, action_name: str, entry_handle: int, action_params: Sequence[Any] = ()) -> int:
        self._run("table_modify", table_name, action_name, entry_handle, *action_params)
        return entry_handle

    def table_modify_match(
        self, table_name: str, action_name: str, match_keys: Sequence[Any], action_params: Sequence[Any] = ()
    ) -> int:
        return self.table_modify(table_name, action_name, self._known(table_name, match_keys), action_params)

    def table_delete(self, table_name: str, entry_handle: int, quiet: bool = False) -> None:
        self._run("table_delete", table_name, entry_handle)

    def table_delete_match(self, table_name: str, match_keys: Sequence[Any]) -> None:
        self.table_delete(table_name, self._known(table_name, match_keys))
        self.get_handle_from_match(table_name, match_keys, pop=True)

    def _known(self, table_name: str, match_keys: Sequence[Any]) -> int:
        handle = self.get_handle_from_match(table_name, match_keys)
        if handle is None:
            raise ControlError(f"table {table_name} was given no entry with the keys {', '.join(map(str, match_keys))}")
        return handle

    def reset_state(self) -> None:
        """Tables, registers, counters, multicast groups and nodes as they were at the start."""
        self._run("reset_state")
        self.handles.clear()

    def table_clear(self, table_name: str) -> None:
        self._run("table_clear", table_name)

    def table_num_entries(self, table_name: str) -> int:
        return self._number("table_num_entries", table_name)

    def table_dump(self, table_name: str) -> None:
        self._show("table_dump", table_name)

    def table_info(self, table_name: str) -> None:
        self._show("table_info", table_name)

    def show_tables(self) -> None:
        self._show("show_tables")

    def get_tables(self) -> list[str]:
        return self._run("show_tables").split()

    def mc_mgrp_create(self, mgrp: int) -> int:
        self._run("mc_mgrp_create", mgrp)
        return int(mgrp)

    def mc_mgrp_destroy(self, mgrp: int) -> None:
        self._run("mc_mgrp_destroy", mgrp)

    def mc_node_create(self, rid: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        return self._number("mc_node_create", rid, *ports, *(["|", *lags] if lags else []))

    def mc_node_update(self, l1_hdl: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        self._run("mc_node_update", l1_hdl, *ports, *(["|", *lags] if lags else []))
        return l1_hdl

    def mc_node_associate(self, mgrp: int, l1_hdl: int) -> None:
        self._run("mc_node_associate", mgrp, l1_hdl)

    def mc_node_dissociate(self, mgrp: int, l1_hdl: int) -> None:
        self._run("mc_node_dissociate", mgrp, l1_hdl)

    def mc_node_destroy(self, l1_hdl: int) -> None:
        self._run("mc_node_destroy", l1_hdl)

    def mc_dump(self) -> None:
        self._show("mc_dump")

    def mirroring_add(self, mirror_id: int, egress_port: int) -> None:
        self._run("mirroring_add", mirror_id, egress_port)

    def mirroring_add_mc(self, mirror_id: int, mgrp: int) -> None:
        self._run("mirroring_add_mc", mirror_id, mgrp)

    def mirroring_delete(self, mirror_id: int) -> None:
        self._run("mirroring_delete", mirror_id)

    def register_read(self, register_name: str, index: int | None = None, show: bool = False) -> int | list[int]:
        """One cell, or all."""
        if show:
            self._show("register_read", register_name, *_given(index))
        return self.control.registers(register_name) if index is None else self.control.register(register_name, index)

    def register_write(self, register_name: str, index: int | list[int], value: int) -> None:
        """One cell, or those of [first, beyond the last]."""
        for cell in range(*index) if isinstance(index, list) else [index]:
            self._run("register_write", register_name, cell, value)

    def register_reset(self, register_name: str) -> None:
        self._run("register_reset", register_name)

    def counter_read(self, counter_name: str, index: int) -> tuple[int, int]:
        """Bytes and packets."""
        match = re.search(r"packets=(\d+), bytes=(\d+)", self._run("counter_read", counter_name, index))
        assert match
        return int(match[2]), int(match[1])

    def counter_reset(self, counter_name: str) -> None:
        self._run("counter_reset", counter_name)

    def set_queue_depth(self, queue_depth: int, egress_port: int | None = None, priority: int | None = None) -> None:
        self._run("set_queue_depth", queue_depth, *_given(egress_port, priority))

    def set_queue_rate(self, rate: int, egress_port: int | None = None, priority: int | None = None) -> None:
        self._run("set_queue_rate", rate, *_given(egress_port, priority))

    def get_time_elapsed(self) -> None:
        self._show("get_time_elapsed")


def _given(*words: Any) -> list[Any]:
    return [word for word in words if word is not None]
