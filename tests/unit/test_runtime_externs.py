"""Meters, digests, custom hashes, wide registers, and entries that a program brings: what commands say of them."""

from __future__ import annotations

import binascii
import time
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.errors import CompileError
from tests.probe import ask, compile_, program, switch

ONE = "standard.egress_spec = 1;"


def test_a_meter_colours_by_two_rates(tmp_path: Path) -> None:
    """Without tokens that come back, a burst of 1 and one of 2 last for one green and one yellow packet."""
    locals_ = "meter(4, MeterType.packets) m;"
    body = f"{ONE} hdr.probe.b = 9; m.execute_meter((bit<32>)hdr.probe.a, hdr.probe.b);"
    with switch(program(tmp_path, body, locals_)) as running:

        def colour(cell: int) -> int:
            return int.from_bytes(ask(running, bytes([cell]) + bytes(19))[1:3], "big")

        assert [colour(1) for _ in range(3)] == [0, 0, 0]  # it has no rates yet
        running.command("meter_set_rates m 1 0:1 0:2")
        assert [colour(1) for _ in range(4)] == [0, 1, 2, 2]
        assert colour(2) == 0 and colour(200) == 9  # there is no cell 200
        running.command("meter_array_set_rates Work.m 0.5:1 1000000:1000000")
        assert (
            running.command("meter_get_rates m 3")
            == "0: info rate = 0.5, burst size = 1\n1: info rate = 1000000, burst size = 1000000\n"
        )
        running.command("reset_state")
        assert running.command("meter_get_rates m 3") == ""
        for words in ("m 4 0:1 0:2", "m 1 2:1 1:2", "m 1 x:1 0:2", "m 1 0:1 0", "n 1 0:1 0:2", "m 1 -1:1 0:2", "m 1 nan:1 0:2"):
            with pytest.raises(ControlError):
                running.command(f"meter_set_rates {words}")


def test_a_direct_meter_counts_bytes_and_is_executed_at_the_lookup(tmp_path: Path) -> None:
    locals_ = """direct_meter<bit<16>>(MeterType.bytes) m; action tag() { m.read(hdr.probe.b); } action other() {}
        table t { key = { hdr.probe.a : exact; } actions = { tag; other; NoAction; } meters = m; }"""
    with switch(program(tmp_path, f"{ONE} t.apply();", locals_)) as running:
        running.command("table_add t tag 1 =>")
        running.command("table_add t other 2 =>")
        running.command("meter_set_rates m 0 0:40 0:80")
        running.command("meter_set_rates m 1 0:0 0:0")
        seen = [int.from_bytes(ask(running, bytes([a]) + b"\x00\x07" + bytes(17))[1:3], "big") for a in (1, 1, 1, 2, 3)]
        running.command("meter_set_rates m 0 1000:10 1000:10")  # much comes back, and no more than the burst
        time.sleep(0.01)
        assert int.from_bytes(ask(running, b"\x01" + bytes(19))[1:3], "big") == 2
        running.command("meter_array_set_rates m 0:40 0:80")  # as with simple_switch, of entries to come as well
        running.command("table_add t tag 3 =>")
        assert [int.from_bytes(ask(running, bytes([a]) + bytes(19))[1:3], "big") for a in (1, 1, 3, 3, 3)] == [0, 1, 0, 1, 2]
        running.command("reset_state")
        handle = running.command("table_add t tag 3 =>").split()[-1]
        assert running.command(f"meter_get_rates m {handle}") == ""
    assert seen == [0, 1, 2, 2, 7]  # 34 bytes each; a miss changes nothing, and an action that reads nothing finds the colour there


def test_digests_are_kept_until_they_are_asked_for(tmp_path: Path) -> None:
    outside = "struct learn_t { bit<48> source; bit<9> port; }"
    body = f"""{ONE} if (hdr.probe.a != 0) {{ digest<learn_t>(1, {{ hdr.ethernet.src, standard.ingress_port }}); }}
        else {{ digest(1, {{ hdr.probe.wide, hdr.probe.s }}); }}"""
    with switch(program(tmp_path, body, "", outside)) as running:
        assert running.command("digests") == ""
        ask(running, b"\x01" + bytes(19))
        ask(running, b"\x00" + bytes(2) + b"\xff" + b"\x01" + bytes(15))
        lines = running.command("digests").splitlines()
        assert lines[0].startswith("learn_t source=") and lines[0].endswith(" port=0")
        assert lines[1] == f"digest_0 field0={1 << 120} field1=255"
        assert running.command("digests") == ""
        for _ in range(1030):
            ask(running, b"\x01" + bytes(19))
        assert running.command("digests").splitlines()[1024:] == ["lost=6"]


