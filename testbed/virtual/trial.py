"""A trial in virtual time: workers train, servers serve, and switches run the P4 program, while time passes only where all wait.

The same settings and seed give the same result: nothing in it is measured. Only what PyTorch computes may differ between
processors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from inalab.hosts.background import DISCARD_PORT
from inalab.hosts.collective import AggregationError, Collective, node_name
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.drivers.virtual import EPOCH, VirtualHost
from inalab.hosts.drivers.virtual_time import Event, Process, StuckError, VirtualTime
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.in_turn import InTurn
from inalab.hosts.messages import Done, Failure, FromWorker, Hello, Lost, Message
from inalab.hosts.place import Place, Serving
from inalab.hosts.stream.timeline import Timeline
from inalab.hosts.training.asynchronous import AsynchronousTrainer
from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.hosts.training.trainer import Trainer
from inalab.schemes.scheme import Admitted
from inalab.switches.loss import DIRECTIONS, Loss, prepare_loss, switch_loss
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.trial.capture import Files
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.job_run import JobRun, runs_of, training
from inalab.testbed.trial.outage import PORT
from inalab.testbed.trial.outcome import count, outcome, watched_links
from inalab.testbed.trial.places import place_of
from inalab.testbed.trial.servers import Server, beside
from inalab.testbed.virtual.frames import HEADERS
from inalab.testbed.virtual.network import HostEnd, VirtualNetwork
from inalab.testbed.virtual.tap import Tap
from inalab.topologies.plan import HostPlan

Report = Callable[[Message], None]
BEGINS = 0.2  # seconds from when all workers are ready until the trial starts
ENDS = 60.0  # seconds that servers may take to end after the workers
GRACE = 5.0  # seconds that workers have to explain themselves after one has failed


def run_trial(
    settings: TrialSettings, seed: int, library: Path, report: Report, own: Costs | None = None, files: Files = ()
) -> dict[str, Any]:
    """What testbed.trial.outcome returns, without what a machine adds. Raises TrialError.

    `library` is the scheme's program, built as one (switches.embedded.build). `own` are costs in place of those that the settings
    name. What passes the links of `files` is written there.
    """
    trial = VirtualTrial(settings, seed, library, report, own or costs.of(settings.costs).virtual)
    taps = {link.name: Tap(trial.network, link, descriptor) for link, descriptor in files}
    try:
        result = trial.run()
        return result | ({"captured": {name: {"packets": tap.packets, "dropped": 0} for name, tap in taps.items()}} if taps else {})
    except StuckError as error:
        raise TrialError(trial.why() or f"the trial does not go on: {error}") from None
    finally:
        trial.time.end()
        for tap in taps.values():
            tap.flush()


@dataclass
class _Exact:
    """Sums in float64 over a job's workers, in the order of ranks; they take no time."""

    time: VirtualTime
    size: int

    def __post_init__(self) -> None:
        self.given: dict[int, torch.Tensor] = {}
        self.over = Event(self.time)
        self.why = ""  # there is no sum any more

    def fail(self, why: str) -> None:
        """Some worker gives nothing more: whoever waits ends with this."""
        self.why = why
        self.over.set()

    def sum(self, rank: int, tensor: torch.Tensor) -> None:
        """Put the sum in the tensor's place, once all have given theirs."""
        self.given[rank] = tensor.clone()
        given, over = self.given, self.over
        if len(given) == self.size:
            self.given, self.over = {}, Event(self.time)
            over.set()
        over.wait()
        if len(given) < self.size:
            raise AggregationError(self.why, incomplete=True)
        tensor.copy_(torch.stack([given[r] for r in range(self.size)]).sum(0))


