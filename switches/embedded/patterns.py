"""Keys of select cases and of constant entries: value, value &&& mask, low .. high."""

from __future__ import annotations

from dataclasses import dataclass

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, unsupported
from switches.embedded.scope import Scope, Value
from switches.embedded.statements import Statements
from switches.embedded.types import Bits, EnumType, Type, as_bits

SELECT = "select"  # what stands for the match kind of a select expression


@dataclass(frozen=True)
class Pattern:
    """A key that is known when compiling: a condition in C, how many bits it fixes, and what equal keys have in common."""

    condition: str
    fixed: int
    identity: tuple[int, int] = (0, 0)


def bits_of(type_: Type) -> Bits:
    """The bits behind a scalar type."""
    bits = as_bits(type_)
    assert bits is not None
    return bits


class Patterns(Statements):
    """Translates keys that are known when compiling."""

    def pattern(self, node: s.Expression, kind: str, key: str, type_: Type, scope: Scope) -> Pattern:
        """The condition under which the C variable `key` matches; `kind` is a match kind or SELECT."""
        bits = bits_of(type_)
        if isinstance(node, s.DontCare):
            if kind == "exact":
                raise CompileError(node.position, "an exact key needs a value")
            return Pattern("", 0)
        if bits.wide:
            raise unsupported(node.position, f"a constant key of {bits} (at most 64 bits)")
        if isinstance(node, s.MaskKey):
            return self._masked(node, kind, key, type_, scope)
        if isinstance(node, s.RangeKey):
            if kind not in ("range", SELECT):
                raise CompileError(node.position, f".. does not go with match kind {kind}")
            low, high = self._known(node.low, type_, scope), self._known(node.high, type_, scope)
            if int(low.constant or 0) > int(high.constant or 0):
                self.warn(node.position, "this range ends before it starts, and is empty")
            identity = (int(low.constant or 0), int(high.constant or 0))
            return Pattern(f"{key} >= {low.text} && {key} <= {high.text}", bits.width, identity)
        value = self._known(node, type_, scope)
        number = int(value.constant or 0) & bits.mask
        return Pattern(f"{key} == {value.text}", bits.width, (number, number if kind == "range" else bits.mask))

    def _masked(self, node: s.MaskKey, kind: str, key: str, type_: Type, scope: Scope) -> Pattern:
        if kind not in ("ternary", "lpm", SELECT):
            raise CompileError(node.position, f"&&& does not go with match kind {kind}")
        bits = bits_of(type_)
        value = int(self._known(node.value, type_, scope).constant or 0) & bits.mask
        mask = int(self._known(node.mask, type_, scope).constant or 0) & bits.mask
        if kind == "lpm" and (mask | mask - 1) & bits.mask != bits.mask and mask:
            raise CompileError(node.position, f"{mask:#x} is no mask for an lpm key: its ones must be the highest bits")
        if value & ~mask and kind in ("lpm", "ternary"):
            self.warn(node.position, f"bits of {value:#x} outside its mask {mask:#x} are ignored")
        suffix = "u" if bits.width <= 32 else "ull"
        text = f"({key} & {mask:#x}{suffix}) == {value & mask:#x}{suffix}"
        return Pattern(text, mask.bit_count(), (value & mask, mask))

    def _known(self, node: s.Expression, type_: Type, scope: Scope) -> Value:
        value = self.expression(node, scope)
        if isinstance(type_, EnumType) and type_.underlying and not isinstance(value.type, EnumType):
            type_ = type_.underlying
        value = self.coerce(value, type_, node.position)
        if value.constant is None:
            raise CompileError(node.position, "a key must be known when compiling")
        return value
