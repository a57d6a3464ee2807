"""The cores' library is that of the sources that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inalab.hosts import cores
from inalab.hosts.cores import BuildError, Library

ONE = "int step(int x) { return x + STEP; }\n"
CALL = """
import sys; from pathlib import Path; from inalab.hosts.cores import Library
folder = Path(sys.argv[1]); print(Library((folder,), (), (folder / "one.h",)).c.step(1))
"""


def write(folder: Path, step: int) -> Library:
    """A library of one source, which includes a header."""
    folder.mkdir(exist_ok=True)
    (folder / "one.h").write_text("int step(int x);\n")
    (folder / "size.h").write_text(f"#define STEP {step}\n")
    (folder / "one.c").write_text('#include "size.h"\n' + ONE)
    return Library((folder,), (), (folder / "one.h",))


def call(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call its function in another process."""
    command = [sys.executable, "-c", CALL, str(folder)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False)


def test_what_has_changed_is_built_again_and_what_is_the_same_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that no source of Python sees is part of a library's content, and its path is not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = write(tmp_path / "one", 5).build()
    assert write(tmp_path / "other", 5).build() == first
    assert write(tmp_path / "one", 6).build() != first
    assert write(tmp_path / "one", 5).build(checked=True) != first
    assert sorted(path.suffix for path in (tmp_path / "cache" / "inalab").iterdir()) == [".so"] * 3


def test_clones_that_begin_together_have_the_same(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, 5)
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda name: call(tmp_path / name, XDG_CACHE_HOME=str(tmp_path / "cache")), ("one", "other")))
    assert [each.stdout for each in ran] == ["6\n"] * 2
    assert len(list((tmp_path / "cache" / "inalab").iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    write(tmp_path / "one", 5)
    assert call(tmp_path / "one", XDG_CACHE_HOME="/proc/none").stdout == "6\n"


def test_what_is_wrong_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write(tmp_path / "one", 5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "one" / "one.c").write_text("int step(int x) { return y; }\n")
    with pytest.raises(BuildError, match=r"one.c:1:.*error.*\bundeclared\b"):
        made.build()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError, match="there is no C compiler: install gcc, or name one in CC"):
        made.build()
    assert not list((tmp_path / "cache" / "inalab").iterdir())


def test_a_checked_library_ends_at_what_is_undefined(tmp_path: Path) -> None:
    made = write(tmp_path / "one", 5)
    (tmp_path / "one" / "one.c").write_text("int step(int x) { int two[2] = {0}; return two[x + 1]; }\n")
    assert made.build(tmp_path, checked=True).exists()
    done = call(tmp_path / "one", INALAB_CHECKED="1", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode != 0 and "index 2 out of bounds" in done.stderr


def test_the_compiler_has_nothing_to_say_about_the_cores(tmp_path: Path) -> None:
    from inalab.testbed.simulator.library import SIMULATOR

    sources = [str(path) for folder in SIMULATOR.folders for path in folder.rglob("*.c")]
    command = [os.environ.get("CC", "cc"), *cores.OPTIONS, *cores.FAST, "-Wextra", "-Werror", "-Wno-sign-compare", "-fsyntax-only"]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_structures_are_seen_as_records() -> None:
    made = cores.ffi.new("Row[]", 3)
    rows = cores.values(cores.ffi.addressof(made, 0), 3)
    rows["deadline"][1], rows["tries"][2] = 2.5, 7
    assert (made[1].deadline, made[2].tries, rows.dtype.itemsize) == (2.5, 7, cores.ffi.sizeof("Row"))
    assert cores.packed("AtpHeader").itemsize == 22 and cores.packed("SwitchmlStatus")["header"]["chunk"] == ">u4"
