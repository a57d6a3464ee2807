"""Compiled loops are those of the sources that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inalab.hosts import compiled

LOOP = """
import numba
{checked}
from inalab.hosts.compiled import compiled
from inalab.hosts.constants import STEP
@compiled("i8(i8[::1])")
def first(values):
    return values[{index}] + STEP
if __name__ == "__main__":
    import numpy as np
    from inalab.hosts import loop
    print(loop.first(np.arange(3)))
"""


def run(folder: Path, step: int, index: int = 0, checked: str = "", cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Import a loop of a package of that name that stands in a folder, and call it."""
    write(folder, step, index, checked)
    return call(folder, cache or folder / "cache")


def write(folder: Path, step: int, index: int = 0, checked: str = "") -> None:
    """A package that has a loop, in a folder."""
    package = folder / "inalab" / "hosts"
    package.mkdir(parents=True, exist_ok=True)
    for above in (package, package.parent):
        (above / "__init__.py").touch()
    (package / "compiled.py").write_text(Path(compiled.__file__).read_text())
    (package / "constants.py").write_text(f"STEP = {step}\n")
    (package / "loop.py").write_text(LOOP.format(index=index, checked=checked))


def call(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Import the loop of the package in a folder, and call it."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "inalab.hosts.loop"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_what_has_changed_or_is_gone_is_compiled_again(tmp_path: Path) -> None:
    """A constant of another module is part of a loop's content; an index may name what has been deleted."""
    assert run(tmp_path, step=5).stdout == "5\n"
    before = list((tmp_path / "cache").rglob("*.nbc"))
    assert run(tmp_path, step=5).stdout == "5\n"
    assert list((tmp_path / "cache").rglob("*.nbc")) == before
    for path in before:
        path.unlink()
    assert run(tmp_path, step=5).stdout == "5\n"
    assert run(tmp_path, step=7).stdout == "7\n"


def test_an_index_outside_is_an_error_where_it_is_checked(tmp_path: Path) -> None:
    wrong = run(tmp_path, step=5, index=3, checked="numba.config.BOUNDSCHECK = 1")
    assert "IndexError" in wrong.stderr


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    assert run(tmp_path, step=5, cache=Path("/proc/none")).stdout == "5\n"


def test_clones_that_begin_together_compile_once(tmp_path: Path) -> None:
    """The first compiles; the other waits for it, and loads. Machine code is found by content, not by path or time."""
    clones = [tmp_path / "one", tmp_path / "other"]
    for clone in clones:
        clone.mkdir()
        write(clone, step=5)
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda clone: call(clone, tmp_path / "cache"), clones))
    assert [each.stdout for each in ran] == ["5\n"] * 2
    assert sum("compiling" in each.stderr for each in ran) == 1


def test_set_up_compiles_every_loop(tmp_path: Path) -> None:
    """Nothing is left for the first experiment to compile: compile_all() takes the modules that stand in the package."""
    assert run(tmp_path, step=5).stdout == "5\n"
    hosts = tmp_path / "inalab" / "hosts"
    (hosts / "deeper").mkdir()
    (hosts / "deeper" / "other.py").write_text((hosts / "loop.py").read_text())
    script = "import sys; from inalab.hosts.compiled import compile_all; compile_all(); print({'inalab.hosts.loop', 'inalab.hosts.deeper.other'} <= {*sys.modules})"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    call = [sys.executable, "-c", script]
    assert (
        subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
        == "True\n"
    )


def test_what_is_kept_is_what_was_compiled(tmp_path: Path) -> None:
    """Modules are imported through a link, and found without it: both have the same folder."""
    script = (
        "import inalab.hosts.compiled as c; c.compile_all('hosts')\n"
        "print(len(c.kept()), min(len([*folder.rglob('*.nbi')]) for folder in c.kept()))"
    )
    write(tmp_path / "real", step=5)
    linked = tmp_path / "clone" / "inalab"
    linked.mkdir(parents=True)
    (tmp_path / "real" / "inalab" / "hosts").rename(tmp_path / "clone" / "hosts")
    (linked / "hosts").symlink_to("../hosts")
    (linked / "__init__.py").touch()
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / "clone")}
    environment["NUMBA_BOUNDSCHECK"] = "0"  # checked loops have folders of their own
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1 1\n"


def test_without_a_home_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert compiled._folder(Path(compiled.__file__), checked=False) is None
