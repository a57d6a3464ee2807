"""A part of `make sanitize`: every program's recordings, some mutated packets and some drawn commands, without a report."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from inalab.switches.embedded.offline import OfflineSwitch
from tests.sanitize import __main__ as sanitize
from tests.sanitize.commands import Commands, words_of
from tests.sanitize.packets import LONGEST, mutated
from tests.sanitize.subjects import Subject, subjects

PACKETS, COMMANDS = 1500, 1500


@pytest.mark.parametrize("subject", subjects(), ids=lambda subject: subject.name)
def test_no_report(subject: Subject) -> None:
    sanitize.replay(subject)
    sanitize.fuzz(subject, PACKETS, COMMANDS, seed=1)


def test_all_programs_are_tried() -> None:
    names = {subject.name for subject in subjects()}
    assert {"switchml", "atp"} < names
    assert names >= {path.stem for path in Path("tests/programs").glob("*.p4")} - {"frame"}


def test_most_drawn_commands_are_taken() -> None:
    """A fuzzer whose commands are all refused tries nothing."""
    subject = next(subject for subject in subjects() if subject.name == "tables")
    with OfflineSwitch(subject.executable) as switch:
        drawn = Commands(random.Random(3), words_of(subject, switch), subject.scenarios[0].commands)
        lines = [drawn.draw() for _ in range(20_000)]
        results = switch.batch([(0xFFF0, line.encode()) for line in lines])
    taken = {line.split()[0] for line, ((kind, _),) in zip(lines, results, strict=True) if kind == 0xFFF1 and line.split()}
    assert taken >= {
        "table_add", "table_modify", "table_delete", "table_set_default", "table_clear", "mc_mgrp_create", "mc_mgrp_destroy",
        "mc_node_create", "mc_node_update", "mc_node_destroy", "mc_node_associate", "mc_node_dissociate", "mirroring_add",
        "mirroring_add_mc", "mirroring_delete", "set_queue_depth", "set_queue_rate", "set_queue_delay", "set_disorder", "show_ports", "reset_state",
    }  # fmt: skip
    assert sum(kind == 0xFFF1 for ((kind, _),) in results) > len(lines) / 3


def test_mutated_packets_resemble_the_recorded_ones() -> None:
    rng, base = random.Random(1), [(3, bytes(range(100)))]
    packets = [mutated(rng, base) for _ in range(2000)]
    assert sum(data[:14] == base[0][1][:14] for _, data in packets) > 600
    assert {len(data) for _, data in packets} >= {0, 1, 99, 100, 101, LONGEST + 1}
    assert {port for port, _ in packets} == set(range(8))


def test_a_report_ends_the_run(tmp_path: Path) -> None:
    subject = subjects()[0]
    ended = tmp_path / "ended"
    ended.write_text(f'#!/bin/sh\n{subject.executable} "$@"\nexit 23\n')
    ended.chmod(0o755)
    subject.__dict__["executable"] = ended
    with pytest.raises(sanitize.SanitizerError, match="exit code 23"):
        sanitize.fuzz(subject, 10, 10, seed=0)
