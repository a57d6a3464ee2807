"""How trials end when something of theirs does: soon, in one sentence with the cause, and with nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from inalab.hosts.messages import Forked, Hello, Message, Step
from inalab.hosts.worker import WorkerSettings, run_worker
from inalab.schemes.scheme import Admitted
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial import coordinator as trials
from inalab.testbed.trial import deployment, workers
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.servers import Server, spawn_servers
from inalab.topologies.network import MANAGEMENT_ADDRESS, Network
from tests.command_line import Command
from tests.network.leftovers import Leftovers
from tests.network.running import run_trial
from tests.network.test_trials import SMALL, name_of

CONSEQUENCES = ("Broken pipe", "cannot be completed", "does not answer", "said nothing", "closed the connection")


def family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)  # type: ignore[no-any-return]


def called(name: str) -> int:
    """The process of the running trial with this name, seen from outside its namespaces."""
    (pid,) = (p.pid for p in family() if name_of(p) == name)
    return int(pid)


def switch_process(name: str) -> int:
    """The process that moves the packets of a switch."""
    (pid,) = (p.pid for p in family() if name_of(p) != "bash" and any(f"{name}-eth0" in word for word in p.cmdline()))
    return int(pid)


def fails(target: Target, at: type[Message], act: Callable[[], None], **change: Any) -> str:
    """Why a trial fails in which `act` happens once, at step 2 or at the first event of another kind."""
    acted: list[Message] = []
    left = Leftovers()

    def on_event(message: Message) -> None:
        if isinstance(message, at) and not acted and getattr(message, "number", 2) == 2:
            left.note(p.pid for p in family())
            acted.append(message)
            act()

    with pytest.raises(TrialError) as caught:
        run_trial(TrialSettings(**{**SMALL, "steps": 2000, **change}), 1, target, on_event)
    assert not family()
    assert left.held
    left.check()
    return str(caught.value)


def kill(find: Callable[[], int], number: int = signal.SIGKILL) -> None:
    os.kill(find(), number)


@pytest.mark.parametrize("at", [Forked, Hello, Step])
@pytest.mark.parametrize("name", ["tor1", "root"])
def test_a_switch_that_is_killed_ends_the_trial_at_once(target: Target, name: str, at: type[Message]) -> None:
    why = fails(target, at, lambda: kill(lambda: switch_process(name)))
    assert re.match(rf"switch {name} was killed by SIGKILL\b", why), why
    assert not [words for words in CONSEQUENCES if words in why]


def test_a_switch_that_crashes_is_told_with_its_signal(target: Target) -> None:
    why = fails(target, Step, lambda: kill(lambda: switch_process("tor0"), signal.SIGSEGV))
    assert why.startswith("switch tor0 was killed by SIGSEGV")


def test_a_server_that_is_killed_is_named(target: Target) -> None:
    why = fails(target, Step, lambda: kill(lambda: called("server1")), scheme="ps", servers=2)
    assert why == "server 1 (host s1) was killed by SIGKILL"


def test_background_traffic_that_ends_ends_the_trial(target: Target) -> None:
    change = {"workers": 3, "background": 1}
    victims = lambda: [p.pid for p in family() if name_of(p) == "background"]  # noqa: E731
    why = fails(target, Step, lambda: kill(lambda: max(victims())), **change)
    assert why == "the source of the background traffic was killed by SIGKILL"


def test_the_first_process_of_a_trial_is_killed(target: Target) -> None:
    why = fails(target, Step, lambda: kill(lambda: psutil.Process().children()[0].children()[0].pid))
    assert why == "the trial's first process was killed by SIGKILL and left no result"


# --- the management network


def in_trial(*words: str) -> None:
    """Run a command in the network namespace of the running trial."""
    first = psutil.Process().children()[0].children()[0].pid
    whose = (
        [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    )  # an ordinary user has power in its own namespace alone
    subprocess.run(["nsenter", "-t", str(first), *whose, "-n", *words], check=True)


@pytest.mark.parametrize("at", [Forked, Step])
@pytest.mark.parametrize("cut", [("set", "mgmt1", "down"), ("del", "mgmt1")], ids=["down", "deleted"])
def test_a_management_link_that_is_cut_ends_the_trial_by_name(target: Target, cut: tuple[str, ...], at: type[Message]) -> None:
    why = fails(target, at, lambda: in_trial("ip", "link", *cut))
    assert why == "the management network is cut: it does not reach worker 1 (host h1)"


def test_a_management_network_that_loses_everything_ends_the_trial(target: Target) -> None:
    """All links are up, and nothing passes: the kernel gives the connections up."""

    def lose() -> None:
        for rank in (0, 3):
            in_trial("ip", "route", "replace", "blackhole", f"192.168.0.{rank + 2}/32")
            in_trial("ip", "route", "flush", "cache")

    why = fails(target, Step, lose)
    assert why == "the management network is cut: it does not reach workers 0, 3"


def test_a_management_link_may_be_down_for_a_moment(target: Target) -> None:
    def flap(message: Message) -> None:
        if isinstance(message, Step) and (message.number, message.rank) == (2, 0):
            in_trial("ip", "link", "set", "mgmt1", "down")
            time.sleep(0.5)
            in_trial("sh", "-c", f"ip link set mgmt1 up && ip route replace 192.168.0.3/32 dev mgmt1 src {MANAGEMENT_ADDRESS}")

    result = run_trial(TrialSettings(**{**SMALL, "steps": 60}), 1, target, flap)  # on a busy machine the test hears of a step late
    assert result["metrics"]["model_digest"]


# --- the join


def strange(words: bytes, often: bool) -> int:
    """A client of the coordinator that does not know the secret."""
    held = []
    for _ in range(50):
        made = socket.create_connection((MANAGEMENT_ADDRESS, trials.COORDINATOR_PORT))
        made.sendall(words)
        held.append(made)
    while often:
        time.sleep(0.5)
        try:
            held[-1].sendall(b"x")
        except OSError:
            break
    time.sleep(60)
    return 0


@pytest.mark.parametrize(
    ("words", "often"), [(b"", False), (b"", True), (b"\0\0\0\x10#CHALLENGE#" * 9, False)], ids=["silent", "trickling", "garbage"]
)
def test_strangers_hold_no_join_up(target: Target, monkeypatch: pytest.MonkeyPatch, words: bytes, often: bool) -> None:
    def strangers_first(network: Network, jobs: list[Admitted]) -> dict[int, Server]:
        network.spawn(0, partial(strange, words, often))
        time.sleep(0.5)
        return spawn_servers(network, jobs)

    monkeypatch.setattr(deployment, "spawn_servers", strangers_first)
    plain = run_trial(TrialSettings(**{**SMALL, "steps": 2}), 1, target, lambda message: None)
    assert plain["metrics"]["model_digest"]


@pytest.mark.parametrize(
    ("name", "how"), [("worker1", r"workers? (0, )?1(, 2)?(, 3)? did not join: worker 1"), ("server0", r"server 0 \(host s0\)")]
)
def test_who_is_killed_before_the_join_is_named(target: Target, monkeypatch: pytest.MonkeyPatch, name: str, how: str) -> None:
    """Which others have joined when the test hears of the victim is a matter of luck; the victim waits to be killed."""

    def begin(settings: WorkerSettings) -> int:
        if settings.place.membership.rank == 1:
            Path("/proc/self/comm").write_text("worker1")
            signal.pause()
        return run_worker(settings)

    monkeypatch.setattr(workers, "run_worker", begin)

    def victim() -> int:
        while not (found := [p.pid for p in family() if name_of(p) == name]):
            time.sleep(0.02)
        return int(found[0])

    why = fails(target, Forked, lambda: kill(victim), scheme="ps", servers=2)
    assert re.fullmatch(rf"{how} was killed by SIGKILL", why), why


# --- Ctrl-C


RUN = ["run", "quickstart", "--set", "steps=400"]
LAUNCH = ["launch", "--", "tests/scripts/endless.py"]


@pytest.mark.parametrize("words", [RUN, LAUNCH], ids=["run", "launch"])
@pytest.mark.parametrize("processes", [1, 8, 17], ids=["namespaces", "network", "training"])
def test_ctrl_c_ends_everything_in_one_sentence(tmp_path: Path, words: list[str], processes: int) -> None:
    """Twice in a row, as people press it, and to the whole process group, as a terminal sends it.

    It is ignored when the command starts, as a shell's & has it.
    """
    left = Leftovers()
    shape = ["--set", "racks=2", "--set", "workers=2", *(["--results", str(tmp_path)] if words is RUN else [])]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begun = Command(words[0], *shape, *words[1:])
    finally:
        signal.signal(signal.SIGINT, before)
    with begun as process:
        while len(family()) <= processes and process.poll() is None:
            time.sleep(0.02)
        running = family()
        left.note(p.pid for p in running)
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        code = process.wait(30)
        output, errors = process.printed()
    assert code == 130
    assert errors.splitlines()[-1:] == ["inalab: interrupted"] and len(errors.splitlines()) <= 2  # launch has its first line
    assert "Traceback" not in output
    psutil.wait_procs(running, timeout=5)
    assert not family()
    left.check()
