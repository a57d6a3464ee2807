"""From a syntax tree to a checked program: names, types, constants, and the instances that the package is made of."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, UnsupportedError, unsupported
from ..preprocess import SYSTEM_INCLUDES
from ..types import BlockType, Header, Struct
from . import architecture, blocks, calls, expressions, resolve, statements, tables
from .context import Checker, Declaration, Rules, Scope, TypeName

ROLES = ("parser", "verify checksum", "ingress", "egress", "compute checksum", "deparser")
NAMES = ("p", "vr", "ig", "eg", "ck", "dep")  # of the package's parameters
PARAMETERS = (4, 2, 3, 3, 2, 2)  # of each
HEADERS = (1, 0, 0, 0, 0, 1)  # which of them has the headers
RULES = Rules(
    expressions.RULES | calls.EXPRESSIONS,
    statements.RULES,
    resolve.DECLARATIONS | calls.DECLARATIONS | tables.DECLARATIONS | blocks.DECLARATIONS,
)


def check(program: s.Program, path: Path) -> checked.Program:
    """Raises CompileError."""
    c = Checker(RULES)
    externs: list[checked.ExternObject] = []
    main = _declare_all(c, program, path, externs)
    made = _package(c, main, externs)
    architecture.most_emitted(made.blocks[-1].body, 0)
    made.instances = list(c.made)
    made.controller_headers = _controller_headers(c, program)
    _check_unused(c)
    architecture.check_blocks(made)
    made.exits, made.digests = c.exits, c.digests
    return made


def _declare_all(c: Checker, program: s.Program, path: Path, externs: list[checked.ExternObject]) -> s.Instantiation:
    """Enter all declarations, in their order; the one that makes the package."""
    packages = []
    for node in program.declarations:
        scope = c.library if _is_library(node.position.file) else c.top
        if not isinstance(node, s.Instantiation):
            c.declare(node, scope)
        elif _is_package(c, node, "V1Switch"):
            if node.name != "main":
                raise CompileError(node.position, f"the package must be named main, and is named {node.name}")
            packages.append(node)
        elif isinstance(getattr(c.top.find(node.type.name), "node", None), (s.Parser, s.Control)):
            raise CompileError(node.position, f"{node.type.name} cannot be instantiated outside a control or parser")
        else:
            made = c.declare(node, scope)
            assert isinstance(made, checked.ExternObject)
            externs.append(made)
    if not packages:
        raise CompileError(Position(str(path), 1, 1), "the program has no V1Switch(...) main")
    if len(packages) > 1:
        raise CompileError(packages[1].position, "the program has two V1Switch(...) packages")
    return packages[0]


@cache
def _is_library(file: str) -> bool:
    """Whether core.p4 or v1model.p4 is declared there."""
    return Path(file).resolve().parent == SYSTEM_INCLUDES.resolve()


def _is_package(c: Checker, node: s.Instantiation, name: str) -> bool:
    symbol = c.top.get(node.type.name, node.type.position)
    return isinstance(symbol, TypeName) and symbol.type == BlockType(name)


def _package(c: Checker, main: s.Instantiation, externs: list[checked.ExternObject]) -> checked.Program:
    """The six blocks of V1Switch, and the types of headers and metadata that they share."""
    if len(main.arguments) != len(ROLES):
        raise CompileError(main.position, f"V1Switch takes {len(ROLES)} blocks: {', '.join(ROLES)}")
    parameters = [calls.Parameter(name, BlockType(role), "") for name, role in zip(NAMES, ROLES, strict=True)]
    given = calls.arranged("V1Switch", parameters, s.Call(main.position, s.Name(main.position, "V1Switch"), main.arguments))
    made = [_block(c, role, argument, n) for role, argument, n in zip(ROLES, given, PARAMETERS, strict=True)]
    headers, metadata, standard = (variable.type for variable in made[0].parameters[1:])
    if not isinstance(headers, Struct) or not isinstance(metadata, Struct):
        raise CompileError(made[0].position, "headers and metadata must be structs")
    assert isinstance(standard, Struct)
    _check_standard(standard, made[0].position)
    for block, at in zip(made, HEADERS, strict=True):
        for variable, type_ in zip(block.parameters[at:], (headers, metadata, standard), strict=False):
            if variable.type != type_:
                raise CompileError(block.position, f"{variable.name} is {variable.type}, where {type_} is needed")
    return checked.Program(made, headers, metadata, standard, externs, c.errors)


def _controller_headers(c: Checker, program: s.Program) -> list[checked.ControllerHeader]:
    found = []
    for node in program.declarations:
        symbol = c.top.names.get(node.name) if isinstance(node, s.Composite) and node.kind == "header" else None
        marks = [a for a in node.annotations if a.name == "controller_header" and a.body] if isinstance(node, s.Composite) else []
        if marks and isinstance(node, s.Composite) and isinstance(symbol, TypeName) and isinstance(symbol.type, Header):
            found.append(checked.ControllerHeader(marks[0].text(), symbol.type, node.position, node.annotations, node.fields))
    return found


def _check_standard(standard: Struct, position: Position) -> None:
    """A program may bring a v1model.p4 of its own; the runtime knows the fields of ours."""
    for f in standard.fields:
        if f"{f.type} {f.name}" not in _standard_fields():
            raise unsupported(position, f"the field {f.name} of {standard}, as {f.type}")


@cache
def _standard_fields() -> set[str]:
    """Types and names, as v1model.p4 has them."""
    text = (SYSTEM_INCLUDES / "v1model.p4").read_text()
    body = text[text.index("struct standard_metadata_t {") :]
    return set(re.findall(r"(\S+ +\w+);", re.sub(r" +", " ", body[: body.index("}")])))


def _block(c: Checker, role: str, argument: s.Expression, parameters: int) -> checked.Instance:
    symbol = None
    if isinstance(argument, s.Call) and isinstance(argument.function, s.Name):
        symbol = c.top.get(argument.function.name, argument.position)
    kind = s.Parser if role == "parser" else s.Control
    if not isinstance(symbol, Declaration) or not isinstance(symbol.node, kind):
        raise CompileError(argument.position, f"V1Switch needs a {role} here, written Name()")
    assert isinstance(argument, s.Call)
    if len(symbol.node.parameters) != parameters:
        raise CompileError(symbol.node.position, f"the {role} of V1Switch has {parameters} parameters")
    types = [resolve.resolve(c, t, c.top) for t in argument.type_arguments]
    with c.at(role=role):
        return blocks.instance(c, symbol, symbol.node.name, types, argument.arguments, c.top, argument.position)


def _check_unused(c: Checker) -> None:
    """What is declared and never used is checked like everything else. What is only unsupported may stand there."""
    for scope in (c.library, c.top):
        for symbol in list(scope.names.values()):
            node = getattr(symbol, "node", None)
            if not isinstance(node, (s.Parser, s.Control)) or id(node) in c.instances or node.constructor or node.type_parameters:
                continue
            try:
                blocks.instance(c, symbol, node.name, [], [], Scope(c.top), node.position)
            except UnsupportedError:
                pass
