"""The program and the commands of docs/tutorials/own-p4.md, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inalab.topologies import isolation

PAGE = Path("docs/tutorials/own-p4.md")
ROOT = Path.cwd()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's program, and a ping where the machine has none."""
    (program,) = blocks("p4")
    (tmp_path / "watch.p4").write_text(program)
    ping = tmp_path / "bin" / "ping"
    ping.parent.mkdir()
    if shutil.which("ping") is None:
        ping.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/scripts/ping.py "$@"\n')
        ping.chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), isolation.search_path()])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder)}


def test_its_commands_do_what_it_says(folder: Path) -> None:
    script = "set -e\n" + "".join(blocks("sh"))

    def inside() -> int:
        with open(folder / "printed", "w") as out:
            return subprocess.run(["bash", "-c", script], cwd=folder, env=environment(folder), stdout=out, stderr=out, timeout=60,
                                  check=False).returncode  # fmt: skip

    code = isolation.isolated(inside)
    printed = (folder / "printed").read_text()
    assert code == 0, printed
    assert "seen[0]= BmCounterValue(packets=3, " in printed
    assert "newest= 167772161, 167772162" in printed
    assert "blocked, as it should be" in printed
    assert re.search(r"dropped a packet from \S+ at port 0", (folder / "watch.log").read_text())


def test_its_packets_without_interfaces(folder: Path) -> None:
    (code,) = blocks("python")
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment(folder), check=True, timeout=60)
