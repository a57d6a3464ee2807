"""What digests tell, in lists as BMv2's learning engine keeps them: a sample is sent once, until a client acknowledges it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import errors
from .program import FIRST_LIST
from .switch import Switch

HEAD = struct.Struct("<4sQiiQI")  # what it is, device, context, list, buffer, samples
TOPIC, DEVICE, CONTEXT = b"LEA|", 0, 0


@dataclass
class LearnList:
    """The samples of one digest, whose fields have `sizes` in bytes. They wait until they are `most`, or for `patience` seconds.

    `sent` has those of each buffer that are not acknowledged, by their places in it; buffer `number` is not sent yet.
    """

    list_id: int
    sizes: list[int]
    most: int = 16
    patience: float = 1.0  # 0: without end
    began: float = 0.0
    number: int = 0
    sent: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def add(self, values: Iterable[int], now: float) -> list[bytes]:
        """Keep a sample, unless an equal one is not acknowledged yet; the message that it completes, if it does."""
        sample = b"".join(value.to_bytes(size, "big") for value, size in zip(values, self.sizes, strict=True))
        if any(sample in buffer.values() for buffer in self.sent.values()):
            return []
        waiting = self.sent.setdefault(self.number, {})
        if not waiting:
            self.began = now
        waiting[len(waiting)] = sample
        return self.due(now)

    def due(self, now: float) -> list[bytes]:
        """The message that is to be sent now, if there is one."""
        waiting = list(self.sent.get(self.number, {}).values())
        late = self.patience and now >= self.began + self.patience
        if not waiting or (len(waiting) < self.most and not late):
            return []
        head = HEAD.pack(TOPIC, DEVICE, CONTEXT, self.list_id, self.number, len(waiting))
        self.number += 1
        return [head + b"".join(waiting)]

    def acknowledge(self, buffer: int, samples: list[int] | None = None) -> None:
        """Forget some samples of a buffer that was sent, or all; those that there are not are passed over."""
        if buffer >= self.number:
            return
        kept = self.sent.get(buffer, {})
        for place in list(kept) if samples is None else samples:
            kept.pop(place, None)
        if not kept:
            self.sent.pop(buffer, None)

    def reset(self) -> None:
        self.number = 0
        self.sent.clear()


class Learning:
    """The lists of a switch's program, by their names, filled from its command `digests`."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self._lists: dict[str, LearnList] | None = None

    @property
    def lists(self) -> dict[str, LearnList]:
        with self.switch.lock:
            if self._lists is None:
                found = enumerate(self.switch.program.of_kind("digest"), start=FIRST_LIST)
                self._lists = {
                    one.name: LearnList(number, [(width + 7) // 8 for _, width in one.fields()]) for number, one in found
                }
            return self._lists

    def list_of(self, list_id: int) -> LearnList:
        """The list of that number. Raises InvalidLearnOperation."""
        for one in self.lists.values():
            if one.list_id == list_id:
                return one
        raise errors.error("InvalidLearnOperation", "INVALID_LIST_ID")

    def poll(self, now: float) -> list[bytes]:
        """What the switch has to tell now, as messages."""
        if not self.lists:
            return []
        with self.switch.lock:
            messages = []
            for line in self.switch.run(None, "digests").splitlines():
                name, *fields = line.split()
                if name in self.lists:  # the last line may say how many were lost
                    messages += self.lists[name].add([int(one.partition("=")[2]) for one in fields], now)
            return messages + [message for one in self.lists.values() for message in one.due(now)]

    def forget(self) -> None:
        """Drop what the switch has told to nobody."""
        if self.lists:
            self.switch.run(None, "digests")

    def reset(self) -> None:
        with self.switch.lock:
            for one in self.lists.values():
                one.reset()
