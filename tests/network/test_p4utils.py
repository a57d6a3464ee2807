"""P4-utils boots what is exported for it, on simple_switch and on the embedded switch, and workers sum over it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from inalab.switches.bmv2 import installation
from inalab.switches.sockets import socket_directory
from inalab.testbed.trial.harness import Job, on_hosts
from inalab.topologies import isolation
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from tests.network.test_ptf_scenarios import isolated_test

pytestmark = [
    pytest.mark.usefixtures("ports"),  # P4-utils has one topology on a machine
    pytest.mark.skipif(not installation.find("P4-utils"), reason="P4-utils is not installed (inalab doctor)"),
]
RACKS = Racks(2, 2)
HERE = Path("/run/p4run")
ENDS_WITHIN = 10.0


def private_machine() -> dict[str, str]:
    """P4-utils cleans up /tmp and changes limits of the whole machine: give it a /tmp of its own, and let nothing else pass."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp"], check=True)
    for limits in ("fs", "kernel", "vm"):
        subprocess.run(["mount", "--bind", f"/proc/sys/{limits}", f"/proc/sys/{limits}"], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", f"/proc/sys/{limits}"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    installation.missing()  # puts what is found out of sight on sys.path
    HERE.mkdir()
    (HERE / "bin").mkdir()
    (HERE / "bin" / "sudo").write_text("#!/bin/sh\nexit 0\n")
    (HERE / "bin" / "sudo").chmod(0o755)
    folders = [str(HERE / "bin"), os.environ["PATH"], "/usr/sbin:/sbin"]
    return {**os.environ, "PATH": ":".join(folders), "PYTHONPATH": ":".join(filter(None, [*sys.path, os.getcwd()]))}


class P4Run:
    """A network that p4run has booted, spoken to through Mininet's command line."""

    def __init__(self, config: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "p4utils.p4run", "--config", str(config)], cwd=HERE, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ask(self, line: str) -> str:
        """What a command of Mininet's command line prints."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{line}\npy 'the ' + 'end'\n")
        self.process.stdin.flush()
        sentences = ""
        for text in self.process.stdout:
            if "the end" in text:
                return re.sub(r"\x1b\[\d+m", "", sentences)
            sentences += text
        raise AssertionError(f"p4run ended: {sentences}")

    def spawn(self, rank: int, work: Callable[[], int]) -> int:
        """Run work in a host; as topologies.network.Network.spawn."""
        pid = int(self.ask(f"py h{rank}.pid").split()[-1])

        def inside() -> int:
            isolation.enter_network(pid)
            return work()

        return isolation.fork(inside)


@contextmanager
def booted(target: str) -> Iterator[P4Run]:
    environment = private_machine()
    exported = [
        sys.executable,
        "-m",
        "inalab.testbed.command.cli",
        "export-p4app",
        "2x2",
        "--target",
        target,
        "--out",
        str(HERE / "app"),
    ]
    subprocess.run([*exported, "--set", "slots=8"], check=True, capture_output=True, env=environment)
    network = P4Run(HERE / "app" / "p4app.json", environment)
    yield network
    sentences, _ = network.process.communicate("exit\n", timeout=30)
    assert network.process.returncode == 0, sentences


def on_host(job: Job, host: HostPlan) -> Any:
    return job.worker(host).all_reduce(np.arange(3000, dtype=np.int32) * (host.rank + 1))


def test_exported_network_boots_and_sums(request: pytest.FixtureRequest) -> None:
    def body() -> None:
        with booted(request.config.getoption("target")) as network:
            job = Job(RACKS, settings={"slots": 8})
            sums = on_hosts(SimpleNamespace(plan=NetworkPlan(RACKS), spawn=network.spawn), partial(on_host, job))  # type: ignore[arg-type]
            for total in sums:
                np.testing.assert_array_equal(total, np.arange(3000) * 10)

    isolated_test(body)


OURS = ["-m", "inalab.switches.embedded.p4utils"]
COURSE = """
import sys

from p4utils.mininetlib.network_API import NetworkAPI
from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI

net = NetworkAPI()
net.setLogLevel("warning")
net.addP4Switch("s1")
net.setP4Source("s1", "p4/switchml.p4")
for host in ("h1", "h2"):
    net.addHost(host)
    net.addLink(host, "s1")
net.l2()
net.disableCli()
net.startNetwork()
controller = SimpleSwitchThriftAPI(net.getNode("s1")["thrift_port"])
s1, h1, h2 = net.net.get("s1", "h1", "h2")


def reaches():
    waiting = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 5000)); s.settimeout(1); print('', flush=True); s.recv(9)"
    server = h2.popen([sys.executable, "-c", waiting])
    server.stdout.readline()
    h1.pexec([sys.executable, "-c", "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('%s', 5000))" % h2.IP()])
    return server.wait() == 0


print("before:", reaches())
for host in (h1, h2):
    port = s1.ports[host.defaultIntf().link.intf2]
    print("handle:", controller.table_add("forwarder.stations", "forward", [host.MAC()], [str(port)]))
