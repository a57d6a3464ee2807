"""A P4 program as an executable switch, compiled once and cached by the content of all that went into it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
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
    program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None, sanitize: bool = False
) -> Path:
    """The executable of a program; compiles it unless the cache has it. Raises CompileError.

    With `sanitize`, AddressSanitizer and UndefinedBehaviorSanitizer end it at the first error, and report leaks at its end.
    """
    c = compile_p4(program, defines, include_dirs)
    compiler, flags = c_compiler(), COMMON + (SANITIZED if sanitize else FAST)
    sources = sorted(RUNTIME.glob("*.c"))
    digest = hashlib.sha256()
    for part in [c, compiler, " ".join(flags), _machine(), *(p.read_text() for p in [*sources, *sorted(RUNTIME.glob("*.h"))])]:
        digest.update(part.encode() + b"\0")
    target = cache_directory() / f"{program.stem[:40]}-{digest.hexdigest()[:24]}"
    if not target.exists():
        _run_compiler([compiler, *flags], c, sources, target)
    return target


def _run_compiler(compiler: list[str], c: str, sources: list[Path], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        text, made = Path(scratch) / "program.c", Path(scratch) / "switch"
        text.write_text(c)
        command = [*compiler, "-I", str(RUNTIME), str(text), *map(str, sources), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            kept = target.with_suffix(".failed.c")
            shutil.copy(text, kept)
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise CompileError(None, f"the C compiler failed on generated code (a defect; kept as {kept}): {first}")
        made.rename(target)


def _machine() -> str:
    """What -march=native means here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
