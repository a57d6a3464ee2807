"""Record what real BMv2 does with tests that p4testgen generates: python -m tests.golden.record_testgen [PROGRAM ...], as root.

Needs p4testgen (of p4lang/p4c, built with ENABLE_TEST_TOOLS) on the PATH, and what the target bmv2 needs. Writes
tests/golden/testgen/PROGRAM.stf: case after case, each with its entries, its packet, and what simple_switch sent. That is as p4testgen
expected it, with the digits that it left open (*), or a comment says what else it expected.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from inalab.switches import stf
from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.target import Target
from inalab.topologies import isolation
from tests.golden.record import GOLDEN, PORTS, Packets, far_ends, play, target_of
from tests.scenarios import PROGRAMS, Scenario

FOLDER = GOLDEN / "testgen"
SEED = 1
MOST_TESTS = 12  # of a program
SECONDS = 300  # for them
SIZES = "112:1600"  # bits of a packet: an interface takes no less than an Ethernet header
GENERATE = [
    "p4testgen", "--target", "bmv2", "--arch", "v1model", "--std", "p4-16", "--test-backend", "STF", "--max-tests", str(MOST_TESTS),
    "--seed", str(SEED), "--path-selection", "RANDOM_BACKTRACK", "--packet-size-range", SIZES, "--port-ranges", f"0:{PORTS - 1}",
]  # fmt: skip
HEAD = "# case "
LEFT_OUT = {
    "endless": "sends packets without end",
    "queues": "writes times into packets",
    "entries": "simple_switch does not load it",
    "order": "simple_switch does not load it",
    "lab-share": "p4c does not compile it for BMv2: an action has an if",
}
GIVEN = Path("labs/given")  # what labs' programs include


def programs() -> dict[str, Path]:
    """What tests are generated for, by the name of its file of cases. Programs that p4testgen makes nothing of have none."""
    own = {p.stem: p for p in (*PROGRAMS.glob("*.p4"), *Path("p4").glob("*.p4"))}
    labs = {f"lab-{p.stem}": p for p in Path("labs/solutions").glob("*/*.p4")}
    return {name: path for name, path in (own | labs).items() if name not in LEFT_OUT}


def cases(name: str) -> list[str]:
    """The recorded cases of a program."""
    return re.split(rf"^{HEAD}\d+\n", (FOLDER / f"{name}.stf").read_text(), flags=re.MULTILINE)[1:]


def executable(name: str) -> Path:
    """A program on the embedded switch."""
    return build(programs()[name], include_dirs=[GIVEN])


def names() -> list[str]:
    """Of the programs that have recorded cases."""
    return sorted(path.stem for path in FOLDER.glob("*.stf"))


def generated(program: Path) -> list[str]:
    """The tests that p4testgen makes of a program in its time."""
    with TemporaryDirectory() as folder:
        try:
            subprocess.run([*GENERATE, "--out-dir", folder, program], capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pass  # what it has written is there
        files = sorted(Path(folder).rglob("*.stf"), key=lambda path: int(path.stem.rpartition("_")[2]))
        return ["\n".join(re.sub(r"^\s*#.*", "", line) for line in file.read_text().splitlines()) for file in files]


def scenario(program: Path, case: stf.Case, switch: OfflineSwitch) -> Scenario:
    """A case with its statements as commands, which the embedded switch takes. Raises ControlError if it does not."""
    commands = [stf.command(switch, what) for _, what in case.statements if not isinstance(what, stf.Arrival)]
    for line in commands:
        switch.command(line)
    packets = [(what.port, what.packet) for _, what in case.statements if isinstance(what, stf.Arrival)]
    return Scenario(program.stem, program, packets, commands)


def written(text: str, case: stf.Case, packets: Packets) -> str:
    """A case as it is kept."""
    sent: dict[int, list[bytes]] = {port: [] for port in range(PORTS)}
    for packet in packets:
        for port, data in packet["out"]:
            sent[port].append(bytes.fromhex(data))
    unseen = re.compile(rf"expect (?!0*[0-{PORTS - 1}]\b)|\s*$")  # there are no such ports
    lines = [line for line in text.splitlines() if not unseen.match(line)]
    if any(stf.differences(case, sent)):
        expectations = [line for line in lines if line.startswith("expect")]
        lines = [line for line in lines if not line.startswith("expect")]
        lines += [f"# p4testgen: {line}" for line in expectations or ["no packet"]]
        lines += [f"expect {port} {packet.hex().upper()}$" for port, found in sent.items() for packet in found]
    return "\n".join(lines) + "\n"


def record(name: str, path: Path) -> None:
    """Write a program's file of cases, if p4testgen makes any."""
    texts = generated(path)
    if not texts:
        return
    target = target_of(Scenario(name, path, []), "bmv2")
    versions = ", ".join(f"{what} {version}" for what, version in target.versions().items())
    with TemporaryDirectory(dir=FOLDER) as scratch:
        kept = Path(scratch) / name
        kept.write_text(f"# {path}; {versions}; {' '.join(GENERATE)}\n")
        if isolation.isolated(partial(_record, path, target, executable(name), texts, kept)):
            print(f"{name} could not be recorded")
            return
        kept.rename(FOLDER / f"{name}.stf")


def _record(path: Path, target: Target, embedded: Path, texts: list[str], kept: Path) -> int:
    """Play a program's cases on BMv2, each on a switch of its own, and add them to those that are kept."""
    ends = far_ends()
    with kept.open("a") as file:
        for number, text in enumerate(texts):
            case = stf.parse_case(text, f"case {number}")
            with OfflineSwitch(embedded, PORTS) as switch:
                try:
                    made = scenario(path, case, switch)
                except ControlError:  # p4testgen adds to tables whose entries are const
                    continue
            wanted = [{"out": []} for _ in made.packets[1:]] + [{"out": [w for found in case.expected.values() for w in found]}]
            file.write(f"{HEAD}{number}\n{written(text, case, play(made, target, wanted, ends))}")
    return 0


def main() -> None:
    """Record the programs named on the command line, or all."""
    FOLDER.mkdir(exist_ok=True)
    os.environ["CPATH"] = str(GIVEN.resolve())  # of p4c's preprocessor
    for name in sys.argv[1:] or sorted(programs()):
        record(name, programs()[name])
        print(name, len(cases(name)) if name in names() else "no cases")


if __name__ == "__main__":
    main()
