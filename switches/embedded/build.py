"""A P4 program as an executable switch, compiled once and cached by the content of all that went into it."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cache
from pathlib import Path

from switches.cache import cache_directory
from switches.embedded.compiler import compile_source, preprocess_p4
from switches.embedded.errors import CompileError

RUNTIME = Path(__file__).parent / "runtime"
COMMON = ["-march=native", "-std=gnu11", "-Wall", "-Wno-unused"]
FAST = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def c_compiler() -> str:
    """The machine's C compiler; $CC chooses another."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise CompileError(None, "there is no C compiler: install gcc, or name one in CC")
    return compiler


def build(
    program: Path,
    defines: dict[str, str] | None = None,
    include_dirs: list[Path] | None = None,
    sanitize: bool = False,
    traced: bool = False,
) -> Path:
    """The executable of a program; compiles it unless the cache has it. Raises CompileError.

    With `sanitize`, AddressSanitizer and UndefinedBehaviorSanitizer end it at the first error, and report leaks at its end.
    If it is `traced`, it records each packet's steps (see emit/trace.py).
    """
    source = preprocess_p4(program, defines, include_dirs)
    # recorded steps tell their files by path; elsewhere paths are in comments of the C alone
    origins = [(file if traced else Path(file).name, line) for file, line in source.origin]
    with_what = _digest([source.text, repr(origins), program.name, str(traced), _front_end(), *_back_end(sanitize)])
    known = cache_directory() / f"{program.stem[:40]}-source-{with_what}"  # leads to the executable
    if not known.exists():
        with _warnings() as said:
            c = compile_source(source, program, traced)
        executable = build_c(c, program.stem, sanitize)
        if said.getvalue():
            return executable  # it is compiled again the next time, and warned about again
        with tempfile.TemporaryDirectory(dir=known.parent) as scratch:
            (Path(scratch) / "link").symlink_to(executable)
            (Path(scratch) / "link").rename(known)
    return known.resolve()


def build_c(c: str, name: str, sanitize: bool = False) -> Path:
    """The executable of a program that is C already. Raises CompileError."""
    parts = _back_end(sanitize)
    runtime = cache_directory() / f"runtime-{_digest(parts)}"
    target = cache_directory() / f"{name[:40]}-{_digest([c, *parts])}"
    if not target.exists():
        _run_compiler([c_compiler(), *_flags(sanitize)], c, runtime, target)
    return target


@contextmanager
def _warnings() -> Iterator[io.StringIO]:
    """What the compiler says of a program, also to the user."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield said
    finally:
        sys.stderr.write(said.getvalue())


def _flags(sanitize: bool) -> list[str]:
    return COMMON + (SANITIZED if sanitize else FAST)


@cache
def _front_end() -> str:
    """All that makes C of P4."""
    own = Path(__file__).parent
    return _digest([path.read_text() for path in sorted([*own.rglob("*.py"), *own.glob("*.lark")])])


def _back_end(sanitize: bool) -> list[str]:
    """All that makes an executable of C."""
    sources = (path.read_text() for path in sorted(RUNTIME.glob("*.[ch]")))
    return [c_compiler(), " ".join(_flags(sanitize)), _machine(), *sources]


def _digest(parts: list[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _run_compiler(compiler: list[str], c: str, runtime: Path, target: Path) -> None:
    """Compile a program, beside it the runtime if that has not been compiled for any program yet, and link both."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        text, made, objects = Path(scratch) / "program.c", Path(scratch) / "switch", Path(scratch) / "runtime"
        text.write_text(c)
        own = os.environ | {"TMPDIR": scratch}  # what a compiler that is killed leaves is here
        compiling = None
        if not runtime.exists():
            objects.mkdir()
            sources = sorted(map(str, RUNTIME.glob("*.c")))
            compiling = subprocess.Popen([*compiler, "-c", *sources], cwd=objects, env=own, stderr=subprocess.PIPE, text=True)
        done = subprocess.run(
            [*compiler, "-I", str(RUNTIME), "-c", "program.c"], cwd=scratch, env=own, capture_output=True, text=True, check=False
        )
        if compiling is not None:
            _, said = compiling.communicate()
            if compiling.returncode:
                raise CompileError(None, f"the C compiler failed on the switch's runtime: {_first_error(said)}")
            with suppress(OSError):  # another process may have been faster
                objects.rename(runtime)
        if done.returncode:
            kept = target.with_suffix(".failed.c")
            shutil.copy(text, kept)
            said = _first_error(done.stderr)
            raise CompileError(None, f"the C compiler failed on generated code (a defect; kept as {kept}): {said}")
        parts = ["program.o", *sorted(map(str, runtime.glob("*.o")))]
        link = [*compiler, *parts, "-o", str(made)]
        linked = subprocess.run(link, cwd=scratch, env=own, capture_output=True, text=True, check=False)
        if linked.returncode:
            raise CompileError(None, f"the C compiler could not link the switch: {_first_error(linked.stderr)}")
        made.rename(target)


def _first_error(said: str) -> str:
    return next((line for line in said.splitlines() if "error" in line), said[:200])


def _machine() -> str:
    """What -march=native means here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
