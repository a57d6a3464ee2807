"""A network plan as P4-utils' p4app.json, with the program and a commands file for each switch: `p4run --config` boots it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import TopologyError

TOPOLOGIES = {"rack": Racks(1, 4), "racks": Racks(2, 4)}
# what makes P4-utils run the embedded switch
EMBEDDED = {
    "switch_node": {"module_name": "inalab.switches.embedded.p4utils", "object_name": "EmbeddedP4Switch"},
    "client_module": {"module_name": "inalab.switches.embedded.p4utils", "object_name": "EmbeddedClient"},
}


def named(topology: str) -> Racks:
    """A topology by name, or RACKSxWORKERS; TopologyError if it is neither."""
    if topology in TOPOLOGIES:
        return TOPOLOGIES[topology]
    racks, by, workers = topology.partition("x")
    if not by or not (racks + workers).isdecimal() or not racks or not workers:
        raise TopologyError(f"topology {topology} is unknown: choose {', '.join(TOPOLOGIES)}, or RACKSxWORKERS such as 3x2")
    return Racks(int(racks), int(workers))


def export(
    plan: NetworkPlan, commands: dict[str, list[str]], program: Path, defines: dict[str, str], target: str, folder: Path
) -> Path:
    """Write p4app.json, the commands files and a copy of the program into `folder`; the path of p4app.json.

    Raises TopologyError if something is in the way.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TopologyError(f"{folder} is in the way: name another folder with --out")
    folder = folder.resolve()
    (folder / "commands").mkdir(parents=True)
    shutil.copytree(program.parent, folder / "p4")
    for name, lines in commands.items():
        (folder / "commands" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    path = folder / "p4app.json"
    path.write_text(json.dumps(_p4app(plan, folder / "p4" / program.name, defines, target, folder), indent=2) + "\n")
    return path


def _p4app(plan: NetworkPlan, program: Path, defines: dict[str, str], target: str, folder: Path) -> dict[str, Any]:
    """See p4utils.p4run.AppRunner for what each field means."""
    macros = "".join(f" -D{name}={value}" for name, value in defines.items())
    compiler: dict[str, Any] = {"options": {"opts": f"--target bmv2 --arch v1model --std p4-16{macros}"}}
    chosen: dict[str, Any] = {}
    if target == "embedded":
        compiler |= {"module_name": "inalab.switches.embedded.p4utils", "object_name": "EmbeddedCompiler"}
        chosen = EMBEDDED
    switches = {name: {"cli_input": str(folder / "commands" / f"{name}.txt")} for name in plan.switches}
    return {
        "p4_src": str(program),
        "cli": True,
        "pcap_dump": False,
        "enable_log": True,
        "compiler_module": compiler,
        **chosen,
        "topology": {"links": _links(plan), "hosts": {host.name: _host(host) for host in plan.hosts}, "switches": switches},
    }


def _host(host: Any) -> dict[str, Any]:
    """The default route is there for its side effect: P4-utils tells the host the switch's Ethernet address."""
    return {"defaultRoute": f"via {host.switch.ip}"}


def _links(plan: NetworkPlan) -> list[list[Any]]:
    """Ports, addresses and rates (Mbit/s). A switch's ports carry its address, for which P4-utils has sw_ip."""
    hosts = {host.name: host for host in plan.hosts}
    links = []
    for link in plan.links:
        parameters: dict[str, Any] = {"port1": link.lower_port, "port2": link.upper_port}
        if link.rate is not None:
            parameters["bw"] = link.rate
        if link.lower in hosts:
            station = hosts[link.lower].station
            parameters |= {
                "addr1": station.mac,
                "params1": {"ip": f"{station.ip}/16"},
                "sw_ip2": f"{hosts[link.lower].switch.ip}/16",
            }
        links.append([link.lower, link.upper, parameters])
    return links
