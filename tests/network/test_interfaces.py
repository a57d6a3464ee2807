"""An interface is what ifconfig and ethtool would make of it."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from inalab.topologies.errors import NetworkError
from inalab.topologies.interfaces import OFFLOADS, Interface
from tests.network.test_offloads import HostProcess, end, run_at
from tests.network.test_ptf_scenarios import isolated_test

# what the ioctl leaves on and the program turns off, with the program's summary: of no effect without tx-tcp-segmentation
LEFT_ON = {"tx-tcp-accecn-segmentation", "tcp-segmentation-offload"}


def printed(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def state(name: str) -> tuple[Any, ...]:
    """Address, prefix and broadcast, MAC address, whether it is up, and what is left to a device."""
    (shown,) = json.loads(printed("ip", "-json", "address", "show", "dev", name))
    addresses = [(a["local"], a["prefixlen"], a.get("broadcast")) for a in shown["addr_info"]]
    offloads = json.loads(printed("ethtool", "--json", "--show-features", name))[0]
    return (
        addresses,
        shown["address"],
        "UP" in shown["flags"],
        {k: v["active"] for k, v in offloads.items() if k not in LEFT_ON | {"ifname"}},
    )


def interface(name: str, pid: int) -> Interface:
    made = Interface(name, up=None)  # or Mininet would see to that at once, of no node
    made.node = SimpleNamespace(pid=pid, name="h0")
    return made


def test_it_is_what_ifconfig_and_ethtool_would_make_of_it() -> None:
    def body() -> None:
        for name in ("own0", "other0"):
            printed("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
            printed("ip", "link", "set", f"{name}-far", "up")
        own = interface("own0", os.getpid())
        own.setMAC("02:00:00:00:00:07")
        own.setIP("10.0.0.7/12")
        own.turn_off(*OFFLOADS)
        for words in ("down", "hw ether 02:00:00:00:00:07", "up", "10.0.0.7/12 up"):
            printed("ifconfig", "other0", *words.split())
        printed("ethtool", "-K", "other0", *(word for offload in OFFLOADS for word in (offload, "off")))
        assert state("own0") == state("other0")
        own.ifconfig("down")
        assert not state("own0")[2]

    isolated_test(body)


def test_tcp_hands_it_single_segments() -> None:
    def body() -> None:
        printed("ip", "link", "add", "own0", "type", "veth", "peer", "name", "own1")
        interface("own0", os.getpid()).send_segments_singly()
        segments = [
            json.loads(printed("ip", "-json", "-details", "link", "show", "dev", name))[0]["gso_max_segs"]
            for name in ("own0", "own1")
        ]
        assert segments[0] == 1 < segments[1]
        with pytest.raises(NetworkError, match="no interface with this name"):
            interface("none0", os.getpid()).send_segments_singly()

    isolated_test(body)


def test_it_is_in_its_nodes_namespace_and_the_caller_stays_in_its_own() -> None:
    def body() -> None:
        own, host = os.readlink("/proc/self/ns/net"), HostProcess(0)
        run_at(host, "ip link add far0 type veth peer name far1")
        interface("far0", host.process.pid).ifconfig("up")
        assert os.readlink("/proc/self/ns/net") == own
        at = ["nsenter", "-t", str(host.process.pid), "-n"]
        assert "UP" in json.loads(printed(*at, "ip", "-json", "link", "show", "dev", "far0"))[0]["flags"]
        with pytest.raises(NetworkError, match="No such device"):
            interface("none0", host.process.pid).ifconfig("up")
        assert os.readlink("/proc/self/ns/net") == own
        end([host])

    isolated_test(body)
