"""The protocols' cores: C in hosts/*/, built for this machine once, and seen through cffi by what its headers declare.

The library is kept by the content of all its sources, so clones share it and a change builds it again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI
from numpy.typing import NDArray

HOSTS = Path(__file__).resolve().parent
OPTIONS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-fPIC", "-fvisibility=default", "-ffp-contract=off"]
FAST = ["-O3", "-march=native"]
CHECKED = ["-O1", "-g", "-fsanitize=undefined,bounds", "-fno-sanitize-recover=all"]
log = logging.getLogger("inalab")


class BuildError(Exception):
    """The cores cannot be built; str() says what to do."""


class Library:
    """C sources, with headers by which Python sees them: `wire` are those of packets, whose structures have no gaps."""

    def __init__(self, folders: tuple[Path, ...], wire: tuple[Path, ...], headers: tuple[Path, ...]) -> None:
        self.folders = folders
        self.ffi: Any = FFI()
        for header in wire:
            self.ffi.cdef(_declarations(header), packed=True)
        for header in headers:
            self.ffi.cdef(_declarations(header))

    @cached_property
    def c(self) -> Any:
        """Its functions. $INALAB_CHECKED has them checked."""
        checked = bool(os.environ.get("INALAB_CHECKED"))
        try:
            return self.ffi.dlopen(str(self.build(checked=checked)))
        except (OSError, RuntimeError):  # there is no home, or nothing can be written there, or executed
            with tempfile.TemporaryDirectory() as scratch:
                return self.ffi.dlopen(str(self.build(Path(scratch), checked)))

    def build(self, folder: Path | None = None, checked: bool = False) -> Path:
        """Its file, in a folder, by default the cache; compiles it unless it is there. Raises BuildError.

        `checked`: what C leaves undefined ends the process with a message, as do indices outside arrays whose length is known.
        """
        where = folder or cache_folder()
        compiler = os.environ.get("CC") or ("cc" if shutil.which("cc") else "gcc")
        command = [compiler, *OPTIONS, *(CHECKED if checked else FAST)]
        texts = [path.read_text() for path in (*self._files("*.c"), *self._files("*.h"))]
        digest = hashlib.sha256("\0".join([*command, _processor(), *texts]).encode())
        target = where / f"cores-{digest.hexdigest()[:24]}.so"
        if not target.exists():
            if shutil.which(compiler) is None:
                raise BuildError("there is no C compiler: install gcc, or name one in CC")
            log.warning("building the protocols' cores for this machine, which takes some seconds once")
            with tempfile.TemporaryDirectory(dir=where) as scratch:
                self._compile(command, Path(scratch) / target.name).rename(target)
        return target

    def _compile(self, command: list[str], target: Path) -> Path:
        """Each source by itself, as many at a time as there are processors."""
        sources = self._files("*.c")
        objects = [target.with_name(f"{number}.o") for number in range(len(sources))]

        def run(*arguments: object) -> None:
            done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)
            if done.returncode:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
                raise BuildError(f"the C compiler failed on the protocols' cores: {first}")

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda source, made: run("-c", source, "-o", made), sources, objects))
        run("-shared", *objects, "-o", target, "-lm")
        return target

    def _files(self, pattern: str) -> list[Path]:
        return [path for folder in self.folders for path in sorted(folder.rglob(pattern))]


def _declarations(header: Path) -> str:
    """What a header declares, without what the preprocessor takes."""
    lines = header.read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def cache_folder() -> Path:
    """Where the library is kept. Raises OSError or RuntimeError where there can be no such folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inalab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


WIRE = tuple(HOSTS / name for name in ("roce/wire.h", "switchml/wire.h", "atp/wire.h"))
HEADERS = tuple(
    HOSTS / name
    for name in (
        "stream/quantization.h",
        "stream/core.h",
        "roce/core.h",
        "roce/reliable.h",
        "switchml/core.h",
        "atp/core.h",
        "drivers/batch.h",
        "drivers/adapter.h",
    )
)
CORES = Library((HOSTS,), WIRE, HEADERS)
ffi = CORES.ffi


def library() -> Any:
    """The cores' functions."""
    return CORES.c


def _processor() -> str:
    """What -march=native means here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def values(pointer: Any, count: int) -> NDArray[Any]:
    """What C has from a pointer on: the same memory as an array, of records with fields where it has structures."""
    item = ffi.typeof(pointer).item
    return np.frombuffer(ffi.buffer(pointer, count * ffi.sizeof(item)), _dtype(item))


@cache
def _dtype(item: Any) -> np.dtype:
    """A C type's."""
    if item.kind == "struct":
        names = [name for name, _ in item.fields]
        fields = [field for _, field in item.fields]
        formats, offsets = [_dtype(field.type) for field in fields], [field.offset for field in fields]
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(item)})
    if item.kind == "array":
        return np.dtype((_dtype(item.item), item.length))
    if item.kind == "pointer":
        return np.dtype("u8")
    return np.dtype({"_Bool": "?", "double": "f8", "float": "f4"}.get(item.cname) or item.cname.removesuffix("_t"))


def values_type(name: str) -> np.dtype:
    """The dtype of a C structure, by its name."""
    return _dtype(ffi.typeof(name))


def packed(name: str) -> np.dtype:
    """The dtype of a structure of the wire, whose numbers are big-endian."""
    found: list[tuple[str, Any]] = []
    for field, its in ffi.typeof(name).fields:
        found.append((field, packed(its.type.cname) if its.type.kind == "struct" else f">u{ffi.sizeof(its.type)}"))
    return np.dtype(found)


def pointer(array: NDArray[Any], kind: str) -> Any:
    """A pointer to an array's memory, which must be contiguous; the array lives as long as it."""
    return ffi.from_buffer(kind, array)


def enum(name: str) -> dict[str, int]:
    """The constants of an enum."""
    return dict(ffi.typeof(f"enum {name}").relements)


def taken(array: Any, count: int) -> NDArray[Any]:
    """A copy of what C has from a pointer on."""
    return values(array, count).copy() if count else np.empty(0, _dtype(ffi.typeof(array).item))
