"""A P4 program as an executable switch, compiled once and cached by the content of all that went into it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from switches.cache import cache_directory
from switches.embedded.compiler import compile_p4
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
    return build_c(compile_p4(program, defines, include_dirs, traced), program.stem, sanitize)


def build_c(c: str, name: str, sanitize: bool = False) -> Path:
    """The executable of a program that is C already. Raises CompileError."""
    compiler, flags = c_compiler(), COMMON + (SANITIZED if sanitize else FAST)
    parts = [compiler, " ".join(flags), _machine(), *(p.read_text() for p in sorted(RUNTIME.glob("*.[ch]")))]
    runtime = cache_directory() / f"runtime-{_digest(parts)}"
    target = cache_directory() / f"{name[:40]}-{_digest([c, *parts])}"
    if not target.exists():
        _run_compiler([compiler, *flags], c, runtime, target)
    return target


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
        compiling = None
        if not runtime.exists():
            objects.mkdir()
            sources = sorted(map(str, RUNTIME.glob("*.c")))
            compiling = subprocess.Popen([*compiler, "-c", *sources], cwd=objects, stderr=subprocess.PIPE, text=True)
        done = subprocess.run(
            [*compiler, "-I", str(RUNTIME), "-c", "program.c"], cwd=scratch, capture_output=True, text=True, check=False
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
        linked = subprocess.run([*compiler, *parts, "-o", str(made)], cwd=scratch, capture_output=True, text=True, check=False)
        if linked.returncode:
            raise CompileError(None, f"the C compiler could not link the switch: {_first_error(linked.stderr)}")
        made.rename(target)


def _first_error(said: str) -> str:
    return next((line for line in said.splitlines() if "error" in line), said[:200])


def _machine() -> str:
    """What -march=native means here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
