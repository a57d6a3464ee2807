"""Mininet's prompt over embedded switches: no command ends it by an error, and a switch that dies is reported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from mininet.cli import CLI
from mininet.log import error, lg, output
from mininet.net import Mininet
from mininet.node import Host

from inalab.testbed.command.iperf import IperfError, measure
from inalab.topologies.network import ending


class DeadSwitches:
    """The switches of a network that ended, and were not stopped at the prompt."""

    def __init__(self, network: Mininet) -> None:
        self.network, self.found = network, set[str]()
        self.stopped = set[str]()

    def report(self) -> None:
        """Print a sentence for each that has died since the last report."""
        for switch in self.network.switches:
            if switch.exit_code() is not None and switch.name not in self.found | self.stopped:
                self.found.add(switch.name)
                print(f"inalab: {ending(switch)}", file=sys.stderr, flush=True)

    def end(self) -> bool:
        """Stop all switches; whether any had died. One that a signal is ending right now has."""
        self.report()
        for switch in self.network.switches:
            switch.stop(deleteIntfs=False)
            if switch.exit_code() == 0:
                self.stopped.add(switch.name)
        self.report()
        return bool(self.found)


def follow(network: Mininet, lines: Sequence[str], dead: DeadSwitches) -> None:
    """Run lines as at the prompt, or show the prompt where there are none."""
    for handler in lg.handlers:
        handler.setStream(sys.stdout)  # what is asked for at the prompt is no error
    if not lines:
        Prompt(network, lines, dead, sys.stdin)  # as it is now, not when Mininet was imported
        return
    reader, writer = os.pipe()
    with open(reader) as no_one, open(writer, "w"):  # Mininet would read /dev/null over and over while a command runs
        Prompt(network, lines, dead, no_one)


class Prompt(CLI):
    """The prompt. It runs as soon as it is made, as Mininet has it."""

    def __init__(self, network: Mininet, lines: Sequence[str], dead: DeadSwitches, stdin: TextIO) -> None:
        self.lines, self.dead = lines, dead
        super().__init__(network, stdin=stdin)

    def run(self) -> None:
        """The lines, or what is typed."""
        for line in self.lines:
            self.onecmd(line)
        if not self.lines:
            super().run()

    def onecmd(self, line: str) -> bool:
        """Run a command. What goes wrong in it is printed, and the prompt goes on."""
        try:
            return bool(super().onecmd(line))
        except Exception as wrong:
            error(f"*** {line.strip()}: {type(wrong).__name__}: {wrong}\n")
            return False
        finally:
            self.dead.report()

    def do_iperf(self, line: str) -> None:
        """Measure TCP between two hosts, the first and the last unless they are named.

        Usage: iperf HOST HOST
        """
        self._measure("iperf", "TCP", line.split(), None)

    def do_iperfudp(self, line: str) -> None:
        """Measure UDP at a rate, 10M unless it is given, between two hosts.

        Usage: iperfudp RATE HOST HOST
        """
        rate, *names = line.split() or ["10M"]
        self._measure("iperfudp RATE", "UDP", names, rate)

    def _measure(self, usage: str, protocol: str, names: list[str], udp_rate: str | None) -> None:
        if udp_rate is not None and not re.fullmatch(r"\d+(\.\d+)?[KMG]?", udp_rate):
            error(f"*** {udp_rate} is not a rate: write bits per second, such as 10M\n")
            return
        hosts = {host.name: host for host in self.mn.hosts}
        chosen: list[Host] = (
            [hosts[name] for name in names if name in hosts] if names else [*hosts.values()][:: len(hosts) - 1 or 1]
        )
        if len(chosen) != 2 or len(names) not in (0, 2):
            error(f"*** Usage: {usage} HOST HOST. The hosts are {', '.join(hosts)}.\n")
            return
        client, server = chosen
        output(f"*** Iperf: testing {protocol} bandwidth between {client} and {server}\n")
        try:
            output(f"*** Results: {[*filter(None, [udp_rate]), *measure(client, server, udp_rate)]}\n")
        except IperfError as wrong:
            error(f"*** {wrong}\n")

    def do_dpctl(self, _line: str) -> None:
        """Say what a P4 switch has instead."""
        error("*** dpctl is for OpenFlow. For a P4 switch: sh python -m inalab.switches.cli SWITCH show_tables\n")

    def do_source(self, line: str) -> None:
        """Run the commands in a file.

        Usage: source FILE
        """
        path = line.strip()
        if not path:
            error("*** Usage: source FILE\n")
            return
        try:
            lines = Path(path).read_text().splitlines()
        except OSError as wrong:
            error(f"*** cannot read {path}: {wrong.strerror}\n")
        else:
            for one in lines:
                self.onecmd(one)

    def do_switch(self, line: str) -> None:
        """Start or stop a switch.

        Usage: switch SWITCH start|stop
        """
        name, _, what = line.strip().partition(" ")
        if what == "start" and any(one.name == name and one.exit_code() is None for one in self.mn.switches):
            error(f"*** {name} runs already\n")
            return
        if what == "stop":
            self.dead.stopped.add(name)
        super().do_switch(line)
        if what == "start":
            self.dead.stopped.discard(name)
