"""What a name was probably meant to be."""

from __future__ import annotations

from difflib import get_close_matches

STANDARD = {
    "register", "counter", "meter", "direct_counter", "direct_meter", "action_profile", "action_selector", "standard_metadata_t",
    "packet_in", "packet_out", "CounterType", "MeterType", "HashAlgorithm", "CloneType", "NoAction", "V1Switch", "mark_to_drop",
    "exact", "lpm", "ternary",
}  # fmt: skip
KEYWORDS = [
    "action", "actions", "apply", "const", "control", "default", "default_action", "else", "entries", "enum", "error", "extern",
    "header", "header_union", "inout", "key", "package", "parser", "return", "select", "size", "state", "struct", "switch", "table",
    "transition", "typedef",
]  # fmt: skip
MEANT = {"keys": "key", "elseif": "else if", "elif": "else if", "entry": "entries", "method": "action", "function": "action"}


def keyword(word: str) -> str | None:
    """The keyword that was probably meant."""
    near = get_close_matches(word, KEYWORDS, 1, 0.8)
    return MEANT.get(word) or (near[0] if near and near[0] != word else None)


def declared_nowhere(name: str, known: list[str]) -> str:
    """What is said of a name that is not among those that are `known`."""
    missing = " (is #include <v1model.p4> missing?)" if name in STANDARD else advice(name, known)
    return f"{name} is not declared{missing}"


def advice(name: str, known: list[str]) -> str:
    """The name that was probably meant, as the end of a message."""
    near = [one for one in known if one.lower() == name.lower()] or get_close_matches(name, known, 1, 0.75)
    return f": did you mean {near[0]}?" if near else ""
