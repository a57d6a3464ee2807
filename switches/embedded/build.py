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
from enum import Enum
from functools import cache
from pathlib import Path

from ..cache import cache_directory
from .compiler import compile_source, preprocess_p4
from .errors import CompileError

RUNTIME = Path(__file__).parent / "runtime"
COMMON = ["-march=native", "-std=gnu11", "-Wall", "-Wno-unused"]
FAST = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
LIBRARY = ["-fPIC", "-fvisibility=hidden"]
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Form(Enum):
    """What a program becomes, with the C compiler's options."""

    EXECUTABLE = tuple(COMMON + FAST)
    SANITIZED = tuple(COMMON + SANITIZED)
    LIBRARY = tuple(COMMON + FAST + LIBRARY)


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
    library: bool = False,
) -> Path:
    """The executable of a program; compiles it unless the cache has it. Raises CompileError.

    As a `library`, it is loaded into a process (switches.embedded.offline.LoadedSwitch).

    With `sanitize`, AddressSanitizer and UndefinedBehaviorSanitizer end it at the first error, and report leaks at its end.
    If it is `traced`, it records each packet's steps (see emit/statements.py).
    """
    form = Form.LIBRARY if library else Form.SANITIZED if sanitize else Form.EXECUTABLE
    source = preprocess_p4(program, defines, include_dirs)
    # recorded steps tell their files by path; elsewhere paths are in comments of the C alone
    origins = [(file if traced else Path(file).name, line) for file, line in source.origin]
    with_what = _digest([source.text, repr(origins), program.name, str(traced), _front_end(), *_back_end(form)])
    known = cache_directory() / f"{program.stem[:40]}-source-{with_what}"  # leads to the executable
    if not known.exists():
        with _warnings() as printed:
            c = compile_source(source, program, traced)
        executable = build_c(c, program.stem, form)
        if printed.getvalue():
            return executable  # it is compiled again the next time, and warned about again
        with tempfile.TemporaryDirectory(dir=known.parent) as scratch:
            (Path(scratch) / "link").symlink_to(executable)
            (Path(scratch) / "link").rename(known)
    return known.resolve()


def build_c(c: str, name: str, form: Form = Form.EXECUTABLE) -> Path:
    """The executable of a program that is C already. Raises CompileError."""
    target = cache_directory() / f"{name[:40]}-{digest_of_c(c, form)}"
    if not target.exists():
        _run_compiler(c, target, form)
    return target


def digest_of_c(c: str, form: Form = Form.EXECUTABLE) -> str:
    """A digest of all that an executable is made of."""
    return _digest([c, *_back_end(form)])


def compiler_command(form: Form = Form.EXECUTABLE) -> list[str]:
    """The C compiler with the options that a program and the runtime are compiled with."""
    return [c_compiler(), *form.value]


@contextmanager
def runtime_objects(form: Form = Form.EXECUTABLE) -> Iterator[Path]:
    """The folder that has the compiled runtime once the block ends: it is compiled beside the block where there is none yet."""
    folder = cache_directory() / f"runtime-{_digest(_back_end(form))}"
    if folder.exists():
        yield folder
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        sources, objects = sorted(map(str, RUNTIME.glob("*.c"))), Path(scratch) / "runtime"
        objects.mkdir()
        compiling = subprocess.Popen(
            [*compiler_command(form), "-c", *sources],
            cwd=objects,
            env=os.environ | {"TMPDIR": scratch},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield folder
        finally:
            _, sentences = compiling.communicate()
        if compiling.returncode:
            raise CompileError(None, f"the C compiler failed on the switch's runtime: {first_error(sentences)}")
        with suppress(OSError):  # another process may have been faster
            objects.rename(folder)


@contextmanager
def _warnings() -> Iterator[io.StringIO]:
    """What the compiler says of a program, also to the user."""
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            yield printed
    finally:
        sys.stderr.write(printed.getvalue())


@cache
def _front_end() -> str:
    """All that makes C of P4."""
    own = Path(__file__).parent
    return _digest([path.read_text() for path in sorted([*own.rglob("*.py"), *own.glob("*.lark")])])


def _back_end(form: Form) -> list[str]:
    """All that makes an executable of C."""
    sources = (path.read_text() for path in sorted(RUNTIME.glob("*.[ch]")))
    return [*compiler_command(form), _machine(), *sources]


def _digest(parts: list[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _run_compiler(c: str, target: Path, form: Form) -> None:
    """Compile a program, beside it the runtime if that has not been compiled for any program yet, and link both."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        text, made = Path(scratch) / "program.c", Path(scratch) / "switch"
        text.write_text(c)

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            own = os.environ | {"TMPDIR": scratch}  # what a compiler that is killed leaves is here
            command = [*compiler_command(form), *arguments]
            return subprocess.run(command, cwd=scratch, env=own, capture_output=True, text=True, check=False)

        with runtime_objects(form) as runtime:
            done = run("-I", str(RUNTIME), "-c", text.name)
        if done.returncode:
            kept = target.with_suffix(".failed.c")
            shutil.copy(text, kept)
            raise CompileError(
                None, f"the C compiler failed on generated code (a defect; kept as {kept}): {first_error(done.stderr)}"
            )
        shared = ["-shared"] if form is Form.LIBRARY else []
        linked = run(*shared, "program.o", *objects_of(runtime), "-o", made.name)
        if linked.returncode:
            raise CompileError(None, f"the C compiler could not link the switch: {first_error(linked.stderr)}")
        made.rename(target)


def objects_of(runtime: Path) -> list[str]:
    """The files to link with a program."""
    return sorted(map(str, runtime.glob("*.o")))


def first_error(printed: str) -> str:
    """What a C compiler's messages begin with."""
    return next((line for line in printed.splitlines() if "error" in line), printed[:200])


def _machine() -> str:
    """What -march=native means here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
