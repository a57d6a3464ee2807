"""Every command that the switch knows, with words that fit, that nearly fit, and that do not."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from inalab.switches.embedded.compiler import compile_p4
from inalab.switches.embedded.offline import OfflineSwitch
from tests.sanitize.subjects import Subject

KEY = re.compile(r"(\S+)\((exact|lpm|ternary|range|optional), (\d+)\)")
PARAMETER = re.compile(r"(\S+)\((\d+)\)")
NUMBERS = [0, 1, 2, 3, 5, 7, 63, 64, 255, 256, 511, 512, 32767, 32768, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64]
TABLE_COMMANDS = ["table_reset_default", "table_num_entries", "table_dump", "table_info", "table_clear"]
GARBAGE = ["", "-1", "0x", "1/33", "1/0", "0&&&0", "1&&&", "->", "5->3", "=>", "|", "#", "%s%n", "10.0.0.1", "::1", "ff:ff:ff:ff:ff:ff",
           "é", "1.5", "a" * 300, "9" * 400, "0x" + "f" * 400, "nosuch", "\t", "a.b", "."]  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table's key fields (kind, width) and its actions' parameters (widths)."""

    name: str
    keys: list[tuple[str, int]]
    actions: dict[str, list[int]]


@dataclass(frozen=True)
class Words:
    """What the commands of a program may name."""

    tables: list[Table]
    registers: list[str]
    counters: list[str]
    meters: list[str]
    value_sets: list[str]
    hashes: list[str]
    profiles: list[str]


def words_of(subject: Subject, switch: OfflineSwitch) -> Words:
    """The names of what commands can change in a program."""
    tables = []
    for name in switch.command("show_tables").split():
        first, *actions = switch.command(f"table_info {name}").splitlines()
        widths = {line.split()[0]: [int(width) for _, width in PARAMETER.findall(line)] for line in actions}
        tables.append(Table(name, [(kind, int(width)) for _, kind, width in KEY.findall(first)], widths))
    c = compile_p4(subject.program, subject.defines)
    arrays = dict(re.findall(r"(program_registers|program_counters|program_meters)\[\] = (.*)", c))
    names = {array: re.findall(r'\{"([^"]+)"', text) for array, text in arrays.items()}
    meters = names["program_meters"] + re.findall(r'\.meter_name = "([^"]+)"', c)
    sets, hashes = (re.findall(rf'static struct {kind} \S+ = \{{"([^"]+)"', c) for kind in ("value_set", "crc"))
    profiles = re.findall(r'static struct action_profile \S+ = \{\.name = "([^"]+)"', c)
    return Words(tables, names["program_registers"], names["program_counters"], meters, sets, hashes, profiles)


