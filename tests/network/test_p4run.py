"""inalab p4run: an exercise's topology.json on the embedded switch."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2
from thrift.Thrift import TException

from inalab.switches.target import Target
from inalab.switches.thrift.binding import TYPES, client
from inalab.switches.thrift.modules import thrift_connect
from tests.command_line import Command, inalab
from tests.p4runtime_client import Client

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action to(bit<9> port) { standard.egress_spec = port; }
    table by_address { key = { hdr.ethernet.dst : exact; } actions = { to; NoAction; } }
    apply { by_address.apply(); }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
MACS = {"h1": "08:00:00:00:00:01", "h2": "08:00:00:00:00:02"}


@pytest.fixture
def exercise(tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program for two switches in a row, over a link of 1 Mbit/s that takes 5 ms."""
    if target.name != "embedded":
        pytest.skip("p4run is for the embedded switch")
    (tmp_path / "forward.p4").write_text(PROGRAM)
    ports = {"s1": {"h1": 1, "h2": 2}, "s2": {"h1": 2, "h2": 1}}
    for switch, towards in ports.items():
        entries = [
            {
                "table": "I.by_address",
                "match": {"hdr.ethernet.dst": MACS[host]},
                "action_name": "I.to",
                "action_params": {"port": port},
            }
            for host, port in towards.items()
        ]
        (tmp_path / f"{switch}.json").write_text(json.dumps({"bmv2_json": "build/forward.json", "table_entries": entries}))
    hosts = {
        host: {
            "ip": f"10.0.0.{i}/24",
            "mac": MACS[host],
            "commands": [f"arp -i eth0 -s 10.0.0.{3 - i} {MACS[f'h{3 - i}']}", "false # said, and forgiven"],
        }
        for i, host in enumerate(MACS, 1)
    }
    links = [["h1", "s1-p1"], ["h2", "s2-p1"], ["s1-p2", "s2-p2", "5ms", 1]]
    switches = {"s1": {"runtime_json": "s1.json"}, "s2": {"runtime_json": "s2.json"}}
    (tmp_path / "topology.json").write_text(json.dumps({"hosts": hosts, "switches": switches, "links": links}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_exercise_runs_as_it_is(exercise: Path) -> None:
    """A ping of 1,028 bytes takes 2 (5 + 8.2) ms over the slow link and back."""
    done = inalab("p4run", "topology.json", "-c", "h1 ping -c 4 -s 986 h2", "-c", "sh echo over")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "s1: forward.p4, 2 commands" in done.stdout and "h1: `false" in done.stdout
    (least,) = re.findall(r"rtt min/avg/max/mdev = ([\d.]+)/", done.stdout)
    assert 26 < float(least) < 40
    assert "4 received" in done.stdout and done.stdout.rstrip().endswith("over")
    assert "commands" not in (exercise / "logs" / "s1.log").read_text()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("topology.json", '"s1-p1"', '"s1"', 'inalab: topology.json: link 1: "s1" needs a port, such as "s1-p1"'),
        ("topology.json", '"08:00:00:00:00:01"', '"08-00-00-00-00-01"', 'write colons instead of hyphens, "08:00:00:00:00:01"'),
        (
            "s1.json",
            '"I.to"',
            '"I.at"',
            "inalab: s1.json: switch s1: table entry 1: table I.by_address has no action I.at: it has I.to, NoAction",
        ),
        (
            "s1.json",
            '"port": 1',
            '"port": 512',
            "inalab: s1.json: switch s1: 512 is not a value for port of I.to, which has 9 bits",
        ),
        ("forward.p4", "hdr.ethernet.dst", "hdr.ethernet.dest", "has no field dest: did you mean dst?"),
        ("topology.json", "s2.json", "s3.json", "inalab: cannot read"),
    ],
)
def test_what_is_wrong_is_one_sentence(exercise: Path, file: str, old: str, new: str, message: str) -> None:
    text = (exercise / file).read_text()
    assert old in text
    (exercise / file).write_text(text.replace(old, new))
    done = inalab("p4run", "topology.json", "-c", "pingall")
    assert done.returncode != 0
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (exercise / "logs").exists()  # nothing was made


