"""`inalab launch`: any PyTorch script on the hosts of an emulated network, one process a host."""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import statistics
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from inalab.hosts.collective import workers
from inalab.hosts.launch_files import FOLDER, LaunchFiles
from inalab.hosts.sampling import SEED
from inalab.hosts.tally import Tally
from inalab.hosts.torch_backend import PLACE
from inalab.hosts.torch_functions import MEETING
from inalab.hosts.training.pace import VARIABLE
from inalab.schemes.streaming import StreamSettings
from inalab.switches.control import ControlError
from inalab.switches.target import SwitchError, Target
from inalab.testbed.plan.described import described
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial import discovery, validity
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.deployment import Deployment, deployed
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.groups import Groups, GroupService
from inalab.testbed.trial.hosted import on_host
from inalab.testbed.trial.load import LinkBytes, LoadMeter
from inalab.testbed.trial.places import place_of, rendezvous
from inalab.testbed.trial.sampled import Sampled, compared
from inalab.testbed.trial.watch import ended
from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError
from inalab.topologies.plan import HostPlan, NetworkPlan

OF_TRAINING = (
    "workload", "steps", "batch", "learning_rate", "evaluate_every", "measure_error", "faults", "timeline", "jobs",
    "background", "pipeline", "forward_share", "elastic",
)  # fmt: skip
OF_DDP = "torch._dynamo"  # what DistributedDataParallel would load in every worker, for a second each
LAST_WORDS = 1.0  # seconds for what is still in the pipes when all workers have ended
GRACE = 10.0  # seconds that the others have to end after one has failed
MISSED = 5.0  # seconds after a worker's end in order; who still waits for a sum with it then gives up


def launch(settings: TrialSettings, seed: int, target: Target, script: list[str], torchrun: bool, check_sums: bool) -> int:
    """Run a script with its arguments on every host; what they print comes with their ranks. The first exit code that is not 0.

    With `check_sums` it is 1, too, if the script ended well and the scheme gave a worker a sum that is none: see hosts.sampling.
    """
    check_script(Path(script[0]))
    say(opening(settings))
    if not torchrun:
        importlib.import_module(OF_DDP)
    pid = isolation.start(partial(_inside, settings, seed, target, script, torchrun, check_sums))
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


def refuse_training(settings: TrialSettings) -> None:
    """Raise SettingsError for what is of the project's own training."""
    if unknown := settings.beyond_default(OF_TRAINING):
        raise SettingsError(f"{', '.join(unknown)} is of the project's own training: a script that is launched knows nothing of it")
    if not settings.of_scheme().sums:
        raise SettingsError(f"scheme {settings.scheme} keeps a model and sums no gradients, as scripts do: choose another scheme")


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


def environment(settings: TrialSettings, plan: NetworkPlan, host: HostPlan, seed: int, check_sums: bool = False) -> dict[str, str]:
    """What a process on a host finds in its environment.

    The workers meet on the management network. What Gloo carries is on the data network, as what the scheme carries is.
    """
    (job,) = settings.admitted(plan)
    meeting = rendezvous(job.plan, host, gloo_measured=True)
    place = place_of(plan, job, host)
    pace = {"compute_ms": settings.compute_ms, "seed": seed, "rank": host.rank, "straggler": asdict(settings.straggler_model())}
    return {
        PLACE: place.dumps(), "RANK": str(host.rank), "WORLD_SIZE": str(plan.topology.size), "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": meeting.address, "MASTER_PORT": str(meeting.port),
        MEETING: f"{meeting.address}:{meeting.port}",
        "GLOO_SOCKET_IFNAME": meeting.interface, "OMP_NUM_THREADS": "1", VARIABLE: json.dumps(pace),
        **({SEED: str(seed)} if check_sums else {}),
    }  # fmt: skip


def _inside(settings: TrialSettings, seed: int, target: Target, script: list[str], torchrun: bool, check_sums: bool) -> int:
    """The first process of the network's namespaces."""
    plan = settings.plan()
    commands = commands_for(settings, plan, seed)
    try:
        discovery.announce(settings)
        notes = LaunchFiles(Path(tempfile.mkdtemp(dir="/run", prefix="inalab-")))  # it ends with the namespaces
        with deployed(plan, settings.admitted(plan), target, commands, seed) as deployment:
            launched = _Launch(deployment, settings, seed, notes, check_sums)
            carried = LinkBytes(deployment.network, {"hosts": plan.links_above(host.name for host in plan.hosts)})
            load, begun = LoadMeter.of(deployment.network), time.monotonic()
            code = launched.run(script, torchrun, load.sample)
            took, busy = time.monotonic() - begun, validity.saturation(load.metrics())
        tallies = launched.tallies()
        for sentence in summary(list(tallies.values()), settings, carried.metrics()["hosts"], took, busy) if code == 0 else ():
            say(sentence)
        if check_sums:
            found = checked_sums(tallies, settings)
            say(found.sentence)
            code = code or int(found.wrong)
        return code
    except (NetworkError, SwitchError, ControlError, TrialError) as error:
        print(f"inalab: {error}", file=sys.stderr)
        return 1


