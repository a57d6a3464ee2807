"""Random well-typed pipelines: parsers with lookahead, stacks and errors, tables of all match kinds with entries, registers, counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.p4_programs import BOOL, Kind, Scope, Writer

STATES = 5
TABLES = 4
HEADERS = {"one": [("a", 8), ("b", 16)], "two": [("c", 4), ("d", 12), ("e", 32)], "wide": [("f", 72), ("g", 24)]}
PROBE = [("which", 8), ("x", 8), ("y", 16), ("z", 40)]
METADATA = [("l", 8), ("m", 16), ("n", 32)]
KINDS = ("exact", "lpm", "ternary", "range", "optional")
KINDS_OF_BITS = (
    "exact",
    "ternary",
    "range",
    "optional",
)  # of fields that fill no bytes: BMv2 counts prefixes from the first bit of those
CELLS = 8
PROGRAM = """#define PROBE_FIELDS {probe}
#define METADATA_FIELDS {metadata}
#define EXTRA_TYPES {types} header part_t {{ bit<8> kind; bit<8> v; }}
#define EXTRA_HEADERS {headers} part_t[3] parts;
#define OWN_PARSER
#include "frame.p4"
NO_EGRESS
error {{ Odd, Strange }}
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.ethernet); packet.extract(hdr.probe); transition s0; }}
    {states}
}}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    register<bit<16>>({cells}) kept;
    register<bit<72>>({cells}) big;
    counter({cells}, CounterType.packets) seen;
    {actions}
    {tables}
    apply {{
        standard.egress_spec = 1;
        if (standard.parser_error == error.PacketTooShort) {{ hdr.ethernet.src = 1; }}
        else if (standard.parser_error == error.StackOutOfBounds) {{ hdr.ethernet.src = 2; }}
        else if (standard.parser_error == error.NoMatch) {{ hdr.ethernet.src = 3; }}
        else if (standard.parser_error == error.Odd) {{ hdr.ethernet.src = 4; }}
        else if (standard.parser_error == error.Strange) {{ hdr.ethernet.src = 5; }}
        {body}
    }}
}}
PACKAGE
"""


@dataclass
class TableOf:
    """What commands need to know of a table."""

    name: str
    keys: list[tuple[str, int]]  # match kinds and widths
    actions: list[str]
    constant: bool


@dataclass
class PipelineWriter(Writer):
    """Draws a program from a seed, and the commands that fill its tables. It is one that p4c takes for BMv2, too."""

    divides: bool = False
    shifts: tuple[int, ...] = (8,)
    tables: list[TableOf] = field(default_factory=list)
    data: dict[str, list[int]] = field(default_factory=dict)  # widths of what entries give to actions

    def program(self) -> str:
        states = "\n    ".join(self.state(i) for i in range(STATES))
        actions = "\n    ".join([*(self.table_action(f"act{i}") for i in range(4)), "action none() {}"])
        tables = "\n    ".join(self.table(i) for i in range(TABLES))
        body = "\n        ".join(self.applied(table) for table in self.tables)
        return PROGRAM.format(
            probe=_fields(PROBE), metadata=_fields(METADATA), states=states, actions=actions, tables=tables, body=body, cells=CELLS,
            types=" ".join(f"header {name}_t {{ {_fields(of)} }}" for name, of in HEADERS.items()),
            headers=" ".join(f"{name}_t {name};" for name in HEADERS),
        )  # fmt: skip

    def places(self, headers: list[str]) -> list[tuple[str, Kind]]:
        found = [(f"hdr.probe.{name}", ("bit", width)) for name, width in PROBE] + [(f"meta.{n}", ("bit", w)) for n, w in METADATA]
        return found + [(f"hdr.{header}.{name}", ("bit", width)) for header in headers for name, width in HEADERS[header]]

    def statement(self, scope: Scope, depth: int) -> str:
        choices = [self.assignment] * 4 + [self.slice_assignment, self.declaration]
        if depth and scope.switch:
            choices.append(self.branch)
        return self.random.choice(choices)(scope, depth)

    # --- parsers

    def state(self, number: int) -> str:
        """Extracts, looks and verifies; goes on to a later state, or to itself along the stack."""
        scope = Scope(self.places([]), [], switch=False)
        lines, along = [], self.random.random() < 0.3
        if along:
            lines.append("packet.extract(hdr.parts.next);")
        for _ in range(self.random.randint(0, 2)):
            lines.append(
                self.random.choice(
                    [
                        f"packet.extract(hdr.{self.random.choice(list(HEADERS))});",
                        f"packet.extract(hdr.{self.random.choice(list(HEADERS))});",
                        "packet.extract(hdr.parts.next);",
                        f"packet.advance({self.random.choice([0, 8, 24])});",
                        "meta.l = packet.lookahead<bit<8>>();",
                        "meta.m = packet.lookahead<bit<16>>();",
                        f"verify({self.expression(scope, BOOL, 1)}, error.{self.random.choice(['Odd', 'Strange'])});",
                        self.assignment(scope, 1),
                    ]
                )
            )
        return f"state s{number} {{ {' '.join(lines)} {self.transition(number, along)} }}"

    def transition(self, number: int, along: bool) -> str:
        later = [f"s{i}" for i in range(number + 1, STATES)] + ["accept"]
        if later == ["accept"] or (not along and self.random.random() < 0.3):
            return f"transition {self.random.choice(later)};"
        keys = [("hdr.parts.last.kind", 8)] if along else []
        keys += self.random.sample(
            [("hdr.probe.which", 8), ("hdr.probe.x", 8), ("hdr.probe.y", 16), ("meta.l", 8), ("meta.m", 16)], 1
        )
        cases = [self.case([width for _, width in keys], self.random.choice([*later, f"s{number}"] if along else later))
                 for _ in range(self.random.randint(1, 4))]  # fmt: skip
        if along or self.random.random() < 0.7:
            cases.append(f"default: {self.random.choice(later)};")
        return f"transition select({', '.join(name for name, _ in keys)}) {{ {' '.join(cases)} }}"

    def case(self, widths: list[int], target: str) -> str:
        """No case matches everything, by `_` or a mask: BMv2 tries such a case last, wherever it stands."""
        keys = ["_" if i and self.random.random() < 0.3 else self.select_key(width) for i, width in enumerate(widths)]
        return f"{keys[0] if len(keys) == 1 else '(' + ', '.join(keys) + ')'}: {target};"

    def select_key(self, width: int) -> str:
        number = self.number(width)
        return self.random.choice([number, number, f"{number} &&& {int(self.number(width)) | 1}", self.range(width)])

    def number(self, width: int) -> str:
        return str(self.random.choice([self.random.randrange(4), self.random.getrandbits(width)]))

    def range(self, width: int) -> str:
        low, high = sorted(self.random.getrandbits(width) for _ in range(2))
        return f"{low} .. {high}"

    # --- tables and state

    def table_action(self, name: str) -> str:
        widths = [self.random.choice([9, 16, 72]) for _ in range(self.random.randint(0, 2))]
        self.data[name] = widths
        scope = Scope(self.places(list(HEADERS)), [], switch=False)
        self.readable = [(f"p{i}", ("bit", width)) for i, width in enumerate(widths)]
        lines = [
            self.stateful(scope) if self.random.random() < 0.4 else self.assignment(scope, 1)
            for _ in range(self.random.randint(1, 3))
        ]
        if self.random.random() < 0.3:
            lines.append(self.random.choice(["mark_to_drop(standard);", "standard.egress_spec = 2;"]))
        self.readable = []
        return f"action {name}({', '.join(f'bit<{width}> p{i}' for i, width in enumerate(widths))}) {{ {' '.join(lines)} }}"

    def stateful(self, scope: Scope) -> str:
        index = f"(bit<32>)({self.leaf(scope, ('bit', 8))} & hdr.probe.x & {CELLS - 1})"
        return self.random.choice(
            [
                f"kept.read(meta.m, {index});", f"kept.write({index}, {self.expression(scope, ('bit', 16), 1)});",
                f"seen.count({index});", f"big.write({index}, {self.expression(scope, ('bit', 72), 1)});",
                f"big.read(hdr.wide.f, {index});",
            ]
        )  # fmt: skip

    def table(self, number: int) -> str:
        places = self.random.sample(self.places(list(HEADERS)), self.random.randint(1, 3))
        kinds = [self.random.choice(KINDS if width % 8 == 0 else KINDS_OF_BITS) for _, (_, width) in places]
        while kinds.count("lpm") > 1:
            kinds[kinds.index("lpm")] = "exact"
        if "range" in kinds or "ternary" in kinds:  # BMv2 has no prefixes there
            kinds = ["ternary" if kind == "lpm" else kind for kind in kinds]
        keys = [(kind, width) for kind, (_, (_, width)) in zip(kinds, places, strict=True)]
        actions = [*self.random.sample(sorted(self.data), 2), "none"]
        table = TableOf(f"t{number}", keys, actions, self.random.random() < 0.3)
        self.tables.append(table)
        key = " ".join(f"{name} : {kind};" for (name, _), kind in zip(places, kinds, strict=True))
        entries = f" const entries = {{ {self.entries(table)} }}" if table.constant else ""
        default = f"{'const ' if self.random.random() < 0.3 else ''}default_action = {self.call_of(self.random.choice(actions))};"
        return f"table t{number} {{ key = {{ {key} }} actions = {{ {'; '.join(actions)}; }} {default}{entries} size = 32; }}"

    def call_of(self, action: str) -> str:
        return f"{action}({', '.join(self.number(width) for width in self.data.get(action, []))})"

    def entries(self, table: TableOf) -> str:
        found = dict[str, str]()
        for _ in range(self.random.randint(1, 4)):
            keys = [self.entry_key(kind, width) for kind, width in table.keys]
            found[", ".join(keys)] = self.call_of(self.random.choice(table.actions))
        lines = [f"{key if len(table.keys) == 1 else f'({key})'}: {action};" for key, action in found.items()]
        return " ".join(lines)

    def entry_key(self, kind: str, width: int) -> str:
        value = int(self.number(width)) & (1 << width) - 1
        match kind:
            case "exact":
                return str(value)
            case "lpm":
                length = self.random.randint(1, width)
                mask = (1 << length) - 1 << (width - length)
                return f"{value & mask} &&& {mask:#x}"
            case "ternary":
                mask = self.random.choice([(1 << width) - 1, 3, self.random.getrandbits(width)])
                return self.random.choice([f"{value & mask} &&& {mask:#x}", "_"])
            case "range":
                return self.range(width)
        return self.random.choice([str(value), "_"])

    def applied(self, table: TableOf) -> str:
        first = self.random.choice(table.actions)
        scope = Scope(self.places(list(HEADERS)), [])
        return self.random.choice(
            [
                f"{table.name}.apply();",
                f"if ({table.name}.apply().{self.random.choice(['hit', 'miss'])}) {{ {self.statements(scope.inner(), 2, 1)} }}",
                f"switch ({table.name}.apply().action_run) {{ {first}: {{ {self.statements(scope.inner(), 2, 1)} }} "
                f"default: {{ {self.statements(scope.inner(), 1, 0)} }} }}",
                f"if ({self.expression(scope, BOOL, 2)}) {{ {table.name}.apply(); }}",
                f"hdr.{self.random.choice(list(HEADERS))}.{self.random.choice(['setValid', 'setInvalid'])}(); {table.name}.apply();",
            ]
        )

    # --- commands

    def commands(self) -> list[str]:
        """Entries for the tables without const entries. No two have the same key, and priorities differ, so that the result is unique."""
        found = []
        for table in self.tables:
            if table.constant:
                continue
            seen, priorities = set(), self.random.sample(range(1, 100), 6)
            for priority in priorities:
                keys = [self.word(kind, width) for kind, width in table.keys]
                if tuple(keys) in seen:
                    continue
                seen.add(tuple(keys))
                action = self.random.choice(table.actions)
                values = [self.number(width) for width in self.data.get(action, [])]
                order = [str(priority)] if any(kind in ("ternary", "range", "optional") for kind, _ in table.keys) else []
                found.append(" ".join(["table_add", table.name, action, *keys, "=>", *values, *order]))
        return found

    def word(self, kind: str, width: int) -> str:
        value = int(self.number(width)) & (1 << width) - 1
        match kind:
            case "exact":
                return str(value)
            case "lpm":
                length = self.random.randint(0, width)
                return f"{value >> (width - length) << (width - length)}/{length}"
            case "range":
                return self.range(width).replace(" .. ", "->")
            case "ternary":
                mask = self.random.choice([(1 << width) - 1, 3, self.random.getrandbits(width)])
                return f"{value & mask}&&&{mask}"
        return self.random.choice([f"{value}&&&{(1 << width) - 1}", "0&&&0"])


def _fields(fields: list[tuple[str, int]]) -> str:
    return " ".join(f"bit<{width}> {name};" for name, width in fields)
