"""python -m tests.release: build what `pip install inalab` gets, install it into an empty environment, and use it.

The commands run in an empty folder, where nothing of the repository is found. UV_OFFLINE=1 takes packages from uv's cache alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
UV = [sys.executable, "-m", "uv"]
SCRIPT = """
import torch
import torch.distributed as dist
dist.init_process_group("ina")
tensor = torch.full((1000,), 1.0 + dist.get_rank())
dist.all_reduce(tensor)
print(tensor.unique().tolist())
"""
WORKERS = 4
SUMMED = [f"[{rank}] [{WORKERS * (WORKERS + 1) / 2}]" for rank in range(WORKERS)]


def build(out: Path) -> Path:
    """Make sdist and wheel in a folder; the wheel, which is made from the sdist."""
    _run(*UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(out), str(ROOT))
    return max(out.glob("inalab-*.whl"), key=lambda path: path.stat().st_mtime)


def install(wheel: Path, environment: Path) -> Path:
    """Install it into a new environment, with the versions of requirements.lock; the command."""
    _run(*UV, "venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    _run(*UV, "pip", "install", "--quiet", "--python", python, "--constraint", str(ROOT / "requirements.lock"), str(wheel))
    return environment / "bin" / "inalab"


def use(command: Path, folder: Path) -> None:
    """An experiment, a lab and a script, from an empty folder."""
    inalab = str(command)
    _run(inalab, "run", "quickstart", "--quick", cwd=folder)
    assert list(folder.glob("results/quickstart/*/report.html")), "the quickstart left no report"
    _run(inalab, "lab", "start", "1", cwd=folder)
    shutil.copy(ROOT / "labs" / "solutions" / "01-forward" / "forward.p4", folder / "01-forward")
    assert "100 of 100 points" in _run(inalab, "lab", "check", "01-forward", cwd=folder), "the lab's solution fails"
    (folder / "script.py").write_text(SCRIPT)
    wording = _run(inalab, "launch", "--set", "racks=1", "--set", f"workers={WORKERS}", "--", "script.py", cwd=folder)
    assert sorted(line for line in wording.splitlines() if line.startswith("[")) == SUMMED, "the script's sums are wrong"


def _run(*words: str, cwd: Path = ROOT) -> str:
    """What a command prints, which is shown, too; it ends this program where it fails."""
    print(f"$ {' '.join(words)}", flush=True)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=cwd, env=clean, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise typer.Exit(done.returncode)
    return done.stdout


def main(out: Annotated[Path, typer.Option(help="folder for sdist and wheel")] = Path("dist")) -> None:
    """Build, install and use a release."""
    wheel = build(out.resolve())
    with tempfile.TemporaryDirectory(prefix="inalab-release-") as place:
        folder = Path(place, "empty")
        folder.mkdir()
        use(install(wheel, Path(place, "environment")), folder)
    print(f"{wheel} and its sdist are in {out}, and work")


if __name__ == "__main__":
    typer.run(main)
