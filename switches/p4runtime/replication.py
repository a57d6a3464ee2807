"""Multicast groups, and clone sessions, which are groups that packets are mirrored to (P4Runtime 1.4, section 9.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from p4.v1 import p4runtime_pb2

from .bytestrings import decode
from .errors import P4RuntimeError, already_exists, not_found, unimplemented
from .pipeline import Pipeline, require
from .profiles import DELETE, INSERT

SESSIONS = 1 << 15  # groups from here on belong to clone sessions
MOST_PORTS = 511


@dataclass
class Replicated:
    message: Any
    nodes: list[int] = field(default_factory=list)


class Replication:
    """What a client has made, by kind and number."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.known: dict[tuple[str, int], Replicated] = {}

    def write(self, kind: int, message: Any) -> None:
        what = message.WhichOneof("type")
        require(what is not None, "a packet replication entry is a multicast group or a clone session")
        one = getattr(message, what)
        number = one.multicast_group_id if what == "multicast_group_entry" else one.session_id
        require(0 < number < SESSIONS, f"{number} is no number for a group or session: 1 to {SESSIONS - 1}")
        key, shown = (what, number), f"{what.removesuffix('_entry').replace('_', ' ')} {number}"
        if kind == INSERT and key in self.known:
            raise already_exists(f"there is a {shown}")
        if kind != INSERT and key not in self.known:
            raise not_found(f"there is no {shown}")
        group = number if what == "multicast_group_entry" else SESSIONS + number
        if kind == DELETE:
            self._clear(self.known[key], group, number if group != number else None)
            del self.known[key]
            return
        if what == "clone_session_entry":
            if one.packet_length_bytes:
                raise unimplemented("clones are not truncated: leave packet_length_bytes out")
            if one.class_of_service:
                raise unimplemented("clones have no class of service")
        ports = _ports(one.replicas)
        if kind == INSERT:
            self.pipeline.run("mc_mgrp_create", group)
            if group != number:
                self.pipeline.run("mirroring_add_mc", number, group)
        old = self.known[key].nodes if kind != INSERT else []
        nodes = [self.pipeline.handle("mc_node_create", rid, *sorted(of)) for rid, of in ports.items()]
        for node in nodes:
            self.pipeline.run("mc_node_associate", group, node)
        for node in old:
            self._remove_node(group, node)
        self.known[key] = Replicated(one, nodes)

    def _remove_node(self, group: int, node: int) -> None:
        self.pipeline.run("mc_node_dissociate", group, node)
        self.pipeline.run("mc_node_destroy", node)

    def _clear(self, one: Replicated, group: int, session: int | None) -> None:
        if session is not None:
            self._end(session)
        for node in one.nodes:
            self._remove_node(group, node)
        self.pipeline.run("mc_mgrp_destroy", group)

    def clear(self) -> None:
        """End the sessions, which a reset of the switch leaves alone."""
        for what, number in self.known:
            if what == "clone_session_entry":
                self._end(number)

    def _end(self, session: int) -> None:
        try:
            self.pipeline.run("mirroring_delete", session)
        except P4RuntimeError:
            pass  # somebody else has ended it

    def read(self, wanted: Any) -> Iterator[Any]:
        what = wanted.WhichOneof("type")
        for (kind, number), one in self.known.items():
            asked = getattr(wanted, kind)
            id_ = asked.multicast_group_id if kind == "multicast_group_entry" else asked.session_id
            if what in (None, kind) and id_ in (0, number):
                yield p4runtime_pb2.PacketReplicationEngineEntry(**{kind: one.message})


def _ports(replicas: Any) -> dict[int, set[int]]:
    """The ports of each instance (egress_rid)."""
    found: dict[int, set[int]] = {}
    for replica in replicas:
        by_bytes = replica.WhichOneof("port_kind") == "port"
        port = decode(replica.port, 32, "a replica's port") if by_bytes else replica.egress_port
        require(0 <= port < MOST_PORTS, f"there is no port {port}")
        require(replica.instance < 1 << 16, f"instance {replica.instance} does not fit in 16 bits")
        require(port not in found.setdefault(replica.instance, set()), f"port {port} of instance {replica.instance} is given twice")
        found[replica.instance].add(port)
    return found
