"""Counters, meters, registers and value sets (P4Runtime 1.4, sections 9.3, 9.4, 9.7 and 9.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from .bytestrings import OUT_OF_RANGE, decode, encode
from .errors import P4RuntimeError, unimplemented
from .pipeline import Pipeline, require
from .tables import Tables, check_counts, counted, rates

MODIFY = p4runtime_pb2.Update.MODIFY


class Cells:
    """All of them are there from the start: they are modified, and never inserted or deleted."""

    def __init__(self, pipeline: Pipeline, tables: Tables) -> None:
        self.pipeline, self.tables = pipeline, tables
        self.values: dict[int, list[Any]] = {}  # of value sets

    def write(self, kind: int, what: str, message: Any) -> None:
        require(kind == MODIFY, f"a {what.replace('_', ' ')} is modified: it is always there")
        getattr(self, f"_write_{what}")(message)

    def read(self, what: str, wanted: Any) -> Iterator[Any]:
        yield from getattr(self, f"_read_{what}")(wanted)

    def _cells(self, described: Any, wanted: Any) -> range:
        """One cell, or all where no index is given."""
        if not wanted.HasField("index"):
            return range(described.size)
        index = wanted.index.index
        if not 0 <= index < described.size:
            raise P4RuntimeError(OUT_OF_RANGE, f"{described.preamble.name} has {described.size} cells, no cell {index}")
        return range(index, index + 1)

    # --- counters

    def _write_counter_entry(self, message: Any) -> None:
        counter = self.pipeline.get("counters", message.counter_id)
        check_counts(message.data)
        for cell in self._cells(counter, message):
            self.pipeline.run("counter_write", counter.preamble.name, cell, message.data.packet_count, message.data.byte_count)

    def _read_counter_entry(self, wanted: Any) -> Iterator[Any]:
        for counter in self.pipeline.chosen("counters", wanted.counter_id):
            for cell in self._cells(counter, wanted):
                made = p4runtime_pb2.CounterEntry(counter_id=counter.preamble.id)
                made.index.index = cell
                made.data.CopyFrom(counted(self.pipeline.run("counter_read", counter.preamble.name, cell)))
                yield made

    def _write_direct_counter_entry(self, message: Any) -> None:
        table, entry = self.tables.find(message.table_entry)
        require(self.tables.counter_of(table) is not None, f"table {table.preamble.name} has no direct counter")
        self.tables.write_counter(table, entry, message.data)

    def _read_direct_counter_entry(self, wanted: Any) -> Iterator[Any]:
        asked = p4runtime_pb2.TableEntry()
        asked.CopyFrom(wanted.table_entry)
        asked.counter_data.SetInParent()
        for found in self.tables.read(asked):
            if found.HasField("counter_data"):
                made = p4runtime_pb2.DirectCounterEntry(data=found.counter_data)
                made.table_entry.table_id, made.table_entry.priority = found.table_id, found.priority
                made.table_entry.match.extend(found.match)
                yield made

    # --- meters

    def _write_meter_entry(self, message: Any) -> None:
        meter = self.pipeline.get("meters", message.meter_id)
        require(message.HasField("config"), "a meter's rates cannot be taken away: give it some")
        for cell in self._cells(meter, message):
            self.pipeline.run("meter_set_rates", meter.preamble.name, cell, *rates(message.config))

    def _read_meter_entry(self, wanted: Any) -> Iterator[Any]:
        for meter in self.pipeline.chosen("meters", wanted.meter_id):
            for cell in self._cells(meter, wanted):
                made = p4runtime_pb2.MeterEntry(meter_id=meter.preamble.id)
                made.index.index = cell
                lines = self.pipeline.run("meter_get_rates", meter.preamble.name, cell).splitlines()
                if lines:
                    (made.config.cir, made.config.cburst), (made.config.pir, made.config.pburst) = map(_rate, lines)
                yield made

    def _write_direct_meter_entry(self, message: Any) -> None:
        table, entry = self.tables.find(message.table_entry)
        require(self.tables.meter_of(table) is not None, f"table {table.preamble.name} has no direct meter")
        require(message.HasField("config"), "a meter's rates cannot be taken away: give it some")
        self.tables.write_meter(table, entry, message.config)

    def _read_direct_meter_entry(self, wanted: Any) -> Iterator[Any]:
        raise unimplemented("direct meters cannot be read")
        yield

    # --- registers

    def _write_register_entry(self, message: Any) -> None:
        register = self.pipeline.get("registers", message.register_id)
        width, signed = _width(register)
        require(message.data.WhichOneof("data") == "bitstring", f"a cell of {register.preamble.name} is a bitstring")
        value = decode(message.data.bitstring, width, f"a cell of {register.preamble.name}")
        for cell in self._cells(register, message):
            negative = signed and value >> (width - 1)
            self.pipeline.run("register_write", register.preamble.name, cell, value - (1 << width) if negative else value)

    def _read_register_entry(self, wanted: Any) -> Iterator[Any]:
        for register in self.pipeline.chosen("registers", wanted.register_id):
            _width(register)
            cells = self._cells(register, wanted)
            name, control = register.preamble.name, self.pipeline.control
            values = control.registers(name) if len(cells) > 1 else [control.register(name, cell) for cell in cells]
            for cell, value in zip(cells, values, strict=True):
                made = p4runtime_pb2.RegisterEntry(register_id=register.preamble.id)
                made.index.index = cell
                made.data.bitstring = encode(value)
                yield made

    # --- value sets

    def _write_value_set_entry(self, message: Any) -> None:
        described = self.pipeline.get("value_sets", message.value_set_id)
        name = described.preamble.name
        require(len(message.members) <= described.size, f"{name} has room for {described.size} values")
        values = [self._value(described, member) for member in message.members]
        self.pipeline.run("pvs_clear", name)
        for value in values:
            self.pipeline.run("pvs_add", name, value)
        self.values[message.value_set_id] = list(message.members)

    def _value(self, described: Any, member: Any) -> int:
        given = {match.field_id: match for match in member.match}
        known = {f.id for f in described.match}
        require(
            len(given) == len(member.match) == len(known & given.keys()),
            f"a value of {described.preamble.name} has each field once",
        )
        value = 0
        for f in described.match:
            what = f"field {f.name or f.id} of a value of {described.preamble.name}"
            require(f.id in given and given[f.id].WhichOneof("field_match_type") == "exact", f"{what} is missing, or not exact")
            value = value << f.bitwidth | decode(given[f.id].exact.value, f.bitwidth, what)
        return value

    def _read_value_set_entry(self, wanted: Any) -> Iterator[Any]:
        for described in self.pipeline.chosen("value_sets", wanted.value_set_id):
            made = p4runtime_pb2.ValueSetEntry(value_set_id=described.preamble.id)
            made.members.extend(self.values.get(described.preamble.id, []))
            yield made


def _rate(line: str) -> tuple[int, int]:
    """`0: info rate = 0.5, burst size = 1` in units a second."""
    rate, burst = (part.rpartition("=")[2] for part in line.split(", "))
    return round(float(rate) * 1e6), int(burst)


def _width(register: Any) -> tuple[int, bool]:
    kind = register.type_spec.bitstring.WhichOneof("type_spec")
    if kind not in ("bit", "int"):
        raise unimplemented(f"register {register.preamble.name} of another type than bit<W> or int<W>")
    return getattr(register.type_spec.bitstring, kind).bitwidth, kind == "int"
