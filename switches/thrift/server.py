"""A Thrift server in front of a running embedded switch, with BMv2's services on one port."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.TMultiplexedProcessor import TMultiplexedProcessor
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from ..control import Control
from ..sockets import own_directory
from .binding import CALLS, Processor
from .cells import Cells
from .learning import Learning
from .management import Management, SimpleSwitch
from .multicast import Multicast
from .notifications import Notifications
from .switch import Switch
from .tables import Tables

ADDRESS = "127.0.0.1"
FIRST_PORT = 9090
RETRY_SECONDS = 0.1
LONGEST, MOST = 1 << 20, 1 << 16  # bytes in a text, and parts in a list, that a client may send


class _Connection(socketserver.BaseRequestHandler):
    server: ThriftServer

    def handle(self) -> None:
        """Answer a client's calls until it goes, or sends what is no call."""
        self.server.connected.add(self.request)
        if self.request.family != socket.AF_UNIX:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = TSocket()
        transport.setHandle(self.request)
        protocol = TBinaryProtocol(TBufferedTransport(transport), string_length_limit=LONGEST, container_length_limit=MOST)
        try:
            while True:
                self.server.processor.process(protocol, protocol)
        except Exception:  # the library raises many things for the end of a stream, and for garbage
            pass

    def finish(self) -> None:
        self.server.connected.discard(self.request)


class ThriftServer(socketserver.ThreadingTCPServer):
    """Serves one switch, in threads of this process. Raises OSError where the port is taken; port 0 is any free one.

    `path` is that of a Unix socket, to listen there instead. A server `beside` this one, of the same switch, publishes digests for
    both.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # clients that come at once

    def __init__(
        self,
        control: Control,
        port: int = FIRST_PORT,
        address: str = ADDRESS,
        path: Path | None = None,
        beside: ThriftServer | None = None,
    ) -> None:
        self.connected: set[socket.socket] = set()
        self.address_family = socket.AF_INET if path is None else socket.AF_UNIX
        super().__init__((address, port) if path is None else str(path), _Connection)  # type: ignore[arg-type]
        switch = Switch(control, port or self.server_address[1])
        published = own_directory() / f"thrift-{switch.port}.notifications" if path is None else path.with_suffix(".notifications")
        self.notifications: Notifications = beside.notifications if beside else Notifications(Learning(switch), published)
        self.publishes = beside is None
        self.processor = TMultiplexedProcessor()
        multicast = Multicast(switch)
        answering: dict[str, list[Any]] = {
            "standard": [Tables(switch), Cells(switch), Management(switch, self.notifications)],
            "simple_pre": [multicast],
            "simple_pre_lag": [multicast],
            "simple_switch": [SimpleSwitch(switch)],
        }
        for service, parts in answering.items():
            self.processor.registerProcessor(service, Processor(service, functions(service, parts)))
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next client. Where this process may open no more files, it is tried again a little later: it stays in the queue."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(RETRY_SECONDS)
            raise

    def start(self) -> None:
        """Take clients, until `stop`."""
        if self.publishes:
            self.notifications.start()
        self.thread.start()

    def stop(self) -> None:
        """Take no more clients, and end what is connected. The switch's control stays open."""
        self.shutdown()
        self.thread.join()
        self.server_close()
        if self.publishes:
            self.notifications.stop()
        for one in list(self.connected):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has gone itself


def functions(service: str, parts: list[Any]) -> dict[str, Callable[..., Any]]:
    """What answers each call of a service."""
    return {name: next(getattr(part, name) for part in parts if hasattr(part, name)) for name in CALLS[service]}
