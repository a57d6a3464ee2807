"""How trials are run: one loop for `inalab run` and for campaigns, on whatever machines there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from inalab.hosts.messages import Message
from inalab.testbed.campaign.machines import Event, Gone, Heard, Machines, Noted, Task
from inalab.testbed.campaign.schedule import Schedule, Work

LOOKS = 0.5  # seconds between two looks whether to stop
SHOWN = 1.0  # seconds between two calls of Book.show


class Book(Protocol):
    """Who keeps what comes of the trials, and tells of it."""

    def begin(self, slot: str, work: Work) -> None:
        """A trial is about to begin."""
        ...

    def hear(self, slot: str, message: Message) -> None:
        """The trial on this slot reports something."""
        ...

    def keep(self, slot: str, work: Work, result: dict[str, Any]) -> None:
        """A trial has ended with this result."""
        ...

    def fail(self, slot: str, work: Work, why: str) -> None:
        """A trial has ended without one."""
        ...

    def tell(self, sentence: str) -> None:
        """Something has happened to the machines."""
        ...

    def show(self, schedule: Schedule, slots: int) -> None:
        """How far the trials are, about once a second, and once more at the end, when no slots are left."""
        ...


def conduct(
    schedule: Schedule,
    tasks: Mapping[str, Task],
    machines: Machines,
    book: Book,
    stop: Callable[[], bool] = lambda: False,
    whole: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Run what is scheduled; `tasks` are the trials by identity. A trial that fails does not end the others.

    Raises KeyboardInterrupt where `stop` says so. What has ended is kept with `whole` around it, so that nothing is lost then.
    Whatever ends this, what was kept stays, and no trial goes on.
    """
    lonely, shown = False, 0.0
    try:
        while schedule.left:
            if stop():
                raise KeyboardInterrupt
            slots = machines.slots()
            for slot in (slot for slot in slots if slot not in schedule.running):
                if (work := schedule.next_for(slot)) is not None:
                    book.begin(slot, work)
                    machines.start(slot, tasks[work.identity])
            if not slots and not lonely:
                book.tell("no machine is there: waiting for one")
            lonely = not slots
            events = machines.news(LOOKS)
            with whole():
                for event in events:
                    _note(event, schedule, book)
            if time.monotonic() - shown > SHOWN:
                shown = time.monotonic()
                book.show(schedule, len(slots))
    finally:
        machines.stop()
        schedule.running.clear()
        book.show(schedule, 0)


def _note(event: Event, schedule: Schedule, book: Book) -> None:
    if isinstance(event, Heard):
        book.hear(event.slot, event.message)
    elif isinstance(event, Noted):
        book.tell(event.sentence)
    elif isinstance(event, Gone):
        _gone(event.slot, schedule, book)
    elif event.failure:
        book.fail(event.slot, schedule.ended(event.slot), event.failure)
    else:
        book.keep(event.slot, schedule.ended(event.slot), event.result)


def _gone(slot: str, schedule: Schedule, book: Book) -> None:
    under_way, given_up = schedule.running.get(slot), schedule.gone(slot)
    again = f", and {under_way.name} runs elsewhere" if under_way and not given_up else ""
    book.tell(f"{slot} is gone{again}")
    if given_up:
        book.fail(slot, given_up, "every machine that ran it was lost")
