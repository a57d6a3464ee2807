"""The embedded switch for users of P4-utils: networks, programs and controllers run as they are.

    python -m inalab.switches.embedded.p4utils network.py              # was: python network.py
    python -m inalab.switches.embedded.p4utils p4run --config p4app.json

Or change one import, which does the same: from inalab.switches.embedded.p4utils import NetworkAPI. Switches have BMv2's Thrift
services at their ports, for simple_switch_CLI and P4-utils' SimpleSwitchThriftAPI, and P4Runtime switches a P4Runtime server. Where
BMv2's Python modules are not installed, which SimpleSwitchThriftAPI imports, controllers are run in the same way. P4-utils'
clean-up of the whole machine is left out: call `mn -c` yourself if you want it.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mininet import clean
from p4utils.mininetlib import network_API
from p4utils.mininetlib.node import P4RuntimeSwitch, P4Switch
from p4utils.utils.client import ThriftClient
from p4utils.utils.compiler import P4C
from p4utils.utils.helper import wait_condition

from ..control import CommandError
from ..sockets import is_alive, socket_path
from ..target import SwitchError, last_lines
from ..thrift.modules import provide
from ..thrift.server import ThriftServer
from .build import build
from .compiler import check_p4
from .control import SocketControl

provide()
from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI  # noqa: E402 (it needs what is provided)

__all__ = [
    "EmbeddedClient",
    "EmbeddedCompiler",
    "EmbeddedP4RuntimeSwitch",
    "EmbeddedP4Switch",
    "NetworkAPI",
    "SimpleSwitchThriftAPI",
]

START_SECONDS, STOP_SECONDS = 30, 5
WITH_SCRIPT = ["setpriv", "--pdeathsig", "TERM"]  # a command that ends with this process, however it ends


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
        if self.p4rt:
            from ..p4runtime.p4info import as_text, p4info

            Path(self.p4rt_out).write_text(as_text(p4info(check_p4(Path(self.p4_src), defines, given.folders))))
        self.sources = self._newest()
        self.compiled = True

    def new_source(self) -> bool:
        """Whether a file beside or below the program has changed since it was compiled."""
        return self._newest() != self.sources

    def _newest(self) -> float:
        program = Path(self.p4_src)
        return max(path.stat().st_mtime for path in [program, *program.parent.rglob("*.p4")])

    def clean(self) -> None:
        """The executable stays: it is in a cache that others use."""
        Path(self.p4rt_out).unlink(missing_ok=True)
        self.compiled = False


class EmbeddedP4Switch(P4Switch):
    """P4-utils' switch node, running a program that EmbeddedCompiler has built.

    What it does not have is reported in a sentence on stderr, and left out.
    """

    def __init__(self, name: str, **parameters: Any) -> None:
        left_out = {
            "pcap_dump": f"writes no captures: use tcpdump -i {name}-eth1 -w {name}-eth1.pcap",
            "enable_debugger": "has no debugger",
        }
        if int(parameters.get("priority_queues_num") or 1) > 1:
            left_out["priority_queues_num"] = "has one queue for each port"
        for option, what in left_out.items():
            if parameters.pop(option, False):
                print(f"switch {name}: {option} has no effect, because an embedded switch {what}", file=sys.stderr)
        super().__init__(name, **parameters)
        self.server: ThriftServer | None = None

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
        """Start the switch, and its Thrift server in this process."""
        try:
            super().start(controllers)
        except ChildProcessError:
            log = Path(self.log_dir) / f"p4s.{self.name}.log"
            sentences = last_lines(log) if self.log_enabled else "enable its log to see why"
            raise SwitchError(f"switch {self.name} did not start: {sentences}") from None
        try:
            self.server = ThriftServer(SocketControl(socket_path(self.name)), self.thrift_port)
        except OSError as error:
            raise SwitchError(f"the Thrift port {self.thrift_port} of switch {self.name} cannot be had: {error.strerror}") from None
        self.server.start()

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the switch cleanly, so that its socket goes with it."""
        if self.switch_running():
            os.kill(self.switch_pid, signal.SIGTERM)
            wait_condition(self.thrift_listening, False, timeout=STOP_SECONDS)
        if self.server is not None:
            self.server.stop()
            self.server = None
        super().stop(deleteIntfs)

    def describe(self) -> None:
        """How to talk to the switch."""
        network_API.output(f"{self.name} -> python -m inalab.switches.cli {self.name} COMMAND\n")


