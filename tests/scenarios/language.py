"""Programs about the language and v1model: arithmetic, tables, replication, stacks, hashes, registers, ports."""

from __future__ import annotations

import random
import struct

from tests.scenarios.scenario import ETHERNET, PROGRAMS, Scenario, probes


def arithmetic() -> Scenario:
    rng = random.Random(7)
    corners = [0, 1, 0x7F, 0x80, 0xFF, 0x1000, 0x1FFF, 0x7FFFFFFF, 0x80000000, 2**63, 2**64 - 1]
    rows = [(a, b) for a in corners for b in corners[::3]]
    rows += [(rng.getrandbits(64), rng.getrandbits(rng.choice([4, 8, 16, 64]))) for _ in range(60)]
    return Scenario("arithmetic", PROGRAMS / "arithmetic.p4", probes(">QQ96x8x", rows))


def tables() -> Scenario:
    commands = [
        "table_add by_prefix set_result 10.0.0.0/8 => 1",
        "table_add by_prefix set_result 10.1.0.0/16 => 2",
        "table_add by_prefix set_result 10.1.2.3/32 => 3",
        "table_add by_prefix nothing 0.0.0.0/1 =>",
        "table_add by_mask set_second 0x10&&&0xf0 0&&&0 => 1 2 30",
        "table_add by_mask set_second 0x11&&&0xff 5&&&0xffff => 4 5 10",
        "table_add by_mask set_second 0x11&&&0xff 0&&&0 => 7 8 20",
        "table_add by_mask nothing 0x13&&&0xff 0&&&0 => 1",
        "table_add by_range set_third 10->20 1 => 50 1",
        "table_add by_range set_third 15->30 1 => 51 2",
        "table_add by_range nothing 16->16 1 => 0",
        "table_add exactly add 17 5 => 100",
        "table_add exactly nothing 17 6 =>",
        "table_set_default exactly add 1",
    ]
    rows = [
        (a, left, right, 0, 0, 0, 0)
        for a in (0x0A000001, 0x0A010001, 0x0A010203, 0x01020304, 0xC0000001)
        for left, right in (
            (0x11, 5),
            (0x11, 6),
            (0x10, 1),
            (0x13, 1),
            (15, 1),
            (16, 1),
            (20, 1),
            (31, 1),
            (0x20, 2),
            (0x30, 2),
            (0xFFFF, 1),
        )
    ]
    return Scenario("tables", PROGRAMS / "tables.p4", probes(">IHHBBBB", rows), commands)


def replication() -> Scenario:
    commands = [
        "mc_mgrp_create 5", "mc_node_create 11 1 3", "mc_node_create 12 2", "mc_node_create 13 3", "mc_node_associate 5 0",
        "mc_node_associate 5 1", "mc_node_associate 5 2", "mirroring_add 100 4", "mirroring_add_mc 101 5",
    ]  # fmt: skip
    rows = [(op, 0, 0, 0, 0, 0, 0, 0) for op in range(0, 17)]
    return Scenario("replication", PROGRAMS / "replication.p4", probes(">BBBBHHBB", rows, b"payload of the packet"), commands)


def stacks() -> Scenario:
    tails = [bytes([v << 1 | last for v, last in labels]) for labels in (
        [(5, 1)], [(5, 0), (6, 1)], [(5, 0), (6, 0), (7, 1)], [(5, 0), (6, 0), (7, 0), (8, 1)], [(5, 0)], [],
    )]  # fmt: skip
    packets = [
        (0, ETHERNET + struct.pack(">BBBB", op, 0, 0, 0) + tail + more)
        for op in range(6) for tail in tails for more in (b"\xee\xdd\xcc", b"\xef\xdd\xcc", b"")
    ]  # fmt: skip
    packets += [(0, ETHERNET + bytes([20, 0, 0, 0, n]) + b"abcdefghijkl"[:k]) for n in (0, 1, 3, 8, 9, 40) for k in (1, 8, 12)]
    return Scenario("stacks", PROGRAMS / "stacks.p4", packets)


