"""Random programs on the embedded switch and on an interpreter of the checked tree: python -m tests.p4_comparison [--programs N].

What differs is printed with the program's seed, the packet and the block of statements; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from inalab.switches.bmv2 import installation
from inalab.switches.embedded import checked
from inalab.switches.embedded.build import build
from inalab.switches.embedded.check import check
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.parse import parse
from inalab.switches.embedded.preprocess import preprocess
from inalab.switches.embedded.types import bit_width
from inalab.testbed import backends
from inalab.testbed.plan.settings import SettingsError
from inalab.topologies import isolation
from tests.golden.record import play
from tests.p4_interpreter import Interpreter
from tests.p4_machine import Machine, emitted, read
from tests.p4_pipelines import CELLS, PipelineWriter
from tests.p4_programs import CASES, Writer
from tests.p4_values import Fields, zero
from tests.probe import INCLUDES
from tests.scenarios import ETHERNET, Scenario

PACKETS = 4  # for each block of a program
PIPELINE_PACKETS = 60


def expected(program: checked.Program, packet: bytes) -> bytes:
    """What the interpreter makes of a packet."""
    headers: Fields = zero(program.headers)
    bits = "".join(f"{byte:08b}" for byte in packet)
    for name in ("ethernet", "probe"):
        type_ = headers.values[name].type
        headers.values[name] = read(type_, bits)
        bits = bits[bit_width(type_) :]
    Interpreter(program.blocks[2]).apply(headers, zero(program.metadata), zero(program.standard))
    out = emitted(headers) + bits
    return bytes(int(out[i : i + 8], 2) for i in range(0, len(out), 8))


def differences(seed: int, folder: Path) -> list[str]:
    """The blocks of a program whose packets differ, as text."""
    text = Writer(seed).program()
    path = folder / f"generated{seed}.p4"
    path.write_text(text)
    program = check(parse(preprocess(path, {}, INCLUDES)), path)
    size = bit_width(next(f.type for f in program.headers.fields if f.name == "probe")) // 8
    drawn = random.Random(seed)
    packets = [
        ETHERNET + bytes([which]) + (drawn.randbytes(size - 1) if n else bytes(size - 1)) + b"rest"
        for which in range(CASES)
        for n in range(PACKETS)
    ]
    found = []
    with OfflineSwitch(build(path, {}, INCLUDES)) as switch:
        for packet, sent in zip(packets, switch.batch([(0, packet) for packet in packets]), strict=True):
            wanted = expected(program, packet)
            if [data for _, data in sent] != [wanted]:
                which = packet[len(ETHERNET)]
                block = next(line for line in text.splitlines() if f"which == {which})" in line)
                found.append(f"seed {seed}: {packet.hex()} gave {[d.hex() for _, d in sent]}, not {wanted.hex()}: {block}")
    return found


def pipeline_differences(seed: int, folder: Path) -> list[str]:
    """The packets, and the registers and counters after them, that differ for a random pipeline."""
    writer = PipelineWriter(seed)
    path = folder / f"pipeline{seed}.p4"
    path.write_text(writer.program())
    commands = writer.commands()
    machine = Machine(check(parse(preprocess(path, {}, INCLUDES)), path), commands)
    found = []
    with OfflineSwitch(build(path, {}, INCLUDES)) as switch:
        for line in commands:
            switch.command(line)
        for packet in pipeline_packets(seed):
            wanted, sent = machine.packet(packet), switch.send(0, packet)
            if sent != wanted:
                found.append(f"pipeline {seed}: {packet.hex()} gave {_shown(sent)}, not {_shown(wanted)}")
        for one, cells in machine.state.items():
            if isinstance(cells, list):
                seen = switch.registers(one.control_name)
            else:
                seen = [switch.counter(one.control_name, i) for i in range(CELLS)]
                cells = [cells[i] for i in range(CELLS)]
            if seen != cells:
                found.append(f"pipeline {seed}: {one.control_name} holds {seen}, not {cells}")
    return found


def bmv2_differences(seed: int, folder: Path) -> list[str] | None:
    """The packets that real BMv2 and the embedded switch treat differently; None where p4c does not take the program.

    Where a packet looks into a header that is not valid, BMv2 finds what an earlier packet left there: such packets are not sent. Nor
    are entries told to tables that p4c has optimized away.
    """
    writer = PipelineWriter(seed)
    path = folder / f"pipeline{seed}.p4"
    path.write_text(writer.program().replace('"frame.p4"', f'"{INCLUDES[0] / "frame.p4"}"'))
    commands = writer.commands()
    try:
        target = backends.with_switches("bmv2").program(path, {})
    except SettingsError:
        return None
    kept = target.compiler.get_json_out()  # type: ignore[attr-defined]
    tables = {
        table["name"].rpartition(".")[2] for part in json.loads(Path(kept).read_text())["pipelines"] for table in part["tables"]
    }
    packets = Machine(check(parse(preprocess(path, {}, INCLUDES)), path), commands).settled(pipeline_packets(seed))
    wording = [line for line in commands if line.split()[1] in tables]
    scenario, recorded = Scenario(f"pipeline{seed}", path, [(0, packet) for packet in packets], wording), folder / "recorded.json"

    def record() -> int:
        recorded.write_text(json.dumps(play(scenario, target)))
        return 0

    if isolation.isolated(record):
        return [f"pipeline {seed}: BMv2 did not play it"]
    found = []
    with OfflineSwitch(build(path, {}, INCLUDES)) as switch:
        for line in commands:
            switch.command(line)
        for packet, real in zip(packets, json.loads(recorded.read_text()), strict=True):
            sent = sorted([port, data.hex()] for port, data in switch.send(0, packet))
            if sent != real["out"]:
                found.append(f"pipeline {seed}: {packet.hex()} gave {sent}, and BMv2 {real['out']}")
    return found


def pipeline_packets(seed: int) -> list[bytes]:
    """Packets of all lengths, with small numbers in most bytes, so that keys match."""
    drawn = random.Random(seed)
    bodies = [
        bytes(drawn.choice([drawn.randrange(4), drawn.randrange(256)]) for _ in range(drawn.randrange(45)))
        for _ in range(PIPELINE_PACKETS)
    ]
    return [ETHERNET + body for body in bodies]


def _shown(sent: list[tuple[int, bytes]]) -> list[tuple[int, str]]:
    return [(port, data.hex()) for port, data in sent]


def main() -> None:
    """Compare programs until a number is reached; each draws its own seed from the first."""
    parser = argparse.ArgumentParser(prog="python -m tests.p4_comparison", description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="how many (default 100, some minutes)")
    parser.add_argument(
        "--bmv2", action="store_true", help="compare pipelines with real p4c and BMv2 (as root), not with the interpreter"
    )
    parser.add_argument("--seed", type=int, default=1000, help="of the first program; the others follow")
    options = parser.parse_args()
    if options.bmv2 and (missing := installation.missing()):
        sys.exit(f"error: {', '.join(str(piece.name) for piece in missing)} cannot be found: see inalab doctor")
    found = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.programs):
            if options.bmv2:
                lines = bmv2_differences(seed, Path(folder))
                refused += lines is None
                found += len(lines or [])
                print(*(lines or []), sep="\n", end="\n" if lines else "", flush=True)
                continue
            for line in [*differences(seed, Path(folder)), *pipeline_differences(seed, Path(folder))]:
                found += 1
                print(line, flush=True)
    if options.bmv2:
        print(f"{options.programs} pipelines on BMv2, {refused} of them refused by p4c: {found} packets differ")
        sys.exit(found > 0 or refused == options.programs)
    packets = options.programs * (CASES * PACKETS + PIPELINE_PACKETS)
    print(f"{options.programs} programs and as many pipelines, {packets} packets: {found} differ")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
