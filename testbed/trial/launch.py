"""`inalab launch`: any PyTorch script on the hosts of an emulated network, one process a host."""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from inalab.hosts.collective import workers
from inalab.hosts.launch_files import FOLDER, WORKER, LaunchFiles
from inalab.hosts.sampling import SEED
from inalab.hosts.tally import Tally
from inalab.hosts.torch_backend import PLACE
from inalab.hosts.torch_functions import MEETING
from inalab.hosts.training.pace import VARIABLE
from inalab.schemes.scheme import Admitted
from inalab.schemes.streaming import StreamSettings
from inalab.switches.control import ControlError
from inalab.switches.target import SwitchError, Target
from inalab.testbed.plan.described import described
from inalab.testbed.plan.faults import drawn
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial import discovery, elastic_launch, torchft_launch, validity
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.deployment import Deployment, deployed
from inalab.testbed.trial.elastic_launch import Incarnations
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.groups import Groups, GroupService
from inalab.testbed.trial.hosted import Runner, on_host
from inalab.testbed.trial.injection import Injection
from inalab.testbed.trial.launch_summary import checked_sums, summary
from inalab.testbed.trial.load import LinkBytes, LoadMeter
from inalab.testbed.trial.places import place_of, rendezvous
from inalab.testbed.trial.processes import TrialProcesses, hangs, with_descendants
from inalab.testbed.trial.watch import ended
from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError
from inalab.topologies.plan import HostPlan, NetworkPlan

OF_TRAINING = (
    "workload", "steps", "batch", "learning_rate", "evaluate_every", "measure_error", "timeline", "jobs",
    "background", "pipeline", "forward_share",
)  # fmt: skip
OF_DDP = "torch._dynamo"  # what DistributedDataParallel would load in every worker, for a second each
LAST_WORDS = 1.0  # seconds for what is still in the pipes when all workers have ended
GRACE = 10.0  # seconds that the others have to end after one has failed
LOOK = 0.5  # seconds between two looks at who hangs
MISSED = 5.0  # seconds after a worker's end in order; who still waits for a sum with it then gives up


def launch(settings: TrialSettings, seed: int, target: Target, script: list[str], runner: Runner, check_sums: bool) -> int:
    """Run a script with its arguments on every host; what they print comes with their ranks. The first exit code that is not 0.

    With `check_sums` it is 1, too, if the script ended well and the scheme gave a worker a sum that is none: see hosts.sampling.
    """
    check_script(Path(script[0]))
    say(opening(settings))
    if runner is not Runner.TORCHRUN:
        importlib.import_module(OF_DDP)
    if runner is Runner.TORCHFT:
        torchft_launch.require(settings.admitted(settings.plan())[0])
    pid = isolation.start(partial(_inside, settings, seed, target, script, runner, check_sums))
    try:
        return isolation.wait(pid)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        isolation.wait(pid)
        raise


def opening(settings: TrialSettings) -> str:
    """The network, and which packets cross it."""
    own = settings.scheme_settings()
    packets = f", {own.k} integers in a packet, {own.slots} slots" if isinstance(own, StreamSettings) else ""
    return described([settings]) + packets


def refuse_training(settings: TrialSettings, runner: Runner = Runner.ITSELF) -> None:
    """Raise SettingsError for what is of the project's own training."""
    elastic_launch.refuse(settings, runner)
    if unknown := settings.beyond_default(OF_TRAINING):
        raise SettingsError(f"{', '.join(unknown)} is of the project's own training: a script that is launched knows nothing of it")


def with_large_packets(settings: TrialSettings, given: Collection[str], largest: int) -> TrialSettings:
    """The settings with the largest packets that the target takes, which spend least on headers, unless k is `given`."""
    streams = issubclass(settings.of_scheme().Settings, StreamSettings) and "k" not in given
    return settings.changed(k=largest) if streams else settings


def check_script(path: Path) -> None:
    """Raise SettingsError for a script that no host could run, before there are hosts."""
    if not path.is_file():
        raise SettingsError(f"there is no script {path}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the script {path} cannot be read: {error.strerror}") from None
    if path.suffix == ".pyc" or zipfile.is_zipfile(path):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, str(path), "exec")
    except SyntaxError as error:
        text = f": {error.text.strip()}" if error.text else ""
        raise SettingsError(f"{path}, line {error.lineno}: {type(error).__name__}: {error.msg}{text}") from None
    except ValueError as error:
        raise SettingsError(f"the script {path} is no Python source: {error}") from None


