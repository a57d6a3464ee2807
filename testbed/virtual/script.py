"""`inalab launch --target virtual`: a PyTorch script on hosts whose network is simulated, in time that passes only where all wait.

Every worker's script is a process of this machine. Its collectives over the scheme take place here, with the real cores, the P4
program and the network of a trial in virtual time. While a worker's process computes, time stands still; workers go on one after
another, in the order in which their collectives are over. So a run is the same again, whatever the machine does meanwhile; unless a
process waits for something else, for ten seconds: then time passes for the others, and the launcher says so.
"""

from __future__ import annotations

import importlib
import os
import selectors
import signal
import socket
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from inalab.hosts import virtual_script
from inalab.hosts.collective import AggregationError, Collective, workers
from inalab.hosts.drivers.virtual import EPOCH, VirtualHost
from inalab.hosts.drivers.virtual_time import Event, StuckError
from inalab.hosts.groups import Departure, Formation
from inalab.hosts.launch_files import FOLDER, LaunchFiles
from inalab.hosts.place import Place
from inalab.hosts.tally import Tally
from inalab.hosts.torch_functions import MEETING
from inalab.hosts.virtual_script import Answer, Key, Meeting, Message, Pause, Request, Summand
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.scratch import scratch
from inalab.testbed.simulator import costs
from inalab.testbed.trial.groups import Groups
from inalab.testbed.trial.hosted import on_host
from inalab.testbed.trial.launch import (
    GRACE,
    LAST_WORDS,
    OF_DDP,
    Failures,
    check_script,
    environment,
    forward,
    opening,
    say,
)
from inalab.testbed.trial.launch_summary import checked_sums, summary
from inalab.testbed.trial.processes import with_descendants
from inalab.testbed.trial.servers import servers_of
from inalab.testbed.trial.watch import ended
from inalab.testbed.virtual.trial import VirtualTrial
from inalab.topologies import isolation

VIRTUAL = " of virtual time, in which computing takes what it is padded to"
PATIENT = 0.5  # seconds of this machine between two looks at a process that requests nothing
SLEEPING = 20  # looks in a row at a process that sleeps, after which it waits for something that only time brings
STEP = 1e-3  # seconds of virtual time that pass then


class Script:
    """A worker's process."""

    def __init__(self, rank: int, given: dict[str, str], script: list[str]) -> None:
        self.rank, (reader, writer) = rank, os.pipe()
        self.connection, theirs = Pipe()
        self.pid = isolation.fork(partial(self._run, theirs, writer, given, script))
        os.close(writer)
        theirs.close()
        self.output = reader
        self.code: int | None = None  # once it has ended

    def _run(self, connection: Connection, writer: int, given: dict[str, str], script: list[str]) -> int:
        self.connection.close()
        virtual_script.begin(connection)
        return on_host(writer, given, script)

    def sleeps(self) -> bool:
        """Whether none of its threads, nor of its children's, runs or could."""
        states = set()
        for pid in with_descendants(self.pid):
            for task in Path(f"/proc/{pid}/task").glob("*/stat"):
                with suppress(OSError):
                    states.add(task.read_text().rpartition(")")[2].split()[0])
        return states <= {"S", "Z"}