class VirtualTrial:
    """A trial's network, and the jobs on it."""

    def __init__(self, settings: TrialSettings, seed: int, library: Path, report: Report, taken: Costs) -> None:
        self.settings, self.seed, self.report = settings, seed, report
        self.plan = settings.plan()
        self.admitted = settings.admitted(self.plan)
        self.jobs = runs_of(settings, self.admitted)
        self.time = VirtualTime()
        commands = commands_for(settings, self.plan, seed)
        self.network = VirtualNetwork(self.time, self.plan, library, commands, taken, seed)
        self.started = self.time.now + BEGINS
        self.outage: list[float] = []  # when it began and ended, in seconds since the start
        self.death: float | None = None  # when the first server was killed
        self.servers: dict[str, Process] = {}  # by name
        self.working = self.serving = 0  # processes that have not ended
        self.failing_until = float("inf")  # the others may explain themselves until then
        self.before: dict[str, list[dict[str, int]]] = {}  # bytes on links when the trial starts

    def run(self) -> dict[str, Any]:
        """The measurements."""
        for job, run in zip(self.admitted, self.jobs, strict=True):
            for server in self.serving_on(job):
                self._begin_serving(job, server)
            exact = _Exact(self.time, job.plan.size)
            for host in job.plan.hosts:
                self._start(job, host, partial(self._work, run, exact))
        self.working = sum(job.plan.size for job in self.admitted)
        self._plan_faults()
        self.time.at(self.started, lambda: self.before.update(self._octets()))
        self.time.run(until=lambda: not self.working or self.time.now > self.failing_until)
        if why := self.why():
            raise TrialError(why)
        if any(not any(step.tat for step in run.steps) for run in self.jobs):
            raise TrialError("what a worker alone sums takes no time: set workers to 2 or more, or choose target embedded")
        carried = self.carried()
        if self.settings.outage_at is not None and len(self.outage) < 2:
            raise TrialError("the training ended before the outage did: set outage_at lower, or steps higher")
        if self.settings.death_at is not None and self.death is None:
            raise TrialError("the training ended before the server was to die: set death_at lower, or steps higher")
        end = self.time.now + ENDS
        self.time.run(until=lambda: not self.serving or self.time.now > end)
        if self.serving:
            raise TrialError(f"{self.serving} servers have not ended {ENDS:g} s after the workers")
        controls = {name: switch.program for name, switch in self.network.switches.items()}
        counted = count(self.settings, self.plan, self.admitted, controls)
        return outcome(self.settings, self.jobs, counted, self.started, carried | {"outage": self.outage, "death": self.death})

    def serving_on(self, job: Admitted) -> list[Server]:
        """The job's servers, on hosts of their own and on workers'."""
        return [*(Server(host) for host in job.plan.servers), *beside([job])]

    def why(self) -> str:
        """Why workers have failed; empty if none has."""
        return "; ".join(run.why() for run in self.jobs if run.failures)

    def _plan_faults(self) -> None:
        """Worker 0's link loses every packet for a while (testbed.trial.outage); traffic of no job (hosts.background)."""
        s, switch = self.settings, self.network.switches["tor0"].program
        if s.outage_at is not None:
            for direction in range(len(DIRECTIONS)):
                for line in prepare_loss(direction, PORT, Loss(good=1.0), seed=0):
                    switch.command(line)
            self.time.at(self.started + s.outage_at, self._switch_outage, True)
            self.time.at(self.started + s.outage_at + s.outage_ms / 1000, self._switch_outage, False)
        if s.death_at is not None:
            self.time.at(self.started + s.death_at, self._kill_server)
        if s.background:
            source, sink = (self.plan.hosts[self.plan.topology.members[rack][-1]] for rack in (-1, 0))
            frame = s.running().bits_on_wire(s.k) // 8 - PHYSICAL_BYTES
            self._send_background(self.network.wires[source.name], source.station.ip, sink.station.ip, frame)

    def _switch_outage(self, on: bool) -> None:
        if self.working:
            for direction in range(len(DIRECTIONS)):
                self.network.switches["tor0"].program.command(switch_loss(direction, PORT, on))
            self.outage.append(self.time.now - self.started)

    def _send_background(self, wire: HostEnd, source: str, sink: str, frame: int) -> None:
        if not self.working:
            return
        wire.put(bytes(frame - HEADERS), (source, DISCARD_PORT), (sink, DISCARD_PORT), False)
        seconds = 8 * (frame + PHYSICAL_BYTES) / (self.settings.background * 1e6)
        self.time.after(seconds, self._send_background, wire, source, sink, frame)

    def _kill_server(self) -> None:
        """The first one of the first job."""
        if not self.working:
            return
        self.death = self.time.now - self.started
        job = self.admitted[0]
        self.time.kill(self.servers[job.plan.servers[0].name])
        text = f"{node_name(job.plan.size, job.plan.size)} was killed on request"
        self.report(Lost(job.plan.number, job.plan.size, text))

    def _start(self, job: Admitted, host: HostPlan, work: Callable[[Place, VirtualHost], None]) -> Process:
        driver = self.network.hosts[host.name]
        place = replace(place_of(self.plan, job, host), driver=driver)
        return self.time.start(lambda: work(place, driver))

    def _begin_serving(self, job: Admitted, server: Server) -> None:
        process = self._start(job, server.host, lambda place, driver: self._serve(place, server.manages))
        self.servers[server.name.format(server.host.name)] = process

    def _serve(self, place: Place, manages: bool) -> None:
        """A server's process: see hosts.place.serve. What it cannot go on with, the workers know better. However it ends, its
        connections are closed."""
        self.serving += 1
        server: Serving | None = None
        try:
            server = (place.scheme.manage if manages else place.scheme.serve)(place, lambda: False)
            assert server is not None
            server.serve()
        except AggregationError:
            pass
        finally:
            self.serving -= 1
            if server is not None:
                server.close()

    def _work(self, run: JobRun, exact: _Exact, place: Place, driver: VirtualHost) -> None:
        """A worker's process: see hosts.worker.run_worker."""
        rank, size = place.membership.rank, place.membership.size
        try:
            kind = AsynchronousTrainer if run.settings.pipeline == ASYNCHRONOUS else Trainer
            trainer = kind(training(run.settings, self.seed), rank, size, driver, partial(exact.sum, rank))
            collective = place.scheme.join(place, EPOCH, lambda: run.reason() if run.failures else None)
            timeline = Timeline()
            if run.settings.timeline and isinstance(collective, StreamDriver):
                collective.core.timeline = timeline
            self._train(run, trainer, collective, timeline, driver)
        except AggregationError as error:
            self._hear(run, Failure(run.plan.number, rank, str(error), error.incomplete, error.missing))
            exact.fail(run.reason())
            self.failing_until = min(self.failing_until, self.time.now + GRACE)
        self.working -= 1

    def _train(self, run: JobRun, trainer: Trainer, collective: Collective, timeline: Timeline, driver: VirtualHost) -> None:
        sums = InTurn(collective, driver)
        sums.begin()

        def wait_for_start() -> None:
            self._hear(run, Hello(run.plan.number, trainer.rank, trainer.elements, trainer.replica.data.sha256))
            self.time.wait_until(self.started + run.start)

        for step in trainer.run(sums.sum, lambda: collective.counters, wait_for_start):
            self._hear(run, step)
        self._hear(run, Done(trainer.rank, trainer.digest(), trainer.counted, timeline.since(0.0)))
        sums.end(0.0)

    def _hear(self, run: JobRun, message: FromWorker) -> None:
        run.hear(message)
        self.report(message)

    def carried(self) -> dict[str, list[dict[str, int]]]:
        """Bytes on links since the start, as testbed.trial.load.LinkBytes has them."""
        return {
            kind: [{way: now[way] - before[way] for way in now} for before, now in zip(self.before[kind], links, strict=True)]
            for kind, links in self._octets().items()
        }

    def _octets(self) -> dict[str, list[dict[str, int]]]:
        """Of frames that were sent on these links so far."""
        links = self.network.links
        return {
            kind: [{"up": links[link.number, True].octets, "down": links[link.number, False].octets} for link in chosen]
            for kind, chosen in watched_links(self.plan, self.jobs).items()
        }