def environment(
    settings: TrialSettings, plan: NetworkPlan, host: HostPlan, seed: int, check_sums: bool = False, job: Admitted | None = None
) -> dict[str, str]:
    """What a process on a host finds in its environment. `job` is the only one, unless that has other members by now.

    The workers meet on the management network. What Gloo carries is on the data network, as what the scheme carries is.
    """
    job = job or settings.admitted(plan)[0]
    meeting = rendezvous(job.plan, host, gloo_measured=True)
    place, rank = place_of(plan, job, host), str(job.plan.rank(host))
    pace = {"compute_ms": settings.compute_ms, "seed": seed, "rank": host.rank, "straggler": asdict(settings.straggler_model())}
    return {
        PLACE: place.dumps(), WORKER: rank, "RANK": rank, "WORLD_SIZE": str(job.plan.size),
        "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": meeting.address, "MASTER_PORT": str(meeting.port),
        MEETING: f"{meeting.address}:{meeting.port}",
        "GLOO_SOCKET_IFNAME": meeting.interface, "OMP_NUM_THREADS": "1", VARIABLE: json.dumps(pace),
        **({SEED: str(seed)} if check_sums else {}),
    }  # fmt: skip


def _inside(settings: TrialSettings, seed: int, target: Target, script: list[str], runner: Runner, check_sums: bool) -> int:
    """The first process of the network's namespaces."""
    plan = settings.plan()
    commands = commands_for(settings, plan, seed)
    try:
        discovery.announce(settings)
        notes = LaunchFiles(Path(tempfile.mkdtemp(dir="/run", prefix="inalab-")))  # it ends with the namespaces
        with deployed(plan, settings.admitted(plan), target, commands, seed) as deployment:
            launched = _Launch(deployment, settings, seed, notes, check_sums, runner)
            carried = LinkBytes(deployment.network, {"hosts": plan.links_above(host.name for host in plan.hosts)})
            load, begun = LoadMeter.of(deployment.network), time.monotonic()
            code = launched.run(script, load.sample)
            took, busy = time.monotonic() - begun, validity.saturation(load.metrics())
        tallies = launched.tallies()
        for sentence in summary(list(tallies.values()), settings, carried.metrics()["hosts"], took, busy) if code == 0 else ():
            say(sentence)
        if check_sums:
            found = checked_sums(tallies, settings, launched.job.plan.size)
            say(found.sentence)
            code = code or int(found.wrong)
        return code
    except (NetworkError, SwitchError, ControlError, TrialError) as error:
        print(f"inalab: {error}", file=sys.stderr)
        return 1


class Failures:
    """How scripts failed, by the word that they left of it. `called` is what the ranks among those are called."""

    def __init__(self, notes: LaunchFiles, called: Sequence[int]) -> None:
        self.notes, self.called = notes, called
        self.silent = set(range(len(called)))  # ranks whose failure was not told yet, if there is one
        self.ranks_of: dict[str, list[int]] = {}  # by failure

    def tell(self) -> None:
        """Print those that are new; what is the same on several ranks, once."""
        for rank in sorted(self.silent):
            if (text := self.notes.failure(rank)) is not None:
                self.silent.remove(rank)
                if text not in self.ranks_of:
                    _print(self.called[rank], text.encode().split(b"\n"))
                self.ranks_of.setdefault(text, []).append(self.called[rank])

    def conclude(self) -> None:
        """Likewise, and say who failed in the same way."""
        self.tell()
        for ranks in self.ranks_of.values():
            if len(ranks) > 1:
                say(f"{workers(ranks[1:])} failed in the same way as worker {ranks[0]}")