class ScriptTrial(VirtualTrial):
    """The scripts of a network's workers under way."""

    def __init__(self, settings: TrialSettings, seed: int, library: Path, scripts: list[Script], notes: LaunchFiles) -> None:
        super().__init__(settings, seed, library, lambda message: None, costs.of(settings.costs).virtual)
        self.scripts, self.notes = scripts, notes
        self.why_ended = ""  # the first worker that has ended, and how
        self.failed = 0  # its exit code, if that was not 0
        self.met: dict[tuple[int, ...], tuple[set[int], Event]] = {}  # by ranks: who has come to their next call, and that all have
        self.announced: Counter[tuple[Key, int]] = Counter()  # the last message, by who has announced it
        self.other_ends: defaultdict[int, Event] = defaultdict(lambda: Event(self.time))  # by worker: one of those is announced
        self.begun: Counter[tuple[int, str]] = Counter()  # sums, by rank and group
        self.members: dict[str, tuple[int, ...]] = {"": tuple(range(len(scripts)))}  # their ranks, by group
        (job,) = self.admitted
        controls = {name: switch.program for name, switch in self.network.switches.items()}
        self.groups = Groups(self.plan, job, controls)
        self.deadline = float("inf")  # of this machine's clock, for the survivors of a failure
        self.summing: set[int] = set()  # ranks of those whose sums are under way
        self.guessed = False  # whether time passed although a process requested nothing

    def follow(self) -> int:
        """Until all scripts have ended; the first exit code that is not 0."""
        (job,) = self.admitted
        for server in servers_of(job):
            self._begin_serving(job, server)
        for host in job.plan.hosts:
            self._start(job, host, self._attend)
        self.working = job.plan.size
        self.time.at(self.started, lambda: self.before.update(self._octets()))
        try:
            self.time.run(until=lambda: not self.working)
        except StuckError:
            say(f"the scripts wait for each other: {self.why_ended or 'their calls differ'}")
            self.failed = self.failed or 1
        return self.failed

    def _attend(self, place: Place, driver: VirtualHost) -> None:
        """A worker's part, by what its process requests."""
        rank = place.membership.rank
        script, size = self.scripts[rank], place.membership.size
        collectives: dict[str, Collective] = {}  # by the groups' names, the job's without one
        try:
            collectives[""] = place.scheme.join(place, EPOCH, partial(self._reason, rank, ""))
            self.time.wait_until(self.started)
            while (request := self._next(script)) is not None:
                if answer := self._answer(request, place, driver, collectives):
                    script.connection.send(answer)
        except AggregationError as error:
            say(str(error))
        except OSError:
            pass  # it has ended before its answer
        self._leave(script, size)
        for collective in collectives.values():
            collective.close()

    def _next(self, script: Script) -> Request | None:
        """What a worker's process requests next; None once it has ended. Time stands still, unless the process waits for time."""
        asleep, step = 0, STEP
        try:
            while not script.connection.poll(PATIENT):
                if time.monotonic() > self.deadline:
                    self._end(script)
                asleep = asleep + 1 if script.sleeps() else 0
                if asleep >= SLEEPING and self.working > 1:
                    self.guessed = True
                    self.time.sleep(step)
                    step *= 2
            found: Request = script.connection.recv()
            return found
        except (EOFError, OSError):
            return None

    def _answer(self, request: Request, place: Place, driver: VirtualHost, collectives: dict[str, Collective]) -> Answer | None:
        """None where somebody else answers."""
        rank = place.membership.rank
        match request:
            case Summand():
                name = request.formation.name if request.formation else ""
                return self._sum(request, rank, name, collectives[name])
            case Formation():
                formed = self.groups.form(request)
                if not formed.refusal:
                    own = replace(self.groups.place(request), driver=driver)
                    self.members[request.name] = request.ranks
                    reason = partial(self._reason, rank, request.name)
                    collectives[request.name] = own.scheme.join(own, formed.epoch, reason)
                return Answer(self.time.now, formed=formed)
            case Departure(formation):
                collectives.pop(formation.name).close()
                self.groups.depart(formation)
            case Pause():
                self.time.wait_until(max(request.until, self.time.now))
            case Meeting():
                return self._meet(request.ranks, rank)
            case Message():
                self._pass(request, rank)
        return Answer(self.time.now)

    def _reason(self, rank: int, group: str) -> str | None:
        """Why a worker's sum in a group cannot be completed: another member has ended, or calls something else, before it began."""
        behind = {other for other in self.members[group] if self.begun[other, group] < self.begun[rank, group]}
        for other in behind:
            if self.scripts[other].code is not None:
                return self.why_ended or f"worker {other} has ended"
        for come, _ in self.met.values():
            if called := sorted(come & behind):
                scheme, mine = self.settings.scheme, workers(sorted(self.summing))
                return f"the workers' calls differ: all_reduce over {scheme} on {mine}, Gloo's on {workers(called)}"
        return None

    def _sum(self, request: Summand, rank: int, group: str, collective: Collective) -> Answer:
        self.summing.add(rank)
        self.begun[rank, group] += 1
        before = replace(collective.counters)
        try:
            started = collective.start(request.values, True, request.label, None, request.operation)
            collective.advance(started)
        except AggregationError as error:
            return Answer(self.time.now, error=error)
        finally:
            self.summing.discard(rank)
        return Answer(self.time.now, started.total, started.version, started.update, collective.counters - before)

    def _meet(self, ranks: tuple[int, ...], rank: int) -> Answer | None:
        """The last one to come answers all: none of their processes goes on before."""
        come, over = self.met.setdefault(ranks, (set(), Event(self.time)))
        come.add(rank)
        self._let_go(ranks)
        if not over.is_set():
            over.wait()
        return None

    def _let_go(self, ranks: tuple[int, ...]) -> None:
        """Those of a meeting, once all of them have come who have not ended."""
        come, over = self.met[ranks]
        if not come or not come >= {rank for rank in ranks if self.scripts[rank].code is None}:
            return
        del self.met[ranks]
        for other in sorted(come):
            with suppress(OSError):
                self.scripts[other].connection.send(Answer(self.time.now))
        over.set()

    def _pass(self, message: Message, rank: int) -> None:
        """A worker announces a message, or waits until the other one has announced it, too, or has ended."""
        source, to, *_ = message.key
        other = to if rank == source else source
        if not message.waited:
            self.announced[message.key, rank] = message.number
            self._wake(other)
            return
        while self.announced[message.key, other] < message.number and self.scripts[other].code is None:
            self.other_ends[rank].wait()

    def _wake(self, rank: int) -> None:
        """A worker may go on that waits for a message's other end."""
        self.other_ends.pop(rank, Event(self.time)).set()

    def _first_failure(self, rank: int, code: int) -> tuple[int, int]:
        """Of this worker, and those that have ended meanwhile: one that was killed, before one that has failed because of that."""
        for other in self.scripts:
            if other.code is None:
                other.code = ended(other.pid)
            if other.code is not None and other.code < 0:
                return other.rank, other.code
        return rank, code

    def _end(self, script: Script) -> None:
        say(f"worker {script.rank} got SIGKILL, {GRACE:g} s after this failure: {self.why_ended}")
        with suppress(ProcessLookupError):
            os.kill(script.pid, signal.SIGKILL)

    def _leave(self, script: Script, size: int) -> None:
        """A worker's process has ended, or is no more to."""
        script.connection.close()
        while script.code is None:
            script.code = ended(script.pid)
            time.sleep(0.01)
        self.working -= 1
        if script.code and not self.failed:
            rank, code = self._first_failure(script.rank, script.code)
            self.failed = isolation.of_shell(code)
            self.why_ended = f"worker {rank} {isolation.ending(code)}"
            self.deadline = time.monotonic() + GRACE
            self.notes.give_up(self.why_ended)
            say(self.why_ended)
        for ranks in list(self.met):
            self._let_go(ranks)
        for rank in range(size):
            self._wake(rank)


