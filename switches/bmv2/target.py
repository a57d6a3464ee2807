"""simple_switch as a target that a network can be built on: P4-utils' NetworkAPI without what it does to the whole machine."""

from __future__ import annotations

import hashlib
import os
import shlex
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mininet.net import Mininet
from mininet.topo import Topo
from p4utils.mininetlib.net import P4Mininet
from p4utils.mininetlib.network_API import NetworkAPI
from p4utils.utils.compiler import P4C, CompilationError

from ..cache import cache_directory
from ..embedded.compiler import preprocess_p4
from ..embedded.errors import CompileError
from . import installation
from .switch import Bmv2Switch

FIRST_THRIFT_PORT = 9090


class Net(P4Mininet):
    """P4-utils' Mininet without its changes to the machine (huge pages) and to the links (jumbo frames)."""

    def build(self) -> None:
        Mininet.build(self)

    def start(self) -> None:
        Mininet.start(self)

    def stop(self) -> None:
        Mininet.stop(self)


class Lab(NetworkAPI):
    """P4-utils' network of a Mininet topology, in namespaces of its own."""

    def __init__(self, topo: Topo, compiler: P4C, logs: Path) -> None:
        super().__init__()
        self.setLogLevel("warning")
        self.setNet(Net)
        self.disableCli()
        self.disableArpTables()
        self.disableGwArp()
        self.compilers = [compiler]  # it has compiled: nothing is left to do for a program of this name
        for name in topo.hosts():
            self.addHost(name, **topo.nodeInfo(name))
        for name in topo.switches():
            self.addP4Switch(name, cls=Bmv2Switch, p4_src=compiler.p4_src, log_dir=str(logs))
        for *_, parameters in topo.links(withInfo=True):
            self.addLink(**parameters, **self._addresses(topo, parameters))

    def _addresses(self, topo: Topo, link: dict[str, Any]) -> dict[str, Any]:
        """Addresses of the hosts at a link's ends; P4-utils has them with links, Mininet with hosts."""
        found: dict[str, Any] = {}
        for end in ("1", "2"):
            name = link[f"node{end}"]
            if not topo.isSwitch(name):
                host = topo.nodeInfo(name)
                found |= {f"addr{end}": host["mac"], f"params{end}": {"ip": host["ip"]}}
        return found

    def cleanup(self) -> None:
        """Not P4-utils' clean-up: it kills by name and deletes links and files of others. The namespaces end with the trial."""

    def save_topology(self) -> None:
        """Not to /tmp/topology.json, which all networks of a machine would share."""


def _compiled(program: Path, defines: dict[str, str], options: str) -> P4C:
    """P4-utils' compiler, having compiled; what it made is cached by the content of the program and of all that it may include."""
    digest = hashlib.sha256(f"{options} {installation.printed_version('p4c')}".encode())
    files = set(program.parent.rglob("*.p4"))
    with suppress(CompileError):  # p4c will tell
        files |= {Path(file) for file in preprocess_p4(program, defines).files}
    for path in sorted(files):
        digest.update(f"{os.path.relpath(path, program.parent)}\0".encode() + path.read_bytes() + b"\0")
    folder = cache_directory() / f"p4c-{program.stem}-{digest.hexdigest()[:24]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as scratch:
            P4C(str(program), outdir=str(Path(scratch) / "made"), opts=options).compile()
            try:
                (Path(scratch) / "made").rename(folder)
            except OSError:
                assert folder.exists()  # somebody else was faster
    compiler = P4C(str(program), outdir=str(folder), opts=options)
    compiler.compiled = True
    return compiler


class Bmv2Target:
    """Switches that run one program; compiles it when made, by P4-utils' compiler class. Raises CompilationError."""

    name = "bmv2"

    def __init__(self, program: Path, defines: dict[str, str]) -> None:
        options = [f"-D{name}={value}" for name, value in defines.items()]
        self.compiler = _compiled(program, defines, f"--target bmv2 --arch v1model --std p4-16 {shlex.join(options)}")
        self.numbers = count()

    def versions(self) -> dict[str, str]:
        """Of simple_switch, p4c and P4-utils."""
        return installation.versions()

    def switch(self, name: str, logs: Path, seed: int) -> Bmv2Switch:
        """A switch on no interfaces yet. simple_switch takes no seed: what its random() draws cannot be chosen."""
        number = next(self.numbers)
        return Bmv2Switch(
            name, device_id=number + 1, json_path=self.compiler.get_json_out(), thrift_port=FIRST_THRIFT_PORT + number,
            log_dir=str(logs),
        )  # fmt: skip

    def network(self, topo: Topo, logs: Path, seed: int) -> Mininet:
        """The topology, built and started through P4-utils."""
        Mininet.inited = True  # its init() changes limits of the whole machine
        lab = Lab(topo, self.compiler, logs)
        lab.startNetwork()
        return lab.net


__all__ = ["Bmv2Target", "CompilationError"]
