"""A member of a job whose members change: it trains in one generation after another, and no step is applied by some alone.

A generation is a set of members, with a part of the switches of its own. When a member is lost, or one comes, all others are
halted: what is under way is given up. Then the next generation is joined. All have to have the same sums before it goes on:

- A sum that some have and some lack is taken from one of those who have it. In a step no worker is ahead of another by more than
  one sum, because every sum needs all of them.
- A newcomer takes the model, the optimizer's momenta and the random state from a member that has them.

Both cross the data network as a sum to which one member gives the bits, as int32, and all others give zeros. So every scheme that
sums can do it, it is exact, and it is as fast as a sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from inalab.hosts.collective import AggregationError, Collective, Counters
from inalab.hosts.drivers.driver import Driver, Processor, Signal
from inalab.hosts.in_turn import InTurn
from inalab.hosts.messages import NOTHING, Done, FromWorker, Halt, Halted, Hello, Join, Joined, Leave, Order, Step
from inalab.hosts.place import Place
from inalab.hosts.training.checkpoint import Checkpoint
from inalab.hosts.training.trainer import Trainer, _Step

JOB = 0  # by number: a network has one whose members change
LOOK = 0.02  # seconds between two looks at whether a member that sleeps is halted
ENDING = 5.0  # seconds that what is under way may take to end, once it is given up


class Orders:
    """The coordinator's orders to a member. Who receives them calls `take`; the member waits for the `next`."""

    def __init__(self, driver: Driver) -> None:
        self.waiting = deque[Order]()
        self.came: Signal = driver.signal()
        self.halt: Halt | None = None  # the last
        self.sums: InTurn | None = None  # which it gives up

    def take(self, order: Order) -> None:
        """One has come."""
        if isinstance(order, Halt):
            self.halt = order
            if self.sums is not None:
                self.sums.give_up(order.reason)
        self.waiting.append(order)
        self.came.set()

    def next(self) -> Order:
        """The next one, as soon as it is there."""
        self.came.take()
        return self.waiting.popleft()

    def reason(self, generation: int) -> str:
        """Why this generation is to be given up; empty if it is not."""
        return self.halt.reason if self.halt is not None and self.halt.generation >= generation else ""


@dataclass
class _Generation:
    """The one that a member is in."""

    number: int
    place: Place
    sums: InTurn
    collective: Collective
    begun: float | None = None  # when the sum under way was


