"""Random programs on the embedded switch and on an interpreter of the checked tree: python -m tests.p4_comparison [--programs N].

What differs is printed with the program's seed, the packet and the block of statements; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from switches.embedded import checked
from switches.embedded.build import build
from switches.embedded.check import check
from switches.embedded.offline import OfflineSwitch
from switches.embedded.parse import parse
from switches.embedded.preprocess import preprocess
from switches.embedded.types import Header, Type, bit_width
from tests.p4_interpreter import Interpreter
from tests.p4_programs import CASES, Writer
from tests.p4_values import Fields, StackValue, fit, written, zero
from tests.probe import INCLUDES
from tests.scenarios import ETHERNET

PACKETS = 4  # for each block of a program


def read(type_: Type, bits: str) -> Any:
    """A header's fields from the bits of a packet."""
    made, at = zero(type_), 0
    for f in made.type.fields:
        width = bit_width(f.type)
        made.values[f.name] = fit(int(bits[at : at + width], 2), f.type)
        at += width
    made.valid = True
    return made


def emitted(value: Any) -> str:
    """The bits that the deparser emits of headers."""
    if isinstance(value, StackValue):
        return "".join(emitted(one) for one in value.values)
    assert isinstance(value, Fields)
    if isinstance(value.type, Header):
        return "".join(written(value, value.type))
    return "".join(emitted(one) for one in value.values.values())


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


def main() -> None:
    """Compare programs until a number is reached; each draws its own seed from the first."""
    parser = argparse.ArgumentParser(prog="python -m tests.p4_comparison", description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="how many (default 100, some minutes)")
    parser.add_argument("--seed", type=int, default=1000, help="of the first program; the others follow")
    options = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.programs):
            for line in differences(seed, Path(folder)):
                found += 1
                print(line, flush=True)
    packets = options.programs * CASES * PACKETS
    print(f"{options.programs} programs, {packets} packets: {found} differ")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
