"""A small program around what a test of the compiler puts into it, and what it does with packets."""

from __future__ import annotations

from pathlib import Path

from inalab.switches.embedded.build import build
from inalab.switches.embedded.compiler import compile_p4
from inalab.switches.embedded.offline import OfflineSwitch
from tests.scenarios import ETHERNET

INCLUDES = [Path("tests/programs").resolve()]
PROGRAM = """#define PROBE_FIELDS bit<8> a; bit<16> b; int<8> s; bit<128> wide;
{before}
#include "frame.p4"
NO_EGRESS
{outside}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    {locals}
    apply {{
        {body}
    }}
}}
PACKAGE
"""


def program(folder: Path, body: str = "", locals_: str = "", outside: str = "", before: str = "") -> Path:
    """A program whose ingress holds `locals_` and `body`; `before` stands before the includes."""
    path = folder / "probe.p4"
    path.write_text(PROGRAM.format(body=body, locals=locals_, outside=outside, before=before))
    return path


def compile_(path: Path) -> str:
    """The C of a program that includes those of tests/programs."""
    return compile_p4(path, {}, INCLUDES)


def switch(path: Path) -> OfflineSwitch:
    """A switch that runs such a program."""
    return OfflineSwitch(build(path, {}, INCLUDES))


def ask(running: OfflineSwitch, data: bytes) -> bytes:
    """What the program makes of these bytes behind an Ethernet header; b"" if it drops them."""
    out = running.send(0, ETHERNET + data)
    return out[0][1][len(ETHERNET) :] if out else b""