def test_custom_hashes_have_their_parameters_from_commands(tmp_path: Path) -> None:
    """At first they are CRC-32 and CRC-16/ARC; CRC-32C and CRC-16/CCITT-FALSE have check values that are well known."""
    body = f"""{ONE} bit<64> c; bit<64> d; hash(c, HashAlgorithm.crc32_custom, 64w0, {{ hdr.probe.wide[127:56] }}, 64w0x100000000);
        hash(d, HashAlgorithm.crc16_custom, 64w0, {{ hdr.probe.wide[127:56] }}, 64w0x10000); hdr.probe.wide = 0; hdr.probe.wide[63:0] = c;
        hdr.probe.b = (bit<16>)d;"""
    sent = bytes(4) + b"123456789" + bytes(7)
    with switch(program(tmp_path, body)) as running:

        def hashes() -> tuple[int, int]:
            out = ask(running, sent)
            return int.from_bytes(out[12:20], "big"), int.from_bytes(out[1:3], "big")

        assert hashes() == (binascii.crc32(b"123456789"), 0xBB3D)
        running.command("set_crc32_parameters calc 0x1edc6f41 0xffffffff ffffffff true True")
        running.command("set_crc16_parameters calc_0 1021 ffff 0 false 0")
        assert hashes() == (0xE3069283, 0x29B1)
        for words in (
            "16_parameters calc 1 1 1 1 1",
            "32_parameters x 1 1 1 1 1",
            "32_parameters calc 100000000 1 1 1 1",
            "32_parameters calc 1 1 1 yes 1",
        ):
            with pytest.raises(ControlError):
                running.command(f"set_crc{words}")
        assert hashes() == (0xE3069283, 0x29B1)


def test_registers_of_any_width(tmp_path: Path) -> None:
    locals_ = "register<bit<128>>(2) wide; register<int<12>>(2) small; register<bool>(1) flag; register<bit<64>>(1) most;"
    body = f"{ONE} wide.write(1, hdr.probe.wide + 1); small.write(0, (int<12>)hdr.probe.s); flag.write(0, hdr.probe.a == 3); most.write(0, ~64w0);"
    with switch(program(tmp_path, body, locals_)) as running:
        ask(running, b"\x03\x00\x00\xfe" + b"\xff" * 15 + b"\xfe")
        read = [running.command(f"register_read {r}").split("= ")[1].strip() for r in ("wide", "small", "flag", "most")]
        assert read == [f"0, {(1 << 128) - 1}", "4094, 0", "1", str((1 << 64) - 1)]
        running.command(f"register_write wide 0 {(1 << 127) + 5}")
        running.command("register_write small 1 -2048")
        running.command("register_write most 0 -1")
        read = [running.command(f"register_read {r}").split("= ")[1].strip() for r in ("wide", "small", "most")]
        assert read == [f"{(1 << 127) + 5}, {(1 << 128) - 1}", "4094, 2048", str((1 << 64) - 1)]
        for words in ("wide 0 -x", f"wide 0 {1 << 128}", "small 0 -2049", "small 0 4096", "small 2 0"):
            with pytest.raises(ControlError):
                running.command(f"register_write {words}")


def test_entries_of_the_program_are_counted_and_may_be_wide(tmp_path: Path) -> None:
    locals_ = """direct_counter(CounterType.packets) c; action put(bit<128> v) { hdr.probe.b = (bit<16>)v; hdr.probe.wide = v; }
        table t { key = { hdr.probe.wide : ternary; hdr.probe.a : range; } actions = { put; NoAction; } counters = c;
            default_action = put(0x100000000000000000000000000000099);
            const entries = { (1, 3 .. 5) : put(11); (1 &&& 3, _) : put(12); } }"""
    with switch(program(tmp_path, f"{ONE} t.apply();", locals_)) as running:

        def put(a: int, wide: int) -> int:
            return int.from_bytes(ask(running, bytes([a, 0, 0, 0]) + wide.to_bytes(16, "big"))[1:3], "big")

        assert [put(3, 1), put(4, 1), put(6, 1), put(3, 5), put(3, 2)] == [11, 11, 12, 12, 0x99]
        assert [running.command(f"counter_read c {i}").split("packets=")[1].split(",")[0] for i in (0, 1)] == ["2", "2"]
        running.command("counter_reset c")
        assert running.command("counter_read c 0").endswith("packets=0, bytes=0)\n")
        for command in ("table_clear t", "table_delete t 0", "table_add t NoAction 1&&&1 0->255 => 1", "table_modify t NoAction 0"):
            with pytest.raises(ControlError, match="const"):
                running.command(command)
        running.command("reset_state")
        assert put(3, 1) == 11


def test_entries_that_are_not_const_are_taken_as_simple_switch_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locals_ = """action put(bit<8> v) { hdr.probe.a = v; } table t { key = { hdr.probe.a : ternary; } actions = { put; NoAction; }
            largest_priority_wins = false; entries = { priority=10: 1 &&& 1 : put(5); priority=1: 3 : put(6); } }"""
    with switch(program(tmp_path, f"{ONE} t.apply();", locals_)) as running:
        assert [ask(running, bytes([a]) + bytes(19))[0] for a in (1, 3, 2)] == [5, 5, 2]
        with pytest.raises(ControlError, match="const"):
            running.command("table_clear t")
    assert "takes the entries of table t as const, and in the order in which they stand" in capsys.readouterr().err