class Failures:
    """How scripts failed, by the word that they left of it."""

    def __init__(self, notes: LaunchFiles, size: int) -> None:
        self.notes = notes
        self.silent = set(range(size))  # ranks whose failure was not told yet, if there is one
        self.ranks_of: dict[str, list[int]] = {}  # by failure

    def tell(self) -> None:
        """Print those that are new; what is the same on several ranks, once."""
        for rank in sorted(self.silent):
            if (text := self.notes.failure(rank)) is not None:
                self.silent.remove(rank)
                if text not in self.ranks_of:
                    _print(rank, text.encode().split(b"\n"))
                self.ranks_of.setdefault(text, []).append(rank)

    def conclude(self) -> None:
        """Likewise, and say who failed in the same way."""
        self.tell()
        for ranks in self.ranks_of.values():
            if len(ranks) > 1:
                say(f"{workers(ranks[1:])} failed in the same way as worker {ranks[0]}")


class _Launch:
    """A script under way on all hosts, seen from inside the network's namespaces."""

    def __init__(self, deployment: Deployment, settings: TrialSettings, seed: int, notes: LaunchFiles, check_sums: bool) -> None:
        self.deployment, self.network = deployment, deployment.network
        self.settings, self.seed, self.notes, self.check_sums = settings, seed, notes, check_sums
        (job,) = deployment.admitted
        self.groups = GroupService(Groups(self.network.plan, job, self.network.controls), notes.folder)
        self.ranks: dict[int, int] = {}  # of the workers that run, by pid
        self.outputs = selectors.DefaultSelector()
        self.failed = 0  # the exit code of what failed first
        self.cause = ""
        self.deadline = float("inf")  # for the survivors
        self.departed: tuple[float, int] | None = None  # when the first worker ended in order, and which
        self.failures = Failures(notes, self.network.plan.topology.size)

    def run(self, script: list[str], torchrun: bool, look: Callable[[], None]) -> int:
        """The first exit code that is not 0. It calls `look` several times a second."""
        watch = self.deployment.watch(self.deployment.spawn_servers())
        for host in self.network.plan.hosts:
            self._start(host, script, torchrun)
        self.groups.register(self.outputs)
        ended_at = float("inf")
        while (self.ranks or len(self.outputs.get_map()) > 1) and time.monotonic() < ended_at:
            for key, _ in self.outputs.select(0.1):
                if key.data is self.groups:
                    self.groups.answer()
                elif not forward(key.fd, key.data):
                    self.outputs.unregister(key.fd)
            look()
            self.failures.tell()
            if why := watch.trouble():
                self._fail(why, 1)
            self._reap()
            if not self.ranks:
                ended_at = min(ended_at, time.monotonic() + LAST_WORDS)
            if time.monotonic() > self.deadline:
                self._end_survivors()
        self.failures.conclude()
        self.groups.close()
        return self.failed

    def tallies(self) -> dict[int, Tally]:
        """What the workers' collectives used, by rank, of those that have come to their end."""
        found = {host.rank: self.notes.tally(host.rank) for host in self.network.plan.hosts}
        return {rank: Tally.loads(text) for rank, text in found.items() if text is not None}

    def _start(self, host: HostPlan, script: list[str], torchrun: bool) -> None:
        reader, writer = os.pipe()
        given = environment(self.settings, self.network.plan, host, self.seed, self.check_sums) | {FOLDER: str(self.notes.folder)}
        self.ranks[self.network.spawn(host.rank, partial(on_host, writer, given, script, torchrun))] = host.rank
        os.close(writer)
        self.outputs.register(reader, selectors.EVENT_READ, [host.rank, b""])

    def _reap(self) -> None:
        for pid, rank in list(self.ranks.items()):
            if (code := ended(pid)) is not None:
                del self.ranks[pid]
                if code:
                    self._fail(f"worker {rank} {isolation.ending(code)}", code if code > 0 else 128 - code)
                elif self.departed is None:
                    self.departed = time.monotonic(), rank
        if self.ranks and self.departed and time.monotonic() - self.departed[0] > MISSED:
            self.notes.give_up(f"worker {self.departed[1]} has ended")

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


