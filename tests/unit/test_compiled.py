"""Compiled loops are those of the sources that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hosts import compiled

LOOP = """
import numba
{checked}
from hosts.compiled import compiled
from hosts.constants import STEP
@compiled("i8(i8[::1])")
def first(values):
    return values[{index}] + STEP
if __name__ == "__main__":
    import numpy as np
    from hosts import loop
    print(loop.first(np.arange(3)))
"""


def run(folder: Path, step: int, index: int = 0, checked: str = "", cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Import a loop of a package of that name that stands in a folder, and call it."""
    package = folder / "hosts"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "compiled.py").write_text(Path(compiled.__file__).read_text())
    (package / "constants.py").write_text(f"STEP = {step}\n")
    (package / "loop.py").write_text(LOOP.format(index=index, checked=checked))
    environment = os.environ | {"XDG_CACHE_HOME": str(cache or folder / "cache"), "PYTHONPATH": str(folder)}
    call = [sys.executable, "-m", "hosts.loop"]
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_constant_of_another_module_that_changes_is_compiled_again(tmp_path: Path) -> None:
    assert run(tmp_path, step=5).stdout == "5\n"
    before = list((tmp_path / "cache").rglob("*.nbc"))
    assert run(tmp_path, step=5).stdout == "5\n"
    assert list((tmp_path / "cache").rglob("*.nbc")) == before
    assert run(tmp_path, step=7).stdout == "7\n"


def test_an_index_outside_is_an_error_where_it_is_checked(tmp_path: Path) -> None:
    wrong = run(tmp_path, step=5, index=3, checked="numba.config.BOUNDSCHECK = 1")
    assert "IndexError" in wrong.stderr


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    assert run(tmp_path, step=5, cache=Path("/proc/none")).stdout == "5\n"


def test_a_cache_that_numba_cannot_use_is_not_replaced_by_one_that_does_not_know_the_content(tmp_path: Path) -> None:
    """A file stands where numba would make its folder: it must not go on to hosts/__pycache__, which would serve the old code."""
    assert run(tmp_path, step=5).stdout == "5\n"
    for folder in list((tmp_path / "cache").rglob("hosts_*")):
        shutil.rmtree(folder)
        folder.touch()
    for step in (5, 7):
        assert run(tmp_path, step=step).stdout == f"{step}\n"
        for folder in (tmp_path / "cache" / "inalab").iterdir():
            for made in folder.glob("hosts_*"):
                if made.is_dir():
                    shutil.rmtree(made)
                    made.touch()
    assert run(tmp_path, step=7).stdout == "7\n"


def test_set_up_compiles_every_loop(tmp_path: Path) -> None:
    """Nothing is left for the first experiment to compile: compile_all() takes the modules that stand in the package."""
    assert run(tmp_path, step=5).stdout == "5\n"
    (tmp_path / "hosts" / "deeper").mkdir()
    (tmp_path / "hosts" / "deeper" / "other.py").write_text((tmp_path / "hosts" / "loop.py").read_text())
    script = "import sys; from hosts.compiled import compile_all; compile_all(); print({'hosts.loop', 'hosts.deeper.other'} <= {*sys.modules})"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    call = [sys.executable, "-c", script]
    assert (
        subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
        == "True\n"
    )


def test_without_a_home_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert compiled._folder(Path(compiled.__file__), checked=False) is None
