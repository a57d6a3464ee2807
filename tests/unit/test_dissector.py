"""The dissector that is made from the P4 programs finds in packets what scapy put there; tshark runs it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from scapy.fields import BitField

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire
from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.errors import CompileError
from inalab.testbed import dissector
from inalab.testbed.trial import pcapng
from tests import atp_packets, packets
from tests.command_line import inalab
from tests.tshark import column, dissected, needs_tshark

SEED = 1


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dissector") / "inalab.lua"
    dissector.write(path)
    return path


def capture(path: Path, frames: list[bytes]) -> Path:
    head = pcapng.header("h0-tor0", "made by a test")
    path.write_bytes(head + b"".join(pcapng.packet(i, frame, len(frame), False) for i, frame in enumerate(frames)))
    return path


def drawn(layer: Any, kinds: range) -> list[dict[str, int]]:
    """Headers of every kind with values from a seed, and their least and largest ones."""
    header = [f for f in layer.fields_desc if f.name not in ("seen", "vector")]
    fields = {f.name: f.size if isinstance(f, BitField) else 8 * len(f.addfield(None, b"", 0)) for f in header}
    rng = random.Random(SEED)
    ways = [lambda bits: 0, lambda bits: (1 << bits) - 1, *[rng.getrandbits] * 4]
    return [{name: way(bits) for name, bits in fields.items()} | {"kind": kind} for kind in kinds for way in ways]


def vectors(sizes: list[int]) -> list[list[int]]:
    rng = random.Random(SEED)
    return [[rng.randint(-(2**31), 2**31 - 1) for _ in range(k)] for k in sizes]


@needs_tshark
def test_switchml_packets(tmp_path: Path, script: Path) -> None:
    headers = drawn(packets.SwitchMLHeader, range(1, 5))
    of_kind = [vectors([(32, 64, 256)[i % 3]])[0] if header["kind"] <= wire.KIND_RESULT else [] for i, header in enumerate(headers)]
    seen = [random.Random(i).getrandbits(32) for i in range(len(headers))]
    frames = [
        packets.frame(packets.SWITCH, packets.PARENT, header | ({} if vector else {"seen": bitmap}), vector)
        for header, vector, bitmap in zip(headers, of_kind, seen, strict=True)
    ]
    found = dissected(capture(tmp_path / "s.pcapng", frames), script, "ina.switchml")
    for header, vector, bitmap, its in zip(headers, of_kind, seen, found, strict=True):
        assert {name: int(its[f"ina.switchml.{name}"]) for name in header} == header
        if vector:
            assert [int(v) for v in its["ina.switchml.vector"]["ina.switchml.vector.value"]] == vector
        else:
            assert int(its["ina.switchml.status.seen"]) == bitmap


@needs_tshark
def test_atp_packets(tmp_path: Path, script: Path) -> None:
    headers = drawn(atp_packets.AtpHeader, range(1, 8))
    of_kind = [vectors([(32, 64, 256)[i % 3]])[0] if h["kind"] <= atp_wire.KIND_RESULT else [] for i, h in enumerate(headers)]
    pairs = list(zip(headers, of_kind, strict=True))
    frames = [atp_packets.frame(packets.SWITCH, packets.PARENT, header, vector) for header, vector in pairs]
    found = dissected(capture(tmp_path / "a.pcapng", frames), script, "ina.atp")
    for (header, vector), its in zip(pairs, found, strict=True):
        assert {name: int(its[f"ina.atp.{name}"]) for name in header} == header
        assert [int(v) for v in its.get("ina.atp.vector", {}).get("ina.atp.vector.value", [])] == vector


@needs_tshark
def test_kinds_have_their_names_and_the_list_of_packets_is_legible(tmp_path: Path, script: Path) -> None:
    query = packets.frame(packets.SWITCH, packets.PARENT, {"kind": wire.KIND_QUERY, "slot": 3, "chunk": 17}, [])
    gradient = atp_packets.AtpJob(workers=2).gradient(1, 5, packets.vector(1), index=9, resend=1)
    path = capture(tmp_path / "both.pcapng", [query, gradient])
    assert column(path, script, "_ws.col.Protocol", "ina.switchml.slot", only='ina.switchml.kind == "QUERY"') == [["SwitchML", "3"]]
    (info,) = column(path, script, "_ws.col.Info", only='ina.atp.kind == "GRADIENT"')
    assert info[0].startswith("GRADIENT bitmap0=")
    assert " resend edge_switch index=9 " in info[0]


@needs_tshark
def test_a_datagram_that_ends_too_soon_is_marked(tmp_path: Path, script: Path) -> None:
    whole = packets.frame(packets.SWITCH, packets.PARENT, {"kind": wire.KIND_STATUS, "seen": 1}, [])
    udp = packets.datagram(packets.SWITCH, packets.PARENT, wire.UDP_PORT, packets.payload(whole)[:-2])  # type: ignore[arg-type]
    path = capture(tmp_path / "short.pcapng", [udp, whole])
    assert column(path, script, "_ws.expert.message", only="ina.switchml") == [["The datagram ends before status does"], [""]]


def test_ports_layout_and_names_come_from_the_program() -> None:
    made = dissector.described(check_p4(Path("p4/switchml.p4")), "switchml", "SwitchML")
    assert made.ports == {wire.UDP_PORT: "parse_switchml"}
    assert made.headers["switchml"]["bytes"] == wire.HEADER.itemsize
    offsets = {f["name"]: f["at"] for f in made.headers["switchml"]["fields"]}
    assert offsets == {name: 8 * wire.HEADER.fields[name][1] for name in wire.HEADER.names or ()}  # type: ignore[index]
    assert made.headers["vector"] == {"list": 32}


def test_what_the_dissector_cannot_follow_is_refused_with_its_place() -> None:
    with pytest.raises(CompileError, match=r"a dissector cannot be made of this: no state selects a destination port"):
        dissector.described(check_p4(Path("tests/programs/wire.p4")), "wire", "wire")


def test_the_command_writes_it_and_tells_how_to_open_it(tmp_path: Path) -> None:
    done = inalab("dissector", "--out", str(tmp_path / "my.lua"))
    assert done.stdout == (
        f"dissector of ATP (UDP port 48866), SwitchML (UDP port 48864): wireshark -X lua_script:{tmp_path / 'my.lua'}\n"
    )
    assert "local protocols = {" in (tmp_path / "my.lua").read_text()
    done = inalab("dissector", "--out", str(tmp_path / "no" / "my.lua"))
    assert (done.returncode, done.stderr) == (
        1,
        f"inalab: {tmp_path / 'no' / 'my.lua'} cannot be written: No such file or directory\n",
    )
