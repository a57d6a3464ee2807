"""A network plan at work: its Mininet on a target, switches under control, and the management network beside the data network."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from mininet.link import Link
from mininet.node import Node

from inalab.switches.control import Control, ControlError
from inalab.switches.target import RunningSwitch, SwitchError, Target, tell
from inalab.topologies import isolation
from inalab.topologies.interfaces import Interface
from inalab.topologies.links import limit_rate, run_all
from inalab.topologies.mininet_topo import MininetTopo
from inalab.topologies.plan import LinkPlan, NetworkPlan

MANAGEMENT_ADDRESS = "192.168.255.254"


class Network:
    """A built and running network. Must be made inside namespaces of its own (topologies.isolation).

    Raises NetworkError (a link), SwitchError (a switch that does not start) and ControlError (a command that it refuses).
    """

    def __init__(self, plan: NetworkPlan, target: Target, commands: dict[str, list[str]], logs: Path, seed: int = 0) -> None:
        """`commands` are what each switch is told before packets flow."""
        self.plan, self.seed = plan, seed
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.mininet = target.network(MininetTopo(plan=plan), logs, seed)
        self._address_hosts()
        self._name_hosts(logs)
        self._connect_management()
        self.commands = commands
        self.controls: dict[str, Control] = {name: self._control(name, lines) for name, lines in commands.items()}

    def _control(self, name: str, lines: list[str]) -> Control:
        try:
            return tell(self.switch(name), lines)
        except ControlError:
            if self.switch(name).exit_code() is None:
                raise
            raise SwitchError(ending(self.switch(name))) from None

    def restart(self, name: str) -> None:
        """End a switch's process, if it runs, and begin one with the same commands. SwitchError where that does not start."""
        if name in self.controls:
            self.controls.pop(name).close()
            self.switch(name).stop(deleteIntfs=False)
        self.switch(name).start([])
        self.controls[name] = self._control(name, self.commands[name])

    def kill(self, name: str) -> None:
        """End a switch's process for good, or until it is restarted. Nothing controls it then."""
        self.controls.pop(name).close()
        switch = self.switch(name)
        if (pid := switch.dataplane()) is not None:
            os.kill(pid, signal.SIGKILL)
        switch.stop(deleteIntfs=False)

    def switch(self, name: str) -> RunningSwitch:
        """A switch's node."""
        return self.mininet.get(name)  # type: ignore[no-any-return]

    def dead_switches(self) -> list[str]:
        """A sentence for each switch that has ended, and was not killed: how, and its last words."""
        return [ending(self.switch(name)) for name in self.controls if self.switch(name).exit_code() is not None]

    def set_rate(self, link: LinkPlan, rate: float) -> None:
        """Of a link that has one, in Mbit/s."""
        for name, port in ((link.lower, link.lower_port), (link.upper, link.upper_port)):
            node = self.mininet.get(name)
            limit_rate(node, node.intfs[port].name, rate, again=True)

    def cut(self, rank: int, on: bool) -> None:
        """Have the management network not reach a host, by rank, or reach it again. Its link stays up."""
        host = self.plan.everyone[rank]
        where = f"blackhole {host.management_ip}/32" if on else f"{host.management_ip}/32 dev mgmt{rank}"
        run_all(self.management, "ip", [f"route replace {where}"])

    def unreachable(self) -> list[str]:
        """The hosts whose management link is down or gone, by name."""
        return [host.name for host in self.plan.everyone if not _is_up(f"mgmt{host.rank}")]

    def _address_hosts(self) -> None:
        for host in self.plan.everyone:
            node = self.mininet.get(host.name)
            others = [h.station for h in self.plan.everyone if h is not host]
            stations = [*others, *(switch.station for switch in self.plan.switches.values())]
            on = f"dev {node.defaultIntf().name} nud permanent"
            run_all(node, "ip", [f"neigh replace {station.ip} lladdr {station.mac} {on}" for station in stations])

    def _name_hosts(self, scratch: Path) -> None:
        """Let names stand for addresses in these namespaces: h0 on the data network, h0-mgmt beside it. torch looks them up."""
        addresses = {h.name: h.station.ip for h in self.plan.everyone}
        addresses |= {f"{h.name}-mgmt": h.management_ip for h in self.plan.everyone}
        lines = [f"{ip} {name}\n::ffff:{ip} {name}\n" for name, ip in addresses.items()]
        (scratch / "hosts").write_text("".join(["127.0.0.1 localhost\n", *lines]))
        subprocess.run(["mount", "--bind", str(scratch / "hosts"), "/etc/hosts"], check=True)

    def _connect_management(self) -> None:
        """One veth to each host, routed by the trial's own namespace: no fault on a data link reaches it."""
        trial = Node("management", inNamespace=False)
        self.management = trial
        of_trial = [f"addr add {MANAGEMENT_ADDRESS}/32 dev lo"]
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for host in self.plan.everyone:
            node = self.mininet.get(host.name)
            link = Link(node, trial, intfName1=host.management_interface, intfName2=f"mgmt{host.rank}", intf=Interface)
            via = f"dev {link.intf1.name} src {host.management_ip}"
            run_all(node, "ip", [
                f"addr add {host.management_ip}/32 dev {link.intf1.name}",
                f"link set {link.intf1.name} up",
                f"route add {MANAGEMENT_ADDRESS}/32 {via}",
                f"route add 192.168.0.0/16 via {MANAGEMENT_ADDRESS} {via}",
            ])  # fmt: skip
            of_trial += [f"link set {link.intf2.name} up", f"route add {host.management_ip}/32 dev {link.intf2.name}"]
        run_all(trial, "ip", of_trial)

    def host_pid(self, rank: int) -> int:
        """The pid whose network namespace is that of a host, by rank."""
        return int(self.mininet.get(self.plan.everyone[rank].name).pid)

    def spawn(self, rank: int, work: Callable[[], int]) -> int:
        """Fork a process into a host; it ends with `work`'s exit code, at the latest with this process."""

        def inside() -> int:
            isolation.enter_network(self.host_pid(rank))
            return work()

        return isolation.fork(inside)

    def stop(self) -> None:
        """End the switches; the namespaces take the rest with them."""
        for control in self.controls.values():
            control.close()
        for name in self.controls:
            self.switch(name).stop(deleteIntfs=False)


def _is_up(interface: str) -> bool:
    """Whether packets pass over an interface of this namespace."""
    try:
        return Path(f"/sys/class/net/{interface}/operstate").read_text().strip() == "up"
    except OSError:
        return False


def ending(switch: RunningSwitch) -> str:
    """A sentence about a switch that has ended: how, and its last words."""
    code = switch.exit_code()
    assert code is not None
    words = switch.last_words()
    return f"switch {switch.name} {isolation.ending(code)}" + (f"; its log ends: {words}" if words else "")
