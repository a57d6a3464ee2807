"""The embedded switch under AddressSanitizer and UndefinedBehaviorSanitizer: python -m tests.sanitize (make sanitize).

Each program takes its recordings, as real BMv2 made them, and then mutated packets and drawn commands, offline. The first
report of a sanitizer, a leak included, ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from inalab.switches.control import ControlError
from inalab.switches.embedded.offline import COMMAND, OfflineSwitch
from tests.golden.record import recorded
from tests.sanitize.commands import Commands, words_of
from tests.sanitize.packets import PORTS, Packet, mutated
from tests.sanitize.subjects import Subject, subjects
from tests.scenarios import ETHERNET

LIFE = 20_000  # records that one switch takes before its end, which looks for leaks
BATCH = 1_000
MOST_COPIES = 64
PLAIN: list[Packet] = [(0, ETHERNET + bytes(n)) for n in (0, 1, 20, 60, 300)]
SETTINGS = ["reset_state", "set_queue_depth 64", "set_queue_rate 0", "set_queue_delay 0"]


class SanitizerError(Exception):
    """A switch ended in the middle, ended badly, or did other than BMv2."""


def replay(subject: Subject) -> int:
    """All recordings of a program; the number of packets."""
    for scenario in subject.scenarios:
        with _life(subject, most_copies=None) as switch:
            for line in scenario.commands:
                switch.command(line)
            sent = [switch.send(*packet) for packet in scenario.packets]  # one by one, since some programs measure time
        _ended_well(subject, switch)
        for number, (out, expected) in enumerate(zip(sent, recorded(scenario.name), strict=True)):
            if sorted([port, data.hex()] for port, data in out) != expected["out"]:
                raise SanitizerError(f"packet {number} of {scenario.name} leaves other than recorded")
    return sum(len(scenario.packets) for scenario in subject.scenarios)


def fuzz(subject: Subject, packets: int, commands: int, seed: object) -> None:
    """So many mutated packets and drawn commands, mixed; the settings of a recording precede each batch."""
    rng = random.Random(f"{subject.name} {seed}")
    base = [packet for scenario in subject.scenarios for packet in scenario.packets] or PLAIN
    wording = [line for scenario in subject.scenarios for line in scenario.commands]
    with _life(subject) as switch:
        drawn = Commands(rng, words_of(subject, switch), wording)
    while packets + commands:
        with _life(subject) as switch:
            for _ in range(LIFE // BATCH):
                some = min(BATCH, packets + commands)
                drawn.nodes = 0
                lines = [*SETTINGS, *(rng.choice(subject.scenarios).commands if subject.scenarios else [])]
                batch = [(COMMAND, line.encode()) for line in lines]
                for _ in range(some):
                    if rng.randrange(packets + commands) < packets:
                        batch.append(mutated(rng, base))
                        packets -= 1
                    else:
                        batch.append((COMMAND, drawn.draw().encode()))
                        commands -= 1
                try:
                    switch.batch(batch)
                except ControlError as error:
                    raise SanitizerError(f"{subject.name} with seed {seed}: {error}") from None
        _ended_well(subject, switch)


def _life(subject: Subject, most_copies: int | None = MOST_COPIES) -> OfflineSwitch:
    return OfflineSwitch(subject.executable, ports=PORTS, most_copies=most_copies)


def _ended_well(subject: Subject, switch: OfflineSwitch) -> None:
    if switch.process.returncode:
        raise SanitizerError(f"{subject.name} ended with exit code {switch.process.returncode}")


def shares(total: int, parts: int) -> list[int]:
    """A total in nearly equal parts."""
    return [total * (n + 1) // parts - total * n // parts for n in range(parts)]


def main() -> None:
    """Try all programs, or those named."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description="The embedded switch under sanitizers.")
    parser.add_argument("programs", nargs="*", help="names of programs (default: all)")
    parser.add_argument("--packets", type=int, default=10**6, metavar="N", help="mutated packets, over all programs")
    parser.add_argument("--commands", type=int, default=10**6, metavar="N", help="drawn commands, over all programs")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn")
    parser.add_argument("--piece", default="1/1", metavar="I/N", help="only the I-th of N equal pieces; each draws for itself")
    options = parser.parse_args()
    piece, pieces = (int(word) for word in options.piece.split("/"))
    if not 1 <= piece <= pieces:
        parser.error(f"there is no piece {options.piece}")
    all_packets, all_commands = (shares(total, pieces)[piece - 1] for total in (options.packets, options.commands))
    chosen = [subject for subject in subjects() if not options.programs or subject.name in options.programs]
    if not chosen:
        parser.error(f"there is no such program; there are {', '.join(sorted({subject.name for subject in subjects()}))}")
    seed = options.seed if pieces == 1 else f"{options.seed}, {options.piece}"
    for subject, packets, commands in zip(chosen, shares(all_packets, len(chosen)), shares(all_commands, len(chosen)), strict=True):
        begun = time.monotonic()
        try:
            played = replay(subject)
            fuzz(subject, packets, commands, seed)
        except SanitizerError as error:
            sys.exit(f"error: {error}; the report is above")
        took = time.monotonic() - begun
        print(f"{subject.name}: {played} recorded and {packets} mutated packets, {commands} commands, {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