def summary(
    tallies: list[Tally], settings: TrialSettings, carried: list[dict[str, int]], took: float, busy: str = "",
    spent: str = ", its imports included",
) -> list[str]:  # fmt: skip
    """What a script's collectives used, as sentences; calls and bytes are a worker's, packets all workers'.

    `carried` are the bytes "up" and "down" of each worker's link: whatever the script sent, also where no tally noted it. The
    script `took` seconds, `spent` as that says, and `busy` says of what the machine had too little.
    Nothing where no worker left a tally, because its script did not come to the interpreter's end.
    """
    if not tallies:
        return []
    scheme, whole, sentences = settings.of_scheme(), Tally(), []
    for tally in tallies:
        whole.add(tally)
    n = len(tallies)
    if whole.sums:
        resent = f"; {whole.retransmissions:,} of all workers' {whole.sent:,} packets were retransmitted" if whole.sent else ""
        calls, size = _counted(whole.sums // n, "all-reduce"), _megabytes(whole.sum_bytes / n)
        sentences.append(f"{scheme.name} summed {calls} of each worker, {size} in all; {_median(whole.seconds)}{resent}")
    if whole.copies:
        calls = _counted(whole.copies // n, "all-gather or broadcast", "all-gathers and broadcasts")
        size = _megabytes(whole.copy_bytes / n)
        sentences.append(f"{scheme.name} carried {calls} of each worker, {size} in all; {_median(whole.copy_seconds, 'call')}")
    if whole.gloo_calls:
        calls, size = _counted(whole.gloo_calls // n, "call"), _megabytes(whole.gloo_bytes / n)
        sentences.append(
            f"Gloo carried {calls} of each worker, {size} in all" + "; " * bool(whole.gloo_seconds) + _median(whole.gloo_seconds)
        )
    up, down = (_megabytes(statistics.mean(link[way] for link in carried)) for way in ("up", "down"))
    sentences.append(f"a worker's data link carried {up} up and {down} down on average, headers included")
    sentences.append(f"the script took {took:.1f} s{spent}" + (f"; {busy}" if busy else ""))
    if not whole.sums and not whole.copies and not scheme.native:
        sentences.append(
            f"nothing was summed by {scheme.name}: all-reduces by SUM use it after "
            'init_process_group("ina"), see docs/how-to/torch.md'
        )
    paced = settings.beyond_default(("compute_ms", "straggler"))
    if paced and not whole.paced:
        lacking = "the script has no block of inalab.hosts.training.pace, see docs/how-to/torch.md"
        sentences.append(f"{' and '.join(paced)} had no effect: {lacking}")
    if whole.late:
        sentences.append(f"{whole.late} of {whole.paced} steps computed for longer than their virtual time: raise compute_ms")
    return sentences


class Checked(NamedTuple):
    """What comparing a script's sums has found, and whether one is wrong."""

    sentence: str
    wrong: bool


def checked_sums(tallies: dict[int, Tally], settings: TrialSettings) -> Checked:
    """Compare what the workers, by rank, have sampled of their sums with what they gave."""
    scheme, size = settings.of_scheme(), settings.plan().topology.size
    sampled = [Sampled(number, rank, sample) for rank, tally in tallies.items() for number, sample in tally.samples]
    workers_of = Counter(one.number for one in sampled)
    untold = sum(number < size for number in workers_of.values())
    found = compared(sampled, size, scheme, settings.scheme_settings(), "sum")
    if found.wrong:
        return Checked(f"a sum is wrong: {found.wrong}", True)
    if not sampled:
        return Checked(f"no sum was checked: none went over {scheme.name} to its end", False)
    if not found.sums:
        return Checked(f"no sum was checked: of those that were drawn {scheme.name} states nothing, or not all workers tell", False)
    elements, sums = _counted(found.elements, "element"), _counted(found.sums, "sum")
    left = f"; {_counted(untold, 'sum')} left out, of which not all workers tell" if untold else ""
    return Checked(f"{elements} of {sums} checked: as exact as {scheme.name} states{left}", False)


def _median(seconds: list[float], what: str = "all-reduce") -> str:
    """Of collectives, from the call to the end; empty where there were none."""
    if not seconds:
        return ""
    median = 1000 * statistics.median(seconds)
    return f"median {what} {median:,.{0 if median >= 100 else 1}f} ms"


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


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
