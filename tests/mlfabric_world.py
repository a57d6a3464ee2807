"""A model of the network and the hosts of MLfabric, for its scheduler: transfers of random length, deaths, stalls and hangs."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from itertools import count
from typing import Any

from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Drop, Fetch, Pass, Push, Skip

RATE = 1.0
PULSE = 0.5  # seconds between two looks at what is late


class World:
    """Workers, links and a server by rank, which do what the scheduler's actions say; events in a random order of time."""

    def __init__(
        self, n: int, steps: int, seed: int, deaths: int = 0, lateness: float = 0.5, partings: int = 0, hangs: int = 0,
        stalls: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        self.rng, self.n, self.steps, self.lateness, self.options = random.Random(seed), n, steps, lateness, options
        self.schedule = Schedule(Fabric([0] * (n + 2), [RATE] * (n + 2), [0.0]), n, **options)
        self.server = n
        self.now, self.order = 0.0, count()
        self.events: list[tuple[float, int, str, Any]] = []
        self.version, self.next_ticket = 0, 0
        self.arrived: dict[int, list[tuple[int, int, int]]] = {}  # by ticket: worker, number, version
        self.skipped: set[int] = set()
        self.held: dict[int, dict[int, tuple[int, int, int]]] = defaultdict(dict)  # by worker: what it has absorbed
        self.own: dict[int, tuple[int, int, int]] = {}
        self.fetched = dict.fromkeys(range(n), 0)  # versions
        self.fetches = dict.fromkeys(range(n), 0)
        self.least = dict.fromkeys(range(n), 0)
        self.had: dict[int, set[int]] = defaultdict(set)  # numbers of fetches that are over, by worker
        self.sent: set[tuple[int, int]] = set()  # fetches that were answered, perhaps not heard: whose, number
        self.came_at: dict[tuple[int, int], float] = defaultdict(float)  # when the last update from a host came to another
        self.passed = 0
        self.done = dict.fromkeys(range(n), 0)
        self.dead: set[int] = set()
        self.hung: set[int] = set()  # these send and receive nothing any more
        self.stalls = stalls  # the share of transfers that take up to twenty times as long
        self.fate: dict[tuple[int, int], str] = {}
        self.delays: list[int] = []
        self.busy: dict[Any, list[tuple[float, float]]] = defaultdict(list)
        self.into_server = 0
        for worker in range(n):
            self.at(self.rng.random(), "compute", worker)
        self.apart: set[frozenset[int]] = set()
        for _ in range(partings if n > 1 else 0):
            self.at(self.rng.random() * steps * 2, "part", frozenset(self.rng.sample(range(n), 2)))
        for worker in self.rng.sample(range(n), deaths):
            self.at(self.rng.random() * steps * 2, "die", worker)
        for worker in self.rng.sample(range(n), hangs):
            self.at(self.rng.random() * steps * 2, "hang", worker)
        self.at(PULSE, "look", None)

    def at(self, seconds: float, what: str, receipt: Any) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what, receipt))

    def run(self) -> World:
        while self.events:
            self.step()
        return self

    def step(self) -> None:
        """Let the next event happen."""
        self.now, _, what, receipt = heapq.heappop(self.events)
        self.do(getattr(self, what)(receipt) or [])

    def takes(self) -> float:
        """Seconds of a transfer."""
        return 1.0 + self.lateness * self.rng.random() + (20 * self.rng.random() if self.rng.random() < self.stalls else 0.0)

    def do(self, actions: list[Any]) -> None:
        for action in actions:
            match action:
                case Push():
                    assert frozenset((action.worker, action.destination)) not in self.apart
                    parts = [self.own[w] if w == action.worker else self.held[action.worker][w] for w in action.members]
                    last = self.came_at[action.worker, action.destination]
                    takes = max(self.takes(), last - self.now + 1e-6)  # nothing overtakes on a connection
                    self.came_at[action.worker, action.destination] = self.now + takes
                    self.carry(action.worker, action.destination, takes)
                    self.at(takes, "come", (action, parts))
                case Fetch():
                    if action.number == self.fetches[action.worker]:
                        self.send(self.server, action.worker, action.number, self.version)
                case Pass():
                    self.passed += 1
                    assert action.worker != action.destination
                    assert frozenset((action.worker, action.destination)) not in self.apart
                    if action.worker not in self.dead | self.hung:
                        self.send(action.worker, action.destination, action.number, self.fetched[action.worker])
                case Drop():
                    assert self.own[action.worker][:2] not in self.fate
                    self.fate[self.own[action.worker][:2]] = "dropped"
                    self.do(self.fetch(action.worker, self.own[action.worker][2] + 1))
                case Skip():
                    self.at(0.01, "skip", action.ticket)

    def carry(self, source: int, destination: int, takes: float) -> None:
        for link in ((source, "up"), (destination, "down")):
            self.busy[link].append((self.now, self.now + takes))

    def send(self, source: int, worker: int, number: int, version: int) -> None:
        takes = self.takes()
        if (worker, number) not in self.sent:  # else the first one's end ends it, too
            self.carry(source, worker, takes)
        self.sent.add((worker, number))
        self.at(takes, "have", (source, worker, number, version))

    def fetch(self, worker: int, least: int) -> Any:
        self.fetches[worker] += 1
        self.least[worker] = least
        return self.schedule.fetch(worker, self.fetches[worker], least, 1.0, self.now)

    # --- events

    def compute(self, worker: int) -> Any:
        if worker in self.dead | self.hung or self.done[worker] == self.steps:
            return None
        self.own[worker] = worker, self.done[worker], self.fetched[worker]
        self.held[worker].clear()
        return self.schedule.request(worker, self.done[worker], self.fetched[worker], 1.0, 1.0, self.now)

    def come(self, receipt: Any) -> Any:
        push, parts = receipt
        parted = push.worker in self.dead or frozenset((push.worker, push.destination)) in self.apart
        lost = parted and self.rng.random() < 0.5  # else it was there already
        if lost or push.destination in self.dead or {push.worker, push.destination} & self.hung:
            return None
        if push.destination == self.server:
            self.into_server += 1
            if push.ticket in self.skipped:
                self.at(0.001, "told_late", push.ticket)
                return None
            self.arrived[push.ticket] = parts
            self.at(0.001, "receipt", push.ticket)
            self.apply()
            return None
        (self.held[push.destination][push.worker],) = parts
        return self.schedule.absorbed(push.worker, parts[0][1], push.destination, self.now)

    def receipt(self, ticket: int) -> Any:
        return self.schedule.applied(ticket, self.now)

    def told_late(self, ticket: int) -> Any:
        return self.schedule.came_late(ticket, self.now)

    def look(self, _: None) -> None:
        for job in self.schedule.reserved.should_have_ended(self.now):
            self.do(self.schedule.wait_no_longer(job, self.now))
        if self.events or any(job.begun is not None for job in self.schedule.reserved.in_time()):
            self.at(PULSE, "look", None)

    def apply(self) -> None:
        while self.next_ticket in self.arrived or self.next_ticket in self.skipped:
            parts = self.arrived.get(self.next_ticket, [])
            for worker, number, version in parts:
                assert (worker, number) not in self.fate
                self.fate[worker, number] = "applied"
                self.delays.append(self.version - version)
                if worker not in self.dead:
                    self.at(0.0005, "ask", (worker, self.version + 1))
            self.version += len(parts)
            self.next_ticket += 1

    def ask(self, receipt: Any) -> Any:
        worker, least = receipt
        return None if worker in self.dead | self.hung else self.fetch(worker, least)

    def skip(self, ticket: int) -> Any:
        if ticket in self.arrived:
            return None  # the scheduler is told, or will be
        self.skipped.add(ticket)
        self.apply()
        return self.schedule.skipped(ticket, self.now)

    def have(self, receipt: Any) -> Any:
        source, worker, number, version = receipt
        parted = source in self.dead or frozenset((source, worker)) in self.apart
        lost = parted and self.rng.random() < 0.5  # else it was there already
        if worker in self.dead or lost or number in self.had[worker] or {source, worker} & self.hung:
            return None
        assert version >= self.least[worker] or source == self.server
        self.had[worker].add(number)
        self.fetched[worker] = version
        self.done[worker] += 1
        self.at(2 * self.rng.random(), "compute", worker)
        return self.schedule.fetched(worker, number, version, self.now)

    def die(self, worker: int) -> Any:
        self.dead.add(worker)
        actions = self.schedule.gone(worker, self.now)
        for other in set(range(self.n)) - self.dead:
            actions += self.schedule.part(other, worker, self.now)
        return actions

    def hang(self, worker: int) -> None:
        self.hung.add(worker)

    def part(self, pair: frozenset[int]) -> Any:
        if pair & self.dead:
            return None
        self.apart.add(pair)
        one, other = pair
        return self.schedule.part(one, other, self.now) + self.schedule.part(other, one, self.now)
