"""Which of several clients may write: the one with the highest election id (P4Runtime 1.4, section 5)."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Lock
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from .errors import invalid, not_found, unimplemented


class Client:
    """One stream: `messages` are sent to it, None ends it. A client without an election id can never be primary."""

    def __init__(self) -> None:
        self.messages: SimpleQueue[Any] = SimpleQueue()
        self.election: tuple[int, int] | None = None
        self.joined = False


class Arbitration:
    """The clients of one device."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.clients: list[Client] = []
        self.lock = Lock()

    def primary(self) -> Client | None:
        """The client that may write, if there is one."""
        candidates = [client for client in self.clients if client.election is not None]
        return max(candidates, key=lambda client: client.election or (0, 0), default=None)

    def update(self, client: Client, message: Any) -> None:
        """Take what a client says of itself, and tell those whom it concerns. Raises P4RuntimeError."""
        if message.device_id != self.device_id:
            raise not_found(f"this is device {self.device_id}, not {message.device_id}")
        if message.HasField("role") and (message.role.name or message.role.id):
            raise unimplemented("roles: leave the role out")
        election = (message.election_id.high, message.election_id.low) if message.HasField("election_id") else None
        if election == (0, 0):
            raise invalid("an election id is above 0; a client without one is a backup for ever")
        with self.lock:
            if election is not None and any(c.election == election for c in self.clients if c is not client):
                raise invalid(f"another client has election id {election[1]}")
            before = self.primary()
            client.election = election
            if not client.joined:
                self.clients.append(client)
                client.joined = True
            self._tell(self.clients if self.primary() is not before else [client])

    def leave(self, client: Client) -> None:
        """A client's stream has ended."""
        with self.lock:
            if not client.joined:
                return
            before = self.primary()
            self.clients.remove(client)
            if self.primary() is not before:
                self._tell(self.clients)

    def _tell(self, clients: list[Client]) -> None:
        primary = self.primary()
        for client in clients:
            made = p4runtime_pb2.MasterArbitrationUpdate(device_id=self.device_id)
            if primary is not None and primary.election is not None:
                made.election_id.high, made.election_id.low = primary.election
            if client is primary:
                made.status.code = code_pb2.OK
            else:
                made.status.code = code_pb2.NOT_FOUND if primary is None else code_pb2.ALREADY_EXISTS
                made.status.message = "there is no primary" if primary is None else "another client is primary"
            client.messages.put(p4runtime_pb2.StreamMessageResponse(arbitration=made))

    def may_write(self, request: Any) -> bool:
        """Whether a request comes from the primary."""
        with self.lock:
            primary = self.primary()
            return primary is not None and primary.election == (request.election_id.high, request.election_id.low)

    def send(self, message: Any) -> None:
        """Give a message to the primary; without one it is lost."""
        with self.lock:
            primary = self.primary()
        if primary is not None:
            primary.messages.put(message)
