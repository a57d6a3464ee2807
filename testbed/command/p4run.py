"""inalab p4run: an exercise of p4lang/tutorials on the embedded switch, with Mininet's prompt, in namespaces of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host
from mininet.topo import Topo
from rich.console import Console

from inalab.switches import runtime_json
from inalab.switches.control import Control, ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.target import EmbeddedSwitch
from inalab.switches.runtime_json import RuntimeJsonError
from inalab.switches.target import SwitchError
from inalab.testbed.command.prompt import DeadSwitches, follow
from inalab.testbed.command.servers import P4RuntimeServers, Relay, Servers, ThriftServers
from inalab.testbed.scratch import scratch
from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError
from inalab.topologies.exercise import End, Exercise, ExerciseError, ExerciseSwitch
from inalab.topologies.interfaces import OFFLOADS, Interface
from inalab.topologies.links import limit_rate, run

HOST_INTERFACE = "eth0"  # what the exercises call a host's first interface
# what net-tools' two commands of the exercises are in iproute2, where net-tools are not installed
INSTEAD = [
    ("route", re.compile(r"route add default gw (\S+) dev (\S+)"), r"ip route add default via \1 dev \2"),
    ("arp", re.compile(r"arp -i (\S+) -s (\S+) (\S+)"), r"ip neigh replace \2 lladdr \3 dev \1 nud permanent"),
]


def p4run(
    exercise: Exercise, folder: Path, logs: Path, lines: Sequence[str] | None, p4runtime: bool, thrift: bool, console: Console
) -> int:  # fmt: skip
    """Boot an exercise, run `lines` as at Mininet's prompt, or show the prompt where there are none; the exit code.

    With None for them, all hosts do what the exercise says that they `run`; it ends when they have, with 1 if any failed.

    With `p4runtime`, clients on this machine and in the network find the switches at 127.0.0.1:50051 and the ports after it; with
    `thrift`, at 127.0.0.1:9090 and the ports after it. Raises CompileError for a program, ExerciseError for what can't be done.
    """
    executables = {name: build(switch.program) for name, switch in exercise.switches.items()}
    for name, switch in exercise.switches.items():
        with OfflineSwitch(executables[name]) as rehearsed:  # what it refuses is told before anything is made
            _program(name, rehearsed, switch)
    logs.mkdir(parents=True, exist_ok=True)
    for note in exercise.notes:
        console.print(note, soft_wrap=True)
    with ExitStack() as stack:
        sockets = stack.enter_context(scratch("inalab-p4run-"))
        servers: list[Servers] = [P4RuntimeServers(exercise, folder, logs, sockets)] if p4runtime else []
        if thrift:
            servers.append(ThriftServers(exercise, sockets))
        relays = [stack.enter_context(Relay(one)) for one in servers]
        pid = isolation.start(partial(_inside, exercise, executables, folder, logs, lines, relays, console), session=False)
        for relay in relays:
            relay.start()
        return _wait(pid)


def _wait(pid: int) -> int:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the prompt's to handle
    at_end = signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # what was made is removed, and the network ends
    try:
        return isolation.wait(pid)
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, at_end)


def _inside(
    exercise: Exercise, executables: dict[str, Path], folder: Path, logs: Path, lines: Sequence[str] | None,
    relays: Sequence[Relay], console: Console,
) -> int:  # fmt: skip
    # the exercises' own scripts need scapy, which the python3 beside this one has
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        network = _network(exercise, executables, logs)
    except (NetworkError, SwitchError) as error:
        return _refused(error)
    try:
        _limit_links(exercise, network)
        for name, switch in exercise.switches.items():
            with network.get(name).control() as control:
                count = _program(name, control, switch)
            console.print(f"{name}: {os.path.relpath(switch.program, folder)}, {count} commands")
        for relay in relays:
            relay.leave()  # this process has a copy
            relay.servers.start()
            console.print(str(relay.servers), soft_wrap=True)
        for name, host in exercise.hosts.items():
            for command in host.commands:
                _run_on_host(network.get(name), command, console)
        dead = DeadSwitches(network)
        code = 0
        if lines is None:
            code = _run_hosts(exercise, network, folder, console)
        else:
            _prompt(network, lines, dead, logs, console)
        return 1 if dead.end() else code
    except (ControlError, RuntimeJsonError, ExerciseError, NetworkError, SwitchError) as error:
        return _refused(error)
    finally:
        for name in exercise.switches:
            network.get(name).stop(deleteIntfs=False)


def _refused(error: Exception) -> int:
    print(f"inalab: {error}", file=sys.stderr)
    return 1


# --- the network


def _network(exercise: Exercise, executables: dict[str, Path], logs: Path) -> Mininet:
    topo = Topo()
    for name, host in exercise.hosts.items():
        topo.addHost(name, ip=host.ip, mac=host.mac)
    for name, executable in executables.items():
        cpu_port = exercise.switches[name].cpu_port
        topo.addSwitch(name, cls=EmbeddedSwitch, executable=executable, logs=logs, seed=0, controller=cpu_port, dpid="1")
    for link in exercise.links:
        first, second = link.ends
        topo.addLink(first.node, second.node, port1=first.port, port2=second.port, intf=Interface)
    run_once = ["ip", "link", "set", "lo", "up"]
    os.spawnvp(os.P_WAIT, run_once[0], run_once)
    Mininet.inited = True  # its init() changes limits of the whole machine
    network = Mininet(topo, host=Host, link=Link, controller=None)
    for name in exercise.hosts:
        host = network.get(name)
        host.defaultIntf().rename(HOST_INTERFACE)
        for interface in host.intfList():
            if interface.name != "lo":
                interface.turn_off(*OFFLOADS)
    network.start()
    return network


def _limit_links(exercise: Exercise, network: Mininet) -> None:
    """A switch delays and limits what leaves its ports, so that its program sees the queue; a host's kernel does."""
    for link in exercise.links:
        for end in link.ends:
            if end.of_host:
                _limit_host(network.get(end.node), end, link.latency, link.bandwidth)
            else:
                _limit_port(network.get(end.node), end, link.latency, link.bandwidth)


