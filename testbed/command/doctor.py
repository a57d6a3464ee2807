"""What a machine has and lacks for inalab: each finding with what it means and how to get it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.hosts.drivers import verbs
from inalab.hosts.drivers.sockets import SOCKET_BUFFER, granted_buffer
from inalab.switches.bmv2 import installation
from inalab.testbed.command.terminal import styled
from inalab.testbed.lab import confinement
from inalab.topologies import isolation

COMPILER = "C compiler"  # all that target virtual needs


@dataclass(frozen=True)
class Check:
    """One thing to look for. `needed` things stop the embedded target when they are missing."""

    name: str
    needed: bool
    found: Callable[[], str]  # empty: it is missing
    means: str
    get: str | Callable[[], str]


def _tool(name: str) -> Callable[[], str]:
    return lambda: shutil.which(name, path=isolation.search_path()) or ""


def _qdisc(words: str) -> str:
    """Whether the kernel takes a queueing discipline, tried in a namespace of its own."""

    def attempt() -> int:
        subprocess.run(["ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"], check=True)
        return subprocess.run(
            ["tc", "qdisc", "add", "dev", "probe0", "root", *words.split()], capture_output=True, check=False
        ).returncode

    return "in this kernel" if _tool("tc")() and isolation.possible(attempt) else ""


def _namespaces() -> str:
    if not isolation.possible():
        return ""
    return "can be made" if os.geteuid() == 0 else "can be made by this user, in a user namespace"


def _mininet() -> str:
    spec = find_spec("mininet")
    return str(Path(spec.origin).parent.resolve()) if spec and spec.origin else ""


def _confinement() -> str:
    return "bubblewrap" if confinement.possible() else ""


def _c_compiler() -> str:
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""


def _cores() -> str:
    return f"{os.cpu_count()}"


def _socket_buffers() -> str:
    granted = granted_buffer()
    return f"{granted // 1024:,} KiB" if granted >= SOCKET_BUFFER else ""


def _small_buffers() -> str:
    return f"{granted_buffer() // 1024:,} KiB are granted; raise net.core.rmem_max and net.core.wmem_max to {SOCKET_BUFFER}"


def _soft_roce() -> str:
    return "" if verbs.missing() else "rdma_rxe, pyverbs"


CHECKS = (
    Check(
        "namespaces",
        True,
        _namespaces,
        "every trial lives in its own",
        "run with sudo, or let users make them (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns); in a container both may be barred",
    ),
    Check("mnexec", True, _tool("mnexec"), "Mininet starts its hosts with it", "apt-get install mininet"),
    Check("Mininet", True, _mininet, "builds hosts and links", "apt-get install mininet"),
    Check(COMPILER, True, _c_compiler, "the embedded switch compiles P4 programs with it", "apt-get install gcc"),
    Check("HTB", True, lambda: _qdisc("handle 1: htb default 1"), "limits the rate of links", "a kernel with CONFIG_NET_SCH_HTB"),
    Check(
        "netem",
        False,
        lambda: _qdisc("netem delay 1ms"),
        "not used: loss is injected in the switches",
        "a kernel with CONFIG_NET_SCH_NETEM",
    ),
    Check(
        "ethtool",
        False,
        _tool("ethtool"),
        "turns off what hosts of your own leave to their interfaces",
        "apt-get install ethtool",
    ),
    Check("Soft-RoCE", False, _soft_roce, "roce=kernel: Linux makes the packets of scheme switchml-rdma", verbs.missing),
    *(Check(p.name, False, p.found, f"target bmv2: {p.means}", p.get) for p in installation.PIECES),
    Check(
        "confinement",
        False,
        _confinement,
        "programs of students run in it when a lab is checked",
        "apt-get install bubblewrap; a kernel that lets users make namespaces, see above",
    ),
    Check("large socket buffers", False, _socket_buffers, "hold a burst of packets; small ones lose some of it", _small_buffers),
    Check("cores", False, _cores, "eight workers at 10 Mbit/s are valid on two", ""),
)


OPEN = "open to all users of this machine while they run: p4run's servers, campaigns without TLS; docs/explanation/security.md"


def examine(console: Console) -> int:
    """Print the findings and which targets can run; 0 if the embedded target can, 1 if not."""
    table = Table(title="inalab doctor", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", "what", "found", "what for"):
        table.add_column(heading, overflow="fold")
    lacking, advice = [], []
    for check in CHECKS:
        found = check.found()
        if check.needed and not found:
            lacking.append(check.name)
        if not found:
            advice.append(f"{check.name} missing: {check.get if isinstance(check.get, str) else check.get()}")
        mark = styled(("✓", "green") if found else ("✗", "red") if check.needed else ("–", "dim"))
        table.add_row(mark, check.name, found or "missing", check.means)
    console.print(table)
    for sentence in [*advice, OPEN]:
        console.print(sentence, soft_wrap=True)
    bmv2 = [*lacking, *(piece.name for piece in installation.missing())]
    virtual = [name for name in lacking if name == COMPILER]
    for target, missing in (("embedded", lacking), ("bmv2", bmv2), ("virtual", virtual)):
        verdict = f"cannot run: {', '.join(missing)} missing" if missing else "can run"
        console.print(f"target {target} {verdict}", soft_wrap=True)
    return 1 if lacking else 0
