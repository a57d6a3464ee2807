"""The embedded switch for users of P4-utils: change one import, and keep the network, the programs and the controllers.

    from switches.embedded.p4utils import NetworkAPI              # was: from p4utils.mininetlib.network_API
    from switches.embedded.p4utils import SimpleSwitchThriftAPI   # was: from p4utils.utils.sswitch_thrift_API

A p4app.json names the classes instead: `inalab export-p4app --target embedded` writes one that does. Errors that P4-utils
prints and forgets are raised. P4-utils' clean-up of the whole machine is left out: call `mn -c` yourself if you want it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
from pathlib import Path
from typing import Any

from p4utils.mininetlib import network_API
from p4utils.mininetlib.node import P4Switch
from p4utils.utils.client import ThriftClient
from p4utils.utils.compiler import P4C, P4InfoDisabled
from p4utils.utils.helper import wait_condition

from switches.control import ControlError
from switches.embedded.build import build
from switches.embedded.control import SocketControl
from switches.sockets import is_alive, socket_path
from switches.target import SwitchError, last_lines

STOP_SECONDS = 5


def _by_port(thrift_port: int) -> Path:
    """What a controller that knows a Thrift port finds its switch by: a link to the switch's socket."""
    return socket_path(f"thrift-{thrift_port}")


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
        return max(path.stat().st_mtime for path in Path(self.p4_src).parent.rglob("*.p4"))


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
        socket_path(self.name).parent.mkdir(parents=True, exist_ok=True)
        try:
            super().start(controllers)
        except ChildProcessError:
            log = Path(self.log_dir) / f"p4s.{self.name}.log"
            said = last_lines(log) if self.log_enabled else "enable its log to see why"
            raise SwitchError(f"switch {self.name} did not start: {said}") from None
        link = _by_port(self.thrift_port)
        link.unlink(missing_ok=True)
        link.symlink_to(socket_path(self.name))

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the switch cleanly, so that its socket goes with it."""
        if self.switch_running():
            os.kill(self.switch_pid, signal.SIGTERM)
            wait_condition(self.thrift_listening, False, timeout=STOP_SECONDS)
        _by_port(self.thrift_port).unlink(missing_ok=True)
        super().stop(deleteIntfs)

    def describe(self) -> None:
        """How to talk to the switch."""
        network_API.output(f"{self.name} -> python -m switches.cli {self.name} COMMAND\n")


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
    """The calls of P4-utils' SimpleSwitchThriftAPI that the embedded switch has, over its socket. All may raise ControlError."""

    def __init__(self, thrift_port: int, thrift_ip: str = "localhost", json_path: str | None = None) -> None:
        self.control = SocketControl(_by_port(thrift_port))

    def _number(self, *words: Any) -> int:
        """Run a command that answers with a handle."""
        return int(self._run(*words).split()[-1])

    def _run(self, *words: Any) -> str:
        return self.control.command(" ".join(map(str, words)))

    def table_add(self, table: str, action: str, match_keys: list[str], action_params: tuple[str, ...] = (), prio: int = 0) -> int:
        """The handle of the new entry. `prio` counts where a key is ternary or a range."""
        priority = [prio] if prio or any("&&&" in key or "->" in key for key in map(str, match_keys)) else []
        return self._number("table_add", table, action, *match_keys, "=>", *action_params, *priority)

    def table_set_default(self, table: str, action: str, action_params: tuple[str, ...] = ()) -> None:
        self._run("table_set_default", table, action, *action_params)

    def table_reset_default(self, table: str) -> None:
        self._run("table_reset_default", table)

    def table_modify(self, table: str, action: str, handle: int, action_params: tuple[str, ...] = ()) -> int:
        self._run("table_modify", table, action, handle, *action_params)
        return handle

    def table_delete(self, table: str, handle: int, quiet: bool = False) -> None:
        self._run("table_delete", table, handle)

    def table_clear(self, table: str) -> None:
        self._run("table_clear", table)

    def table_num_entries(self, table: str) -> int:
        return self._number("table_num_entries", table)

    def table_dump(self, table: str) -> None:
        print(self._run("table_dump", table), end="")

    def mc_mgrp_create(self, group: int) -> int:
        self._run("mc_mgrp_create", group)
        return int(group)

    def mc_mgrp_destroy(self, group: int) -> None:
        self._run("mc_mgrp_destroy", group)

    def mc_node_create(self, rid: int, ports: list[int]) -> int:
        return self._number("mc_node_create", rid, *ports)

    def mc_node_update(self, handle: int, ports: list[int]) -> None:
        self._run("mc_node_update", handle, *ports)

    def mc_node_associate(self, group: int, handle: int) -> None:
        self._run("mc_node_associate", group, handle)

    def mc_node_dissociate(self, group: int, handle: int) -> None:
        self._run("mc_node_dissociate", group, handle)

    def mc_node_destroy(self, handle: int) -> None:
        self._run("mc_node_destroy", handle)

    def mirroring_add(self, session: int, port: int) -> None:
        self._run("mirroring_add", session, port)

    def mirroring_add_mc(self, session: int, group: int) -> None:
        self._run("mirroring_add_mc", session, group)

    def mirroring_delete(self, session: int) -> None:
        self._run("mirroring_delete", session)

    def register_read(self, name: str, index: int | None = None, show: bool = False) -> int | list[int]:
        """One cell, or all."""
        return self.control.registers(name) if index is None else self.control.register(name, index)

    def register_write(self, name: str, index: int, value: int) -> None:
        self._run("register_write", name, index, value)

    def register_reset(self, name: str) -> None:
        self._run("register_reset", name)

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Bytes and packets."""
        packets, size = (
            int(part.partition("=")[2].rstrip(") \n")) for part in self._run("counter_read", name, index).split("(")[1].split(",")
        )
        return size, packets

    def counter_reset(self, name: str) -> None:
        self._run("counter_reset", name)

    def set_queue_depth(self, depth: int, port: int | None = None) -> None:
        self._run("set_queue_depth", depth, *([] if port is None else [port]))

    def set_queue_rate(self, rate: int, port: int | None = None) -> None:
        self._run("set_queue_rate", rate, *([] if port is None else [port]))

    def get_time_elapsed(self) -> None:
        print(self._run("get_time_elapsed"), end="")
