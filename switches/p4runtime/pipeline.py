"""A program as the server knows it: its P4Info by numbers, and the switch that runs it."""

from __future__ import annotations

from typing import Any

from switches.control import CommandError, Control
from switches.p4runtime.errors import P4RuntimeError, invalid, not_found

UNKNOWN = 2  # google.rpc.code_pb2.UNKNOWN
KINDS = ("tables", "actions", "action_profiles", "counters", "direct_counters", "meters", "direct_meters", "registers",
         "value_sets", "digests")  # fmt: skip


class Pipeline:
    """Looks up what P4Info describes, and runs commands on the switch."""

    def __init__(self, info: Any, control: Control) -> None:
        self.info, self.control = info, control
        self.by_id: dict[str, dict[int, Any]] = {kind: {o.preamble.id: o for o in getattr(info, kind)} for kind in KINDS}
        self.packet_headers = {o.preamble.name: o for o in info.controller_packet_metadata}

    def get(self, kind: str, number: int) -> Any:
        """One of `kind` by its id. Raises P4RuntimeError."""
        found = self.by_id[kind].get(number)
        if found is None:
            raise not_found(f"there are no {kind.replace('_', ' ')} with id {number}")
        return found

    def chosen(self, kind: str, number: int) -> list[Any]:
        """One of `kind`, or all where the number is 0."""
        return [self.get(kind, number)] if number else list(self.by_id[kind].values())

    def run(self, *words: object) -> str:
        """Run a command; its output. Raises P4RuntimeError if the switch refuses it."""
        try:
            return self.control.command(" ".join(map(str, words)))
        except CommandError as error:
            raise P4RuntimeError(UNKNOWN, f"the switch refuses: {error}") from None

    def handle(self, *words: object) -> int:
        """Run a command that answers with the handle of what it has made."""
        return int(self.run(*words).split()[-1])


def difference(running: Any, given: Any) -> str | None:
    """What a client's P4Info says otherwise than that of the program that runs; None where they go together."""
    for kind in KINDS:
        ours, theirs = ({o.preamble.name: o for o in getattr(info, kind)} for info in (running, given))
        for name in theirs.keys() - ours.keys():
            return f"{name} is not in the program that runs"
        for name, one in theirs.items():
            if one.preamble.id != ours[name].preamble.id:
                return f"{name} has id {ours[name].preamble.id} in the program that runs, and {one.preamble.id} in the P4Info"
            if kind == "tables" and _layout(one.match_fields) != _layout(ours[name].match_fields):
                return f"table {name} has another key in the program that runs"
            if kind == "actions" and _layout(one.params) != _layout(ours[name].params):
                return f"action {name} has other parameters in the program that runs"
    return None


def _layout(fields: Any) -> list[tuple[int, int]]:
    return [(f.id, f.bitwidth) for f in fields]


def require(condition: bool, message: str) -> None:
    """Raise P4RuntimeError unless the condition holds."""
    if not condition:
        raise invalid(message)
