"""A pipeline's state as P4Runtime sees it: updates to its entities, and reads of them (P4Runtime 1.4, sections 9 to 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from ..control import Control
from .cells import Cells
from .errors import unimplemented
from .notifications import Digests, IdleEntries
from .pipeline import Pipeline, require
from .profiles import DELETE, INSERT, MODIFY, Profiles
from .replication import Replication
from .tables import Tables

CELLS = ("counter_entry", "direct_counter_entry", "meter_entry", "direct_meter_entry", "register_entry", "value_set_entry")


class Entities:
    """Made anew whenever a client sets the pipeline."""

    def __init__(self, info: Any, control: Control) -> None:
        self.pipeline = Pipeline(info, control)
        self.profiles = Profiles(self.pipeline)
        self.tables = Tables(self.pipeline, self.profiles)
        self.cells = Cells(self.pipeline, self.tables)
        self.replication = Replication(self.pipeline)
        self.digests = Digests(self.pipeline)
        self.idle = IdleEntries(self.pipeline, self.tables)
        self.writers: dict[str, Callable[[int, Any], None]] = {
            "table_entry": self.tables.write,
            "action_profile_member": self.profiles.write_member,
            "action_profile_group": self.profiles.write_group,
            "packet_replication_engine_entry": self.replication.write,
            "digest_entry": self.digests.write,
        }
        self.readers: dict[str, Callable[[Any], Any]] = {
            "table_entry": self.tables.read,
            "action_profile_member": self.profiles.read_members,
            "action_profile_group": self.profiles.read_groups,
            "packet_replication_engine_entry": self.replication.read,
            "digest_entry": self.digests.read,
        }

    def write(self, update: Any) -> None:
        """Make one update. Raises P4RuntimeError, and has changed nothing then."""
        require(update.type in (INSERT, MODIFY, DELETE), "an update inserts, modifies or deletes")
        kind = update.entity.WhichOneof("entity")
        require(kind is not None, "an update has an entity")
        if kind in CELLS:
            self.cells.write(update.type, kind, getattr(update.entity, kind))
        elif kind in self.writers:
            self.writers[kind](update.type, getattr(update.entity, kind))
        else:
            raise unimplemented(f"{kind} cannot be written")

    def read(self, wanted: Any) -> Iterator[Any]:
        """The entities that one of a request's stands for. Raises P4RuntimeError."""
        kind = wanted.WhichOneof("entity")
        require(kind is not None, "a request names what is to be read")
        message = getattr(wanted, kind)
        if kind not in CELLS and kind not in self.readers:
            raise unimplemented(f"{kind} cannot be read")
        for found in self.cells.read(kind, message) if kind in CELLS else self.readers[kind](message):
            yield p4runtime_pb2.Entity(**{kind: found})
