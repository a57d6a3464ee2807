"""Record the P4Info that p4c makes of our programs: python -m tests.golden.record_p4info. Needs p4c; writes tests/golden/p4info/."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.scenarios import PROGRAMS, scenarios

FOLDER = Path(__file__).parent / "p4info"
WITHOUT = {"parameters"}  # p4c makes no P4Info of keys of plain enums


def programs() -> dict[str, tuple[Path, dict[str, str]]]:
    """Each program of the scenarios, as its first scenario defines it, and the one of the server's tests."""
    found = {"runtime": (PROGRAMS / "runtime.p4", dict[str, str]())}
    for scenario in scenarios().values():
        if scenario.program.stem not in WITHOUT:
            found.setdefault(scenario.program.stem, (scenario.program, scenario.defines))
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (program, defines) in programs().items():
        macros = [f"-D{key}={value}" for key, value in defines.items()]
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch) / "p4info.txt"
            words = [
                "p4c",
                "--target",
                "bmv2",
                "--arch",
                "v1model",
                "--p4runtime-files",
                str(made),
                "-o",
                scratch,
                *macros,
                str(program),
            ]
            subprocess.run(words, check=True, capture_output=True)
            (FOLDER / f"{name}.txt").write_text(made.read_text())
        print(name)


if __name__ == "__main__":
    main()