def launch(settings: TrialSettings, seed: int, library: Path, script: list[str], check_sums: bool) -> int:
    """Run a script with its arguments for every worker; what they print comes with their ranks. See testbed.trial.launch.launch."""
    check_script(Path(script[0]))
    say(opening(settings))
    importlib.import_module(OF_DDP)
    with scratch("inalab-") as folder:
        return _run(settings, seed, library, script, check_sums, LaunchFiles(folder))


def _run(settings: TrialSettings, seed: int, library: Path, script: list[str], check_sums: bool, notes: LaunchFiles) -> int:
    plan = settings.plan()
    port = str(_free_port())
    meeting = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, MEETING: f"127.0.0.1:{port}",
        "GLOO_SOCKET_IFNAME": "lo", FOLDER: str(notes.folder),
    }  # fmt: skip
    given = [environment(settings, plan, host, seed, check_sums) | meeting for host in plan.hosts]
    scripts = [Script(rank, environ, script) for rank, environ in enumerate(given)]
    printing = threading.Thread(target=_print_all, args=(scripts,), daemon=True)
    printing.start()
    trial = ScriptTrial(settings, seed, library, scripts, notes)
    try:
        code = trial.follow()
    finally:
        for each in scripts:
            if each.code is None:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
        trial.time.end()
        printing.join(LAST_WORDS)  # a process that a script has left may hold its output for longer
    Failures(notes, range(len(scripts))).conclude()
    texts = [notes.tally(rank) for rank in range(len(scripts))]
    tallies = {rank: Tally.loads(text) for rank, text in enumerate(texts) if text is not None}
    if code == 0:
        carried = trial.carried()["worker_bytes"]
        for sentence in summary(list(tallies.values()), settings, carried, trial.time.now - trial.started, spent=VIRTUAL):
            say(sentence)
        if trial.guessed:
            say("a worker waited for something else than its collectives: times may differ when this is run again")
    if check_sums:
        found = checked_sums(tallies, settings)
        say(found.sentence)
        code = code or int(found.wrong)
    return code


def _print_all(scripts: list[Script]) -> None:
    """Until all have ended."""
    outputs = selectors.DefaultSelector()
    for script in scripts:
        outputs.register(script.output, selectors.EVENT_READ, [script.rank, b""])
    while outputs.get_map():
        for key, _ in outputs.select():
            if not forward(key.fd, key.data):
                outputs.unregister(key.fd)
                os.close(key.fd)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
