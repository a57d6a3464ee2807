"""Serve a running embedded switch to P4Runtime clients.

python -m inalab.switches.p4runtime SWITCH PROGRAM.p4 [--address ADDRESS]; or the program's P4Info, as --p4info writes it
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from ..control import ControlError
from ..embedded.compiler import check_p4
from ..embedded.control import SocketControl
from ..embedded.errors import CompileError
from ..sockets import socket_path

ADDRESS = "127.0.0.1:50051"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m inalab.switches.p4runtime", description="A P4Runtime server for an embedded switch."
    )
    parser.add_argument("switch", help="the switch's name, or the path of its control socket")
    parser.add_argument("program", type=Path, help="the P4 program that it runs, or its P4Info as text (.txt, .txtpb)")
    parser.add_argument(
        "-D", dest="defines", metavar="NAME=VALUE", action="append", default=[], help="define a macro, as for the switch"
    )
    parser.add_argument("-I", dest="include_dirs", metavar="DIR", type=Path, action="append", default=[], help="include path")
    parser.add_argument("--address", action="append", help=f"where to listen; may be given several times (default: {ADDRESS})")
    parser.add_argument("--device-id", type=int, default=0, metavar="N", help="what clients call the switch (default: 0)")
    parser.add_argument("--packets", type=Path, metavar="SOCKET", help="where the switch's -i PORT@unix:SOCKET is")
    parser.add_argument("--p4info", type=Path, metavar="FILE", help="write the program's P4Info there, too")
    options = parser.parse_args()
    try:
        from google.protobuf import text_format
        from p4.config.v1 import p4info_pb2

        from .p4info import as_text, p4info
        from .server import P4RuntimeServer
    except ImportError as error:
        sys.exit(f'error: {error.name} is missing: pip install "inalab[p4runtime]"')
    try:
        defines = dict(d.split("=", 1) if "=" in d else (d, "1") for d in options.defines)
        if options.program.suffix in (".txt", ".txtpb"):
            info = text_format.Parse(options.program.read_text(), p4info_pb2.P4Info())
        else:
            info = p4info(check_p4(options.program, defines, options.include_dirs))
        if options.p4info is not None:
            options.p4info.write_text(as_text(info))
        server = P4RuntimeServer(info, SocketControl(socket_path(options.switch)), options.device_id, options.packets)
        server.start(options.address or [ADDRESS])
    except CompileError as error:
        sys.exit(str(error))
    except text_format.ParseError as error:
        sys.exit(f"error: {options.program} is no P4Info: {error}")
    except (ControlError, OSError) as error:
        sys.exit(f"error: {error}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"device {options.device_id}: {', '.join(options.address or [ADDRESS])}", flush=True)
    try:
        signal.pause()
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()
