"""Loops (section 12.8). A packet that turns in loops for too long leaves them, as nothing else could stop the switch."""

from __future__ import annotations

from collections.abc import Callable

from .. import syntax as s
from ..types import Bits, Stack
from . import expressions, statements
from .context import Context, Loop
from .ctypes import c_type
from .place import Place


def loop(c: Context, node: s.For | s.ForIn) -> None:
    if isinstance(node, s.For):
        _for(c, node)
    elif node.high is not None:
        _for_range(c, node)
    else:
        _for_stack(c, node)


def leave(c: Context, node: s.Break | s.Continue) -> None:
    innermost = c.loops[-1]
    if isinstance(node, s.Break):
        innermost.broken = True
        c.emit(f"goto {innermost.end};")
    else:
        innermost.continued = True
        c.emit(f"goto {innermost.next};")


def _for(c: Context, node: s.For) -> None:
    with c.indented("{"):
        for one in node.first:
            statements.statement(c, one)

        def turn() -> None:
            c.emit(f"if (!{expressions.expression(c, node.condition).text}) break;")

        def then() -> None:
            for one in node.then:
                statements.statement(c, one)

        _turns(c, "for (;;) {", turn, node.body, then)


def _for_range(c: Context, node: s.ForIn) -> None:
    assert node.high is not None
    type_ = node.variable.symbol.type
    assert isinstance(type_, Bits)
    low, high = (expressions.held(c, value) for value in expressions.all_in_order(c, [node.low, node.high]))
    # one more than the largest number of the type must be possible
    count = c.temporary("count")
    wide = "__int128" if type_.width == 64 else "int64_t"
    opening = f"for ({wide} {count} = {low.text}; {count} <= {high.text}; {count}++) {{"
    _turns(c, opening, lambda: _variable(c, node, f"({c_type(c, type_)}){count}"), node.body)


def _for_stack(c: Context, node: s.ForIn) -> None:
    assert isinstance(node.low.type, Stack)
    value = expressions.held(c, expressions.expression(c, node.low))
    index = c.temporary("index")
    element = (value.place or Place(value.text)).element(index)
    opening = f"for (unsigned {index} = 0; {index} < {node.low.type.size}; {index}++) {{"
    _turns(c, opening, lambda: _variable(c, node, str(element)), node.body)


def _variable(c: Context, node: s.ForIn, text: str) -> None:
    """The loop's variable, anew for each turn."""
    name = c.unique(node.variable.name)
    c.emit(f"{c_type(c, node.variable.symbol.type)} {name} = {text};")
    c.emit(f"(void){name};")
    c.places[node.variable.symbol] = Place(name)


def _turns(c: Context, opening: str, turn: Callable[[], None], body: s.Statement, then: Callable[[], None] = lambda: None) -> None:
    """A loop in C: what each turn begins with, the body, and what it ends with."""
    made = Loop(c.temporary("next"), c.temporary("end"))
    with c.indented(opening):
        turn()
        c.emit("if (turns_are_over(&loop_turns)) break;")
        c.loops.append(made)
        with c.indented("{"):
            statements.statement(c, body)
        c.loops.pop()
        if made.continued:
            c.emit(f"{made.next}:;")
        then()
    if made.broken:
        c.emit(f"{made.end}:;")
