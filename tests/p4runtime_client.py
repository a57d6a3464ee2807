"""A P4Runtime client for tests: messages by the names of P4Info."""

from __future__ import annotations

from queue import Empty, Queue, SimpleQueue
from threading import Thread
from typing import Any

import grpc
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

UPDATE = p4runtime_pb2.Update
PATIENCE = 5.0
KINDS = ("tables", "actions", "action_profiles", "counters", "meters", "registers", "value_sets", "digests")


class RefusedError(Exception):
    """The code and the message of a request, or of the only update in it, that was refused."""


class Client:
    """One stream to a device, and its requests."""

    def __init__(self, address: str, info: Any, device_id: int = 0, election: int = 1) -> None:
        self.info, self.device_id, self.election = info, device_id, election
        self.ids = {(kind, o.preamble.alias): o for kind in KINDS for o in getattr(info, kind)}
        self.channel = grpc.insecure_channel(address)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.received: dict[str, Queue[Any]] = {}
        self.ended: Queue[Any] = Queue()
        self.requests: SimpleQueue[Any] = SimpleQueue()
        Thread(target=self._listen, daemon=True).start()

    def reconnect(self) -> None:
        """Open another stream, where the first came too early."""
        self.requests.put(None)
        self.requests = SimpleQueue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            for message in self.stub.StreamChannel(iter(self.requests.get, None)):
                kind = message.WhichOneof("update")
                self.received.setdefault(kind, Queue()).put(getattr(message, kind))
        except grpc.RpcError as error:
            self.ended.put(error)

    def next(self, kind: str, patience: float = PATIENCE) -> Any:
        """The next message of a kind on the stream; AssertionError if none comes."""
        try:
            return self.received.setdefault(kind, Queue()).get(timeout=patience)
        except Empty:
            raise AssertionError(f"no {kind} came within {patience} s") from None

    def arbitrate(self) -> Any:
        """Ask to be the primary; the answer."""
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        if self.election:
            request.arbitration.election_id.low = self.election
        self.requests.put(request)
        return self.next("arbitration")

    def set_pipeline(self, info: Any = None, action: str = "VERIFY_AND_COMMIT") -> None:
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=self.device_id, action=action)
        request.election_id.low = self.election
        request.config.p4info.CopyFrom(info or self.info)
        _raising(self.stub.SetForwardingPipelineConfig, request)

    def write(self, *updates: Any, **parameters: Any) -> None:
        """Make updates. Raises RefusedError."""
        request = p4runtime_pb2.WriteRequest(device_id=self.device_id, updates=updates, **parameters)
        request.election_id.low = self.election
        _raising(self.stub.Write, request)

    def insert(self, **entity: Any) -> None:
        self.write(UPDATE(type=UPDATE.INSERT, entity=p4runtime_pb2.Entity(**entity)))

    def modify(self, **entity: Any) -> None:
        self.write(UPDATE(type=UPDATE.MODIFY, entity=p4runtime_pb2.Entity(**entity)))

    def delete(self, **entity: Any) -> None:
        self.write(UPDATE(type=UPDATE.DELETE, entity=p4runtime_pb2.Entity(**entity)))

    def read(self, **entity: Any) -> list[Any]:
        """What a request for one entity finds."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id, entities=[p4runtime_pb2.Entity(**entity)])
        found = _raising(lambda r: [e for response in self.stub.Read(r) for e in response.entities], request)
        return [getattr(one, one.WhichOneof("entity")) for one in found]

    def send(self, packet: Any) -> None:
        self.requests.put(p4runtime_pb2.StreamMessageRequest(packet=packet))

    def close(self) -> None:
        self.requests.put(None)
        self.channel.close()

    # --- messages

    def id(self, kind: str, name: str) -> int:
        number: int = self.ids[kind, name].preamble.id
        return number

    def action(self, name: str, *values: int) -> Any:
        made = p4runtime_pb2.Action(action_id=self.id("actions", name))
        for parameter, value in zip(self.ids["actions", name].params, values, strict=True):
            made.params.add(param_id=parameter.id, value=octets(value))
        return made

    def entry(self, table: str, *keys: Any, action: Any = None, **more: Any) -> Any:
        """A table entry: keys are numbers, or pairs of them, or None; `action` is an Action or a TableAction."""
        made = p4runtime_pb2.TableEntry(table_id=self.id("tables", table), **more)
        for f, key in zip(self.ids["tables", table].match_fields, keys, strict=False):
            if key is None:
                continue
            match = made.match.add(field_id=f.id)
            kind = f.MatchType.Name(f.match_type).lower()
            first, second = key if isinstance(key, tuple) else (key, 0)
            if kind in ("exact", "optional"):
                getattr(match, kind).value = octets(first)
            elif kind == "lpm":
                match.lpm.value, match.lpm.prefix_len = octets(first), second
            elif kind == "ternary":
                match.ternary.value, match.ternary.mask = octets(first), octets(second)
            else:
                match.range.low, match.range.high = octets(first), octets(second)
        if isinstance(action, p4runtime_pb2.Action):
            made.action.action.CopyFrom(action)
        elif action is not None:
            made.action.CopyFrom(action)
        return made


def octets(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _raising(call: Any, request: Any) -> Any:
    try:
        return call(request)
    except grpc.RpcError as error:
        raise RefusedError(*_reason(error)) from None


def _reason(error: Any) -> tuple[str, str]:
    """The code and message of a request that was refused, or of the first update that was."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                one = p4runtime_pb2.Error()
                if detail.Unpack(one) and one.canonical_code:
                    code = next(c.name for c in grpc.StatusCode if c.value[0] == one.canonical_code)
                    return code, one.message
    return error.code().name, error.details()
