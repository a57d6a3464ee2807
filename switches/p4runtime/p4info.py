"""P4Info: what a P4Runtime client may know of a program, with p4c's names and numbers (P4Runtime 1.4, section 6).

Left out are the names of types that `type` introduces, with their translations, and annotations other than @defaultonly's and
@tableonly's scopes: clients of this P4Info write values as wide as the program has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2, p4types_pb2

from ..embedded import checked
from ..embedded import syntax as s
from ..embedded.types import Bits, Bool, EnumType, Header, Stack, Struct, TupleOf, Type, as_bits, bit_width
from ..embedded.walk import walk
from .bytestrings import encode
from .numbering import IDS, Numbering, field_ids

MATCHES = p4info_pb2.MatchField
SCOPES = p4info_pb2.ActionRef
ARRAYS = {"counter": IDS.COUNTER, "meter": IDS.METER, "register": IDS.REGISTER}
COUNTER_UNITS = {"bytes": p4info_pb2.CounterSpec.BYTES, "packets": p4info_pb2.CounterSpec.PACKETS,
                 "packets_and_bytes": p4info_pb2.CounterSpec.BOTH}  # fmt: skip
METER_UNITS = {"bytes": p4info_pb2.MeterSpec.BYTES, "packets": p4info_pb2.MeterSpec.PACKETS}


def p4info(program: checked.Program) -> Any:
    """The P4Info message of a program."""
    return _Writer(program).write()


def as_text(info: Any) -> str:
    """A P4Info message as p4c writes it to a file."""
    return str(text_format.MessageToString(info))


class _Writer:
    """The message in the making."""

    def __init__(self, program: checked.Program) -> None:
        self.program = program
        self.info = p4info_pb2.P4Info()
        calls = [node for body in _bodies(program) for node in walk(body) if isinstance(node, s.Call)]
        self.tables = _once(c.callee.target for c in calls if isinstance(c.callee, checked.Apply) and _is_table(c.callee.target))
        called = [call.callee for call in calls if isinstance(call.callee, checked.Action)]
        self.tables = [table for table in self.tables if not _is_hidden(table)]
        self.in_tables = _once(listed.action for table in self.tables for listed in table.actions)
        self.actions = _once([*self.in_tables, *called])
        in_actions = [node for action in self.actions for node in walk(action.body) if isinstance(node, s.Call)]
        self.digests = _once(_digest_type(call) for call in in_actions + calls if _is_digest(call))
        self.externs = [*program.externs, *(one for instance in program.instances for one in instance.externs)]
        self.value_sets = [one for instance in program.instances for one in instance.value_sets]
        in_properties = [table.profile for table in self.tables if table.profile is not None]
        self.profiles = _once([*(one for one in self.externs if one.type.name in checked.PROFILES), *in_properties])
        self.numbering = Numbering(self._things())

    def _things(self) -> Iterator[tuple[int, str, Sequence[s.Annotation]]]:
        yield from ((IDS.TABLE, table.control_name, table.annotations) for table in self.tables)
        yield from ((IDS.ACTION, action.control_name, action.annotations) for action in self.actions)
        yield from ((IDS.ACTION_PROFILE, one.control_name, one.annotations) for one in self.profiles)
        for one in self.externs:
            if one.type.name in ARRAYS:
                yield ARRAYS[one.type.name], one.control_name, one.annotations
        for table in self.tables:
            for kind, one in ((IDS.DIRECT_COUNTER, table.counter), (IDS.DIRECT_METER, table.meter)):
                if one is not None:
                    yield kind, one.control_name, one.annotations
        yield from ((IDS.VALUE_SET, one.control_name, one.annotations) for one in self.value_sets)
        yield from ((IDS.CONTROLLER_HEADER, header.type.name, header.annotations) for header in self.program.controller_headers)
        yield from ((IDS.DIGEST, self.program.digests[type_], []) for type_ in self.digests)

    def write(self) -> Any:
        self.info.pkg_info.arch = "v1model"
        for table in self.tables:
            self._table(table)
        for action in self.actions:
            self._action(action)
        for profile in self.profiles:
            self._profile(profile)
        for one in self.externs:
            if one.type.name in ARRAYS:
                self._array(one)
        for table in self.tables:
            self._direct(table)
        for header in self.program.controller_headers:
            self._controller_header(header)
        for value_set in self.value_sets:
            self._value_set(value_set)
        for type_ in self.digests:
            made = self._named(self.info.digests, IDS.DIGEST, self.program.digests[type_])
            self._type(type_, made.type_spec)
        return self.info

    def _named(self, entries: Any, kind: int, name: str, shown: str = "") -> Any:
        """A new message with its preamble; `shown` instead of the name that it is numbered by."""
        made = entries.add()
        made.preamble.id = self.numbering.ids[kind, name]
        made.preamble.name = shown or name
        made.preamble.alias = shown or self.numbering.alias(name)
        return made

    # --- tables and actions

    def _table(self, table: checked.Table) -> None:
        made = self._named(self.info.tables, IDS.TABLE, table.control_name)
        for key, number in zip(table.key, field_ids([key.annotations for key in table.key]), strict=True):
            if key.kind == checked.SELECTOR:
                continue
            match = made.match_fields.add(id=number, name=key.name, match_type=MATCHES.MatchType.Value(key.kind.upper()))
            match.bitwidth = _width(key.expression.type)
            self._note(key.expression.type)
        for listed in table.actions:
            scope = (
                SCOPES.DEFAULT_ONLY if listed.default_only else SCOPES.TABLE_ONLY if listed.table_only else SCOPES.TABLE_AND_DEFAULT
            )
            made.action_refs.add(id=self.numbering.ids[IDS.ACTION, listed.action.control_name], scope=scope)
        default = table.actions[table.default].action
        number = self.numbering.ids[IDS.ACTION, default.control_name]
        made.initial_default_action.action_id = number
        for parameter, value, one in zip(default.data, table.default_data, _parameter_ids(default), strict=False):
            width = _width(parameter.type)
            octets = (value & (1 << width) - 1).to_bytes((width + 7) // 8, "big")
            made.initial_default_action.arguments.add(param_id=one, value=octets)
        if table.constant_default:
            made.const_default_action_id = number
        if table.profile is not None:
            made.implementation_id = self.numbering.ids[IDS.ACTION_PROFILE, table.profile.control_name]
        for kind, resource in ((IDS.DIRECT_COUNTER, table.counter), (IDS.DIRECT_METER, table.meter)):
            if resource is not None:
                made.direct_resource_ids.append(self.numbering.ids[kind, resource.control_name])
        made.size = table.size
        if table.ages:
            made.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL
        made.is_const_table = table.constant_entries
        made.has_initial_entries = bool(table.entries)

    def _action(self, action: checked.Action) -> None:
        made = self._named(self.info.actions, IDS.ACTION, action.control_name)
        if action not in self.in_tables:  # a call binds all its parameters
            return
        for parameter, number in zip(action.data, _parameter_ids(action), strict=True):
            names = [a.text() for a in parameter.annotations if a.name == "name" and a.body]
            made.params.add(id=number, name=[parameter.name, *names][-1], bitwidth=_width(parameter.type))
            self._note(parameter.type)

    def _profile(self, profile: checked.ExternObject) -> None:
        made = self._named(self.info.action_profiles, IDS.ACTION_PROFILE, profile.control_name)
        made.table_ids.extend(self.numbering.ids[IDS.TABLE, t.control_name] for t in profile.tables if t in self.tables)
        made.with_selector = profile.type.name == "action_selector"
        made.size = int(profile.arguments[1 if made.with_selector else 0].constant or 0)

    # --- counters, meters and registers

    def _array(self, one: checked.ExternObject) -> None:
        entries = getattr(self.info, f"{one.type.name}s")
        made = self._named(entries, ARRAYS[one.type.name], one.control_name)
        made.size = int(one.arguments[0].constant or 0)
        if one.type.name == "register":
            self._type(one.type.arguments[0], made.type_spec)
        else:
            made.spec.unit = _unit(one)

    def _direct(self, table: checked.Table) -> None:
        number = self.numbering.ids[IDS.TABLE, table.control_name]
        if table.counter is not None:
            made = self._named(self.info.direct_counters, IDS.DIRECT_COUNTER, table.counter.control_name)
            made.direct_table_id, made.spec.unit = number, _unit(table.counter)
        if table.meter is not None:
            made = self._named(self.info.direct_meters, IDS.DIRECT_METER, table.meter.control_name)
            made.direct_table_id, made.spec.unit = number, _unit(table.meter)

    # --- packets, value sets and types

    def _controller_header(self, header: checked.ControllerHeader) -> None:
        made = self._named(self.info.controller_packet_metadata, IDS.CONTROLLER_HEADER, header.type.name, header.name)
        flat = [(name, type_, written.annotations) for f, written in zip(header.type.fields, header.fields, strict=True)
                for name, type_ in _flat(f.name, f.type)]  # fmt: skip
        for (name, type_, _), number in zip(flat, field_ids([notes for _, _, notes in flat]), strict=True):
            made.metadata.add(id=number, name=name, bitwidth=_width(type_))
            self._note(type_)

    def _value_set(self, one: checked.ValueSet) -> None:
        made = self._named(self.info.value_sets, IDS.VALUE_SET, one.control_name)
        for number, type_ in enumerate(one.fields, start=1):
            name = one.names[number - 1] if one.names else ""
            made.match.add(id=number, name=name, bitwidth=_width(type_), match_type=MATCHES.EXACT)
        made.size = one.size

    def _type(self, type_: Type, spec: Any) -> None:
        """The P4DataTypeSpec of a type."""
        match type_:
            case Bits():
                bits = spec.bitstring.int if type_.signed else spec.bitstring.bit
                bits.bitwidth = type_.width
            case Bool():
                spec.bool.SetInParent()
            case EnumType(name="error"):
                spec.error.SetInParent()
            case EnumType():
                (spec.serializable_enum if type_.underlying else spec.enum).name = type_.name
            case Stack():
                spec.header_stack.header.name, spec.header_stack.size = str(type_.element), type_.size
            case Header():
                spec.header.name = type_.name
            case TupleOf():
                for member in type_.members:
                    self._type(member, spec.tuple.members.add())
            case Struct():
                spec.struct.name = type_.name
        self._note(type_)

    def _note(self, type_: Type) -> None:
        """Describe a type that has a name in type_info."""
        known = self.info.type_info
        if isinstance(type_, EnumType):
            _describe_enum(type_, known)
        elif isinstance(type_, Header):
            if type_.name not in known.headers:
                for f in type_.fields:
                    member = known.headers[type_.name].members.add(name=f.name)
                    member.type_spec.bit.bitwidth = _width(f.type)
        elif isinstance(type_, Struct) and type_.name not in known.structs:
            made = p4types_pb2.P4StructTypeSpec()
            for f in type_.fields:
                self._type(f.type, made.members.add(name=f.name).type_spec)
            known.structs[type_.name].CopyFrom(made)


def _describe_enum(type_: EnumType, known: Any) -> None:
    if type_.name == "error":
        if not known.error.members:
            known.error.members.extend(type_.members)
    elif type_.underlying is None:
        made = known.enums[type_.name]
        if not made.members:
            for name in type_.members:
                made.members.add(name=name)
    else:
        made = known.serializable_enums[type_.name]
        if not made.members:
            made.underlying_type.bitwidth = type_.underlying.width
            for name, value in zip(type_.members, type_.values, strict=True):
                made.members.add(name=name, value=encode(value & type_.underlying.mask))


def _flat(name: str, type_: Type) -> Iterator[tuple[str, Type]]:
    """A field, or those of a struct by their paths."""
    if not isinstance(type_, Struct):
        yield name, type_
        return
    for f in type_.fields:
        yield from _flat(f"{name}.{f.name}", f.type)


def _bodies(program: checked.Program) -> list[object]:
    """What runs in each block and each instance in it."""
    return [part for one in program.instances for part in (one.body, [state.statements for state in one.states])]


def _once(things: Any) -> list[Any]:
    return list(dict.fromkeys(things))


def _is_table(target: object) -> bool:
    return isinstance(target, checked.Table)


def _is_hidden(table: checked.Table) -> bool:
    """Whether the program keeps a table from the control plane: @hidden."""
    return any(annotation.name == "hidden" for annotation in table.annotations)


def _is_digest(call: s.Call) -> bool:
    return isinstance(call.callee, checked.ExternCall) and call.callee.object is None and call.callee.name == "digest"


def _digest_type(call: s.Call) -> Type:
    type_ = call.arguments[1].type
    assert isinstance(type_, Type)
    return type_


def _unit(one: checked.ExternObject) -> Any:
    """Bytes or packets, as the last argument of the constructor says."""
    type_, value = one.arguments[-1].type, one.arguments[-1].constant
    assert isinstance(type_, EnumType) and isinstance(value, int)
    units: dict[str, Any] = METER_UNITS if "meter" in one.type.name else COUNTER_UNITS
    return units[type_.members[value]]


def _parameter_ids(action: checked.Action) -> list[int]:
    return field_ids([parameter.annotations for parameter in action.data])


def _width(type_: Type) -> int:
    bits = as_bits(type_)
    return bits.width if bits is not None else bit_width(type_)