def test_wide_data_is_shown_word_by_word_and_wide_indices_reach_cells(tmp_path: Path) -> None:
    locals_ = """register<bit<8>, bit<128>>(4) r; counter<bit<128>>(4, CounterType.packets) c; meter<bit<128>>(4, MeterType.packets) m;
        action x(bit<8> u, bit<70> v, bit<16> w) { hdr.probe.b = w + (bit<16>)v; }
        table t { key = { hdr.probe.a : exact; } actions = { x; NoAction; } }"""
    body = f"{ONE} t.apply(); r.write(hdr.probe.wide, 5); c.count(hdr.probe.wide); m.execute_meter(hdr.probe.wide, hdr.probe.wide);"
    with switch(program(tmp_path, body, locals_, before="#define V1MODEL_VERSION 20200408")) as running:
        running.command("table_add t x 0 => 7 590295810358705651717 9")
        assert " 7 200000000000000005 9\n" in running.command("table_dump t")
        running.command("meter_set_rates m 2 0:0 0:1")
        assert ask(running, bytes(19) + b"\x02")[1:20] == b"\x00\x0e\x00" + (1).to_bytes(16, "big")
        ask(running, bytes(4) + b"\x01" + bytes(15))  # of no cell
        assert running.command("register_read r") == "r= 0, 0, 5, 0\n"
        assert [running.counter("c", i) for i in range(4)] == [0, 0, 1, 0]


def test_a_value_set_is_of_at_most_2048_bits(tmp_path: Path) -> None:
    parser = """parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
        value_set<tuple<bit<2048>, bit<128>>>(2) vs;
        state start { packet.extract(hdr.ethernet); packet.extract(hdr.probe); transition accept; } }"""
    with pytest.raises(CompileError, match="a value_set of more than 2048 bits"):
        compile_(program(tmp_path, ONE, "", parser, "#define OWN_PARSER"))


def test_wrong_commands_say_how_they_are_used(tmp_path: Path) -> None:
    with switch(program(tmp_path, ONE)) as running:
        for command, message in (
            ("meter_set_rates m 1", "usage: meter_set_rates METER CELL RATE:BURST RATE:BURST"),
            ("show_tables now", "usage: show_tables"),
            ("tables", "there is no command tables"),
        ):
            with pytest.raises(ControlError, match=message):
                running.command(command)


def test_a_parser_looks_values_up_that_commands_add(tmp_path: Path) -> None:
    before = "#define OWN_PARSER"
    parser = """struct both_t { bit<8> a; bit<16> b; }
        parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
            value_set<bit<8>>(2) some; value_set<both_t>(4) pairs;
            state start { packet.extract(hdr.ethernet); packet.extract(hdr.probe);
                transition select(hdr.probe.a, hdr.probe.b) { pairs: three; (some, 1): two; (some, _): one; default: accept; } }
            state one { hdr.probe.s = 1; transition accept; }
            state two { hdr.probe.s = 2; transition accept; }
            state three { hdr.probe.s = 3; transition accept; }
        }"""
    with switch(program(tmp_path, ONE, "", parser, before)) as running:

        def found(a: int, b: int) -> int:
            return ask(running, bytes([a, 0, b]) + bytes(17))[3]

        assert [found(7, 1), found(7, 2), found(9, 5)] == [0, 0, 0]
        running.command("pvs_add some 7")
        running.command("pvs_add Parse.some 7")  # it is there
        running.command("pvs_add some 8")
        running.command(f"pvs_add pairs {9 << 16 | 5}")
        assert [found(7, 1), found(7, 2), found(8, 2), found(9, 5), found(9, 6)] == [2, 1, 1, 3, 0]
        assert running.command("pvs_get some") == "7\n8\n"
        for command in ("pvs_add some 9", "pvs_add some 256", "pvs_remove some 1", "pvs_get none"):
            with pytest.raises(ControlError):
                running.command(command)
        running.command("pvs_remove some 7")
        assert [found(7, 1), found(8, 1)] == [0, 2]
        running.command("pvs_clear some")
        assert found(8, 1) == 0


def test_entries_that_nothing_hits_for_their_timeout_are_idle(tmp_path: Path) -> None:
    locals_ = """table t { key = { hdr.probe.a : exact; } actions = { NoAction; } support_timeout = true; }
        table u { key = { hdr.probe.a : exact; } actions = { NoAction; } }"""
    with switch(program(tmp_path, f"{ONE} t.apply(); u.apply();", locals_)) as running:
        for key in (1, 2, 3):
            running.command(f"table_add t NoAction {key} =>")
        running.command("table_add u NoAction 1 =>")
        running.command("table_set_timeout t 0 1")
        running.command("table_set_timeout t 1 60000")
        time.sleep(0.01)
        assert running.command("table_idle t") == "0\n"
        running.command("table_set_timeout t 0 60000")
        assert running.command("table_idle t") == ""
        for command in ("table_set_timeout u 0 1", "table_set_timeout t 9 1", "table_set_timeout t 0 x"):
            with pytest.raises(ControlError):
                running.command(command)