def test_no_command_ends_the_prompt(exercise: Path) -> None:
    """Mininet's own `iperf` waits for ever, and the others ended in a traceback. A switch that is stopped has not died."""
    (exercise / "script").write_text("source nofile\nsh echo sourced\n")
    lines = ["iperf h1 h9", "dpctl show", "x nowhere", "source script", "iperfudp fast h1 h2"]
    lines += ["switch s1 start", "switch s2 stop", "sh echo over"]
    done = inalab("p4run", "topology.json", *(word for line in lines for word in ("-c", line)))
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith(("***", "sourced", "over"))]
    assert said == [
        "*** Usage: iperf HOST HOST. The hosts are h1, h2.",
        "*** dpctl is for OpenFlow. For a P4 switch: sh python -m inalab.switches.cli SWITCH show_tables",
        "*** x nowhere: KeyError: 'nowhere'",
        "*** cannot read nofile: No such file or directory",
        "sourced",
        "*** fast is not a rate: write bits per second, such as 10M",
        "*** s1 runs already",
        "over",
    ]
    assert not done.stderr


@pytest.mark.skipif(shutil.which("iperf") is None, reason="iperf is not installed")
def test_iperf_ends_as_the_readmes_have_it(exercise: Path) -> None:
    """Over the link of 1 Mbit/s, over UDP, and where there is no way."""
    lines = ["iperf h1 h2", "iperfudp 500K h2 h1", "h1 ip link set eth0 down", "iperf", "iperfudp 500K h1 h2"]
    done = inalab("p4run", "topology.json", *(word for line in lines for word in ("-c", line)))
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("***")]
    assert said[::2][:2] == [
        "*** Iperf: testing TCP bandwidth between h1 and h2", "*** Iperf: testing UDP bandwidth between h2 and h1"
    ]  # fmt: skip
    rates = [float(rate) for line in (said[1], said[3]) for rate in re.findall(r"'([\d.]+) Kbits/sec'", line)]
    assert len(rates) == 4 and all(300 < rate < 1100 for rate in rates)
    assert said[5] == "*** h1 does not reach h2 by TCP, 10.0.0.2 port 5001: Network is unreachable"
    assert said[7].startswith("*** iperf on h1 measured nothing: ")


@pytest.mark.parametrize("after", [["-c", "pingall"], []], ids=["before a ping", "at the end"])
def test_a_switch_that_dies_is_reported(after: list[str], exercise: Path) -> None:
    done = inalab("p4run", "topology.json", "-c", 'py net.get("s1").process.kill()', *after)
    assert done.returncode == 1
    assert ("100% dropped" in done.stdout) == bool(after)
    assert done.stderr.startswith("inalab: switch s1 was killed by SIGKILL") and len(done.stderr.splitlines()) == 1


