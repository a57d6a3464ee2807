"""A network plan built in Mininet: switches of a target, rate-limited links, and the management network beside it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host, Node, Switch

from switches.control import Control, ControlError
from topologies import isolation
from topologies.racks import NetworkPlan

MANAGEMENT_ADDRESS = "192.168.255.254"
PHYSICAL_BYTES = 24  # preamble, FCS and gap, which HTB is told to count with every frame
BURST_SECONDS = 0.001


class NetworkError(RuntimeError):
    """The network could not be built as asked; str() says what failed."""


class Target(Protocol):
    """What runs the switches: starts one on given interfaces, and gives control of it."""

    def launch(self, name: str, interfaces: dict[int, str], commands: list[str], log: Path, seed: int) -> subprocess.Popen[str]: ...

    def control(self, name: str) -> Control: ...


class RunningSwitch(Switch):
    """A switch node whose dataplane the network launches; it lives in the namespace of the trial itself."""

    def __init__(self, name: str, **parameters: Any) -> None:
        super().__init__(name, **{**parameters, "inNamespace": False})

    def start(self, controllers: list[Any]) -> None:
        """Nothing here: Network launches the dataplane once all links are up."""

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the node's shell and its interfaces."""
        super().stop(deleteIntfs)


class RateLink(Link):
    """A link whose two ends send at `rate` Mbit/s, counted as on a real wire."""

    def __init__(self, node1: Node, node2: Node, port1: int | None = None, port2: int | None = None, **parameters: Any) -> None:
        rate = parameters.pop("rate", None)
        super().__init__(node1, node2, port1=port1, port2=port2, **parameters)
        for interface in (self.intf1, self.intf2):
            run(interface.node, f"ethtool -K {interface.name} tx off tso off gso off gro off")
            if rate is not None:
                limit_rate(interface.node, interface.name, rate)


def run(node: Node, command: str) -> str:
    """Run a command in a node; NetworkError if it fails."""
    output, error, code = node.pexec(command)
    if code:
        raise NetworkError(f"{node.name}: `{command}` failed: {(error or output).strip()}")
    return str(output)


def limit_rate(node: Node, interface: str, rate: float) -> None:
    """Limit what an interface sends to `rate` Mbit/s by HTB, and read back that it is in force."""
    burst = max(1600, int(rate * 1e6 / 8 * BURST_SECONDS))
    run(node, f"tc qdisc add dev {interface} root handle 1: htb default 1")
    run(
        node,
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {int(rate * 1e6)}bit burst {burst} cburst {burst} "
        f"overhead {PHYSICAL_BYTES} quantum 1600",
    )
    shown = run(node, f"tc class show dev {interface}")
    found = re.search(r"class htb 1:1 .*?\brate (\d+)([KMG]?)bit", shown)
    applied = int(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[found[2]] if found else 0
    if abs(applied - rate * 1e6) > 0.01 * rate * 1e6:
        raise NetworkError(f"{interface}: a rate of {rate} Mbit/s was asked for, and tc reports {shown.strip() or 'none'}")


class Network:
    """A built and running network. Must be made inside namespaces of its own (topologies.isolation)."""

    def __init__(self, plan: NetworkPlan, target: Target, commands: dict[str, list[str]], logs: Path, seed: int = 0) -> None:
        """`commands` are what each switch is told before packets flow."""
        self.plan, self.target, self.logs, self.seed = plan, target, logs, seed
        self.processes: dict[str, subprocess.Popen[str]] = {}
        Mininet.inited = True  # its init() changes limits of the whole machine
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.mininet = Mininet(plan.topo(), switch=RunningSwitch, host=Host, link=RateLink, controller=None)
        self._address_hosts()
        self._connect_management()
        self.mininet.start()
        for name, told in commands.items():
            node = self.mininet.get(name)
            interfaces = {a.port: node.intfs[a.port].name for a in plan.switches[name].attachments}
            self.processes[name] = target.launch(name, interfaces, told, logs, seed)
        self.controls = {name: self._control(name) for name in commands}

    def _address_hosts(self) -> None:
        for host in self.plan.hosts:
            node = self.mininet.get(host.name)
            others = [(h.station.ip, h.station.mac) for h in self.plan.hosts if h is not host]
            for ip, mac in [*others, (host.switch.ip, host.switch.mac)]:
                run(node, f"ip neigh replace {ip} lladdr {mac} dev {node.defaultIntf().name} nud permanent")

    def _connect_management(self) -> None:
        """One veth to each host, routed by the trial's own namespace: no fault on a data link reaches it."""
        trial = Node("management", inNamespace=False)
        self.management = trial
        run(trial, f"ip addr add {MANAGEMENT_ADDRESS}/32 dev lo")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for host in self.plan.hosts:
            node = self.mininet.get(host.name)
            link = Link(node, trial, intfName1=f"{host.name}-mgmt", intfName2=f"mgmt{host.rank}")
            run(node, f"ip addr add {host.management_ip}/32 dev {link.intf1.name}")
            run(node, f"ip link set {link.intf1.name} up")
            run(trial, f"ip link set {link.intf2.name} up")
            run(trial, f"ip route add {host.management_ip}/32 dev {link.intf2.name}")
            run(node, f"ip route add {MANAGEMENT_ADDRESS}/32 dev {link.intf1.name} src {host.management_ip}")
            run(node, f"ip route add 192.168.0.0/16 via {MANAGEMENT_ADDRESS} dev {link.intf1.name} src {host.management_ip}")

    def _control(self, name: str) -> Control:
        end = time.monotonic() + 10
        while True:
            if self.processes[name].poll() is not None:
                raise NetworkError(f"switch {name} ended at once: {self.last_words(name)}")
            try:
                return self.target.control(name)
            except ControlError as error:
                if time.monotonic() > end:
                    raise NetworkError(f"switch {name} does not answer: {error}; {self.last_words(name)}") from None
                time.sleep(0.02)

    def last_words(self, name: str) -> str:
        """The last lines of a switch's log."""
        log = self.logs / f"{name}.log"
        return " / ".join(log.read_text(errors="replace").splitlines()[-3:]) if log.exists() else "no log"

    def host_pid(self, rank: int) -> int:
        """The pid whose network namespace is that of a worker's host."""
        return int(self.mininet.get(self.plan.hosts[rank].name).pid)

    def spawn(self, rank: int, work: Callable[[], int]) -> int:
        """Fork a process into a worker's host; it ends with `work`'s exit code, at the latest with this process."""

        def inside() -> int:
            isolation.enter_network(self.host_pid(rank))
            return work()

        return isolation.fork(inside)

    def stop(self) -> None:
        """End the switches; the namespaces take the rest with them."""
        for control in self.controls.values():
            control.close()
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=5)
