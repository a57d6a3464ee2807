"""Checked statements as C."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import syntax as s
from ..errors import unsupported
from ..types import ApplyResult, Bits, Stack, Type
from . import expressions
from .context import Context, Loop, Place
from .ctypes import c_type, is_aggregate, is_wide
from .expressions import Target, assign, read, target

TAKING = ("emit", "write", "count")  # methods that take arguments and write none of them


def block(c: Context, node: s.Block) -> None:
    for inside in node.statements:
        c.statement(inside)


# --- one rule a kind of statement


def _block(c: Context, node: s.Block) -> None:
    with c.indented("{"):
        block(c, node)


def _assignment(c: Context, node: s.Assignment) -> None:
    to = target(c, node.target)
    if node.operator:
        c.old = read(to)
    assign(c, to, node.value)


def variable(c: Context, node: s.Variable) -> None:
    """A local variable, zero unless it has an initial value."""
    name = c.unique(node.name)
    type_: Type = node.symbol.type
    c.emit(f"{c_type(c, type_)} {name} = {'{0}' if is_aggregate(type_) else '0'};")
    c.places[node.symbol] = Place(name)
    start(c, node)


def start(c: Context, node: s.Variable) -> None:
    """Give a variable its initial value."""
    if node.initial is not None:
        type_: Type = node.symbol.type
        assign(c, Target(c.places[node.symbol], type_, type_, node.position), node.initial)


def _if(c: Context, node: s.If) -> None:
    condition = c.expression(node.condition).text
    with c.indented(f"if ({condition}) {{"):
        _body(c, node.then)
    if node.otherwise is not None:
        c.lines[-1] += " else {"
        c.depth += 1
        _body(c, node.otherwise)
        c.depth -= 1
        c.emit("}")


def _body(c: Context, node: s.Statement) -> None:
    if isinstance(node, s.Block):
        block(c, node)
    else:
        c.statement(node)


def _switch(c: Context, node: s.Switch) -> None:
    nothing = None
    if node.table is not None:
        selector, table = f"{c.call(node.table).text}.action", node.table.callee.target
        nothing = len(table.actions) if table.profile is not None else None  # no action ran: no label is for that
    else:
        if is_wide(node.selector.type):
            raise unsupported(node.position, f"switch over {node.selector.type}")
        selector = c.expression(node.selector).text
    with c.indented(f"switch ({selector}) {{"):
        if nothing is not None:
            c.emit(f"case {nothing}: break;")
        for case in node.cases:
            label = "default:" if isinstance(case.label, s.DontCare) else f"case {_label(c, case.label)}:"
            if case.body is None:
                c.emit(label)
                continue
            with c.indented(label + " {"):
                block(c, case.body)
            c.emit("break;")
        if node.cases and node.cases[-1].body is None:
            c.emit("break;")


def _label(c: Context, node: s.Expression) -> str:
    assert node.constant is not None
    return str(node.constant) if node.type is None else expressions.constant(c, node.constant, node.type).text


def _call(c: Context, node: s.CallStatement) -> None:
    value = c.call(node.call)
    if value.text and not isinstance(value.type, ApplyResult):
        c.emit(value.text + ";")
    if not isinstance(node.call.function, s.Member):
        c.check_exit()


def _return(c: Context, node: s.Return) -> None:
    c.emit(c.leave if node.value is None else f"return {c.expression(node.value).text};")


def _exit(c: Context, node: s.Exit) -> None:
    c.emit("exited = true;")
    c.emit(c.leave)


def _constant(c: Context, node: s.Constant) -> None:
    """The checker has put its value where its name stood."""


# --- loops (section 12.8): a packet that turns in them for too long leaves them, as nothing else could stop the switch


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
            c.statement(one)

        def turn() -> None:
            c.emit(f"if (!{c.expression(node.condition).text}) break;")

        def then() -> None:
            for one in node.then:
                c.statement(one)

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
    value = expressions.held(c, c.expression(node.low))
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
            c.statement(body)
        c.loops.pop()
        if made.continued:
            c.emit(f"{made.next}:;")
        then()
    if made.broken:
        c.emit(f"{made.end}:;")


# --- steps: the statements that a packet passes through, and what each writes


def _written(node: s.Statement) -> list[str]:
    """What a statement writes: paths of variables, and the names of what it calls."""
    if isinstance(node, s.Assignment):
        return _paths([node.target])
    if isinstance(node, s.CallStatement):
        names = _paths([node.call.function])
        takes = any(name.rpartition(".")[2] in TAKING for name in names)
        return [f"{name}()" for name in names] + ([] if takes else _paths(node.call.arguments))
    return []


def _paths(nodes: list[s.Expression]) -> list[str]:
    return [path for path in map(_path, nodes) if path]


def _path(node: s.Expression) -> str:
    """hdr.ipv4.ttl; without the parts of an expression that are computed."""
    if isinstance(node, s.Name):
        return node.name
    if isinstance(node, s.Member):
        base = _path(node.base)
        return f"{base}.{node.name}" if base else ""
    if isinstance(node, (s.Slice, s.Index)):
        return _path(node.base)
    return ""


def _recorded(rule: Callable[[Context, Any], None], c: Context, node: s.Statement) -> None:
    """Record that a statement is reached, and write it."""
    c.step(node.position, " ".join(_written(node)))
    rule(c, node)


RECORDED: dict[type, Callable[[Context, Any], None]] = {
    s.Assignment: _assignment, s.CallStatement: _call, s.If: _if, s.Switch: _switch, s.Return: _return, s.Exit: _exit,
}  # fmt: skip
RULES: dict[type, Callable[[Context, Any], None]] = {
    **{kind: partial(_recorded, rule) for kind, rule in RECORDED.items()},
    s.Block: _block, s.For: loop, s.ForIn: loop, s.Break: leave, s.Continue: leave, s.Variable: variable, s.Constant: _constant,
}  # fmt: skip