def hashes() -> Scenario:
    rng = random.Random(3)
    rows = [(rng.getrandbits(32), rng.getrandbits(16), rng.getrandbits(8), op, checksum) for op in range(4) for checksum in (0, 0x1234)
            for _ in range(4)]  # fmt: skip
    rows.append((0x01020304, 0x0506, 7, 1, 0xFFFF & ~(0x0102 + 0x0304 + 0x0506 + 0x0701)))
    packets = [(0, ETHERNET + struct.pack(">IHBB", *row[:4]) + bytes(20) + struct.pack(">H", row[4]) + bytes(10)) for row in rows]
    return Scenario("hashes", PROGRAMS / "hashes.p4", packets)


def flow() -> Scenario:
    packets = probes(">BBBBBH", [(op, 10, 20, 0, 0, 0) for op in (0, 1, 2, 3, 4, 5, 200)], b"tail")
    other = [(0, ETHERNET[:12] + kind + b"more of it") for kind in (b"\x12\x00", b"\x99\x99", b"\x08\x00")]
    short = [(0, (ETHERNET + b"\x02\x03")[:n]) for n in (14, 15, 16)]
    return Scenario("flow", PROGRAMS / "flow.p4", packets + other + short)


def corners() -> Scenario:
    commands = [
        "table_add by_op6 leave 6 =>", "table_add by_op7 leave 7 =>", "table_add by_op8 leave 8 =>",
        "table_add by_op9 compare 9 => 0x0102030405060708090a0b0c0d0e0f10 9",
    ]  # fmt: skip
    big = bytes(range(1, 17))
    rows = [(op, a, b, 0, a, 3, 0, big, 0x0A010203) for op in range(17) for a, b in ((1, 1), (0, 2), (7, 7))]
    rows += [(9, 0, 0, 0, 0, 9, 0, bytes(15) + b"\x05", 0), (12, 0, 0, 0, 0, 9, 0, big, 0), (11, 1, 0, 0, 2, 0, 0, big, 0)]
    return Scenario("corners", PROGRAMS / "corners.p4", probes(">BBBBBBH16sI", rows, b"rest"), commands)


def registers() -> Scenario:
    rng = random.Random(5)
    rows = []
    for op in (1, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 108, 133):
        for value in (2**64 - 1, 0x80, 0, rng.getrandbits(64), 2**32, rng.getrandbits(64)):
            rows += [(op, rng.randrange(4), value, 0, 0), (op, 2, value, 0, 0)]
    return Scenario("registers", PROGRAMS / "registers.p4", probes(">BBQQB", rows))


def ports() -> Scenario:
    commands = [
        "mc_mgrp_create 5", "mc_node_create 11 1 3", "mc_node_create 12 2", "mc_node_associate 5 0", "mc_node_associate 5 1",
        "mc_mgrp_create 6", "mirroring_add 100 4", "mirroring_add_mc 101 5", "mirroring_add 102 5",
    ]  # fmt: skip
    rows = [(op, 0, port, 0, 0, 0, group) for op in range(13) for port, group in ((1, 5), (0, 6), (300, 77), (511, 0))]
    rows += [(op, then, 1, 0, 0, 0, 5) for op in (1, 5, 7, 8, 11) for then in range(1, 9)]
    return Scenario("ports", PROGRAMS / "ports.p4", probes(">BBHBBHH", rows, b"what follows"), commands)


def profiles() -> Scenario:
    commands = [
        *(f"act_prof_create_member shared {member}" for member in ("to 2 10", "more 20", "nothing", "to 3 30")),
        "table_indirect_add first 1 => 0", "table_indirect_add first 2 => 1", "table_indirect_add first 3 => 2",
        "table_indirect_set_default last 3", "table_indirect_add last 1&&&255 => 1 5", "table_indirect_add last 0&&&254 => 2 9",
        *(f"act_prof_create_member by_crc {member}" for member in ("to 2 1", "to 3 2", "to 4 3", "more 4", "nothing")),
        "act_prof_create_group by_crc", "act_prof_create_group by_crc",
        *(f"act_prof_add_member_to_group by_crc {member} {group}" for member, group in ((3, 0), (0, 0), (1, 0), (4, 1), (2, 1), (1, 1))),
        "table_indirect_add_with_group crc 8/5 => 0", "table_indirect_add crc 16/4 => 3", "table_indirect_add_with_group crc 10/8 => 1",
        "table_indirect_add_with_group again 9->11 => 1 1", "table_indirect_set_default_with_group again 0",
        "act_prof_remove_member_from_group by_crc 2 1", "act_prof_modify_member by_crc to 0 5 99",
        *(f"act_prof_create_member identical more {10 + member}" for member in range(5)), "act_prof_create_group identical",
        *(f"act_prof_add_member_to_group identical {member} 0" for member in range(5)), "table_indirect_add_with_group same 7 => 0",
        *(f"act_prof_create_member crc32 more {20 + member}" for member in range(3)), "act_prof_create_group crc32",
        *(f"act_prof_add_member_to_group crc32 {member} 0" for member in range(3)),
        "table_indirect_add_with_group long 7&&&255 => 0 1",
    ]  # fmt: skip
    rng = random.Random(9)
    rows = [(1, key, 0, 0, 0, 0) for key in range(5)]
    rows += [
        (op, key, rng.getrandbits(16), rng.getrandbits(32), 0, 0)
        for op in (2, 3)
        for key in (8, 9, 10, 11, 16, 40)
        for _ in range(6)
    ]
    rows += [(op, key, 0, number, 0, 0) for op in (4, 5) for key in (7, 8) for number in (*range(7), 2**31 + 1, 2**32 - 1)]
    return Scenario("profiles", PROGRAMS / "profiles.p4", probes(">BBHIBB", rows), commands)


