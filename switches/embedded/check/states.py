"""The states of a parser, and where they lead (section 13)."""

from __future__ import annotations

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import as_bits
from . import expressions, statements
from .context import Checker
from .patterns import ANY, SELECT, pattern
from .scope import Scope

END = ("accept", "reject")


def states(c: Checker, node: s.Parser, scope: Scope) -> list[checked.State]:
    names = [state.name for state in node.states]
    if "start" not in names:
        raise CompileError(node.position, f"parser {node.name} has no state start")
    if reserved := [state for state in node.states if state.name in END]:
        raise CompileError(reserved[0].position, f"state {reserved[0].name} is built in")
    if not _ends(node):
        raise CompileError(node.position, f"parser {node.name} never reaches accept")
    if len(set(names)) != len(names):
        raise CompileError(node.position, f"parser {node.name} has two states of one name")
    return [_state(c, state, names, Scope(scope)) for state in node.states]


def _state(c: Checker, node: s.State, names: list[str], scope: Scope) -> checked.State:
    made = checked.State(node.name, node.position, node.statements)
    for inside in node.statements:
        statements.statement(c, inside, scope)
    if isinstance(node.transition, s.Select):
        _select(c, node.transition, made, names, scope)
    else:
        made.next = _target(c, node.transition or "reject", names, node.position)
    return made


def _select(c: Checker, node: s.Select, made: checked.State, names: list[str], scope: Scope) -> None:
    made.select = [expressions.expression(c, one, scope) for one in node.expressions]
    for one in made.select:
        if as_bits(one.type) is None:
            raise unsupported(one.position, f"select over {one.type}")
    complete = False
    for case in node.cases:
        keys = _keys(c, case, made.select, scope)
        if complete:
            c.warn(case.position, "unreachable case")
        complete = complete or all(key == ANY for key in keys)
        made.cases.append(checked.Case(keys, _target(c, case.state, names, case.position), case.position))


def _keys(c: Checker, case: s.SelectCase, selected: list[s.Expression], scope: Scope) -> list[checked.Pattern]:
    if len(case.keys) == 1 and isinstance(case.keys[0], s.DontCare):
        return [ANY] * len(selected)
    values = scope.find(case.keys[0].name) if len(case.keys) == 1 and isinstance(case.keys[0], s.Name) else None
    if isinstance(values, checked.ValueSet):
        if values.fields != [one.type for one in selected]:
            raise CompileError(case.position, f"the values of {values.name} are of other types than what select looks at")
        return [checked.Pattern("set", values=values)]
    if len(case.keys) != len(selected):
        raise CompileError(case.position, f"select has {len(selected)} keys, and this case has {len(case.keys)}")
    return [pattern(c, key, SELECT, one.type, scope) for key, one in zip(case.keys, selected, strict=True)]


def _target(c: Checker, name: str, names: list[str], position: Position) -> str:
    if name not in names and name not in END:
        raise CompileError(position, f"there is no state {name}")
    if name == "reject":
        c.warn(position, "simple_switch has no reject: the packet is accepted (verify sets an error)")
    return name


def _ends(parser: s.Parser) -> bool:
    """True if transitions lead from start to accept or reject, or a state has none (which rejects)."""
    transitions = {state.name: state.transition for state in parser.states}
    reached, waiting = set(), ["start"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        transition = transitions.get(name)
        if transition is None:
            return True
        waiting += [transition] if isinstance(transition, str) else [case.state for case in transition.cases]
    return False
