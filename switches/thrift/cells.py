"""Counters, meters, registers, value sets and custom hashes: calls of service `standard`."""

from __future__ import annotations

import re
from typing import Any

from . import errors
from .binding import TYPES
from .switch import Switch, word

MOST = (1 << 63) - 1  # that a register's cell is told to have


def counted(answer: str) -> Any:
    """What counter_read says."""
    found = re.search(r"packets=(\d+), bytes=(\d+)", answer)
    assert found, answer
    return TYPES["BmCounterValue"](bytes=int(found[2]), packets=int(found[1]))


def rates_words(rates: list[Any]) -> list[str]:
    """A meter's rates in the words of commands: units a microsecond, and units."""
    return [f"{one.units_per_micros!r}:{one.burst_size}" for one in rates]


def rates_of(answer: str) -> list[Any]:
    """What meter_get_rates says; nothing for a meter that has none yet."""
    found = re.findall(r"rate = (\S+), burst size = (\d+)", answer)
    return [TYPES["BmMeterRateConfig"](float(rate), int(burst)) for rate, burst in found]


def _told(cell: str) -> int:
    """What a client sees of a cell: BMv2 shows the greatest number that Thrift has, of 63 bits, for all that are greater."""
    return min(int(cell), MOST)


class Cells:
    """The calls, by their names; `_` is the context, of which there is one."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def _counter(self, command: str, name: str, *words: Any) -> str:
        self.switch.require("counter", name, "InvalidCounterOperation", "INVALID_COUNTER_NAME")
        return self.switch.run("InvalidCounterOperation", command, name, *words)

    def _meter(self, command: str, name: str, *words: Any) -> str:
        self.switch.require("meter", name, "InvalidMeterOperation", "INVALID_METER_NAME")
        return self.switch.run("InvalidMeterOperation", command, name, *words)

    def _register(self, command: str, name: str, *words: Any) -> str:
        self.switch.require("register", name, "InvalidRegisterOperation", "INVALID_REGISTER_NAME")
        return self.switch.run("InvalidRegisterOperation", command, name, *words)

    def _value_set(self, command: str, name: str, *words: Any) -> str:
        self.switch.require("value_set", name, "InvalidParseVSetOperation", "INVALID_PARSE_VSET_NAME")
        return self.switch.run("InvalidParseVSetOperation", command, name, *words)

    # --- counters

    def bm_counter_read(self, _: int, name: str, index: int) -> Any:
        return counted(self._counter("counter_read", name, index))

    def bm_counter_reset_all(self, _: int, name: str) -> None:
        self._counter("counter_reset", name)

    def bm_counter_write(self, _: int, name: str, index: int, value: Any) -> None:
        self._counter("counter_write", name, index, value.packets, value.bytes)

    # --- meters

    def bm_meter_array_set_rates(self, _: int, name: str, rates: list[Any]) -> None:
        self._meter("meter_array_set_rates", name, *rates_words(rates))

    def bm_meter_set_rates(self, _: int, name: str, index: int, rates: list[Any]) -> None:
        self._meter("meter_set_rates", name, index, *rates_words(rates))

    def bm_meter_get_rates(self, _: int, name: str, index: int) -> list[Any]:
        return rates_of(self._meter("meter_get_rates", name, index))

    # --- registers

    def bm_register_read(self, _: int, name: str, index: int) -> int:
        return _told(self._register("register_read", name, index).rpartition("=")[2])

    def bm_register_read_all(self, _: int, name: str) -> list[int]:
        cells = self._register("register_read", name).rpartition("=")[2]
        return [_told(one) for one in cells.split(",")]

    def bm_register_write(self, _: int, name: str, index: int, value: int) -> None:
        self._register("register_write", name, index, value)

    def bm_register_write_range(self, _: int, name: str, first: int, end: int, value: int) -> None:
        self._register("register_write_range", name, first, end, value)

    def bm_register_reset(self, _: int, name: str) -> None:
        self._register("register_reset", name)

    # --- value sets

    def bm_parse_vset_add(self, _: int, name: str, value: bytes) -> None:
        self._value_set("pvs_add", name, word(value))

    def bm_parse_vset_remove(self, _: int, name: str, value: bytes) -> None:
        self._value_set("pvs_remove", name, word(value))

    def bm_parse_vset_get(self, _: int, name: str) -> list[bytes]:
        values = self._value_set("pvs_get", name).split()
        bits = next(one.number("bits") for one in self.switch.program.of_kind("value_set") if one.name == name)
        return [int(one).to_bytes((bits + 7) // 8, "big") for one in values]

    def bm_parse_vset_clear(self, _: int, name: str) -> None:
        self._value_set("pvs_clear", name)

    # --- hashes

    def _set_crc(self, bits: int, name: str, config: Any) -> None:
        numbers = [config.polynomial, config.initial_remainder, config.final_xor_value]
        flags = [config.data_reflected, config.remainder_reflected]
        if None in numbers + flags:
            raise errors.error("InvalidCrcOperation", "INVALID_CONFIG")
        words = [*(hex(one & (1 << bits) - 1) for one in numbers), *flags]
        self.switch.run("InvalidCrcOperation", f"set_crc{bits}_parameters", name, *words)

    def bm_set_crc16_custom_parameters(self, _: int, name: str, config: Any) -> None:
        self._set_crc(16, name, config)

    def bm_set_crc32_custom_parameters(self, _: int, name: str, config: Any) -> None:
        self._set_crc(32, name, config)

    def bm_set_toeplitz_hash_key(self, _: int, name: str, key: bytes) -> None:
        raise errors.error("InvalidToeplitzHashOperation", "INVALID_CALCULATION_NAME")  # v1model has no such hash
