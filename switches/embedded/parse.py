"""From preprocessed text to the syntax tree."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import VisitError

from ..cache import cache_directory
from . import syntax as s
from .errors import CompileError, Position, unsupported
from .preprocess import Source
from .syntax_errors import explained
from .text import unescape
from .tokens import LackingFeatureError, TokenFilter

GRAMMAR = Path(__file__).parent / "grammar.lark"


def grammar_tables() -> Path:
    """The file of the grammar's tables, which take half a second to make."""
    made = cache_directory() / f"grammar-{hashlib.sha256(GRAMMAR.read_bytes()).hexdigest()[:24]}"
    if not made.exists():
        _lark(made)
    return made


@cache
def _lark(tables: Path) -> Lark:
    with suppress(OSError):  # where nothing can be written, the tables are made each time
        tables.parent.mkdir(parents=True, exist_ok=True)
    return Lark(
        GRAMMAR.read_text(), parser="lalr", lexer="basic", postlex=TokenFilter(), propagate_positions=True,
        maybe_placeholders=True, cache=str(tables),
    )  # fmt: skip


WIDEST = 2048  # bits of a number, as p4c
NUMBER = re.compile(r"(?:(\d+)([ws]))?(0[xX][0-9A-Fa-f_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*)$")


def parse_number(position: Position, text: str) -> s.Number:
    """An integer literal (section 6.4.3): 10, 0x1F, 8w255, 16s0b101."""
    match = NUMBER.match(text)
    if not match:
        raise CompileError(position, f"malformed number {text}")
    width, sign, digits = match.groups()
    digits = digits.replace("_", "")
    if len(digits) > 1000:
        raise CompileError(position, "a number of more than a thousand digits")
    base = {"x": 16, "b": 2, "o": 8, "d": 10}.get(digits[1:2].lower(), 0)
    value = int(digits[2:], base) if base else int(digits)
    if width:
        bits, signed = int(width[:5]), sign == "s"
        if not 0 < bits <= WIDEST:
            raise CompileError(position, f"a number of {bits} bits is not possible")
        return s.Number(position, value, bits, signed)
    return s.Number(position, value)


