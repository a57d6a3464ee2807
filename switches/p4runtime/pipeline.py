"""A program as the server knows it: its P4Info by numbers, and the switch that runs it."""

from __future__ import annotations

from typing import Any

from ..control import CommandError, Control
from .errors import P4RuntimeError, invalid, not_found

UNKNOWN = 2  # google.rpc.code_pb2.UNKNOWN
KINDS = ("tables", "actions", "action_profiles", "counters", "direct_counters", "meters", "direct_meters", "registers",
         "value_sets", "digests")  # fmt: skip


class Pipeline:
    """Looks up what P4Info describes, and runs commands on the switch."""

    def __init__(self, info: Any, control: Control) -> None:
        self.info, self.control = info, control
        self.by_id: dict[str, dict[int, Any]] = {kind: {o.preamble.id: o for o in getattr(info, kind)} for kind in KINDS}

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
    for kind in (*KINDS, "controller_packet_metadata"):
        ours, theirs = ({o.preamble.name: o for o in getattr(info, kind)} for info in (running, given))
        for name in sorted(ours.keys() ^ theirs.keys()):
            return f"{name} is not in the {'program that runs' if name in theirs else 'P4Info'}"
        for name, one in theirs.items():
            if one.preamble.id != ours[name].preamble.id:
                return f"{name} has id {ours[name].preamble.id} in the program that runs, and {one.preamble.id} in the P4Info"
            if _layout(one) != _layout(ours[name]):
                return f"{name} is another one in the program that runs"
    return None


def _layout(one: Any) -> list[object]:
    """What messages about a thing depend on; annotations, documentation and names of types do not count."""
    parts: list[object] = []
    for part in ("match_fields", "params", "metadata", "match"):
        fields = getattr(one, part, ())
        parts.append([(f.id, f.bitwidth, getattr(f, "match_type", 0)) for f in fields])
    parts.append(sorted((ref.id, ref.scope) for ref in getattr(one, "action_refs", ())))
    parts += [getattr(one, part, 0) for part in ("size", "implementation_id", "direct_table_id", "with_selector")]
    if (spec := getattr(one, "type_spec", None)) is not None and spec.WhichOneof("type_spec") == "bitstring":
        parts.append(spec.bitstring.bit.bitwidth or spec.bitstring.int.bitwidth)
    return parts


def require(condition: bool, message: str) -> None:
    """Raise P4RuntimeError unless the condition holds."""
    if not condition:
        raise invalid(message)