class EmbeddedP4RuntimeSwitch(EmbeddedP4Switch, P4RuntimeSwitch):
    """P4-utils' P4Runtime switch node: an embedded switch with a server in front of it."""

    def __init__(self, name: str, p4rt_path: str | None = None, **parameters: Any) -> None:
        self.name = name  # P4-utils names it where its port is taken, before Mininet does
        super().__init__(name, **parameters)
        self.p4rt_path = p4rt_path
        self.p4runtime: subprocess.Popen[bytes] | None = None

    def switch_status(self) -> bool:
        """The server comes after the switch."""
        return bool(self.switch_running() and self.thrift_listening())

    def start(self, controllers: Any = None) -> None:
        """Start the switch, and its servers."""
        super().start(controllers)
        if self.p4rt_path is None:
            raise SwitchError(f"switch {self.name} has no P4Info: write net.setCompiler(p4rt=True) before the switches")
        address = f"127.0.0.1:{self.grpc_port}"
        words = [self.name, self.p4rt_path, "--device-id", str(self.device_id), "--address", address]
        with open(Path(self.log_dir) / f"p4rt.{self.name}.log" if self.log_enabled else os.devnull, "w") as log:
            command = [*WITH_SCRIPT, sys.executable, "-m", "inalab.switches.p4runtime", *words]
            self.p4runtime = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
        if not wait_condition(self.grpc_listening, True, timeout=START_SECONDS):
            raise SwitchError(f"the P4Runtime server of {self.name} did not start: enable its log to see why")

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the server, and the switch."""
        if self.p4runtime is not None:
            self.p4runtime.terminate()
            self.p4runtime.wait()
            self.p4runtime = None
        super().stop(deleteIntfs)


class EmbeddedClient(ThriftClient):
    """P4-utils' client that gives a switch its commands file.

    As with simple_switch_CLI, a refused command does not keep the next ones from being run: a sentence on stderr tells of it.
    """

    def configure(self) -> None:
        """Run the commands of the file; its comments begin with # or //."""
        lines = Path(self.cli_input).read_text().splitlines()
        with SocketControl(socket_path(self.sw_name)) as control:
            for number, line in enumerate(lines, start=1):
                if line.strip() and not line.lstrip().startswith(("#", "//")):
                    try:
                        control.command(line)
                    except CommandError as error:
                        print(f"switch {self.sw_name}, {self.cli_input}:{number}: {error}", file=sys.stderr)


class NetworkAPI(network_API.NetworkAPI):
    """P4-utils' NetworkAPI on embedded switches."""

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.setCompiler(EmbeddedCompiler)
        self.setSwitchClient(EmbeddedClient)

    def setCompiler(self, compilerClass: Any = None, **options: Any) -> None:  # noqa: N802, N803 (P4-utils' names)
        """Options are taken over; P4-utils' own compiler class is replaced."""
        super().setCompiler(EmbeddedCompiler if compilerClass in (None, P4C) else compilerClass, **options)

    def setSwitchClient(self, swclientClass: Any = None, **options: Any) -> None:  # noqa: N802, N803 (P4-utils' names)
        """Options are taken over; P4-utils' own client class is replaced."""
        super().setSwitchClient(EmbeddedClient if swclientClass in (None, ThriftClient) else swclientClass, **options)

    def addP4Switch(self, name: str, **options: Any) -> str:  # noqa: N802 (P4-utils' name)
        """Add an embedded switch; other classes than P4-utils' own are kept."""
        classes = {None: EmbeddedP4Switch, P4Switch: EmbeddedP4Switch, P4RuntimeSwitch: EmbeddedP4RuntimeSwitch}
        given = options.get("cls")
        return str(super().addP4Switch(name, **{**options, "cls": classes.get(given, given)}))

    def cleanup(self) -> None:
        """Not P4-utils' clean-up: it kills by name and deletes links and files of others."""


def main() -> None:
    """Run a script, or P4-utils' p4run, with the embedded switch in BMv2's place."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m inalab.switches.embedded.p4utils SCRIPT.py|p4run [ARGUMENT ...]")
    network_API.NetworkAPI = NetworkAPI
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "p4run":
        run = clean.sh
        clean.cleanup = lambda: None  # it kills by name and deletes links and files of others
        clean.sh = lambda command: "" if command.startswith("brctl") else run(command)
        runpy.run_module("p4utils.p4run", run_name="__main__", alter_sys=True)
        return
    if not Path(sys.argv[0]).is_file():
        sys.exit(f"error: there is no file {sys.argv[0]}")
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    from inalab.switches.embedded import p4utils  # not __main__: this is the module that others import

    p4utils.main()