@v_args(meta=True)
class _Builder(Transformer):  # type: ignore[type-arg]
    """One method a grammar rule; `c` holds the rule's children, already built."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    # fmt: off
    def at(self, meta: Any) -> Position:
        return self.source.position(getattr(meta, "line", None), getattr(meta, "column", None))

    def start(self, m, c): return s.Program(self.at(m), c)
    def name(self, m, c): return str(c[0])
    def annotations(self, m, c): return c
    def annotation(self, m, c): return s.Annotation(self.at(m), c[0], c[1] or [])
    def annotation_body(self, m, c): return [t for part in c for t in (part if isinstance(part, list) else [part])]
    def annotation_token(self, m, c): return str(c[0])

    def named_type(self, m, c): return s.NamedType(self.at(m), str(c[0]))
    def specialized_type(self, m, c): return s.NamedType(self.at(m), c[0].name, _types(c[1:]))
    def any_type(self, m, c): return s.BareType(self.at(m), "_")
    def type_parameters(self, m, c): return [str(n) for n in c if n is not None and not isinstance(n, Token)]
    def stack_type(self, m, c): return s.StackType(self.at(m), c[0], c[1])
    def tuple_type(self, m, c): return s.TupleType(self.at(m), [t for t in c if not isinstance(t, Token)])
    def bool_type(self, m, c): return s.BareType(self.at(m), "bool")
    def error_type(self, m, c): return s.BareType(self.at(m), "error")
    def string_type(self, m, c): return s.BareType(self.at(m), "string")
    def void_type(self, m, c): return s.BareType(self.at(m), "void")
    def integer_type(self, m, c): return s.BareType(self.at(m), "int")
    def bit_one(self, m, c): return s.BitsType(self.at(m), s.Number(self.at(m), 1), False)
    def bit_type(self, m, c): return s.BitsType(self.at(m), c[1], False)
    def int_type(self, m, c): return s.BitsType(self.at(m), c[1], True)
    def varbit_type(self, m, c): return s.VarbitType(self.at(m), c[1])

    def const_decl(self, m, c): return s.Constant(self.at(m), c[1], c[2], c[3])
    def typedef_decl(self, m, c): return s.Typedef(self.at(m), c[1], c[2])
    newtype_decl = typedef_decl
    def header_decl(self, m, c): return s.Composite(self.at(m), "header", c[1], c[3:], c[2], c[0] or [])
    def struct_decl(self, m, c): return s.Composite(self.at(m), "struct", c[1], c[3:], c[2], c[0] or [])
    def union_decl(self, m, c): return s.Composite(self.at(m), "header_union", c[1], c[3:], c[2], c[0] or [])
    def value_set(self, m, c): return s.ValueSet(self.at(m), c[2], c[4], c[5], c[0] or [])
    def field(self, m, c): return s.Field(self.at(m), c[1], c[2], c[0] or [])
    def enum_decl(self, m, c): return s.Enum(self.at(m), c[2], c[1], [e for e in c[3:] if e])
    def enum_member(self, m, c): return (c[0], c[1])
    def error_decl(self, m, c): return s.Names(self.at(m), "error", [n for n in c if n])
    def match_kind_decl(self, m, c): return s.Names(self.at(m), "match_kind", [n for n in c if n])

    def params(self, m, c): return [p for p in c if p]
    def param(self, m, c): return s.Parameter(self.at(m), c[2], c[3], c[1] or "", c[4], c[0] or [])
    def direction(self, m, c): return str(c[0])
    def ctor_params(self, m, c): return c[0] or []

    def parser_decl(self, m, c):
        body = c[5:]
        states = [x for x in body if isinstance(x, s.State)]
        return s.Parser(self.at(m), c[1], c[3], [x for x in body if not isinstance(x, s.State)], states, c[4], c[2])
    def parser_type(self, m, c): return s.BlockDeclaration(self.at(m), "parser", c[1], c[3], c[2])
    def control_type(self, m, c): return s.BlockDeclaration(self.at(m), "control", c[1], c[3], c[2])
    def package_decl(self, m, c): return s.BlockDeclaration(self.at(m), "package", c[1], c[3], c[2])
    def extern_function(self, m, c): return s.Function(self.at(m), c[1], c[2], c[4], None, c[3])
    method = extern_function
    def constructor(self, m, c): return s.Function(self.at(m), c[1], c[1].name, c[2], None, [])
    def extern_decl(self, m, c): return s.Extern(self.at(m), c[1].name, [t.name for t in c[1].arguments], c[2:])
    def parser_state(self, m, c):
        transition = c[-1] if len(c) > 2 and isinstance(c[-1], (str, s.Select)) else None
        return s.State(self.at(m), c[1], _statements(c[2:-1] if transition else c[2:]), transition)
    def goto_state(self, m, c): return c[0]
    def transition(self, m, c): return c[0]
    def select(self, m, c):
        cases = [x for x in c if isinstance(x, s.SelectCase)]
        return s.Select(self.at(m), [x for x in c if x is not None and not isinstance(x, s.SelectCase)], cases)
    def select_case(self, m, c): return s.SelectCase(self.at(m), c[0], c[1])
    def keyset(self, m, c): return c
    def default_key(self, m, c): return s.DontCare(self.at(m))
    dont_care = default_key
    def mask_key(self, m, c): return s.MaskKey(self.at(m), c[0], c[1])
    def range_key(self, m, c): return s.RangeKey(self.at(m), c[0], c[1])

    def control_decl(self, m, c): return s.Control(self.at(m), c[1], c[3], c[5:-1], c[-1], c[4], c[2])
    def action_decl(self, m, c): return s.Action(self.at(m), c[1], c[2], c[3], c[0] or [])
    def function_decl(self, m, c): return s.Function(self.at(m), c[1], c[2], c[4], c[5], c[3])
    def instantiation(self, m, c): return s.Instantiation(self.at(m), c[1], c[2], c[3], c[0] or [])
    def generic_instantiation(self, m, c):
        return s.Instantiation(self.at(m), s.NamedType(c[1].position, c[1].name, _types(c[2:-2])), c[-2], c[-1], c[0] or [])

    def table_decl(self, m, c):
        table = s.Table(self.at(m), c[1], [], [], [], False, [], c[0] or [])
        given = set()
        for kind, value in c[2:]:
            if kind in given:
                raise CompileError(self.at(m), f"table {c[1]} has two lists of {kind}")
            given.update({kind} - {"property"})
            if kind == "entries":
                table.constant_entries, table.entries = value
            elif kind == "property":
                table.properties.append(value)
            else:
                setattr(table, kind, value)
        if "actions" not in given:
            raise CompileError(self.at(m), f"table {c[1]} lists no actions")
        return table
    def key_property(self, m, c): return ("key", c)
    def key_element(self, m, c): return s.KeyElement(self.at(m), c[0], c[1], c[2] or [])
    def actions_property(self, m, c): return ("actions", c)
    def action_ref(self, m, c): return s.ActionRef(self.at(m), c[1], c[2] or [], c[0] or [])
    def entries_property(self, m, c): return ("entries", (c[0] is not None, c[1:]))
    def entry(self, m, c): return s.Entry(self.at(m), c[2], c[3], c[1].value if c[1] else None, c[4] or [])
    def entry_action(self, m, c): return s.ActionRef(self.at(m), c[0], c[1] or [], [])
    def other_property(self, m, c): return ("property", s.Property(self.at(m), str(c[2]), c[3], c[1] is not None, c[0] or []))

    def block(self, m, c): return s.Block(self.at(m), _statements(c[1:]))
    def plain_assignment(self, m, c): return s.Assignment(self.at(m), c[0], c[-1], str(c[1])[:-1] if len(c) > 2 else "")
    def assignment(self, m, c): return c[0]
    def for_statement(self, m, c): return s.For(self.at(m), c[1], c[2], c[3], _statement(self.at(m), c[4]))
    def for_parts(self, m, c): return _statements(c)
    def for_call(self, m, c): return s.CallStatement(self.at(m), c[0])
    def for_variable(self, m, c): return s.Variable(self.at(m), c[1], c[2], c[3])
    def for_in(self, m, c):
        variable = s.Variable(self.at(m), c[1], c[2], None)
        return s.ForIn(self.at(m), variable, c[3], c[4], _statement(self.at(m), c[5]))
    def break_statement(self, m, c): return s.Break(self.at(m))
    def continue_statement(self, m, c): return s.Continue(self.at(m))
    def call_statement(self, m, c): return s.CallStatement(self.at(m), c[0])
    def if_statement(self, m, c): return s.If(self.at(m), c[0], _statement(self.at(m), c[1]), c[2])
    def switch_statement(self, m, c): return s.Switch(self.at(m), c[0], c[1:])
    def switch_case(self, m, c): return s.SwitchCase(self.at(m), c[0], c[1])
    def return_statement(self, m, c): return s.Return(self.at(m), c[0])
    def exit_statement(self, m, c): return s.Exit(self.at(m))
    def var_decl(self, m, c): return s.Variable(self.at(m), c[1], c[2], c[3])
    def empty_statement(self, m, c): return None

    def conditional(self, m, c): return s.Conditional(self.at(m), *c)
    def binary(self, m, c): return s.Binary(self.at(m), str(c[1]), c[0], c[2])
    def lt(self, m, c): return s.Binary(self.at(m), "<", *c)
    def gt(self, m, c): return s.Binary(self.at(m), ">", *c)
    def shl(self, m, c): return s.Binary(self.at(m), "<<", *c)
    def shr(self, m, c): return s.Binary(self.at(m), ">>", *c)
    def unary(self, m, c): return s.Unary(self.at(m), str(c[0]), c[1])
    def cast(self, m, c): return s.Cast(self.at(m), c[0], c[1])
    def member(self, m, c):
        base = s.Name(c[0].position, c[0].name) if isinstance(c[0], s.NamedType) else c[0]
        return s.Member(self.at(m), base, c[1])
    def error_member(self, m, c): return s.ErrorMember(self.at(m), c[0])
    def index(self, m, c): return s.Index(self.at(m), *c)
    def slice(self, m, c): return s.Slice(self.at(m), *c)
    def call(self, m, c): return self._call(m, c[0], [], c[1])
    def generic_call(self, m, c): return self._call(m, c[0], _types(c[1:-1]), c[-1])
    def _call(self, m, function, types, arguments):
        if isinstance(function, s.NamedType):
            function = s.Name(function.position, function.name)
        return s.Call(self.at(m), function, arguments, types)
    def true(self, m, c): return s.Boolean(self.at(m), True)
    def false(self, m, c): return s.Boolean(self.at(m), False)
    def string(self, m, c): return s.String(self.at(m), unescape(str(c[0])[1:-1]))
    def name_ref(self, m, c): return s.Name(self.at(m), str(c[0]))
    def list_expr(self, m, c): return s.ListExpression(self.at(m), c[0] or [])
    def list_items(self, m, c): return [item for item in c if item is not None]
    def named_item(self, m, c): return s.NamedItem(self.at(m), str(c[0]), c[1])
    def arguments(self, m, c): return [a for a in c if a is not None]
    def number(self, m, c): return parse_number(self.at(m), str(c[0]))


# fmt: on


def _types(children: list[Any]) -> list[Any]:
    """Type arguments, without their brackets."""
    return [child for child in children if not isinstance(child, Token)]


def _statements(children: list[Any]) -> list[Any]:
    return [child for child in children if child is not None]


def _statement(position: Position, statement: Any) -> Any:
    return s.Block(position, []) if statement is None else statement


def parse(source: Source) -> s.Program:
    """The syntax tree of a preprocessed program; raises CompileError at the first thing that is not P4_16."""
    try:
        return _Builder(source).transform(_lark(grammar_tables()).parse(source.text))
    except LackingFeatureError as error:
        raise unsupported(source.position(error.token.line, error.token.column), error.feature) from None
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise explained(error, source, _lark(grammar_tables())) from None