class _Launch:
    """A script under way on all hosts, seen from inside the network's namespaces."""

    def __init__(
        self, deployment: Deployment, settings: TrialSettings, seed: int, notes: LaunchFiles, check_sums: bool,
        runner: Runner = Runner.ITSELF,
    ) -> None:  # fmt: skip
        self.deployment, self.network = deployment, deployment.network
        self.settings, self.seed, self.check_sums = settings, seed, check_sums
        self.runner, self.script = runner, list[str]()  # the latter with its arguments
        begins_again = settings.elastic and runner is not Runner.TORCHFT
        self.incarnations = Incarnations(deployment, notes.folder) if begins_again else None
        groups = self.incarnations.groups if self.incarnations else Groups(self.network.plan, self.job, self.network.controls)
        self.groups = GroupService(groups, notes.folder)
        self.notes = self.incarnations.notes if self.incarnations else notes
        self.ranks: dict[int, int] = {}  # of the workers that run, by pid
        self.outputs = selectors.DefaultSelector()
        self.failed = 0  # the exit code of what failed first
        self.ended_badly = 0  # likewise, of a worker without which the others have gone on
        self.cause = ""
        self.deadline = float("inf")  # for the survivors
        self.departed: tuple[float, int] | None = None  # when the first worker ended in order, and which
        self.failures = Failures(self.notes, range(self.job.plan.size))
        self.processes = TrialProcesses(self._pids, self._begin_again, lambda node: None, lambda node: None, lambda: self.network)
        self.hung, self.looks_at = dict[int, float](), 0.0  # since when processes are stopped, by pid; when that is looked at next
        self.doubted: tuple[float, str, int] | None = None  # a failure that may follow from another one: when, and how

    @property
    def job(self) -> Admitted:
        """With the members that it has now."""
        return self.incarnations.job if self.incarnations else self.deployment.admitted[0]

    def run(self, script: list[str], look: Callable[[], None]) -> int:
        """The first exit code that is not 0. It calls `look` several times a second."""
        watch = self.watch = self.deployment.watch(self.deployment.spawn_servers(), self.settings.elastic)
        self.script = script
        if self.runner is Runner.TORCHFT:
            watch.background[torchft_launch.start_lighthouse()] = "torchft's lighthouse"
        for host in self.network.plan.hosts:
            self._start(host)
        faults, controls = drawn(self.settings.faults, self.network.plan, self.seed), self.network.controls
        changes = self.settings.rate_changes(self.network.plan, self.seed)
        injection = self.injection = Injection(
            faults, self.network.plan, self.seed, time.monotonic(), controls, self.processes, changes
        )
        self.groups.register(self.outputs)
        self.ended_at = float("inf")
        while (self.ranks or len(self.outputs.get_map()) > 1) and time.monotonic() < self.ended_at:
            for key, _ in self.outputs.select(0.1):
                if key.data is self.groups:
                    self.groups.answer()
                elif not forward(key.fd, key.data):
                    self.outputs.unregister(key.fd)
            look()
            injection.look(time.monotonic(), -1)
            self.failures.tell()
            if why := watch.trouble():
                self._fail(why, 1)
            if lost := [message.text for message in watch.losses()]:
                self._do_without(lost)
            self._reap()
            self._look_for_hung()
            if not self.ranks:
                self.ended_at = min(self.ended_at, time.monotonic() + LAST_WORDS)
            if time.monotonic() > self.deadline:
                self._end_survivors()
        if self.doubted:
            self._fail(*self.doubted[1:])
        self.failures.conclude()
        if (left := injection.unfinished()) and not self.failed:
            say(f"the scripts ended before the fault `{left}` did")
        self.groups.close()
        return self.failed or self.ended_badly

    def tallies(self) -> dict[int, Tally]:
        """What the workers' collectives used, by rank, of those that have come to their end."""
        found = {rank: self.notes.tally(rank) for rank in range(self.job.plan.size)}
        return {rank: Tally.loads(text) for rank, text in found.items() if text is not None}

    def _start(self, host: HostPlan) -> None:
        reader, writer = os.pipe()
        given = environment(self.settings, self.network.plan, host, self.seed, self.check_sums, self.job)
        given |= {FOLDER: str(self.notes.folder)}
        if self.runner is Runner.TORCHFT:
            given = torchft_launch.environment(given, host.management_ip)
        self.ranks[self.network.spawn(host.rank, partial(on_host, writer, given, self.script, self.runner))] = host.rank
        os.close(writer)
        self.outputs.register(reader, selectors.EVENT_READ, [host.rank, b""])

    def _pids(self, node: str) -> list[int]:
        """Of all processes of a host's script, and of servers there."""
        hosts = self.network.plan.hosts
        found = {pid: hosts[rank].name for pid, rank in self.ranks.items()}
        found |= {pid: self.deployment.admitted[job].plan.everyone[rank].name for pid, (job, rank) in self.watch.members.items()}
        return [each for pid, name in found.items() if name == node for each in with_descendants(pid)]

    def _begin_again(self, node: str) -> None:
        """A worker has come, whether it was there before or not."""
        rank = next(host.rank for host in self.network.plan.hosts if host.name == node)
        if self.incarnations is None:
            say(f"worker {rank} has come")
            for pid in [pid for pid, its in self.ranks.items() if its == rank]:  # which was killed
                del self.ranks[pid]
                os.waitpid(pid, 0)
                self.processes.asked(node)
                self._lose(rank, f"worker {rank} was killed by SIGKILL")
            self.groups.groups.come(rank)
            self._start(self.network.plan.hosts[rank])
            return
        self.incarnations.members.add(rank)
        self._begin_all_again(f"worker {rank} has come")

    def _do_without(self, lost: list[str]) -> None:
        """Servers have died: others take their place, or all begins again."""
        if self.incarnations:
            self._begin_all_again(lost[0])
        else:
            say(f"{' and '.join(lost)}: the scripts go on")

    def _begin_all_again(self, why: str) -> None:
        """End all scripts, and begin them on the hosts of the members as they are now."""
        assert self.incarnations is not None
        self.groups.answer_all()
        elastic_launch.end_all(self.ranks)
        self.groups.answer_all()  # what they have asked meanwhile, or who comes next would be told of groups that were theirs
        self.ranks.clear()
        self.doubted = self.departed = None
        members = sorted(self.incarnations.members)
        say(f"{why}: the scripts begin again, on {workers(members)}")
        self.incarnations.next()
        self.groups.groups, self.notes = self.incarnations.groups, self.incarnations.notes
        self.failures = Failures(self.notes, members)
        self.watch.replace(self.incarnations.job)
        self.ended_at = float("inf")
        for rank in members:
            self._start(self.network.plan.hosts[rank])

    def _reap(self) -> None:
        """Take note of the scripts that have ended."""
        lost: dict[int, str] = {}  # by rank, those without which the others begin again
        for pid, rank in list(self.ranks.items()):
            if (code := ended(pid)) is not None:
                del self.ranks[pid]
                how = f"worker {rank} {isolation.ending(code)}"
                if self.runner is Runner.TORCHFT and not self.failed:
                    self._go_on_without(rank, how, code)
                elif self.incarnations and code < 0 and not self.failed:
                    lost[rank] = how
                elif self.incarnations and code and not self.failed:
                    self.doubted = self.doubted or (time.monotonic(), how, code)
                elif code:
                    self._fail(how, isolation.of_shell(code))
                elif self.departed is None:
                    self.departed = time.monotonic(), rank
        if lost and self.incarnations:
            dead = {host.rank for host in self.network.plan.hosts if host.name in self.processes.dead}
            self.incarnations.members -= lost.keys() | dead
            if self.incarnations.members:
                self._begin_all_again("; ".join(lost.values()))
            else:
                self._fail("; ".join(lost.values()), 1)
        if self.doubted and time.monotonic() - self.doubted[0] > elastic_launch.DOUBT:
            self._fail(*self.doubted[1:])
            self.doubted = None
        if self.ranks and self.departed and time.monotonic() - self.departed[0] > MISSED:
            self.notes.give_up(f"worker {self.departed[1]} has ended")

    def _look_for_hung(self) -> None:
        """Have all begin again where a process has been stopped for as long as patience."""
        now = time.monotonic()
        if self.incarnations is None or self.failed or now < self.looks_at:
            return
        self.looks_at = now + LOOK
        self.hung = {pid: self.hung.get(pid, now) for pid in self.ranks if hangs(pid)}
        if late := [self.ranks[pid] for pid, since in self.hung.items() if now - since > self.settings.patience]:
            self._begin_all_again(f"{workers(late)} hung")

    def _go_on_without(self, rank: int, how: str, code: int) -> None:
        """A replica group has ended. Its death counts as a failure unless it was requested, or nobody is left."""
        self._lose(rank, how)
        requested = self.processes.asked(self.network.plan.hosts[rank].name)
        if code and not self.ranks:
            self._fail(how, isolation.of_shell(code))
        elif code:
            say(f"{how}: the others go on")
            self.ended_badly = self.ended_badly or (0 if requested else isolation.of_shell(code))

    def _lose(self, rank: int, how: str) -> None:
        """Have the members of its groups learn that a worker has ended."""
        self.groups.answer_all()  # what it has asked
        self.notes.leave_ends(self.notes.ends() + 1)
        for epoch in self.groups.groups.lose(rank):
            self.notes.break_group(epoch, how)

    def _fail(self, cause: str, code: int) -> None:
        """Tell the first failure, also to the survivors, who have some time to say what they saw. The others follow from it."""
        if not self.failed:
            self.failed, self.cause, self.deadline = code, cause, time.monotonic() + GRACE
            self.notes.give_up(cause)
            say(cause)

    def _end_survivors(self) -> None:
        who = workers(sorted(self.ranks.values()))
        say(f"{who} got SIGKILL, {GRACE:g} s after this failure: {self.cause}")
        for pid in self.ranks:
            os.kill(pid, signal.SIGKILL)
        self.deadline = float("inf")


def say(sentence: str) -> None:
    """To the user, beside what the scripts print."""
    print(f"inalab: {sentence}", file=sys.stderr, flush=True)


def forward(descriptor: int, state: list) -> bool:  # type: ignore[type-arg]
    """Print the whole lines that have come, with the rank; False at the end of the output."""
    rank, rest = state
    data = os.read(descriptor, 65536)
    *lines, state[1] = (rest + data).split(b"\n")
    if not data and state[1]:
        lines.append(state[1])
    _print(rank, lines)
    return bool(data)


def _print(rank: int, lines: list[bytes]) -> None:
    for line in lines:
        sys.stdout.buffer.write(f"[{rank}] ".encode() + line + b"\n")
    sys.stdout.buffer.flush()
