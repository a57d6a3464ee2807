"""A whole program as C: its six blocks over the packet's state, and what the runtime calls and reads."""

from __future__ import annotations

from .. import checked
from ..text import c_comment, c_string
from ..types import ExternType, Struct
from . import blocks, calls, expressions, externs, statements, tables
from .context import Context, Place, Rules
from .ctypes import c_type

PREFIX = """\
// Written by the embedded switch's compiler from {name}. One packet is processed at a time, so all state is static.
#include "program.h"
"""
STATE = """\
static struct phv {{ {headers} hdr; {metadata} meta; struct standard_metadata_t standard; }} phv;
void *const program_phv = &phv;
const size_t program_phv_size = sizeof phv;
struct standard_metadata_t *const program_standard = &phv.standard;
static const uint8_t *at, *end, *payload;
static uint8_t *out;
static size_t packet_length, payload_length;
static unsigned parser_steps;  // times that the parser has looped back for this packet
static unsigned loop_turns __attribute__((unused));
static bool exited;
static inline void mark_to_drop(struct standard_metadata_t *standard) {{
    standard->egress_spec = DROP_PORT;
    standard->mcast_grp = 0;
}}"""
ENTRY_POINTS = """\
size_t program_parse(const uint8_t *data, size_t length) {{
    at = data;
    end = data + length;
    packet_length = length;
    parser_steps = loop_turns = 0;
    const uint32_t error = {0}();
    phv.standard.parser_error = error == REJECTED ? 0 : error;  // simple_switch goes on with what was rejected
    return (size_t)(at - data);
}}

void program_ingress(const uint8_t *rest, size_t rest_length) {{
    payload = rest;
    payload_length = rest_length;
    loop_turns = 0;
    {1}();
    exited = false;
    {2}();
}}

void program_egress(const uint8_t *rest, size_t rest_length) {{
    payload = rest;
    payload_length = rest_length;
    loop_turns = 0;
    exited = false;
    {3}();
}}

void program_compute_checksums(void) {{
    exited = false;
    loop_turns = 0;
    {4}();
}}

void program_reset_metadata(void) {{
    memset(&phv.meta, 0, sizeof phv.meta);
    memset(&phv.standard, 0, sizeof phv.standard);
}}

size_t program_deparse(uint8_t *buffer) {{
    out = buffer;
    {5}();
    return (size_t)(out - buffer);
}}
"""


RULES = Rules(expressions.RULES, statements.RULES, calls.CALLS | externs.CALLS | tables.CALLS | blocks.CALLS)


def emit(program: checked.Program, name: str, traced: bool = False) -> str:
    """The C text of a program, which records its steps if it is `traced`. Raises CompileError for what is not supported."""
    c = Context(program, RULES, traced)
    c.globals.append(STATE.format(headers=c_type(c, program.headers), metadata=c_type(c, program.metadata)))
    externs.declare(c, program.externs)
    state = {program.headers: "hdr", program.metadata: "meta", program.standard: "standard"}
    functions = [blocks.function(c, block, _state_of(block, state)) for block in program.blocks]
    c.functions.append(ENTRY_POINTS.format(*functions))
    _keep_fields(c, program.metadata)
    _catalogue(c, name)
    return "\n".join([PREFIX.format(name=c_comment(name)), *c.types, "", *c.globals, "", *c.functions])


def _state_of(block: checked.Instance, state: dict[Struct, str]) -> dict[checked.Variable, Place]:
    """The parts of the packet's state that a block's parameters are."""
    names = iter(state.values() if block.role != "deparser" else ["hdr"])
    return {p: Place("phv").part(next(names)) for p in block.parameters if not isinstance(p.type, ExternType)}


def _keep_fields(c: Context, metadata: Struct) -> None:
    with c.function("void program_keep_fields(int list, const void *from)", "metadata that @field_list keeps"):
        c.emit("const struct phv *old = from;")
        c.emit("(void)old; (void)list;")
        for place, lists in _listed_fields(Place("", (".meta",)), metadata):
            for number in lists:
                c.emit(f"if (list == {number}) phv{place} = (*old){place};")


def _listed_fields(place: Place, type_: Struct) -> list[tuple[Place, tuple[int, ...]]]:
    """Fields with @field_list, and the numbers of their lists."""
    found = []
    for f in type_.fields:
        inner = place.field(f.name)
        found += [(inner, f.lists)] if f.lists else []
        if isinstance(f.type, Struct):
            found += [(p, tuple(set(lists) - set(f.lists))) for p, lists in _listed_fields(inner, f.type)]
    return found


def _catalogue(c: Context, name: str) -> None:
    """What the control plane finds by the names that it uses."""
    c.functions.append(
        "\n".join(
            [
                f"const char *const program_name = {c_string(name)};",
                f"struct table *const program_tables[] = {_addresses(c.tables)};",
                f"const char *const program_entries[] = {{{', '.join([*map(c_string, c.entries), 'NULL'])}}};",
                f"const struct register_array program_registers[] = {{{', '.join([*c.registers, '{0}'])}}};",
                f"const struct counter_array program_counters[] = {{{', '.join([*c.counters, '{0}'])}}};",
                f"const struct meter_array program_meters[] = {{{', '.join([*c.meters, '{0}'])}}};",
                f"struct value_set *const program_value_sets[] = {_addresses(c.value_sets)};",
                f"struct action_profile *const program_action_profiles[] = {_addresses(c.action_profiles)};",
                f"struct crc *const program_crcs[] = {_addresses(c.crcs)};",
                f"const struct digest_list program_digests[] = {{{', '.join([*c.digest_lists.values(), '{0}'])}}};",
                f"const struct trace_point program_trace_points[] = {{{', '.join([*c.trace_points, '{0}'])}}};",
                "",
            ]
        )
    )


def _addresses(names: list[str]) -> str:
    """A C array of addresses that ends with NULL."""
    return f"{{{', '.join([*(f'&{name}' for name in names), 'NULL'])}}}"
