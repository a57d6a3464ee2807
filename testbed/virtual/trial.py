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
from inalab.hosts.collective import AggregationError, Collective, Noted, node_name
from inalab.hosts.drivers.virtual import EPOCH, VirtualHost
from inalab.hosts.drivers.virtual_time import Event, Process, StuckError, VirtualTime
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.in_turn import InTurn
from inalab.hosts.messages import Done, Failure, FromWorker, Hello, Lost, Message
from inalab.hosts.place import Place, Serving
from inalab.hosts.training.asynchronous import AsynchronousTrainer
from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.hosts.training.trainer import Trainer
from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.faults import drawn
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.trial.capture import Files
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.injection import Injection
from inalab.testbed.trial.job_run import JobRun, runs_of, training
from inalab.testbed.trial.outcome import count, outcome, watched_links
from inalab.testbed.trial.places import place_of
from inalab.testbed.trial.servers import Server, servers_of
from inalab.testbed.virtual.elastic import NOTICE, ElasticJob
from inalab.testbed.virtual.frames import HEADERS
from inalab.testbed.virtual.network import HostEnd, VirtualNetwork
from inalab.testbed.virtual.tap import Tap
from inalab.topologies.plan import HostPlan, LinkPlan

Report = Callable[[Message], None]
BEGINS = 0.2  # seconds from when all workers are ready until the trial starts
ENDS = 60.0  # seconds that servers may take to end after the workers
LOOK = 0.001  # seconds between two looks at which step the workers are in
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
        self.servers: dict[str, Process] = {}  # by name
        self.elastic: ElasticJob | None = None
        self.working = self.serving = 0  # processes that have not ended
        self.failing_until = float("inf")  # the others may explain themselves until then
        self.before: dict[str, list[dict[str, int]]] = {}  # bytes on links when the trial starts

    def run(self) -> dict[str, Any]:
        """The measurements."""
        for job, run in zip(self.admitted, self.jobs, strict=True):
            if self.settings.elastic:
                fallback, trained = self.settings.fallen_back(self.plan), training(run.settings, self.seed)
                self.elastic = ElasticJob(self.network, run, job, fallback, trained, self.report, self._serve_anew)
                self.elastic.begin(self.started)
                break
            for server in servers_of(job):
                self._begin_serving(job, server)
            exact = _Exact(self.time, job.plan.size)
            for host in job.plan.hosts:
                self._start(job, host, partial(self._work, run, exact))
        self.working = sum(job.plan.size for job in self.admitted) if self.elastic is None else 0
        injection = self._plan_faults()
        self.time.at(self.started, lambda: self.before.update(self._octets()))
        self.time.run(until=lambda: not self._under_way() or self.time.now > self.failing_until)
        if why := self.why():
            raise TrialError(why)
        if self.elastic is not None:
            self.jobs[0].conclude(self.elastic.members.roster.current.members)
        if any(not any(step.tat for step in run.steps) for run in self.jobs):
            raise TrialError("what a worker alone sums takes no time: set workers to 2 or more, or choose target embedded")
        carried = self.carried()
        if left := injection.unfinished():
            raise TrialError(f"the training ended before the fault `{left}` did: let it happen earlier, or set steps higher")
        end = self.time.now + ENDS
        self.time.run(until=lambda: not self.serving or self.time.now > end)
        if self.serving:
            raise TrialError(f"{self.serving} servers have not ended {ENDS:g} s after the workers")
        controls = self.network.controls
        counted = count(self.settings, self.plan, self.admitted, controls)
        faults: dict[str, Any] = {"faults": [happened.recorded() for happened in injection.happened]}
        faults["rate_changes"] = injection.changed or None
        if self.elastic is not None:
            faults["changes"] = [change.since(self.started) for change in self.elastic.members.changes]
        return outcome(self.settings, self.jobs, counted, self.started, carried | faults)

    def _under_way(self) -> bool:
        """Whether workers train."""
        return not self.elastic.members.over if self.elastic is not None else self.working > 0

    def why(self) -> str:
        """Why workers have failed; empty if none has."""
        return "; ".join(run.why() for run in self.jobs if run.failures)

    def _plan_faults(self) -> Injection:
        """Those of the schedule, and traffic of no job (hosts.background)."""
        s = self.settings
        faults = drawn(s.faults, self.plan, self.seed)
        changes = s.rate_changes(self.plan, self.seed)
        injection = Injection(faults, self.plan, self.seed, self.started, self.network.controls, self, changes)
        self.time.at(self.started, self._await_fault, injection)
        if s.background:
            source, sink = (self.plan.hosts[self.plan.topology.members[rack][-1]] for rack in (-1, 0))
            frame = s.running().schemes[0].bits_on_wire(s.k) // 8 - PHYSICAL_BYTES
            self._send_background(self.network.wires[source.name], source.station.ip, sink.station.ip, frame)
        return injection

    def _await_fault(self, injection: Injection) -> None:
        """Until the next one is due; where one depends on a step, often."""
        if not self._under_way():
            return
        injection.look(self.time.now, max((step.number for step in self.jobs[0].steps), default=-1))
        soon = self.time.now + LOOK if injection.of_step else float("inf")
        if (due := min(injection.next(), soon)) < float("inf"):
            self.time.at(due, self._await_fault, injection)

    def _send_background(self, wire: HostEnd, source: str, sink: str, frame: int) -> None:
        if not self.working:
            return
        wire.put(bytes(frame - HEADERS), (source, DISCARD_PORT), (sink, DISCARD_PORT), False)
        seconds = 8 * (frame + PHYSICAL_BYTES) / (self.settings.background * 1e6)
        self.time.after(seconds, self._send_background, wire, source, sink, frame)

    # --- faults (testbed.trial.injection.Nodes)

    def kill(self, node: str) -> None:
        """A worker, a server, or a switch."""
        if node in self.plan.switches:
            assert self.elastic is not None
            if node in self.network.controls:
                self.network.kill(node)
                self.elastic.members.switch_died(node)
        elif (process := self.servers.get(node)) is not None:
            self.time.kill(process)
            job, host = next((job.plan, host) for job in self.admitted for host in job.plan.servers if host.name == node)
            how = f"{node_name(job.rank(host), job.size)} was killed on request"
            self.report(Lost(job.number, job.rank(host), how))
            if self.elastic is not None:
                self.time.after(NOTICE, self.elastic.members.change, how)
        elif self.elastic is not None:
            self.elastic.kill(self._rank(node))

    def stop(self, node: str) -> None:
        """Likewise."""
        self.network.hosts[node].stop()

    def go_on(self, node: str) -> None:
        """Likewise."""
        self.network.hosts[node].go_on()

    def restart(self, node: str) -> None:
        """A worker, or a switch."""
        assert self.elastic is not None
        if node in self.plan.switches:
            self.network.restart(node)
            self.elastic.members.switch_lost(node)
        else:
            self.elastic.restart(self._rank(node))

    def come_back(self, node: str) -> None:
        """A switch that has restarted."""
        assert self.elastic is not None
        self.elastic.members.switch_back(node)

    def cut(self, node: str, on: bool) -> None:
        """See testbed.trial.injection.Nodes, as all that follow."""
        assert self.elastic is not None
        self.elastic.cut(self._rank(node), on)

    def set_rate(self, link: LinkPlan, rate: float | None) -> None:
        for up in (True, False):
            self.network.links[link.number, up].set_rate(rate)

    def _serve_anew(self, job: Admitted, epoch: int) -> None:
        """See testbed.trial.members.Processes.serve."""
        for process in self.servers.values():
            self.time.kill(process)
        self.servers.clear()
        for driver in self.network.hosts.values():
            driver.epoch = epoch
        for server in servers_of(job):
            self._begin_serving(job, server)

    def _rank(self, node: str) -> int:
        return next(rank for rank, host in enumerate(self.admitted[0].plan.hosts) if host.name == node)

    def _start(self, job: Admitted, host: HostPlan, work: Callable[[Place, VirtualHost], None]) -> Process:
        driver = self.network.hosts[host.name]
        place = replace(place_of(self.plan, job, host, self.seed, self.admitted), driver=driver)
        return driver.begin(lambda: work(place, driver))

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
            timeline = collective.note() if run.settings.timeline else None
            self._train(run, trainer, collective, timeline, driver)
        except AggregationError as error:
            self._hear(run, Failure(run.plan.number, rank, str(error), error.incomplete, error.missing))
            exact.fail(run.reason())
            self.failing_until = min(self.failing_until, self.time.now + GRACE)
        self.working -= 1

    def _train(self, run: JobRun, trainer: Trainer, collective: Collective, timeline: Noted | None, driver: VirtualHost) -> None:
        sums = InTurn(collective, driver)
        sums.begin()

        def wait_for_start() -> None:
            self._hear(run, Hello(run.plan.number, trainer.rank, trainer.elements, trainer.replica.data.sha256))
            self.time.wait_until(self.started + run.start)

        for step in trainer.run(sums.sum, lambda: collective.counters, wait_for_start):
            self._hear(run, step)
        self._hear(run, Done(trainer.rank, trainer.digest(), trainer.counted, timeline.since(0.0) if timeline else []))
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
