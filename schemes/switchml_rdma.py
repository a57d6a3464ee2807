"""SwitchML's in-switch RDMA (NSDI '21): workers write messages of several packets to the switches, which write the sums back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from inalab.hosts.collective import Collective, Membership, Operation
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.drivers.verbs import VerbsDriver, machine_network
from inalab.hosts.place import Place, Pulse
from inalab.hosts.roce import wire as roce
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.rdma import SwitchMLRdma
from inalab.schemes import switchml as over_udp
from inalab.schemes.scheme import Admitted, Conditions, Look, Simulation, one_of
from inalab.schemes.streaming import P4, StreamSettings
from inalab.switches import switchml
from inalab.switches.commands import Commands
from inalab.switches.control import Control
from inalab.topologies.plan import NetworkPlan

KERNEL = "kernel"
INTERFACES = ("own", KERNEL)
MESSAGES = (1, 2, 4, 8, 16)
MTUS = (256, 512, 1024, 2048, 4096)  # that InfiniBand has, in bytes
SHORT = wire.STATUS.itemsize  # bytes of a message without a vector


class Settings(StreamSettings):
    """A queue pair is a slot of as many of the pool's as a message has packets."""

    message: int = Field(4, description="packets of a message: 1, 2, 4, 8 or 16")
    queue_pairs: int | None = Field(
        None,
        ge=1,
        description="messages under way, each with a queue pair, whatever slots is; unless set, slots ÷ message",
    )

    roce: Annotated[str, one_of(*INTERFACES)] = Field(
        "own", description="who makes packets of messages: own, the workers' processes; or kernel, Linux's Soft-RoCE"
    )

    @model_validator(mode="before")
    @classmethod
    def _slots(cls, values: Any) -> Any:
        """Slots are what all queue pairs have; what is no number or no size is refused as it is."""
        if not isinstance(values, dict):
            return values
        message, pairs, slots = (values.get(n, cls.model_fields[n].default) for n in ("message", "queue_pairs", "slots"))
        try:
            message, slots, pairs = int(message), int(slots), None if pairs is None else int(pairs)
        except (TypeError, ValueError):
            return values
        if message not in MESSAGES or slots < 1 or (pairs is not None and pairs < 1):
            return values
        return values | {"slots": message * (pairs or max(1, slots // message))}

    @field_validator("message")
    @classmethod
    def _a_power(cls, message: int) -> int:
        if message not in MESSAGES:
            raise ValueError(f"choose one of {', '.join(map(str, MESSAGES))}")
        return message

    @model_validator(mode="after")
    def _mtu(self) -> Settings:
        if (self.message > 1 or self.roce == KERNEL) and 4 * self.k not in MTUS:
            sizes = ", ".join(map(str, MTUS[:3]))
            raise ValueError(f"messages of several packets, and the kernel's, have packets of {sizes} bytes: set k to 64 or 256")
        return self

    @property
    def pairs(self) -> int:
        return self.slots // self.message


class SwitchMLRdmaScheme(over_udp.SwitchMLScheme):
    """As SwitchML over UDP, but that the unit of what hosts handle, and of recovery, is a message."""

    name = "switchml-rdma"
    look = Look("SwitchML, RDMA", "#1d6a99", "h")
    Settings = Settings
    operations = (Operation.SUM,)
    program = P4 / "switchml_rdma.p4"
    simulation, unsimulated = Simulation.QUEUE_PAIRS, ("roce",)
    header, short = roce.message_bytes(SHORT, SHORT), roce.message_bits_on_wire(SHORT, SHORT)
    smallest = 2.0**-62
    copies = "roce_sender.sent"

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        super().check(jobs, plan)
        for job in jobs:
            for name in plan.switches:
                if (children := len(job.plan.children(plan, name))) > switchml.PARENT:
                    raise ValueError(f"switch {name} has {children} children: over RDMA it has queue pairs for {switchml.PARENT}")

    def operations_in(self, membership: Membership) -> tuple[Operation, ...]:
        return self.operations

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        s, m = place.settings, place.membership
        local, switch = (place.peers[m.rank], place.port or roce.UDP_PORT), (place.switches[m.rack], roce.UDP_PORT)
        by_kernel = s.roce == KERNEL
        core = SwitchMLRdma(m, epoch, s.pairs, s.message, s.k, (local, switch), s.patience, s.scaling, own_packets=not by_kernel)
        driver = VerbsDriver(core, machine_network()) if by_kernel else place.driver
        return StreamDriver(core, driver, local, [switch], pulse)

    def elastic(self, settings: Any) -> bool:
        return bool(settings.roce != KERNEL) and super().elastic(settings)

    def of_machine(self, settings: Any) -> bool:
        return bool(settings.roce == KERNEL)

    # --- switches

    def configure(
        self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions
    ) -> None:  # fmt: skip
        switchml.configure_roce(commands, plan.switches[name].station)

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        self.configure(commands, plan, name, jobs, conditions)
        super().commands(commands, plan, name, jobs, conditions)

    def message(self, settings: Any) -> int | None:
        return int(settings.message)

    def most_jobs(self, settings: Any) -> int:
        return 0 if settings.roce == KERNEL else super().most_jobs(settings)

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """And packets that RoCE refuses, by reason (p4/include/switchml/roce_receiver.p4)."""
        return super().counted(control, plan, name, jobs) | {"refused": switchml.refused_by_roce(control)}

    # --- theory

    def bits_on_wire(self, k: int) -> int:
        """Of the longest packet: a message's first, without the parts of it that all share."""
        return roce.message_bits_on_wire(4 * k, 4 * k)

    def packets(self, settings: Any, elements: int) -> int:
        """Of messages, and a window of exponents before them."""
        return int(settings.message) * self._messages(settings, elements) + self._bare(settings, elements)

    def _messages(self, settings: Any, elements: int) -> int:
        return -(-elements // int(settings.k * settings.message))

    def _bare(self, settings: Any, elements: int) -> int:
        return min(settings.pairs, self._messages(settings, elements)) if settings.scaling is None else 0

    def on_wire(self, settings: Any, elements: int) -> int:
        message = roce.message_bits_on_wire(4 * settings.k * settings.message, 4 * settings.k)
        return self._messages(settings, elements) * message + self._bare(settings, elements) * self.short


SCHEME = SwitchMLRdmaScheme()
