"""What C sources share and Python does not see (inside.h), for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cffi import FFI

from inalab.hosts.cores import CORES, HOSTS, Library
from inalab.testbed.simulator.library import HERE, SIMULATOR


def _inside(library: Library, *headers: Path) -> Any:
    """The functions that these headers declare and do not define."""
    ffi = FFI()
    ffi.include(library.ffi)
    for header in headers:
        lines = header.read_text().splitlines()
        ffi.cdef("\n".join(line for line in lines if line.endswith(");") and not line.startswith((" ", "static", "#", "_"))))
    return ffi.dlopen(str(library.build(checked=True)))


INSIDE = _inside(CORES, HOSTS / "stream" / "inside.h")
SIMULATED = _inside(SIMULATOR, HERE / "inside.h")
