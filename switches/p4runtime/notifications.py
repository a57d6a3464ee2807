"""What the server sends unasked: entries that no packet hits any more, and digests (P4Runtime 1.4, sections 16.4 and 16.6)."""

from __future__ import annotations

import sys
import time
from typing import Any

from p4.v1 import p4data_pb2, p4runtime_pb2

from .bytestrings import encode
from .errors import already_exists, not_found
from .pipeline import Pipeline, require
from .profiles import DELETE, INSERT
from .tables import Tables


class IdleEntries:
    """Entries whose timeout is over; each is told once, until it is hit again or changed."""

    def __init__(self, pipeline: Pipeline, tables: Tables) -> None:
        self.pipeline, self.tables = pipeline, tables
        self.reported: dict[int, set[int]] = {}

    def poll(self) -> list[Any]:
        """The notifications that are due."""
        due = []
        for table in self.pipeline.by_id["tables"].values():
            if not any(entry.timeout_ns for entry in self.tables.entries[table.preamble.id].values()):
                continue
            idle = {int(word) for word in self.pipeline.run("table_idle", table.preamble.name).split()}
            new = idle - self.reported.get(table.preamble.id, set())
            self.reported[table.preamble.id] = idle
            entries = [entry for handle in sorted(new) if (entry := self.tables.identify(table, handle)) is not None]
            if entries:
                made = p4runtime_pb2.IdleTimeoutNotification(timestamp=time.time_ns())
                made.table_entry.extend(entries)
                due.append(made)
        return due


class Digests:
    """The digests that a client has subscribed to. Each poll gives one list per digest; acknowledgements are ignored."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.wanted: dict[int, Any] = {}
        self.lists = 0

    def write(self, kind: int, message: Any) -> None:
        name = self.pipeline.get("digests", message.digest_id).preamble.name
        if kind == INSERT and message.digest_id in self.wanted:
            raise already_exists(f"digest {name} is configured")
        if kind != INSERT and message.digest_id not in self.wanted:
            raise not_found(f"digest {name} is not configured")
        if kind == DELETE:
            del self.wanted[message.digest_id]
            return
        require(
            message.config.max_list_size >= 0 and message.config.max_timeout_ns >= 0, "a digest's sizes and times are not negative"
        )
        if kind == INSERT and not self.wanted:
            self.pipeline.run("digests")  # earlier digests are discarded
        self.wanted[message.digest_id] = message

    def read(self, wanted: Any) -> list[Any]:
        return [one for number, one in self.wanted.items() if wanted.digest_id in (0, number)]

    def poll(self) -> list[Any]:
        """The lists that are due."""
        if not self.wanted:
            return []
        found: dict[int, list[Any]] = {}
        for line in self.pipeline.run("digests").splitlines():
            name, _, rest = line.partition(" ")
            if name.startswith("lost="):
                print(f"{name.removeprefix('lost=')} digests came too fast and are lost", file=sys.stderr, flush=True)
            number = self._number(name)
            if number is not None:
                values = [int(word.partition("=")[2]) for word in rest.split()]
                found.setdefault(number, []).append(self._data(self.pipeline.by_id["digests"][number].type_spec, values))
        due = []
        for number, data in found.items():
            self.lists += 1
            due.append(p4runtime_pb2.DigestList(digest_id=number, list_id=self.lists, data=data, timestamp=time.time_ns()))
        return due

    def _number(self, name: str) -> int | None:
        names = {number: self.pipeline.by_id["digests"][number].preamble.name for number in self.wanted}
        return next((number for number, own in names.items() if own == name), None)

    def _data(self, spec: Any, values: list[int]) -> Any:
        """Values in the order of a struct's or tuple's members, as P4Data; takes them from the list."""
        kind = spec.WhichOneof("type_spec")
        known = self.pipeline.info.type_info
        if kind == "struct":
            members = [self._data(member.type_spec, values) for member in known.structs[spec.struct.name].members]
            return p4data_pb2.P4Data(struct=p4data_pb2.P4StructLike(members=members))
        if kind == "tuple":
            members = [self._data(member, values) for member in spec.tuple.members]
            return p4data_pb2.P4Data(tuple=p4data_pb2.P4StructLike(members=members))
        if kind == "header":
            fields = [encode(values.pop(0)) for _ in known.headers[spec.header.name].members]
            return p4data_pb2.P4Data(header=p4data_pb2.P4Header(is_valid=True, bitstrings=fields))
        value = values.pop(0)
        if kind == "bool":
            return p4data_pb2.P4Data(bool=bool(value))
        if kind == "enum":
            return p4data_pb2.P4Data(enum=known.enums[spec.enum.name].members[value].name)
        if kind == "error":
            return p4data_pb2.P4Data(error=known.error.members[value])
        if kind == "serializable_enum":
            return p4data_pb2.P4Data(enum_value=encode(value))
        return p4data_pb2.P4Data(bitstring=encode(value))
