"""Serve running embedded switches to Thrift clients: python -m inalab.switches.thrift SWITCH[=PORT] ..."""

from __future__ import annotations

import argparse
import signal
import sys

from ..control import ControlError
from ..embedded.control import SocketControl
from ..sockets import socket_path


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m inalab.switches.thrift",
        description="BMv2's Thrift services for embedded switches: simple_switch_CLI and P4-utils' API find them at their ports.",
    )
    parser.add_argument(
        "switch", nargs="+", metavar="SWITCH[=PORT]", help="a switch's name, or the path of its control socket; from port 9090 on"
    )
    parser.add_argument("--address", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    options = parser.parse_args()
    try:
        from .server import FIRST_PORT, ThriftServer
    except ImportError as error:
        sys.exit(f'error: {error.name} is missing: pip install "inalab[thrift]"')
    servers = []
    try:
        for number, word in enumerate(options.switch):
            name, _, port = word.partition("=")
            if port and not (port.isdecimal() and 0 < int(port) < 1 << 16):
                sys.exit(f"error: {port} is not a port: 1 to 65535")
            where = int(port) if port else FIRST_PORT + number
            try:
                servers.append(ThriftServer(SocketControl(socket_path(name)), where, options.address))
            except OSError as error:
                sys.exit(f"error: port {where} cannot be had ({error.strerror}): choose another with {name}=PORT")
            print(f"{name}: {options.address}:{where}", flush=True)
    except ControlError as error:
        sys.exit(f"error: {error}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for server in servers:
        server.start()
    try:
        signal.pause()
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
