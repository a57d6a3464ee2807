"""The simulator's C, built with the protocols' cores."""

from __future__ import annotations

from pathlib import Path

from inalab.hosts.cores import HEADERS, HOSTS, WIRE, Library

HERE = Path(__file__).resolve().parent
SIMULATOR = Library((HOSTS, HERE), WIRE, (*HEADERS, *(HERE / name for name in ("events.h", "world.h", "flows.h", "segments.h"))))
