"""From a P4 program to the C that the embedded switch runs: the V1Switch package and what the runtime needs of it."""

from __future__ import annotations

import sys
from pathlib import Path

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position
from switches.embedded.parse import parse
from switches.embedded.preprocess import preprocess
from switches.embedded.scope import DeclarationSymbol, Scope, TypeSymbol, Value
from switches.embedded.text import c_comment, c_string
from switches.embedded.types import Struct, Type, c_name, c_type
from switches.embedded.unused import Unused
from switches.embedded.walk import walk

PREFIX = """\
// Written by the embedded switch's compiler from {name}. One packet is processed at a time, so all state is static.
#include "program.h"
"""
DEEPEST = 20_000  # Python frames
BLOCKS = ("parser", "verify checksum", "ingress", "egress", "compute checksum", "deparser")


def compile_p4(program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None) -> str:
    """The C text of a v1model program. Raises CompileError, whose text is `file:line:column: error: …`."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST))
    try:
        source = preprocess(program, defines or {}, include_dirs or [])
        return Translator(parse(source), program).translate()
    except RecursionError:
        raise CompileError(
            Position(str(program), 1, 1), "the program is nested too deeply, or includes or contains itself"
        ) from None
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"the compiler failed ({type(error).__name__}: {error}), which is a defect of it"
        raise CompileError(Position(str(program), 1, 1), what) from error


class Translator(Unused):
    """Puts a whole program together."""

    def __init__(self, program: s.Program, path: Path) -> None:
        super().__init__()
        self.program = program
        self.name = path.name
        self.path = path

    def translate(self) -> str:
        main = self._declare_all()
        instances, headers, metadata = self._package(main)
        self.globals.append(
            f"static struct phv {{ {c_type(headers)} hdr; {c_type(metadata)} meta; struct standard_metadata_t standard; }} phv;\n"
            "void *const program_phv = &phv;\n"
            "const size_t program_phv_size = sizeof phv;\n"
            "struct standard_metadata_t *const program_standard = &phv.standard;\n"
            "static const uint8_t *at, *end, *payload;\n"
            "static uint8_t *out;\n"
            "static size_t packet_length, payload_length;\n"
            "static unsigned parser_steps;  // times that the parser has looped back for this packet\n"
            "static bool exited;\n"
            "static inline void mark_to_drop(void) { phv.standard.egress_spec = DROP_PORT; phv.standard.mcast_grp = 0; }"
        )
        calls = [self._block(i, node, headers, metadata) for i, node in enumerate(instances)]
        self.check_unused()
        self._entry_points(calls, metadata)
        self._catalogue()
        parts = [PREFIX.format(name=c_comment(self.name)), *self.types, "", *self.globals, "", *self.functions]
        return "\n".join(parts)

    def _declare_all(self) -> s.Instantiation:
        main = None
        for node in self.program.declarations:
            if isinstance(node, (s.Typedef, s.Composite, s.Enum, s.Names)):
                self.declare_type(node, self.top)
            elif isinstance(node, s.Constant):
                self.declare_constant(node, self.top)
            elif isinstance(node, (s.Parser, s.Control, s.Function, s.Action)):
                self.top.declare(node.name, DeclarationSymbol(node, self.top), node.position)
            elif isinstance(node, s.Instantiation) and node.type == "V1Switch":
                if main is not None:
                    raise CompileError(node.position, "the program has two V1Switch(...) packages")
                main = node
            elif isinstance(node, s.Instantiation) and isinstance(self.top.find(node.type), DeclarationSymbol):
                raise CompileError(node.position, f"{node.type} cannot be instantiated outside a control or parser")
            elif isinstance(node, s.Instantiation):
                self.instantiate(node, self.top, ())
            else:
                raise CompileError(node.position, "this cannot stand here")
        self.has_exit = any(isinstance(node, s.Exit) for node in walk(self.program))
        if main is None:
            raise CompileError(Position(str(self.path), 1, 1), "the program has no V1Switch(...) main")
        return main

    def _package(self, main: s.Instantiation) -> tuple[list[s.Parser | s.Control], Type, Type]:
        """The six blocks of V1Switch and the types of headers and metadata that they share."""
        if len(main.arguments) != len(BLOCKS):
            raise CompileError(main.position, f"V1Switch takes {len(BLOCKS)} blocks: {', '.join(BLOCKS)}")
        nodes = []
        for role, argument in zip(BLOCKS, main.arguments, strict=True):
            symbol = None
            if isinstance(argument, s.Call) and isinstance(argument.function, s.Name):
                symbol = self.top.get(argument.function.name, argument.position)
            kind = s.Parser if role == "parser" else s.Control
            if not isinstance(symbol, DeclarationSymbol) or not isinstance(symbol.node, kind):
                raise CompileError(argument.position, f"V1Switch needs a {role} here, written Name()")
            nodes.append(symbol.node)
        expected = (4, 2, 3, 3, 2, 2)
        for role, node, count in zip(BLOCKS, nodes, expected, strict=True):
            if len(node.parameters) != count:
                raise CompileError(node.position, f"the {role} of V1Switch has {count} parameters")
        headers = self.resolve(nodes[0].parameters[1].type, self.top)
        metadata = self.resolve(nodes[0].parameters[2].type, self.top)
        if not isinstance(headers, Struct) or not isinstance(metadata, Struct):
            raise CompileError(nodes[0].position, "headers and metadata must be structs")
        return nodes, headers, metadata

    def _block(self, role: int, node: s.Parser | s.Control, headers: Type, metadata: Type) -> str:
        """Translate a block of the package over the packet's state; the C statement that runs it."""
        self.role = BLOCKS[role]
        scope = Scope(self.top)
        standard_symbol = self.top.find("standard_metadata_t")
        if not isinstance(standard_symbol, TypeSymbol):
            raise CompileError(node.position, "v1model.p4 is not included")
        places: dict[int, list[tuple[str, Type] | None]] = {
            0: [None, ("phv.hdr", headers), ("phv.meta", metadata), ("phv.standard", standard_symbol.type)],
            1: [("phv.hdr", headers), ("phv.meta", metadata)],
            2: [("phv.hdr", headers), ("phv.meta", metadata), ("phv.standard", standard_symbol.type)],
            5: [None, ("phv.hdr", headers)],
        }
        chosen = places[{3: 2, 4: 1}.get(role, role)]
        values = []
        for parameter, place in zip(node.parameters, chosen, strict=True):
            type_ = self.resolve(parameter.type, self.top)
            if place is None:
                values.append(Value("packet", type_))
            elif type_ != place[1]:
                raise CompileError(parameter.position, f"this is {type_}, where {place[1]} is needed")
            else:
                values.append(Value(place[0], type_, None, True))
        symbol = DeclarationSymbol(node, self.top)
        instance = self.make_instance(symbol, (node.name,), [], scope, node.position)
        c, _ = self.instance_function(instance, values, node.position)
        return c

    def _entry_points(self, calls: list[str], metadata: Type) -> None:
        """The functions that the runtime calls."""
        parser, verify, ingress, egress, compute, deparser = calls
        self.functions.append(
            f"""\
size_t program_parse(const uint8_t *data, size_t length) {{
    at = data;
    end = data + length;
    packet_length = length;
    parser_steps = 0;
    phv.standard.parser_error = {parser}();
    return (size_t)(at - data);
}}

void program_ingress(const uint8_t *rest, size_t rest_length) {{
    payload = rest;
    payload_length = rest_length;
    {verify}();
    exited = false;
    {ingress}();
}}

void program_egress(const uint8_t *rest, size_t rest_length) {{
    payload = rest;
    payload_length = rest_length;
    exited = false;
    {egress}();
}}

void program_compute_checksums(void) {{
    exited = false;
    {compute}();
}}

void program_reset_metadata(void) {{
    memset(&phv.meta, 0, sizeof phv.meta);
    memset(&phv.standard, 0, sizeof phv.standard);
}}

size_t program_deparse(uint8_t *buffer) {{
    out = buffer;
    {deparser}();
    return (size_t)(out - buffer);
}}
"""
        )
        with self.function("void program_keep_fields(int list, const void *from)", "metadata that @field_list keeps"):
            self.emit("const struct phv *old = from;")
            self.emit("(void)old; (void)list;")
            for text, lists in _listed_fields("meta", metadata):
                for number in lists:
                    self.emit(f"if (list == {number}) phv.{text} = old->{text};")

    def _catalogue(self) -> None:
        """Tables, registers and counters by the names that the control plane uses."""

        def array(kind: str, name: str, rows: list[str]) -> str:
            return f"{kind} {name}[] = {{{', '.join([*rows, '{0}' if '*' not in kind else 'NULL'])}}};"

        self.functions.append(
            "\n".join(
                [
                    f"const char *const program_name = {c_string(self.name)};",
                    array("struct table *const", "program_tables", [f"&{name}" for name in self.table_names]),
                    array("const struct register_array", "program_registers", self.registers),
                    array("const struct counter_array", "program_counters", self.counters),
                    "",
                ]
            )
        )


def _listed_fields(prefix: str, type_: Type) -> list[tuple[str, tuple[int, ...]]]:
    found = []
    if isinstance(type_, Struct):
        for f in type_.fields:
            text = f"{prefix}.{c_name(f.name)}"
            found += [(text, f.lists)] if f.lists else []
            if isinstance(f.type, Struct):
                inner = _listed_fields(text, f.type)
                found += [(t, tuple(set(lists) - set(f.lists))) for t, lists in inner]
    return found