class Commands:
    """Draws commands for a program."""

    def __init__(self, rng: random.Random, words: Words, recorded: list[str]) -> None:
        self.rng, self.words, self.recorded = rng, words, recorded
        self.nodes = 0  # multicast nodes made since the last reset_state

    def draw(self) -> str:
        """One command: mostly of known words, sometimes with one that is wrong, missing or too much."""
        rng = self.rng
        if self.recorded and rng.random() < 0.1:
            line = rng.choice(self.recorded)
        else:
            line = " ".join(map(str, rng.choice(self.kinds)(self)))
        if rng.random() < 0.2:
            parts = line.split(" ")
            at = rng.randrange(len(parts))
            parts[at : at + rng.randrange(3)] = [rng.choice(GARBAGE)] * rng.randrange(3)
            line = " ".join(parts)
        return line

    def number(self, most: int = 70_000) -> int:
        """Mostly within 0 … most, and mostly small."""
        return self.rng.choice(NUMBERS) if self.rng.random() < 0.15 else self.rng.randrange(self.rng.choice([4, 16, most]))

    def value(self, width: int) -> str:
        bits = self.rng.getrandbits(self.rng.choice([3, 8, width]))
        bits &= (1 << width) - 1 if self.rng.random() < 0.97 else -1
        return str(bits) if self.rng.random() < 0.5 else hex(bits)

    def field(self, kind: str, width: int) -> str:
        if kind == "lpm":
            return f"{self.value(width)}/{self.rng.randrange(width + 1)}"
        if kind in ("ternary", "optional"):
            return f"{self.value(width)}&&&{self.value(width)}" if self.rng.random() < 0.8 else self.value(width)
        if kind == "range":
            ends = sorted((self.value(width), self.value(width)), key=lambda text: int(text, 0))
            return f"{ends[0]}->{ends[1]}"
        return self.value(width)

    def _table(self) -> Table:
        return self.rng.choice(self.words.tables) if self.words.tables else Table("nosuch", [], {"nosuch": []})

    def _action(self, table: Table) -> tuple[str, list[str]]:
        name = self.rng.choice([*table.actions])
        return name, [self.value(width) for width in table.actions[name]]

    def table_add(self) -> list[object]:
        table = self._table()
        action, data = self._action(table)
        priority = [self.number()] if any(kind in ("ternary", "range", "optional") for kind, _ in table.keys) else []
        return ["table_add", table.name, action, *(self.field(*key) for key in table.keys), "=>", *data, *priority]

    def table_modify(self) -> list[object]:
        table = self._table()
        action, data = self._action(table)
        return ["table_modify", table.name, action, self.number(40), *data]

    def table_set_default(self) -> list[object]:
        table = self._table()
        action, data = self._action(table)
        return ["table_set_default", table.name, action, *data]

    def table_other(self) -> list[object]:
        name = self.rng.choice(
            ["table_reset_default", "table_num_entries", "table_dump", "table_info", "table_delete", "table_clear"]
        )
        return [name, self._table().name, *([self.number(40)] if name == "table_delete" else [])]

    def ageing(self) -> list[object]:
        timeout = [self.number(40), self.number()] if self.rng.random() < 0.7 else []
        return ["table_set_timeout" if timeout else "table_idle", self._table().name, *timeout]

    def meter(self) -> list[object]:
        name = self.rng.choice([*self.words.meters, "nosuch"])
        rates = [f"{self.rng.choice(['0', '0.5', '1e3', '-1', 'inf', self.number()])}:{self.number()}" for _ in range(2)]
        return self.rng.choice(
            [
                ["meter_set_rates", name, self.number(5), *rates],
                ["meter_array_set_rates", name, *rates],
                ["meter_get_rates", name, self.number(5)],
            ]
        )

    def value_set(self) -> list[object]:
        name = self.rng.choice([*self.words.value_sets, "nosuch"])
        return self.rng.choice(
            [
                [self.rng.choice(["pvs_add", "pvs_remove"]), name, self.number()],
                [self.rng.choice(["pvs_get", "pvs_get", "pvs_clear"]), name],
            ]
        )

    def profile(self) -> list[object]:
        """Members and groups, mostly of handles that there may be."""
        name, member, group = self.rng.choice([*self.words.profiles, "nosuch"]), self.rng.randrange(8), self.rng.randrange(4)
        action, data = self._action(self._table())
        return self.rng.choice([["act_prof_create_member", name, action, *data], ["act_prof_create_member", name, action, *data],
                                ["act_prof_modify_member", name, action, member, *data], ["act_prof_delete_member", name, member],
                                ["act_prof_create_group", name], ["act_prof_delete_group", name, group],
                                *[["act_prof_add_member_to_group", name, member, group]] * 4,
                                ["act_prof_remove_member_from_group", name, member, group], ["act_prof_dump", name]])  # fmt: skip

    def reference(self) -> list[object]:
        """Entries and defaults of tables that refer to members and groups."""
        table, to = self._table(), self.rng.randrange(8)
        suffix = self.rng.choice(["", "_with_group"])
        keys = [self.field(*key) for key in table.keys]
        priority = [self.number()] if any(kind in ("ternary", "range", "optional") for kind, _ in table.keys) else []
        return self.rng.choice([*[[f"table_indirect_add{suffix}", table.name, *keys, "=>", to, *priority]] * 4,
                                ["table_indirect_delete", table.name, self.number(40)], ["table_indirect_reset_default", table.name],
                                [f"table_indirect_modify{suffix}", table.name, self.number(40), to],
                                [f"table_indirect_set_default{suffix}", table.name, to], ["table_dump", table.name]])  # fmt: skip

    def custom_hash(self) -> list[object]:
        name, width = self.rng.choice([*self.words.hashes, "nosuch"]), self.rng.choice([16, 32])
        numbers = [hex(self.number()) for _ in range(3)]
        return [f"set_crc{width}_parameters", name, *numbers, *(self.rng.choice(["true", "0", "x"]) for _ in range(2))]

    def digests(self) -> list[object]:
        return ["digests"]

    def register(self) -> list[object]:
        array = self.rng.choice(self.words.registers or ["nosuch"])
        short = array.rpartition(".")[2] if self.rng.random() < 0.3 else array
        value = self.rng.choice([self.number(), self.value(64), f"-{self.number()}", self.value(33)])
        return self.rng.choice([["register_read", short], ["register_read", short, self.number(80)], ["register_reset", short],
                                ["register_write", short, self.number(80), value],
                                ["register_write_range", short, self.number(80), self.number(80), value]])  # fmt: skip

    def counter(self) -> list[object]:
        array = self.rng.choice([*self.words.counters, "hits", "nosuch"])
        return self.rng.choice([["counter_read", array, self.number(80)], ["counter_reset", array]])

    def multicast(self) -> list[object]:
        group = self.rng.choice([5, 5, 5, 5, self.number(8)])  # few, so that groups and nodes meet
        node = self.rng.choice([max(self.nodes - self.rng.randrange(1, 3), 0)] * 3 + [self.number()])
        ports = self.rng.sample(range(9), self.rng.randrange(5))
        line: list[object] = self.rng.choice([
            ["mc_mgrp_create", group], ["mc_mgrp_destroy", group], ["mc_node_create", self.number(), *ports],
            ["mc_node_create", self.number(), *ports], ["mc_node_update", node, *ports], ["mc_node_destroy", node],
            *[["mc_node_associate", group, node]] * 3, *[["mc_node_dissociate", group, node]] * 2, ["mc_dump"],
        ])  # fmt: skip
        self.nodes += line[0] == "mc_node_create"
        return line

    def mirroring(self) -> list[object]:
        session = self.rng.choice([100, 101, 102, self.number(40_000)])
        return self.rng.choice([["mirroring_add", session, self.number(9)], ["mirroring_add_mc", session, self.number(8)],
                                ["mirroring_delete", session]])  # fmt: skip

    def queue(self) -> list[object]:
        port = self.rng.choice([[], [self.rng.randrange(8)], [self.number()]])
        return self.rng.choice([["set_queue_depth", self.rng.choice([0, 1, 2, 64, 129, 4096, 2**20, 2**20 + 1]), *port],
                                ["set_queue_rate", self.rng.choice([0, 0, 5000, 10**6, 10**9, 10**9 + 1]), *port],
                                ["set_queue_bandwidth", self.rng.choice([0, 0, 10**6, 10**12, 10**12 + 1]), *port],
                                ["set_queue_delay", self.rng.choice([0, 0, 1, 200, 60_000_000, 60_000_001]), *port]])  # fmt: skip

    def disorder(self) -> list[object]:
        share = [0, 0, 1 << 30, (1 << 32) - 1, 1 << 32]
        microseconds = [0, 0, 1, 200, 60_000_000, 60_000_001]
        return ["set_disorder", self.rng.randrange(3), self.rng.choice([self.rng.randrange(8), self.number()]), self.number(),
                *self.rng.choices(share, k=2), *self.rng.choices(microseconds, k=2)]  # fmt: skip

    def other(self) -> list[object]:
        if self.rng.random() < 0.02:
            self.nodes = 0
            return ["reset_state"]
        return self.rng.choice([["show_ports"], ["show_tables"], ["show_copies"], ["show_disorder"], ["get_time_elapsed"], ["# remark"],
                                [self.rng.randbytes(self.rng.randrange(40)).decode("latin-1")]])  # fmt: skip

    kinds = (table_add, table_add, table_add, table_modify, table_set_default, table_other, register, counter, multicast, mirroring,
             queue, disorder, ageing, meter, value_set, profile, reference, custom_hash, digests, other)  # fmt: skip
