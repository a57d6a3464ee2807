"""What the collectives of a script used: sums by the scheme, and what was left to Gloo. A process has one tally."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from inalab.hosts.collective import Counters
from inalab.hosts.launch_files import LaunchFiles, own_rank
from inalab.hosts.sampling import Sample


@dataclass
class Tally:
    """Calls, and bytes of the tensors that they were given. Seconds are of each, from the call to its end."""

    sums: int = 0
    sum_bytes: int = 0
    seconds: list[float] = field(default_factory=list)
    copies: int = 0  # all-gathers and broadcasts by the scheme
    copy_bytes: int = 0
    copy_seconds: list[float] = field(default_factory=list)
    gloo_calls: int = 0
    gloo_bytes: int = 0
    gloo_seconds: list[float] = field(default_factory=list)  # of all-reduces alone
    sent: int = 0  # packets with a vector, retransmissions included; or TCP segments
    retransmissions: int = 0
    paced: int = 0  # steps padded to a virtual time (hosts.training.pace)
    late: int = 0  # steps that took longer than that
    samples: list[tuple[int, Sample]] = field(default_factory=list)  # of sums that were drawn, with their numbers

    def summed(self, size: int, seconds: float) -> None:
        """A sum of so many bytes by the scheme."""
        self.sums += 1
        self.sum_bytes += size
        self.seconds.append(seconds)

    def copied(self, size: int, seconds: float) -> None:
        """An all-gather or a broadcast of so many bytes by the scheme."""
        self.copies += 1
        self.copy_bytes += size
        self.copy_seconds.append(seconds)

    def sampled(self, number: int, sample: Sample) -> None:
        """Keep a sample of a sum by the scheme."""
        self.samples.append((number, sample))

    def left_to_gloo(self, tensors: Any) -> None:
        """A call with these tensors, in lists or alone."""
        self.gloo_calls += 1
        self.gloo_bytes += _bytes(tensors)

    def count(self, counters: Counters) -> None:
        """What a group has sent until its end."""
        self.sent += counters.sent
        self.retransmissions += counters.retransmissions

    def add(self, other: Tally) -> None:
        """Another process's."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @classmethod
    def loads(cls, text: str) -> Tally:
        """The one that a process has left."""
        found = json.loads(text)
        samples = [(number, Sample(**sample)) for number, sample in found.pop("samples", [])]
        return cls(**found, samples=samples)

    def leave(self) -> None:
        """Leave it for the launcher, where there is one."""
        notes = LaunchFiles.from_environment()
        if notes.folder.is_dir():
            notes.leave_tally(own_rank(), json.dumps(asdict(self)))


def _bytes(tensors: Any) -> int:
    if isinstance(tensors, list | tuple):
        return sum(map(_bytes, tensors))
    return int(tensors.numel() * tensors.element_size())


tally = Tally()