class ElasticTrainer(Trainer):
    """Trains for as long as it has orders."""

    def serve(
        self, orders: Orders, place_of: Callable[[Join], Place], newcomer: bool = False, checkpoint: Checkpoint | None = None
    ) -> Iterator[FromWorker]:
        """What is to be told the coordinator, until it says to leave. `place_of` is the place that an order names. A newcomer goes
        on from the checkpoint, where there is to be one."""
        self.orders, self.place_of, self.checkpoint = orders, place_of, checkpoint
        self.had = NOTHING if newcomer else 0  # steps whose sums this member has
        self.last: tuple[torch.Tensor, int] | None = None  # the last of these sums, and how many gave to it
        self.spent = Counters()  # in the generations before
        self.now: _Generation | None = None
        halted: set[int] = set()  # generations in which this member does nothing more
        with self.driver.processor() as processor:
            processor.submit(torch.set_num_threads, 1).result()
            self.processor = processor
            self._warm_up(processor)
            if newcomer and checkpoint is not None:
                state, self.had = checkpoint.load() or (None, 0)
                if state is not None:
                    self.replica.restore(state)
            yield Hello(JOB, self.rank, self.elements, self.replica.data.sha256, self.had)
            while not isinstance(order := orders.next(), Leave):
                if isinstance(order, Join):
                    number = order.generation
                    try:
                        yield from self._take_part(order, processor)
                    except AggregationError as error:
                        halted.add(number)
                        yield Halted(self.rank, number, self.had, orders.reason(number) or str(error), error.missing)
                elif order.generation not in halted:  # it waits already
                    halted.add(order.generation)
                    yield Halted(self.rank, order.generation, self.had, order.reason)
                    self._leave()
            self._leave()

    def _take_part(self, order: Join, processor: Processor) -> Iterator[FromWorker]:
        """In a generation, to the training's end. Raises AggregationError where it is given up."""
        self._leave()
        self._refuse_halted(order.generation)
        place = self.place_of(order)
        collective = place.scheme.join(place, order.epoch, self._reason)
        sums = InTurn(collective, self.driver)
        now = self.now = _Generation(order.generation, place, sums, collective)
        self.replica.workers, (self.evaluator,) = place.membership.size, place.membership.names([0])
        sums.begin()
        self.orders.sums = sums
        try:
            self._refuse_halted(now.number)
            self._heal(order, place.membership.rank)
            yield Joined(self.rank, now.number)
            self.began = order.at
            self._sleep(order.at)
            yield from self._steps_from(self.had, processor, self._begin, self._counters)
            processor.submit(self.replica.update).result()
            yield Done(self.rank, self.digest(), self.counted, [])
        except AggregationError:
            sums.give_up("it takes part no more")
            if self.computing is not None:
                with suppress(AggregationError):
                    self.computing.result()  # which may still take the last sum that is there
            self.replica.drop()
            raise

    def _heal(self, order: Join, own: int) -> None:
        """Have what all have."""
        if order.behind:
            self._heal_sum(order, own)
        if order.newcomers:
            state = self.replica.state()
            found = self._given(state if own == order.source else torch.zeros_like(state))
            if own in order.newcomers:
                self.replica.restore(found)
                self.had, self.last = order.steps, None

    def _heal_sum(self, order: Join, own: int) -> None:
        """The last sum, and how many gave to it, which is what its mean is over."""
        bits = torch.zeros(self.elements + 1, dtype=torch.int32)
        if own == order.source:
            assert self.last is not None
            total, workers = self.last
            bits = torch.cat([total.view(torch.int32), torch.tensor([workers], dtype=torch.int32)])
        bits = self._given(bits)
        if own in order.behind:
            self.last = bits[:-1].view(torch.float32).clone(), int(bits[-1])
            self.replica.apply(*self.last)
            self.had += 1

    def _given(self, bits: torch.Tensor) -> torch.Tensor:
        """What the one member gives that gives anything."""
        self._begin(bits).wait()
        return bits

    def _begin(self, *given: Any) -> Any:
        assert self.now is not None
        self.now.begun = self.driver.monotonic()
        return self.now.sums.sum(*given)

    def _concluded(self, step: _Step, counters: Callable[[], Counters]) -> tuple[list[float], Step]:
        found = super()._concluded(step, counters)
        assert self.now is not None
        self.now.begun = None
        self.had, self.last = step.number + 1, (step.exchange.tensors[0].clone(), self.now.place.membership.size)
        m = self.now.place.membership
        ends = self.had == self.settings.steps
        if self.checkpoint is not None and m.rank == 0 and self.had % self.checkpoint.every == 0 and not ends:
            self.processor.submit(self._save, self.had)
        return found[0], replace(found[1], members=tuple(m.names(range(m.size))), scheme=self.now.place.scheme.name)

    def _save(self, steps: int) -> None:
        """The next gradient has been computed just before, and so these steps' sums have been taken, and no more."""
        assert self.checkpoint is not None
        self.checkpoint.save(self.replica.state(), steps)

    def _sleep(self, until: float) -> None:
        """Likewise; a member that is halted wakes up."""
        assert self.now is not None
        while (left := until - self.driver.monotonic()) > 0:
            self._refuse_halted(self.now.number)
            self.driver.sleep(min(left, LOOK))

    def _refuse_halted(self, generation: int) -> None:
        if reason := self.orders.reason(generation):
            raise AggregationError(reason, incomplete=True)

    def _reason(self) -> str | None:
        """Why what is under way is given up: an order, or it has taken too long."""
        now = self.now
        if now is None:
            return None
        patience = now.place.settings.patience
        if now.begun is not None and self.driver.monotonic() - now.begun > patience:
            return f"it was not over after {patience:g} s"
        return self.orders.reason(now.number) or None

    def _counters(self) -> Counters:
        assert self.now is not None
        return self.spent + self.now.collective.counters

    def _leave(self) -> None:
        """The generation that this member is in, if it is in one."""
        self.orders.sums = None
        if self.now is None:
            return
        self.now.sums.end(ENDING)
        self.spent += self.now.collective.counters
        self.now = None
