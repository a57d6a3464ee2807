"""Registers and counters that controls, functions and constructors take (tests/programs/objects.p4; its packets are in tests/golden)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from inalab.switches.embedded.build import build
from tests.probe import INCLUDES, ask, program, switch
from tests.scenarios import ETHERNET, PROGRAMS


def test_what_is_passed_is_the_caller_s_and_what_is_made_has_a_name_of_its_own() -> None:
    """p4c names a register that is made for a constructor by the instance and the parameter."""
    with switch(PROGRAMS / "objects.p4") as running:
        for op, value in ((1, 3), (2, 5), (1, 4), (3, 6), (4, 7), (5, 8), (6, 9)):
            ask(running, bytes([op, value] + [0] * 7))
        answers = {
            name: running.command(f"register_read {name}")
            for name in ("Work.left", "Work.right", "Work.wide", "Work.first_own.kept", "Work.second_own.kept")
        }
        counted = running.command("counter_read Work.counted 0")
    assert {name: answer.split("=")[-1].strip() for name, answer in answers.items()} == {
        "Work.left": "7, 8", "Work.right": "5, 0", "Work.wide": "0, 265", "Work.first_own.kept": "6", "Work.second_own.kept": "7",
    }  # fmt: skip
    assert "packets=3" in counted


def test_a_control_that_is_applied_where_it_is_named_takes_a_register(tmp_path: Path) -> None:
    outside = (
        "control Sub(inout headers_t hdr, register<bit<8>> r) { apply { r.read(hdr.probe.a, 0); r.write(0, hdr.probe.a + 1); } }"
    )
    path = program(tmp_path, "standard.egress_spec = 1; Sub.apply(hdr, r);", "register<bit<8>>(1) r;", outside)
    with switch(path) as running:
        assert [ask(running, bytes(20))[0] for _ in range(3)] == [0, 1, 2]


def test_log_messages_show_headers_and_structs_field_by_field(tmp_path: Path) -> None:
    """In the words of p4c, which puts the fields' names into the message."""
    outside = "struct pair_t { bit<8> first; int<8> second; }"
    body = 'standard.egress_spec = 1; pair = { hdr.probe.a, hdr.probe.s }; log_msg("at {} and {}.", {pair, pair});'
    executable = build(program(tmp_path, body, "pair_t pair;", outside), {}, INCLUDES)
    packet = ETHERNET + bytes([7, 0, 0, 0xFE]) + bytes(16)
    record = (0).to_bytes(2, "big") + len(packet).to_bytes(4, "big") + packet
    done = subprocess.run([executable, "--offline", "1"], input=record, capture_output=True, check=True)
    assert done.stderr.decode() == "at (first:7,second:-2) and (first:7,second:-2).\n"


def test_in_its_body_an_action_s_name_is_the_extern_s_that_it_hides(tmp_path: Path) -> None:
    locals_ = "action mark_to_drop(bit<8> limit) { if (hdr.probe.a > limit) { mark_to_drop(standard); } }"
    with switch(program(tmp_path, "standard.egress_spec = 1; mark_to_drop(5);", locals_)) as running:
        assert [len(ask(running, bytes([a]) + bytes(19))) for a in (5, 6)] == [20, 0]


def test_functions_that_change_registers_are_called_from_left_to_right_and_only_where_their_value_is_needed(tmp_path: Path) -> None:
    outside = "bit<8> next(register<bit<8>> r) { bit<8> v; r.read(v, 0); r.write(0, v + 1); return v; }"
    outside += " bit<16> pair(in bit<8> first, in bit<8> second) { return first ++ second; }"
    body = """
        standard.egress_spec = 1;
        hdr.probe.wide[31:0] = pair(next(r), next(r)) ++ pair(next(r), next(r));
        if (hdr.probe.a == 1 && next(r) == 100) { hdr.probe.b = 1; }
        hdr.probe.a = next(r);
    """
    with switch(program(tmp_path, body, "register<bit<8>>(1) r;", outside)) as running:
        first, second = ask(running, bytes(20)), ask(running, bytes([1]) + bytes(19))
    assert (first[-4:], first[0]) == (bytes([0, 1, 2, 3]), 4)
    assert (second[-4:], second[0]) == (bytes([5, 6, 7, 8]), 10)