def _limit_host(host: Host, end: End, latency: int, bandwidth: float | None) -> None:
    interface = host.intfs[end.port].name
    if bandwidth is not None:
        limit_rate(host, interface, bandwidth)
    if latency:
        parent = "parent 1:1 handle 10:" if bandwidth is not None else "root"
        run(host, f"tc qdisc replace dev {interface} {parent} netem delay {latency}us")


def _limit_port(switch: EmbeddedSwitch, end: End, latency: int, bandwidth: float | None) -> None:
    control = switch.control()
    if bandwidth is not None:
        control.command(f"set_queue_bandwidth {round(bandwidth * 1e6)} {end.port}")
    if latency:
        control.command(f"set_queue_delay {latency} {end.port}")
    control.close()


# --- what it is told


def _program(name: str, control: Control, described: ExerciseSwitch) -> int:
    """Fill a switch's tables; how many commands that took."""
    sources: list[tuple[str, Iterable[str]]] = []
    done = 0
    if described.commands is not None:
        sources.append(described.commands)
    if described.runtime is not None:
        of, file = described.runtime
        sources.append((of, runtime_json.commands(file, lambda table: control.command(f"table_info {table}"))))
    for of, lines in sources:
        try:
            for line in lines:
                control.command(line)
                done += 1
        except (ControlError, RuntimeJsonError) as error:
            raise ExerciseError(f"{of}: switch {name}: {error}") from None
    return done


def _run_on_host(host: Host, command: str, console: Console) -> None:
    """Run what the exercise says. What fails is told, and does not end it: some set a route that is there already."""
    for tool, pattern, instead in INSTEAD:
        if shutil.which(tool, path=isolation.search_path()) is None:
            command = pattern.sub(instead, command)
    with tempfile.TemporaryFile("w+") as output:  # a pipe would stay open while a command that ends in & runs on
        code = host.popen(["sh", "-c", command], stdin=DEVNULL, stdout=output, stderr=STDOUT).wait()
        output.seek(0)
        if code:
            console.print(f"{host.name}: `{command}` failed: {output.read().strip()}", soft_wrap=True)


def _run_hosts(exercise: Exercise, network: Mininet, folder: Path, console: Console) -> int:
    """Let all hosts do at once what the exercise says; their output, host by host, and 1 if any failed."""
    running = {
        name: network.get(name).popen(["sh", "-c", host.run], cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True)
        for name, host in exercise.hosts.items()
        if host.run
    }
    for name, process in running.items():
        for line in process.communicate()[0].splitlines():
            console.print(f"{name}: {line}", soft_wrap=True)
    return int(any(process.returncode for process in running.values()))


def _prompt(network: Mininet, lines: Sequence[str], dead: DeadSwitches, logs: Path, console: Console) -> None:
    if not lines:
        console.print(f"Logs are in {logs}. A switch's commands: sh python -m inalab.switches.cli SWITCH")
    try:
        follow(network, lines, dead)
    except KeyboardInterrupt:
        if lines:
            raise  # not all of them have run: the exit code says so