def test_a_host_may_have_two_links_and_what_runs_on(exercise: Path) -> None:
    """A command that ends in & does not keep the others waiting."""
    described = json.loads((exercise / "topology.json").read_text())
    described["links"].append(["h1", "s2-p3", "0", 2])
    described["hosts"]["h1"]["commands"] = ["ip address add 10.0.1.1/24 dev h1-eth1", "sleep 1000 &"]
    (exercise / "topology.json").write_text(json.dumps(described))
    done = inalab(
        "p4run", "topology.json", "-c", "h1 ip -oneline -4 address", "-c", "h1 tc class show dev h1-eth1", "-c", "h1 pgrep sleep"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^\d+: +(\S*eth\d) +inet (\S+)", done.stdout, re.M) == [("eth0", "10.0.0.1/24"), ("h1-eth1", "10.0.1.1/24")]
    assert "rate 2Mbit" in done.stdout and re.search(r"^\d+$", done.stdout, re.M)


def test_an_interrupt_at_the_prompt_ends_what_runs_there_alone(exercise: Path) -> None:
    """Ctrl-C goes to all processes of the terminal's foreground: not to switches, which go on forwarding."""
    words = [str(Path(sys.executable).parent / "inalab"), "p4run", "topology.json"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    shown = b""

    def until(text: bytes) -> None:
        nonlocal shown
        end = time.monotonic() + 40
        while text not in shown:
            assert time.monotonic() < end and select.select([terminal], [], [], 10)[0], shown.decode()[-500:]
            shown += os.read(terminal, 4096)
        shown = shown.partition(text)[2]

    try:
        until(b"mininet>")
        os.write(terminal, b"h1 ping h2\n")
        until(b"icmp_seq=2")
        os.write(terminal, b"\x03")
        until(b"mininet>")
        os.write(terminal, b"h1 ping -c 1 h2\n")
        until(b"1 received")
        until(b"mininet>")
        os.write(terminal, b"exit\n")
        assert os.waitpid(pid, 0)[1] == 0
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(terminal)


def test_commands_that_an_interrupt_cuts_short_have_not_succeeded(exercise: Path) -> None:
    with Command("p4run", "topology.json", "-c", "sh echo begun", "-c", "sh sleep 1000", "-c", "sh echo over") as running:
        end = time.monotonic() + 40
        while "begun" not in running.printed()[0]:
            assert time.monotonic() < end and running.poll() is None, running.printed()
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(40) == 130
        assert "over" not in running.printed()[0] and "Traceback" not in running.printed()[1]


def _p4info(path: Path) -> Any:
    """What p4run writes before anything else."""
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.05)
    time.sleep(0.2)
    return text_format.Parse(path.read_text(), p4info_pb2.P4Info())


def _arbitrate(client: Client) -> None:
    """Connect as often as it takes until the server listens."""
    end = time.monotonic() + 30
    while True:
        try:
            grpc.channel_ready_future(client.channel).result(timeout=1)
            client.stub.Capabilities(p4runtime_pb2.CapabilitiesRequest())
            break
        except (grpc.FutureTimeoutError, grpc.RpcError):
            assert time.monotonic() < end, "no server listens"
            time.sleep(0.1)
    client.reconnect()
    assert client.arbitrate().status.code == 0


@pytest.mark.usefixtures("ports")
def test_controllers_find_the_switches_where_they_look_for_them(exercise: Path) -> None:
    """From another shell of the machine, by P4Runtime; the ports are there once on a machine."""
    described = json.loads((exercise / "topology.json").read_text())
    described["switches"] = {"s1": {"cpu_port": "510"}, "s2": {}}
    (exercise / "topology.json").write_text(json.dumps(described))
    with Command("p4run", "topology.json", "--p4runtime", "-c", "h1 ping -c 60 -i 0.2 h2") as running:
        clients = []
        for number, ports in enumerate(({"h1": 1, "h2": 2}, {"h1": 2, "h2": 1})):
            info = _p4info(exercise / "build" / "forward.p4.p4info.txtpb")
            client = Client(f"127.0.0.1:{50051 + number}", info, device_id=number)
            clients.append(client)
            _arbitrate(client)
            client.set_pipeline()
            for host, port in ports.items():
                address = int(MACS[host].replace(":", ""), 16)
                client.insert(table_entry=client.entry("by_address", address, action=client.action("to", port)))
        code, output = running.wait(60), "".join(running.printed())
        for client in clients:
            client.close()
    assert code == 0, output
    assert "s1: forward.p4, 0 commands" in output and "P4Runtime: s1 at 127.0.0.1:50051, s2 at 127.0.0.1:50052" in output
    (received,) = re.findall(r"(\d+) received", output)
    assert int(received) > 10
    assert json.loads((exercise / "build" / "forward.json").read_text()) == {"program": "../forward.p4"}


@pytest.mark.usefixtures("ports")
def test_thrift_clients_find_the_switches_where_they_look_for_them(exercise: Path) -> None:
    """From another shell of the machine; the ports are there once on a machine."""
    described = json.loads((exercise / "topology.json").read_text())
    described["switches"] = {"s1": {}, "s2": {}}
    (exercise / "topology.json").write_text(json.dumps(described))
    with Command("p4run", "topology.json", "--thrift", "-c", "h1 ping -c 60 -i 0.2 h2") as running:
        for number, ports in enumerate(({"h1": 1, "h2": 2}, {"h1": 2, "h2": 1})):
            standard = _thrift(9090 + number)
            for host, port in ports.items():
                address = TYPES["BmMatchParamExact"](bytes.fromhex(MACS[host].replace(":", "")))
                key = TYPES["BmMatchParam"](TYPES["BmMatchParamType"].EXACT, exact=address)
                options = TYPES["BmAddEntryOptions"]()
                standard.bm_mt_add_entry(0, "I.by_address", [key], "I.to", [port.to_bytes(2)], options)
        code, output = running.wait(60), "".join(running.printed())
    assert code == 0, output
    assert "Thrift: s1 at 127.0.0.1:9090, s2 at 127.0.0.1:9091" in output
    (received,) = re.findall(r"(\d+) received", output)
    assert int(received) > 10


def _thrift(port: int) -> Any:
    """A client, as soon as the server answers."""
    end = time.monotonic() + 30
    while True:
        try:
            (standard,) = thrift_connect("127.0.0.1", port, [("standard", client("standard"))])
            standard.bm_mgmt_get_info()
            return standard
        except (TException, OSError, EOFError, SystemExit):
            assert time.monotonic() < end, "no server listens"
            time.sleep(0.1)


@pytest.mark.usefixtures("ports")
def test_a_port_that_is_taken_is_told(exercise: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 50052))
        done = inalab("p4run", "topology.json", "--p4runtime", "-c", "pingall")
    assert done.returncode != 0 and "port 50052 of this machine" in done.stderr and "is taken" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