def keys() -> Scenario:
    commands = [
        "table_add narrow mark 0 => 1", "table_add narrow mark 7 => 2", "table_add prefix mark 0/16 => 3", "table_add prefix mark 0x700/8 => 4",
        "table_add broad mark 0&&&0xffffffffffffffffff => 5 1", "table_add broad mark 7&&&0xff => 6 2", "table_add part mark 0 => 7",
        "table_add part mark 7 => 8", "table_add known mark 1 7 => 9", "table_add known mark 0 0 => 10", "table_add known mark 0 7 => 11",
    ]  # fmt: skip
    rows = [(base + op, a, a << 8 | a, bytes(8) + bytes([a]), 0) for base in (0, 16, 32) for op in range(6) for a in (0, 7, 9)]
    return Scenario("keys", PROGRAMS / "keys.p4", probes(">BBH9sB", rows), commands)


def parameters() -> Scenario:
    """By name, by default, of constructors and of the package; keys of an enum; an action with many parameters."""
    many = " ".join(str(1000 + n) for n in range(18))
    commands = [f"table_add by_enum mark {which} => {which + 70}" for which in range(3)]
    commands += [f"table_add wide many 5 => {many}"]
    rows = [(op, a, 7 * op + a, 1000 + op) for _ in range(2) for op in range(6) for a in (0, 1, 2, 5)]
    return Scenario("parameters", PROGRAMS / "parameters.p4", probes(">BBII", rows), commands)


def short() -> Scenario:
    """Packets that end anywhere within the headers, from every port: default ports, and headers that are not valid."""
    whole = ETHERNET + struct.pack(">BBHBBHH", 1, 0, 2, 0, 0, 0, 0)
    packets = [(port, whole[:n]) for port in (0, 3) for n in range(14, len(whole) + 1)]
    return Scenario("short", PROGRAMS / "ports.p4", packets)


def endings() -> Scenario:
    """Parsers that do not accept within others, and externs that set standard metadata which is then copied out."""
    commands = ["mirroring_add 100 3", "mc_mgrp_create 1", "mc_node_create 0 2 4", "mc_node_associate 1 0"]
    packets = [(0, ETHERNET + bytes([1, 0, 0, 0, 0, 0, 0, 0, inner]) + tail) for inner in range(6) for tail in (b"tail", b"")]
    packets += [(0, ETHERNET + bytes([0, kind, 0, 0, 0, 0, 0, 0])) for kind in range(13)]
    packets += [(0, ETHERNET + bytes([0, 0, then, 0, 0, 0, 0, 0])) for then in range(10)]
    return Scenario("endings", PROGRAMS / "endings.p4", packets, commands)


def objects() -> Scenario:
    """Registers and counters as arguments, and packets that end before, at, and behind what lookahead needs."""
    packets = [(0, ETHERNET + bytes([0, 7] + [0] * 7) + b"abc\x5d"[:n] + b"more"[: max(n - 4, 0)]) for n in range(9)]
    packets += [(0, ETHERNET + bytes([op, value] + [0] * 7)) for value in (3, 200, 90) for op in range(1, 10)]
    return Scenario("objects", PROGRAMS / "objects.p4", packets)
