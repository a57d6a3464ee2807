"""A switch without interfaces behind a P4Runtime server, with the client that is primary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from p4.config.v1.p4info_pb2 import P4Info

from inalab.switches.embedded.build import build
from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.p4runtime.p4info import p4info
from inalab.switches.p4runtime.server import P4RuntimeServer
from tests.p4runtime_client import Client

PROGRAM = Path("tests/programs/runtime.p4").resolve()


@cache
def info_of(program: Path = PROGRAM) -> P4Info:
    """What a client must know of a program."""
    return p4info(check_p4(program))


@dataclass
class Device:
    """The three, and where the server listens."""

    switch: OfflineSwitch
    server: P4RuntimeServer
    client: Client
    address: str

    def send(self, op: int, a: int = 0, b: int = 0, c: int = 0, port: int = 0) -> list[tuple[int, int]]:
        """Where a packet goes, and the b that it has there."""
        with self.server.lock:
            out = self.switch.send(port, bytes([op, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big"))
        return sorted((p, int.from_bytes(data[2:4], "big")) for p, data in out)


@contextmanager
def serving(folder: Path, program: Path = PROGRAM) -> Iterator[Device]:
    """A device whose pipeline is set, until the end."""
    info, address = info_of(program), f"unix:{folder}/p4runtime"
    with OfflineSwitch(build(program)) as switch:
        server = P4RuntimeServer(info, switch)
        server.start([address])
        client = Client(address, info)
        assert client.arbitrate().status.code == 0
        client.set_pipeline()
        yield Device(switch, server, client, address)
        client.close()
        server.stop()
