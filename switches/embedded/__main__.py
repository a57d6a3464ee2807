"""The embedded switch on its own: python -m inalab.switches.embedded PROGRAM.p4 -i PORT@IFACE [...]."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..sockets import claim_socket
from .build import build
from .compiler import compile_p4
from .errors import CompileError


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inalab.switches.embedded", description="A v1model switch on real interfaces.")
    parser.add_argument("program", type=Path, help="P4_16 program for v1model")
    parser.add_argument(
        "-i", dest="interfaces", metavar="PORT@IFACE", action="append", default=[],
        help="a port's interface; PORT@unix:PATH is a port to a P4Runtime server",
    )  # fmt: skip
    parser.add_argument("--commands", metavar="FILE", type=Path, help="commands, as simple_switch_CLI takes them, to run first")
    parser.add_argument("-D", dest="defines", metavar="NAME=VALUE", action="append", default=[], help="define a macro")
    parser.add_argument("-I", dest="include_dirs", metavar="DIR", type=Path, action="append", default=[], help="include path")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of random() (default 0)")
    parser.add_argument(
        "--most-copies",
        metavar="N",
        type=int,
        help="clones, resubmissions and recirculations that one packet may cause (default: no bound)",
    )
    parser.add_argument("--name", help="name for `python -m inalab.switches.cli NAME` (default: the program's)")
    parser.add_argument("--socket", metavar="PATH", type=Path, help="control socket, instead of one by name")
    parser.add_argument("--trace", action="store_true", help="record each packet's statements, which the command show_trace prints")
    parser.add_argument("--emit-c", action="store_true", help="print the C that would run, and stop")
    return parser


def main() -> None:
    """Compile, then become the switch. It prints `ready` once packets flow; SIGTERM stops it."""
    parser = _arguments()
    options = parser.parse_args()
    defines = dict(d.split("=", 1) if "=" in d else (d, "1") for d in options.defines)
    if options.seed < 0:
        parser.error("--seed must not be negative")
    if options.most_copies is not None and not 0 <= options.most_copies < 2**32:
        parser.error("--most-copies must be between 0 and 4294967295")
    for given in options.interfaces:
        interface = given.partition("@")[2]
        if len(interface) > 15 and not interface.startswith("unix:"):
            parser.error(f"interface name {interface} is longer than the 15 characters that Linux allows")
    try:
        if options.emit_c:
            print(compile_p4(options.program, defines, options.include_dirs, options.trace))
            return
        if not options.interfaces:
            parser.error("give at least one port with -i PORT@IFACE")
        socket = options.socket or claim_socket(options.program.stem if options.name is None else options.name)
        executable = build(options.program, defines, options.include_dirs, traced=options.trace)
    except CompileError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"error: {error}")
    command = [str(executable), *(word for i in options.interfaces for word in ("-i", i))]
    command += ["--seed", str(options.seed), "--socket", str(socket)]
    if options.most_copies is not None:
        command += ["--most-copies", str(options.most_copies)]
    if options.commands:
        command += ["--commands", str(options.commands)]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
