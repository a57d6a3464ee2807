"""The C file in the making: its sections, its names, and the types that it has declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position, unsupported, warn
from switches.embedded.parse import parse_number
from switches.embedded.scope import ConstantSymbol, Scope, TypeSymbol, Value
from switches.embedded.text import c_comment, is_identifier
from switches.embedded.types import (
    BOOL,
    INTEGER,
    STRING,
    VOID,
    Bits,
    EnumType,
    FieldOf,
    Header,
    PacketType,
    Stack,
    Struct,
    TupleOf,
    Type,
    Varbit,
    c_name,
    c_type,
    struct_name,
)  # fmt: skip

# what compiler.py and parsers.py declare themselves
OWN_NAMES = "phv at end out payload packet_length payload_length exited error mark_to_drop"
PROGRAM_H = Path(__file__).parent / "runtime" / "program.h"
MAX_PACKET = int(re.findall(r"#define MAX_PACKET (\d+)", PROGRAM_H.read_text())[0])
C_LIBRARY = (
    "memchr memccpy memcmp memset memmem stpcpy strcat strcpy strdup strlen strcmp index rindex bcmp bcopy bzero ffs swab exit"
)


class Unit:
    """Collects C text. Translators write lines with `emit`; `function` opens a function around them."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.taken: set[str] = set(re.findall(r"[A-Za-z_]\w*", PROGRAM_H.read_text())) | set(f"{C_LIBRARY} {OWN_NAMES}".split())
        self.top = Scope()
        self.errors: list[str] = ["NoError"]  # 0, wherever a program declares errors of its own
        self.no_error_declared = False  # it has its number before
        self.match_kinds: set[str] = set()
        self.has_exit = False
        self.stacks: set[str] = set()
        self.temporaries = 0
        self.role = ""  # the block of V1Switch that is being translated
        self.named: set[tuple[str, str]] = set()  # kinds and names that commands use
        self.warned: set[tuple[Position, str]] = set()

    def warn(self, position: Position, message: str) -> None:
        """Write a warning, once."""
        if (position, message) not in self.warned:
            self.warned.add((position, message))
            warn(position, message)

    def name_once(self, kind: str, name: str, position: Position) -> None:
        """Refuse a name that commands would find twice."""
        if (kind, name) in self.named:
            raise CompileError(position, f"commands could not tell two of the program's {kind}s apart: both are named {name}")
        self.named.add((kind, name))

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def emit_all(self, lines: list[str]) -> None:
        """Emit lines that `apart` took, at this depth."""
        for line in lines:
            self.emit(line)

    def apart(self, translate: Callable[[], Value]) -> tuple[Value, list[str]]:
        """A translated value, and the lines that must run before it, kept apart."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        value = translate()
        made = self.lines
        self.lines, self.depth = lines, depth
        return value, made

    def unique(self, name: str) -> str:
        """A C identifier near `name` that nothing else has."""
        base = candidate = c_name(name)
        n = 2
        while candidate in self.taken:
            candidate, n = f"{base}_{n}", n + 1
        self.taken.add(candidate)
        return candidate

    def temporary(self, stem: str = "t") -> str:
        self.temporaries += 1
        return f"{stem}${self.temporaries}"

    @contextmanager
    def indented(self, opening: str, closing: str = "}") -> Iterator[None]:
        self.emit(opening)
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(closing)

    @contextmanager
    def function(self, signature: str, comment: str = "") -> Iterator[None]:
        """Everything emitted inside becomes the body of a C function, placed after all it calls."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 1
        yield
        body = "\n".join(self.lines)
        self.lines, self.depth = lines, depth
        note = f"// {c_comment(comment)}\n" if comment else ""
        self.functions.append(f"{note}{signature} {{\n{body}\n}}\n" if body else f"{note}{signature} {{\n}}\n")

    # --- types

    def resolve(self, node: s.TypeRef, scope: Scope) -> Type:
        """The type that a type expression means."""
        if isinstance(node, s.BareType):
            simple = {"bool": BOOL, "string": STRING, "void": VOID, "int": INTEGER}
            return simple[node.name] if node.name in simple else self.error_type()
        if isinstance(node, s.BitsType):
            width = self.constant(node.width, scope)
            if not 0 < width <= 2048:
                raise CompileError(node.position, f"a width of {width} bits is not possible here")
            bits = Bits(width, node.signed)
            if bits.wide:
                self.wide(bits)
            return bits
        if isinstance(node, s.VarbitType):
            width = self.constant(node.width, scope)
            if width % 8:
                raise unsupported(node.position, "varbit of a width that is no multiple of 8")
            self._declare_once(f"struct varbit{width // 8}", f"uint32_t used; uint8_t bytes[{width // 8}];")
            return Varbit(width)
        if isinstance(node, s.StackType):
            element = self.resolve(node.element, scope)
            if not isinstance(element, Header):
                raise CompileError(node.position, f"a stack is made of headers, and {element} is none")
            size = self.constant(node.size, scope)
            if not 0 < size <= 1 << 16:
                raise CompileError(node.position, f"a stack of {size} headers is not possible")
            stack = Stack(element, size)
            self._declare_once(c_type(stack), f"{c_type(element)} at[{stack.size + 1}]; uint32_t next_;")
            return stack
        if isinstance(node, s.TupleType):
            return TupleOf(tuple(self.resolve(m, scope) for m in node.members))
        if node.name in ("packet_in", "packet_out"):
            return PacketType(node.name)
        symbol = scope.get(node.name, node.position)
        if not isinstance(symbol, TypeSymbol):
            raise CompileError(node.position, f"{node.name} is not a type")
        return symbol.type

    def error_type(self) -> EnumType:
        return EnumType("error", tuple(self.errors))

    def constant(self, node: s.Expression, scope: Scope) -> int:
        value = self.expression(node, scope)
        if not isinstance(value.constant, int) or isinstance(value.constant, bool):
            raise CompileError(node.position, "this must be a number known when compiling")
        return value.constant

    def expression(self, node: s.Expression, scope: Scope, expected: Type | None = None) -> Value:
        raise AssertionError("Expressions has it")

    def _declare_once(self, name: str, members: str) -> None:
        if name not in self.stacks:
            self.stacks.add(name)
            self.types.append(f"{name} {{ {members} }};")

    def declare_type(self, node: s.Typedef | s.Composite | s.Enum | s.Names, scope: Scope) -> None:
        """Enter a type declaration into `scope` and the C file."""
        if isinstance(node, s.Names):
            names = self.errors if node.kind == "error" else self.match_kinds
            for name in node.names:
                if name in names and (name, self.no_error_declared) != ("NoError", False):
                    raise CompileError(node.position, f"{node.kind} {name} is declared twice")
                self.no_error_declared = self.no_error_declared or name == "NoError"
                if isinstance(names, set):
                    names.add(name)
                elif name not in names:
                    names.append(name)
        elif isinstance(node, s.Typedef):
            scope.declare(node.name, TypeSymbol(self.resolve(node.type, scope)), node.position)
        elif isinstance(node, s.Enum):
            scope.declare(node.name, TypeSymbol(self._enum(node, scope)), node.position)
        else:
            scope.declare(node.name, TypeSymbol(self._composite(node, scope)), node.position)

    def _enum(self, node: s.Enum, scope: Scope) -> EnumType:
        members = tuple(name for name, _ in node.members)
        for i, name in enumerate(members):
            if name in members[:i]:
                raise CompileError(node.position, f"{node.name}.{name} is declared twice")
        if node.underlying is None:
            return EnumType(node.name, members)
        underlying = self.resolve(node.underlying, scope)
        if not isinstance(underlying, Bits) or underlying.wide:
            raise unsupported(node.position, f"an enum over {underlying}")
        for name, value in node.members:
            if value is None:
                raise CompileError(node.position, f"{node.name}.{name} needs a value, as the enum has a type")
        values = tuple(self._enum_value(value, underlying, scope) for _, value in node.members if value is not None)
        return EnumType(node.name, members, underlying, values)

    def _enum_value(self, node: s.Expression, underlying: Bits, scope: Scope) -> int:
        value = self.coerce(self.expression(node, scope), underlying, node.position)
        if not isinstance(value.constant, int):
            raise CompileError(node.position, "this must be a number known when compiling")
        return value.constant

    def _composite(self, node: s.Composite, scope: Scope) -> Struct:
        fields = []
        for written in node.fields:
            lists = tuple(number for a in written.annotations if a.name == "field_list" for number in self._lists(a, scope))
            fields.append(FieldOf(written.name, self.resolve(written.type, scope), lists))
            if written.name in [f.name for f in fields[:-1]]:
                raise CompileError(written.position, f"field {written.name} occurs twice")
            if isinstance(fields[-1].type, (TupleOf, PacketType)) or fields[-1].type in (INTEGER, STRING, VOID):
                raise unsupported(written.position, f"a field of type {fields[-1].type}")
        kind = Header if node.kind == "header" else Struct
        made = kind(node.name, tuple(fields))
        if isinstance(made, Header):
            self._check_header(made, node.position)
        for f in fields:
            if isinstance(f.type, Bits) and f.type.wide:
                self.wide(f.type)
        if node.name != "standard_metadata_t":  # the runtime has its own, in the same order
            members = [f"    {c_type(f.type)} {c_name(f.name)};" for f in fields]
            if isinstance(made, Header):
                members.append("    bool valid;")  # a field of that name is valid$
            if not members:
                members.append("    char empty_;")
            self.types.append(f"{struct_name(node.name)} {{\n" + "\n".join(members) + "\n};")
        return made

    def _lists(self, annotation: s.Annotation, scope: Scope) -> list[int]:
        """The numbers in @field_list(1, LIST): literals and constants."""
        numbers = []
        for word in "".join(annotation.body).split(","):
            base, _, member = word.partition(".")
            node: s.Expression = s.Name(annotation.position, base)
            if base[:1].isdigit():
                node = parse_number(annotation.position, base)
            elif not is_identifier(base):
                raise CompileError(annotation.position, "@field_list takes numbers and names of constants")
            if member:
                node = s.Member(annotation.position, node, member)
            numbers.append(self.constant(node, scope))
        return numbers

    def _check_header(self, header: Header, position: Position) -> None:
        for f in header.fields:
            if not isinstance(f.type, (Bits, Varbit)) and not (isinstance(f.type, EnumType) and f.type.underlying):
                raise unsupported(position, f"a field of type {f.type} in a header")
        if header.width % 8:
            raise CompileError(position, f"header {header.name} has {header.width} bits, which is no multiple of 8")
        if sum(isinstance(f.type, Varbit) for f in header.fields) > 1:
            raise CompileError(position, f"header {header.name} has more than one varbit field")

    def wide(self, type_: Bits) -> None:
        """Have the C type of a wide number declared."""
        name = type_.storage
        if name not in self.stacks:
            self.stacks.add(name)
            self.types.append(f"typedef struct {{ uint8_t b[{type_.size}]; }} {name};")

    def declare_constant(self, node: s.Constant, scope: Scope) -> None:
        type_ = self.resolve(node.type, scope)
        value = self.expression(node.value, scope, type_)
        if type_ == STRING:
            raise unsupported(node.position, "a constant string")
        if value.constant is None:
            raise CompileError(node.position, f"the value of {node.name} is not known when compiling")
        scope.declare(node.name, ConstantSymbol(self.coerce(value, type_, node.position)), node.position)

    def coerce(self, value: Value, type_: Type, position: Position) -> Value:
        raise AssertionError("Expressions has it")
