"""The faults of a trial (testbed.plan.faults) when their time comes: what is done about each, whatever the target is."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from inalab.switches.control import Control
from inalab.switches.disorder import HOLD, Disorder, set_disorder
from inalab.switches.loss import DIRECTIONS, Loss, link_seed, prepare_loss, switch_loss
from inalab.testbed.plan.faults import DISORDER, Fault
from inalab.testbed.plan.rates import Change, checked
from inalab.testbed.trial.errors import TrialError
from inalab.topologies.plan import LinkPlan, NetworkPlan


class Nodes(Protocol):
    """A trial's nodes, by their names: what is done to their processes, and what else a target does in its own way."""

    def kill(self, node: str) -> None: ...

    def stop(self, node: str) -> None: ...

    def go_on(self, node: str) -> None: ...

    def restart(self, node: str) -> None: ...

    def come_back(self, node: str) -> None:
        """A switch that has restarted admits jobs."""
        ...

    def cut(self, node: str, on: bool) -> None:
        """Whether the management network reaches it."""
        ...

    def set_rate(self, link: LinkPlan, rate: float | None) -> None:
        """Of a link, in Mbit/s."""
        ...


@dataclass
class Happened:
    """A fault as it has happened: when it began and ended, in seconds since the start."""

    fault: Fault
    begun: float
    ended: float | None = None

    def recorded(self) -> dict[str, Any]:
        """As trials.jsonl has it."""
        kept = {name: value for name, value in self.fault.model_dump().items() if value is not None}
        return kept | {"begun": self.begun} | ({"ended": self.ended} if self.ended is not None else {})


class Injection:
    """The schedule of a trial that starts at `started`, of the clock that `look` gets its times of."""

    def __init__(
        self, faults: Sequence[Fault], plan: NetworkPlan, seed: int, started: float, controls: Mapping[str, Control],
        nodes: Nodes, changes: Iterable[Change] = (),
    ) -> None:  # fmt: skip
        """`changes` are of links' rates; some may remain when the training ends."""
        self.faults, self.plan, self.seed, self.started = faults, plan, seed, started
        self.controls, self.nodes = controls, nodes
        self.order = itertools.count()
        self.due: list[tuple[float, int, Callable[[float], None]]] = []
        self.of_step = [fault for fault in faults if fault.step is not None]
        self.happened: list[Happened] = []
        self.changes, self.changed = checked(changes, plan.links), 0  # those that come, and how many have
        for fault in faults:
            if fault.at is not None:
                self._plan(started + fault.at, fault)
        self._plan_change()

    def next(self) -> float:
        """When the next one is due; infinite where none is."""
        return self.due[0][0] if self.due else float("inf")

    def look(self, now: float, ended: int) -> None:
        """Do what is due; workers have `ended` the step of this number (-1: none). ControlError where a switch refuses it."""
        if now < self.started:
            return
        for fault in [fault for fault in self.of_step if fault.step is not None and ended + 2 >= fault.step]:
            self.of_step.remove(fault)
            self._plan(now, fault)
        while self.due and self.due[0][0] <= now:
            heapq.heappop(self.due)[2](now)

    def unfinished(self) -> str:
        """The first fault that has not happened to its end; empty if all have."""
        left = [fault for fault in self.faults if all(h.fault is not fault for h in self.happened)]
        left += [h.fault for h in self.happened if h.fault.lasts is not None and h.ended is None]
        return str(left[0]) if left else ""

    def _plan(self, at: float, fault: Fault) -> None:
        heapq.heappush(self.due, (at, next(self.order), lambda now: self._begin(fault, now)))

    def _plan_change(self) -> None:
        try:
            if (found := next(self.changes, None)) is None:
                return
        except (Exception, SystemExit) as error:  # of a schedule in somebody's file
            raise TrialError(str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}") from None
        at, link, rate = found

        def change(now: float) -> None:
            self.nodes.set_rate(link, rate)
            self.changed += 1
            self._plan_change()

        heapq.heappush(self.due, (self.started + at, next(self.order), change))

    def _begin(self, fault: Fault, now: float) -> None:
        self.happened.append(happened := Happened(fault, now - self.started))
        self._do(fault)
        if fault.lasts is not None:
            heapq.heappush(self.due, (now + fault.lasts, next(self.order), lambda now: self._end(happened, now)))

    def _do(self, fault: Fault) -> None:
        match fault.what:
            case "die":
                self.nodes.kill(fault.whom)
            case "hang":
                self.nodes.stop(fault.whom)
            case "restart":
                self.nodes.restart(fault.whom)
                self._lose_again(fault.whom)
                if fault.whom in self.plan.switches and fault.lasts is None:
                    self.nodes.come_back(fault.whom)
            case "down":
                self._lose(fault.whom, Loss(good=1.0))
            case "cut":
                self.nodes.cut(fault.whom, True)
            case "rate":
                self.nodes.set_rate(self._link(fault.whom), fault.value)
            case "loss":
                self._lose(fault.whom, Loss.bernoulli(fault.value or 0.0))
            case what if what in DISORDER:
                self._disturb(fault.whom)

    def _end(self, happened: Happened, now: float) -> None:
        happened.ended = now - self.started
        whom = happened.fault.whom
        match happened.fault.what:
            case "hang":
                self.nodes.go_on(whom)
            case "restart":
                self.nodes.come_back(whom)
            case "cut":
                self.nodes.cut(whom, False)
            case "rate":
                self.nodes.set_rate(self._link(whom), self._link(whom).rate)
            case "down" | "loss":
                self._lose(whom, None)
            case what if what in DISORDER:
                self._disturb(whom)

    def _link(self, name: str) -> LinkPlan:
        return next(link for link in self.plan.links if link.name == name)

    def _lose_again(self, switch: str) -> None:
        """A switch that has restarted has links that are to lose packets."""
        for happened in self.happened:
            fault = happened.fault
            if happened.ended is None and fault.what in ("down", "loss", *DISORDER) and self._link(fault.whom).upper == switch:
                self._do(fault)

    def _disturb(self, name: str) -> None:
        """Have the switch at a link's upper end do to its packets what has begun and not ended."""
        link = self._link(name)
        under_way = [h.fault for h in self.happened if h.fault.whom == name and h.fault.what in DISORDER and h.ended is None]
        values = {fault.what: fault.value or 0.0 for fault in under_way}
        if (control := self.controls.get(link.upper)) is not None:
            for line in set_disorder(link.upper_port, Disorder(hold=HOLD, **values), self.seed, link.number):
                control.command(line)

    def _lose(self, name: str, loss: Loss | None) -> None:
        """Have the switch at a link's upper end lose its packets, or no more."""
        link = self._link(name)
        if (control := self.controls.get(link.upper)) is None:
            return  # it has died: nothing crosses it anyway
        for direction in range(len(DIRECTIONS)):
            if loss is not None:
                for line in prepare_loss(direction, link.upper_port, loss, link_seed(self.seed, link.number, direction)):
                    control.command(line)
        for direction in range(len(DIRECTIONS)):
            control.command(switch_loss(direction, link.upper_port, loss is not None))