print("after:", reaches())
controller.register_write("seen", 3, 9)
print("register:", controller.register_read("seen", 3), controller.register_read("seen")[2:5])
controller.mc_mgrp_create(7)
controller.mc_node_associate(7, controller.mc_node_create(1, [1, 2]))
print("entries:", controller.table_num_entries("forwarder.stations"))
controller.table_delete_match("forwarder.stations", [h1.MAC()])
print("fewer:", controller.table_num_entries(table_name="forwarder.stations"))
print("counter:", controller.counter_read("admission.rejected", 0))
controller.table_dump("forwarder.stations")
print("tables:", sorted(controller.get_tables())[-1], len(controller.get_register_arrays()) > 3, controller.get_custom_crc_calcs())
net.stopNetwork()
"""


P4RUNTIME = """
from p4utils.mininetlib.network_API import NetworkAPI
from p4utils.utils.sswitch_p4runtime_API import SimpleSwitchP4RuntimeAPI

net = NetworkAPI()
net.setLogLevel("warning")
net.setCompiler(p4rt=True)
net.addP4RuntimeSwitch("s1")
net.setP4Source("s1", "p4/switchml.p4")
for host in ("h1", "h2"):
    net.addHost(host)
    net.addLink(host, "s1")
net.l2()
net.disableCli()
net.startNetwork()
known = net.getNode("s1")
controller = SimpleSwitchP4RuntimeAPI(known["device_id"], known["grpc_port"], p4rt_path=known["p4rt_path"], json_path=known["json_path"])
s1, h1, h2 = net.net.get("s1", "h1", "h2")
print("before:", net.net.pingAll(timeout=1))
for host in (h1, h2):
    controller.table_add("forwarder.stations", "forwarder.forward", [host.MAC()], [str(s1.ports[host.defaultIntf().link.intf2])])
print("after:", net.net.pingAll(timeout=1))
controller.mc_mgrp_create(7, [1, 2])
net.stopNetwork()
"""


def course(how: list[str], script: str, environment: dict[str, str]) -> list[str]:
    """What the lines that a course's script prints say, if it is run by Python so."""
    (HERE / "course.py").write_text(script)
    command = [sys.executable, *how, "course.py"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if f'print("{line.partition(":")[0]}:"' in script]


def test_p4runtime_switches_have_their_server() -> None:
    pytest.importorskip("p4.v1", reason="P4Runtime's modules are not installed")

    def body() -> None:
        environment = private_machine()
        shutil.copytree("p4", HERE / "p4")
        assert course(OURS, P4RUNTIME, environment) == ["before: 100.0", "after: 0.0"]
        assert not list(socket_directory().iterdir())

    isolated_test(body)


@pytest.mark.parametrize("ending", ["raise ValueError('mine')", "import os; os.kill(os.getpid(), 9)", "pass"])
def test_a_script_that_does_not_stop_its_network_leaves_no_process(ending: str) -> None:
    pytest.importorskip("p4.v1", reason="P4Runtime's modules are not installed")
    script = P4RUNTIME.partition("known =")[0] + f"print('up')\n{ending}\n"

    def body() -> None:
        environment = private_machine()
        shutil.copytree("p4", HERE / "p4")
        (HERE / "course.py").write_text(script)
        command = [sys.executable, *OURS, "course.py"]
        done = subprocess.run(
            command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False
        )
        assert done.returncode == {"r": 1, "i": -9, "p": 0}[ending[0]]
        own = {psutil.Process(), *psutil.Process().parents()}
        running = [one for one in psutil.process_iter() if one not in own and one.status() != psutil.STATUS_ZOMBIE]
        assert not psutil.wait_procs(running, timeout=ENDS_WITHIN)[1]

    isolated_test(body)


def test_a_taken_port_is_named() -> None:
    pytest.importorskip("p4.v1", reason="P4Runtime's modules are not installed")
    script = "import socket\ntaken = socket.create_server(('0.0.0.0', 9559))\n" + P4RUNTIME

    def body() -> None:
        environment = private_machine()
        shutil.copytree("p4", HERE / "p4")
        words = [sys.executable, *OURS, "course.py"]
        (HERE / "course.py").write_text(script)
        done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "s1 cannot bind port 9559" in done.stderr

    isolated_test(body)


def test_a_course_is_run_as_it_is(request: pytest.FixtureRequest) -> None:
    def body() -> None:
        environment = private_machine()
        shutil.copytree("p4", HERE / "p4")
        sentences = course(OURS, COURSE, environment)
        assert sentences == [
            "before: False", "handle: 0", "handle: 1", "after: True", "register: 9 [0, 9, 0]", "entries: 2", "fewer: 1", "counter: (0, 0)",
            "tables: SwitchMLIngress.switchml.sender.uplinks True {}",
        ]  # fmt: skip
        assert not list(socket_directory().iterdir())
        if request.config.getoption("target") == "bmv2":
            assert course([], COURSE, environment) == sentences

    isolated_test(body)


def test_what_an_embedded_switch_does_not_have_is_reported() -> None:
    """Nothing is made for it: no folder of captures."""
    script = COURSE.partition("controller =")[0].replace(
        "net.disableCli()", 'net.disableCli()\nnet.enablePcapDumpAll()\nnet.setPriorityQueueNum("s1", 8)'
    )
    imported = script.replace("p4utils.mininetlib.network_API", "inalab.switches.embedded.p4utils")

    def body() -> None:
        environment = private_machine()
        shutil.copytree("p4", HERE / "p4")
        words = [sys.executable, "-c", imported + "net.stopNetwork()"]
        done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if line.startswith("switch s1: ")] == [
            "switch s1: pcap_dump has no effect, because an embedded switch writes no captures: use tcpdump -i s1-eth1 -w s1-eth1.pcap",
            "switch s1: priority_queues_num has no effect, because an embedded switch has one queue for each port",
        ]
        assert not (HERE / "pcap").exists()

    isolated_test(body)
