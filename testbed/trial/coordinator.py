"""One trial: a network in namespaces of its own, workers on its hosts, and what they and the switches measured."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from inalab.hosts import background
from inalab.hosts.coordination import LONG_SILENCE, SILENCE
from inalab.hosts.drivers.verbs import MACHINE
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.training.pipeline import OF_TORCH
from inalab.hosts.training.replica import preload
from inalab.switches.target import Target
from inalab.testbed.plan.faults import drawn
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial import discovery
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture, Files, capturing, opened
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.deployment import Deployment, deployed
from inalab.testbed.trial.elastic import ElasticWorkers
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.groups import Groups, GroupService
from inalab.testbed.trial.injection import Injection
from inalab.testbed.trial.job_run import runs_of
from inalab.testbed.trial.load import LinkBytes, LoadMeter
from inalab.testbed.trial.outcome import count, outcome, watched_links
from inalab.testbed.trial.processes import TrialProcesses
from inalab.testbed.trial.rendezvous import Rendezvous
from inalab.testbed.trial.watch import Watch
from inalab.testbed.trial.workers import Workers
from inalab.topologies import isolation
from inalab.topologies.network import MANAGEMENT_ADDRESS, Network

COORDINATOR_PORT = 29500
START_DELAY = 0.2  # seconds between the last hello and the common start


def start_trial(settings: TrialSettings, seed: int, target: Target, capture: Capture | None = None) -> Apart:
    """Begin a trial, whose result is its measurements (testbed.trial.outcome). Raises TrialError.

    Whatever ends this process, the trial's processes and interfaces end with it.
    """
    settings.check()
    settings.check_emulated()
    for job in settings.each():
        preload(job.workload, job.pipeline)

    def trial(sender: Connection) -> dict[str, Any]:
        return _Trial(settings, seed, sender).run(target, files)

    if MACHINE not in os.environ and any(job.of_scheme().of_machine(job.scheme_settings()) for job in settings.each()):
        os.environ[MACHINE] = str(os.open("/proc/self/ns/net", os.O_RDONLY))
    with opened(capture, settings.plan()) as files:
        return Apart(isolation.start, trial)


class _Trial:
    """A trial under way, seen from inside its namespaces."""

    def __init__(self, settings: TrialSettings, seed: int, sender: Connection) -> None:
        self.settings, self.seed, self.sender = settings, seed, sender
        self.plan = settings.plan()
        self.admitted, self.running = settings.admitted(self.plan), settings.running()
        self.jobs = runs_of(settings, self.admitted)
        self.processes = TrialProcesses(self._pids, self._restart, self._return, self._die, lambda: self.deployment.network)
        self.workers: Workers | ElasticWorkers = Workers(self.jobs, sender)
        if settings.elastic:
            fallback, asked = settings.fallen_back(self.plan), self.processes.asked
            self.workers = ElasticWorkers(self.jobs[0], self.admitted[0], fallback, sender, asked)

    def run(self, target: Target, files: Files) -> dict[str, Any]:
        """The measurements; the packets of some links go to their files."""
        began = time.monotonic()
        commands = commands_for(self.settings, self.plan, self.seed)
        discovery.announce(self.settings)
        with (
            deployed(self.plan, self.admitted, target, commands, self.seed) as deployment,
            capturing(deployment.network, files) as counts,
        ):
            result = self._on(deployment, began)
        return result | ({"captured": counts} if counts else {})

    def _on(self, deployment: Deployment, began: float) -> dict[str, Any]:
        """The trial on its network, which has been under construction since `began`."""
        network = deployment.network
        groups = self._groups(network)
        address, silence = (MANAGEMENT_ADDRESS, COORDINATOR_PORT), LONG_SILENCE if self.settings.elastic else SILENCE
        joining = Rendezvous(address, secrets.token_bytes(16), self.plan.topology.size, silence)
        self.deployment = deployment
        servers = deployment.spawn_servers() if not self.settings.elastic else {}
        self.workers.fork(network, deployment.places, joining, self.seed, groups.folder if groups else None)
        self.watch = watch = deployment.watch(servers, self.settings.elastic)
        self.workers.join(joining, watch, lambda: _answer(groups))
        if not self.settings.elastic:
            joining.close()
        watch.background = self._start_background(network)
        started = time.monotonic() + START_DELAY
        load = LoadMeter.of(network)
        carried = LinkBytes(network, watched_links(self.plan, self.jobs))
        faults = drawn(self.settings.faults, self.plan, self.seed)
        changes = self.settings.rate_changes(self.plan, self.seed)
        injection = Injection(faults, self.plan, self.seed, started, network.controls, self.processes, changes)
        self.workers.start(started)
        setup = time.monotonic() - began

        def look() -> None:
            injection.look(time.monotonic(), max((step.number for step in self.jobs[0].steps), default=-1))
            load.sample()
            self._look_after_servers(watch)
            _answer(groups)

        self.workers.follow(look, injection.next)
        if self.workers.failed():
            raise TrialError(watch.look(time.monotonic()) or self.workers.why())
        if left := injection.unfinished():
            raise TrialError(f"the training ended before the fault `{left}` did: let it happen earlier, or set steps higher")
        measured: dict[str, Any] = load.metrics() | carried.metrics()
        deployment.end_servers(watch.servers, watch.cut)
        counted = count(self.settings, self.plan, self.admitted, network.controls)
        measured["rate_changes"] = injection.changed or None
        measured["faults"] = [happened.recorded() for happened in injection.happened]
        if isinstance(self.workers, ElasticWorkers):
            measured["changes"] = [change.since(started) for change in self.workers.members.changes]
        return outcome(self.settings, self.jobs, counted, started, {"setup": setup} | measured)

    def _pids(self, node: str) -> list[int]:
        """Of the processes on a node that run."""
        found = self.workers.pids | self.watch.members
        return [pid for pid, (job, rank) in found.items() if self.admitted[job].plan.everyone[rank].name == node]

    def _restart(self, node: str) -> None:
        """A worker begins again, or a switch, with nothing."""
        assert isinstance(self.workers, ElasticWorkers)
        if node in self.plan.switches:
            self.deployment.network.restart(node)
            self.workers.members.switch_lost(node)
            return
        self.workers.begin_again(next(rank for rank, host in enumerate(self.jobs[0].plan.hosts) if host.name == node))

    def _die(self, switch: str) -> None:
        """Nothing crosses it any more. One that is dead stays so."""
        assert isinstance(self.workers, ElasticWorkers)
        if switch in self.deployment.network.controls:
            self.deployment.network.kill(switch)
            self.workers.members.switch_died(switch)

    def _return(self, node: str) -> None:
        """A switch that has restarted admits jobs again."""
        assert isinstance(self.workers, ElasticWorkers)
        self.workers.members.switch_back(node)

    def _groups(self, network: Network) -> GroupService | None:
        """Who admits the groups that workers form, if the training has such."""
        if self.settings.pipeline not in OF_TORCH:
            return None
        folder = Path(tempfile.mkdtemp(dir="/run", prefix="inalab-"))  # it ends with the namespaces
        return GroupService(Groups(self.plan, self.admitted[0], network.controls), folder)

    def _start_background(self, network: Network) -> dict[int, str]:
        """From the last host of the last rack to that of the first: neither is in a job. What each process is."""
        if not self.settings.background:
            return {}
        source, sink = (self.plan.topology.members[rack][-1] for rack in (-1, 0))
        frame = self.running.schemes[0].bits_on_wire(self.settings.k) // 8 - PHYSICAL_BYTES
        send = partial(background.source, self.plan.hosts[sink].station.ip, self.settings.background, frame)
        return {
            network.spawn(sink, background.sink): "the sink of the background traffic",
            network.spawn(source, send): "the source of the background traffic",
        }

    def _look_after_servers(self, watch: Watch) -> None:
        """Raises TrialError if something has ended that no worker can do without."""
        why = watch.trouble()
        for lost in watch.losses():
            if self.admitted[lost.job].plan.everyone[lost.rank].name not in self.processes.requested:
                self.jobs[lost.job].servers_lost.append(lost.text)
            self.sender.send(lost)
            if isinstance(self.workers, ElasticWorkers):
                self.workers.members.change(lost.text)
        if why:
            raise TrialError(why)


def _answer(groups: GroupService | None) -> None:
    """Admit the groups that workers ask for. TrialError where one has no room: Gloo would carry what the scheme is measured for."""
    if groups:
        groups.answer_all()
    if groups and groups.groups.refusal:
        raise TrialError(f"the workers' groups have no room: {groups.groups.refusal}; set fewer workers or slots")
