"""Random well-typed controls: blocks of statements, one of which a packet chooses, with functions and actions that they call."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

WIDTHS = (1, 4, 7, 8, 13, 16, 31, 32, 33, 48, 63, 64, 65, 100, 128)
ARITHMETIC = ("+", "-", "*", "&", "|", "^", "|+|", "|-|")
CASES = 12  # blocks of a program

FIELDS = [(f"f{i}", ("int" if i % 3 == 2 else "bit", width)) for i, width in enumerate(WIDTHS)]
PADDING = -sum(width for _, (_, width) in FIELDS) % 8
HEADS = ("hdr.h0", "hdr.h1", "hdr.u.s", "hdr.st[0]", "hdr.st[2]")  # of type small_t
SMALL = [("x", ("bit", 4)), ("y", ("int", 12)), ("z", ("bit", 16)), ("w", ("bit", 32))]

PROGRAM = """#define PROBE_FIELDS bit<8> which; {fields}
#define EXTRA_TYPES header small_t {{ bit<4> x; int<12> y; bit<16> z; bit<32> w; }} header other_t {{ bit<64> v; bool ok; bit<7> pad; }} \\
    header_union u_t {{ small_t s; other_t o; }} struct pair_t {{ bit<16> p; int<33> q; }}
#define EXTRA_HEADERS small_t h0; small_t h1; u_t u; small_t[3] st;
#include "frame.p4"
NO_EGRESS
{functions}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    pair_t m;
    {actions}
    apply {{
        standard.egress_spec = 1;
        {cases}
    }}
}}
PACKAGE
"""

Kind = tuple[str, int]  # "bit" or "int", and a width
BOOL: Kind = ("bool", 1)


def written(kind: Kind) -> str:
    return "bool" if kind == BOOL else f"{kind[0]}<{kind[1]}>"


@dataclass
class Scope:
    """What statements see: places and their kinds, and functions and actions that they may call."""

    places: list[tuple[str, Kind]]
    callable: list[str]
    packet: bool = False  # headers can be seen
    loop: bool = False
    switch: bool = True  # it may stand here

    def inner(self, **change: object) -> Scope:
        return replace(self, places=list(self.places), **change)  # type: ignore[arg-type]


@dataclass
class Writer:
    """Draws a program from a seed."""

    seed: int
    signatures: dict[str, list[tuple[str, Kind]]] = field(default_factory=dict)  # directions and kinds of parameters
    results: dict[str, Kind | None] = field(default_factory=dict)
    names: int = 0
    divides: bool = True  # BMv2 does not
    shifts: tuple[int, ...] = (8, 100)  # by numbers of these widths; p4c takes no large ones

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def program(self) -> str:
        functions = "\n".join(self.function(f"fun{i}") for i in range(3))
        actions = "\n    ".join(self.action(f"act{i}") for i in range(2))
        cases = []
        for k in range(CASES):
            scope = self.scope()
            cases.append(f"if (hdr.probe.which == {k}) {{ {self.statements(scope, 4, 3)} }}")
        fields = " ".join(f"{written(kind)} {name};" for name, kind in FIELDS) + (f" bit<{PADDING}> pad;" if PADDING else "")
        return PROGRAM.format(fields=fields, functions=functions, actions=actions, cases="\n        ".join(cases))

    def scope(self) -> Scope:
        places = [(f"hdr.probe.{name}", kind) for name, kind in FIELDS] + [("m.p", ("bit", 16)), ("m.q", ("int", 33))]
        return Scope(places, list(self.results), packet=True)

    # --- declarations

    def parameters(self, directions: tuple[str, ...]) -> tuple[str, list[tuple[str, Kind]], Scope]:
        kinds = [(self.random.choice(directions), self.kind()) for _ in range(self.random.randint(1, 3))]
        text = ", ".join(f"{direction} {written(kind)} p{i}" for i, (direction, kind) in enumerate(kinds))
        scope = Scope([(f"p{i}", kind) for i, (direction, kind) in enumerate(kinds) if direction != "in"], list(self.results))
        self.readable = [(f"p{i}", kind) for i, (_, kind) in enumerate(kinds)]
        return text, kinds, scope

    def function(self, name: str) -> str:
        text, kinds, scope = self.parameters(("in", "inout", "out"))
        result = self.kind()
        body = self.statements(scope, 3, 2)
        made = f"{written(result)} {name}({text}) {{ {body} return {self.expression(scope, result, 2)}; }}"
        self.signatures[name], self.results[name] = kinds, result
        self.readable = []
        return made

    def action(self, name: str) -> str:
        text, kinds, own = self.parameters(("in", "inout"))
        scope = self.scope().inner(switch=False)
        scope.places += own.places
        made = f"action {name}({text}) {{ {self.statements(scope, 3, 2)} }}"
        self.signatures[name], self.results[name] = kinds, None
        self.readable = []
        return made

    readable: list[tuple[str, Kind]] = field(default_factory=list)  # `in` parameters beside the scope's places

    # --- statements

    def statements(self, scope: Scope, most: int, depth: int) -> str:
        return " ".join(self.statement(scope, depth) for _ in range(self.random.randint(1, most)))

    def statement(self, scope: Scope, depth: int) -> str:
        choices = [self.assignment] * 6 + [self.compound, self.slice_assignment, self.declaration, self.call] * 2
        if scope.packet:
            choices += [self.header] * 3 + [self.hash]
        if depth:
            choices += [self.branch] * 2 + [self.loop] + ([self.switch] if scope.switch else [])
        if scope.loop:
            choices.append(self.leave)
        return self.random.choice(choices)(scope, depth)  # type: ignore[operator, no-any-return]

    def assignment(self, scope: Scope, depth: int) -> str:
        if not scope.places:
            return self.declaration(scope, depth)
        name, kind = self.random.choice(scope.places)
        return f"{name} = {self.expression(scope, kind, 3)};"

    def compound(self, scope: Scope, depth: int) -> str:
        if not scope.places:
            return self.declaration(scope, depth)
        name, kind = self.random.choice(scope.places)
        if kind == BOOL:
            return f"{name} = !{name};"
        return f"{name} {self.random.choice(ARITHMETIC)}= {self.expression(scope, kind, 2)};"

    def slice_assignment(self, scope: Scope, depth: int) -> str:
        found = [(name, kind) for name, kind in scope.places if kind[0] == "bit" and kind[1] > 1]
        if not found:
            return self.declaration(scope, depth)
        name, (_, width) = self.random.choice(found)
        low = self.random.randrange(width)
        high = self.random.randrange(low, width)
        return f"{name}[{high}:{low}] = {self.expression(scope, ('bit', high - low + 1), 2)};"

    def declaration(self, scope: Scope, depth: int) -> str:
        kind = self.random.choice([self.kind(), BOOL])
        value = self.expression(scope, kind, 2)
        self.names += 1
        name = f"v{self.names}"
        scope.places.append((name, kind))
        return f"{written(kind)} {name} = {value};"

    def branch(self, scope: Scope, depth: int) -> str:
        text = f"if ({self.expression(scope, BOOL, 2)}) {{ {self.statements(scope.inner(), 2, depth - 1)} }}"
        if self.random.random() < 0.5:
            text += f" else {{ {self.statements(scope.inner(), 2, depth - 1)} }}"
        return text

    def loop(self, scope: Scope, depth: int) -> str:
        self.names += 1
        name = f"i{self.names}"
        body = self.statements(scope.inner(loop=True), 2, depth - 1)
        if self.random.random() < 0.5:
            first = self.random.randrange(250)
            return f"for (bit<8> {name} in {first} .. {first + self.random.randrange(-1, 4)}) {{ {body} }}"
        return f"for (bit<8> {name} = 0; {name} < {self.random.randrange(4)}; {name} += 1) {{ {body} }}"

    def leave(self, scope: Scope, depth: int) -> str:
        return f"if ({self.expression(scope, BOOL, 1)}) {{ {self.random.choice(['break', 'continue'])}; }}"

    def switch(self, scope: Scope, depth: int) -> str:
        if not scope.packet:
            return self.branch(scope, depth)
        labels = self.random.sample(range(4), 3)
        bodies = [f"{{ {self.statements(scope.inner(), 2, depth - 1)} }}" for _ in labels]
        if self.random.random() < 0.3:
            bodies[0] = ""
        cases = " ".join(f"{label}: {body}" for label, body in zip(labels, bodies, strict=True))
        return f"switch ((bit<2>)({self.expression(scope, ('bit', 2), 1)})) {{ {cases} default: {{ }} }}"

    def call(self, scope: Scope, depth: int) -> str:
        found = [name for name in scope.callable if scope.packet or name.startswith("fun")]
        text = self.called(scope, self.random.choice(found)) if found else None
        return f"{text};" if text else self.assignment(scope, depth)

    def called(self, scope: Scope, name: str) -> str | None:
        """A call; None if a parameter that is written finds no place of its kind."""
        arguments = []
        for direction, kind in self.signatures[name]:
            places = [place for place, own in scope.places if own == kind]
            if direction != "in" and not places:
                return None
            arguments.append(self.expression(scope, kind, 1) if direction == "in" else self.random.choice(places))
        return f"{name}({', '.join(arguments)})"

    def header(self, scope: Scope, depth: int) -> str:
        one, other = self.random.choice(HEADS), self.random.choice(HEADS)
        name, kind = self.random.choice(SMALL)
        items = ", ".join(self.expression(scope, own, 1) for _, own in SMALL)
        return self.random.choice(
            [
                f"{one}.setValid();", f"{one}.setInvalid();", f"{one} = {other};", f"{one} = {{ {items} }};",
                f"if ({one}.isValid()) {{ {one}.{name} = {self.expression(scope, kind, 2)}; }}",
                "hdr.u.o.setValid();", "hdr.u.o.setInvalid();", f"hdr.st[{self.random.choice(['0', '1', 'hdr.probe.f1', 'hdr.probe.f3[1:0]'])}] = {one};",
            ]
        )  # fmt: skip

    def hash(self, scope: Scope, depth: int) -> str:
        items = []
        for _ in range(self.random.randint(1, 6)):
            head = self.random.choice(HEADS)
            fields = [f"{head}.{name}" for name, _ in SMALL]
            items.append(self.random.choice([*fields, *fields, head, f"hdr.probe.{self.random.choice(FIELDS)[0]}"]))
        algorithm = self.random.choice(["identity", "crc32"])
        return f"hash(m.p, HashAlgorithm.{algorithm}, 16w3, {{ {', '.join(items)} }}, 32w{self.random.choice([1, 256, 65536])});"

    # --- expressions

    def kind(self) -> Kind:
        width = self.random.choice(WIDTHS)
        return ("int" if width > 1 and self.random.random() < 0.3 else "bit"), width

    def literal(self, kind: Kind) -> str:
        if kind == BOOL:
            return self.random.choice(["true", "false"])
        sign, width = kind
        bits = width - (sign == "int")
        value = self.random.choice([0, 1, (1 << bits) - 1, self.random.getrandbits(bits)])
        return f"{width}{'s' if sign == 'int' else 'w'}{value}"

    def leaf(self, scope: Scope, kind: Kind) -> str:
        found = [name for name, own in [*scope.places, *self.readable] if own == kind]
        if found and self.random.random() < 0.8:
            return self.random.choice(found)
        return self.literal(kind)

    def expression(self, scope: Scope, kind: Kind, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.15:
            return self.leaf(scope, kind)
        if kind == BOOL:
            return self.condition(scope, depth)
        return f"({self.random.choice([self.binary] * 4 + [self.unary, self.shift, self.cast, self.choice, self.result, self.bits])(scope, kind, depth - 1)})"

    def binary(self, scope: Scope, kind: Kind, depth: int) -> str:
        a, b = self.expression(scope, kind, depth), self.expression(scope, kind, depth)
        if self.divides and kind[0] == "bit" and 1 < kind[1] <= 64 and self.random.random() < 0.15:
            return f"{a} {self.random.choice('/%')} ({self.leaf(scope, kind)} | {kind[1]}w1)"
        return f"{a} {self.random.choice(ARITHMETIC)} {b}"

    def unary(self, scope: Scope, kind: Kind, depth: int) -> str:
        return f"{self.random.choice('-~')}{self.expression(scope, kind, depth)}"

    def shift(self, scope: Scope, kind: Kind, depth: int) -> str:
        amount = self.random.choice(
            [f"{self.random.randrange(kind[1])}", *(self.leaf(scope, ("bit", width)) for width in self.shifts)]
        )
        return f"{self.expression(scope, kind, depth)} {self.random.choice(['<<', '>>'])} {amount}"

    def cast(self, scope: Scope, kind: Kind, depth: int) -> str:
        sign, width = kind
        other = self.random.choice([w for w in WIDTHS if w > 1])
        if self.random.random() < 0.3 and width > 1:  # of the other sign
            inner = ("bit" if sign == "int" else "int", width)
            return f"({written(kind)}){self.expression(scope, inner, depth)}"
        return f"({written(kind)}){self.expression(scope, (sign, other), depth)}"

    def choice(self, scope: Scope, kind: Kind, depth: int) -> str:
        condition = self.expression(scope, BOOL, depth)
        return f"{condition} ? {self.expression(scope, kind, depth)} : {self.expression(scope, kind, depth)}"

    def result(self, scope: Scope, kind: Kind, depth: int) -> str:
        found = [name for name in scope.callable if self.results[name] == kind]
        text = self.called(scope, self.random.choice(found)) if found else None
        return text or self.leaf(scope, kind)

    def bits(self, scope: Scope, kind: Kind, depth: int) -> str:
        """A slice, or two parts side by side."""
        sign, width = kind
        wider = [w for w in WIDTHS if w > width]
        if sign == "bit" and wider and self.random.random() < 0.5:
            of = self.random.choice(wider)
            low = self.random.randrange(of - width + 1)
            return f"({self.expression(scope, ('bit', of), depth)})[{low + width - 1}:{low}]"
        left = self.random.randrange(1, width) if width > 2 else 0
        if not left or (sign == "int" and left < 2):
            return self.leaf(scope, kind)
        return f"{self.expression(scope, (sign, left), depth)} ++ {self.expression(scope, ('bit', width - left), depth)}"

    def condition(self, scope: Scope, depth: int) -> str:
        kind = self.kind()
        a, b = self.expression(scope, kind, depth - 1), self.expression(scope, kind, depth - 1)
        c, d = self.expression(scope, BOOL, depth - 1), self.expression(scope, BOOL, depth - 1)
        choices = [f"{a} {self.random.choice(['==', '!=', '<', '<=', '>', '>='])} {b}"] * 3 + [
            f"{c} && {d}",
            f"{c} || {d}",
            f"!({c})",
        ]
        if scope.packet:
            one, other = self.random.choice(HEADS), self.random.choice(HEADS)
            choices += [f"{one}.isValid()", f"{one} == {other}", "hdr.u.isValid()"]
        return f"({self.random.choice(choices)})"
