"""What `inalab launch` refuses before it starts, what workers find, the notes that it leaves, and what a failure becomes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from typer.testing import CliRunner

from inalab.hosts import torch_backend
from inalab.hosts.collective import AggregationError, Counters, Membership
from inalab.hosts.launch_files import FOLDER, WORKER, LaunchFiles
from inalab.hosts.place import Place
from inalab.hosts.sampling import SEED
from inalab.hosts.tally import Tally
from inalab.hosts.torch_backend import PLACE, Options
from inalab.hosts.training.pace import VARIABLE
from inalab.hosts.training.stragglers import Straggler
from inalab.schemes.gloo import SCHEME
from inalab.testbed.backends.networks import Networks
from inalab.testbed.command import cli
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial import hosted, launch
from inalab.testbed.trial.hosted import Runner
from inalab.testbed.trial.launch import check_script, refuse_training
from inalab.testbed.trial.places import RENDEZVOUS_PORT
from tests.fake_network import Clock

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [192.168.0.2]:51616. GLHF!"
PLACED = Place(
    SCHEME, SCHEME.Settings(), Membership(0, 1, 2, [[0, 1]]), ["10.0.0.1", "10.0.0.2"], [], [], ["192.168.0.2", "192.168.0.3"], []
)


@pytest.mark.parametrize(
    ("source", "sentences"),
    [
        (b"x = 1\ndef f(:\n", "line 2: SyntaxError: invalid syntax: def f(:"),
        (b"if True:\nx = 1\n", "line 2: IndentationError: expected an indented block after 'if' statement on line 1: x = 1"),
        (b"x = '\xff'\n", "SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"x = 1\0\n", "source code string cannot contain null bytes"),
    ],
)
def test_a_script_that_is_no_python_is_refused_in_one_sentence(tmp_path: Path, source: bytes, sentences: str) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(source)
    with pytest.raises(SettingsError) as caught:
        check_script(script)
    assert str(script) in str(caught.value)
    assert sentences in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_that_is_not_there_or_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"there is no script nosuch\.py"):
        check_script(Path("nosuch.py"))
    with pytest.raises(SettingsError, match="there is no script"):
        check_script(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "train.py").touch()
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SettingsError, match=r"the script .*train.py cannot be read: Permission denied"):
        check_script(tmp_path / "train.py")


def test_what_python_runs_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe4'\n")
    (tmp_path / "warns.py").write_text("x = 1 is 1\n")
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as app:
        app.writestr("__main__.py", "x = 1")
    for name in ("latin.py", "warns.py", "app.pyz"):
        check_script(tmp_path / name)


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({"steps": 9, "pipeline": "barrier"}, "^steps, pipeline is of the project's own training"),
        ({"workload": "tensor-5"}, "^workload is of the project's own training"),
    ],
)
def test_what_is_of_the_projects_own_training_is_refused(changed: dict[str, Any], sentences: str) -> None:
    refuse_training(TrialSettings(workers=2, compute_ms=3, straggler="pareto"))
    with pytest.raises(SettingsError, match=sentences):
        refuse_training(TrialSettings(**changed))


def test_the_command_hands_on_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[Any] = []
    monkeypatch.setattr(Networks, "require", lambda self: None)
    monkeypatch.setattr("inalab.testbed.trial.launch.launch", lambda *given: launched.append(given) or 7)
    words = [
        "launch",
        "--scheme",
        "gloo",
        "--seed",
        "5",
        "--set",
        "workers=2",
        "--torchrun",
        "--check-sums",
        "--",
        "x.py",
        "--seed",
        "3",
    ]
    done = CliRunner().invoke(cli.application, words)
    ((settings, seed, _, script, runner, check_sums),) = launched
    assert (done.exit_code, settings.scheme, settings.workers, seed, runner, check_sums) == (7, "gloo", 2, 5, Runner.TORCHRUN, True)
    assert script == ["x.py", "--seed", "3"]


def test_a_network_ends_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code is the network's; an interruption kills the network, and is raised again."""
    (tmp_path / "x.py").touch()
    done: list[Any] = []
    ways: Any = iter([3, KeyboardInterrupt, 0])

    def wait(pid: int) -> int:
        done.append(("wait", pid))
        if (way := next(ways)) is KeyboardInterrupt:
            raise way
        return int(way)

    monkeypatch.setattr(launch.isolation, "start", lambda work: 4711)
    monkeypatch.setattr(launch.isolation, "wait", wait)
    monkeypatch.setattr(launch.os, "kill", lambda pid, how: done.append((how, pid)))
    target: Any = None
    assert launch.launch(TrialSettings(), 1, target, [str(tmp_path / "x.py")], runner=Runner.TORCHRUN, check_sums=False) == 3
    assert done.pop() == ("wait", 4711)
    with pytest.raises(KeyboardInterrupt):
        launch.launch(TrialSettings(), 1, target, [str(tmp_path / "x.py")], runner=Runner.TORCHRUN, check_sums=False)
    assert done == [("wait", 4711), (signal.SIGKILL, 4711), ("wait", 4711)]


@pytest.mark.parametrize("scheme", ["switchml", "gloo"])
def test_every_worker_finds_its_place_its_pace_and_the_others(scheme: str) -> None:
    settings = TrialSettings(racks=2, workers=2, scheme=scheme, compute_ms=30, straggler="exponential", straggler_mean=0.7)
    plan = settings.plan()
    for rank, host in enumerate(plan.hosts):
        found = launch.environment(settings, plan, host, 9)
        assert SEED not in found and launch.environment(settings, plan, host, 9, check_sums=True)[SEED] == "9"
        assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == (f"{rank}", "4", "0", "1")
        assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (plan.hosts[0].management_ip, f"{RENDEZVOUS_PORT}")
        assert found["GLOO_SOCKET_IFNAME"] == host.data_interface != host.management_interface
        place, pace = Place.loads(found[PLACE]), json.loads(found[VARIABLE])
        assert (place.membership.rank, place.scheme.name) == (rank, scheme)
        assert (pace["compute_ms"], pace["seed"], pace["rank"]) == (30, 9, rank)
        assert Straggler(**pace["straggler"]) == settings.straggler_model()


# --- notes


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchFiles]:
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setenv(PLACE, PLACED.dumps())
    monkeypatch.setenv(WORKER, "1")
    monkeypatch.setattr(hosted, "CAUSE_SECONDS", 0.0)
    yield LaunchFiles(folder)


def test_the_first_reason_is_what_the_pulse_tells(notes: LaunchFiles) -> None:
    pulse = Options.from_environment().pulse
    assert pulse() is None
    notes.give_up("worker 0 was killed by SIGKILL")
    notes.give_up("worker 1 ended with exit code 1")
    assert pulse() == "worker 0 was killed by SIGKILL"


def test_without_a_launcher_the_pulse_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, PLACED.dumps())
    monkeypatch.delenv(FOLDER, raising=False)
    given = Options.from_environment()
    assert given.pulse() is None and given.notes is None


@pytest.mark.parametrize("group", [None, Counters(sent=9, retransmissions=2)])
def test_what_a_process_used_is_left_for_the_launcher(
    notes: LaunchFiles, monkeypatch: pytest.MonkeyPatch, group: Counters | None
) -> None:
    """With what a group has sent that was not destroyed."""
    used = Tally(sums=1, seconds=[0.5], sent=100)
    monkeypatch.setattr(torch_backend, "tally", used)
    monkeypatch.setattr(torch_backend, "joined", [SimpleNamespace(counters=lambda: group)] if group else [])
    torch_backend.leave_tally()
    expected = Tally(sums=1, seconds=[0.5], sent=109, retransmissions=2) if group else used
    assert Tally.loads(notes.tally(1) or "") == expected


def failed(tmp_path: Path, notes: LaunchFiles, source: str) -> str:
    """What a script leaves that fails."""
    script = tmp_path / "train.py"
    script.write_text(source)
    assert hosted.run([str(script)]) == 1
    return (notes.failure(1) or "").replace(str(script), "train.py")


@pytest.fixture(autouse=True)
def same_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hosted.run` changes what it finds."""
    monkeypatch.setattr("sys.argv", ["pytest"])
    monkeypatch.setattr("sys.path", list(sys.path))


def test_a_traceback_begins_in_the_script(tmp_path: Path, notes: LaunchFiles) -> None:
    wording = failed(tmp_path, notes, "def f():\n    import no_such_module\nf()\n")
    first, *frames, last = wording.splitlines()
    assert first == "Traceback (most recent call last):"
    assert frames[0] == '  File "train.py", line 3, in <module>'
    assert last == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_failure_of_gloo_is_one_line_with_the_cause(tmp_path: Path, notes: LaunchFiles) -> None:
    source = f"x = 1\nraise RuntimeError({GLOO!r})\n"
    sentences = "train.py, line 2: worker 1: a collective over Gloo cannot be completed: worker 0 has closed its connection"
    assert failed(tmp_path, notes, source) == sentences
    notes.give_up("worker 3 was killed by SIGKILL")
    assert failed(tmp_path, notes, source) == f"{sentences} (worker 3 was killed by SIGKILL)"


def test_a_sum_that_failed_is_one_line(tmp_path: Path, notes: LaunchFiles) -> None:
    source = "from inalab.hosts.collective import AggregationError\nraise AggregationError('worker 1: job 0, slot 3')\n"
    assert failed(tmp_path, notes, source) == f"train.py, line 2: {AggregationError.__name__}: worker 1: job 0, slot 3"


def test_a_failure_is_where_the_script_called_what_failed(tmp_path: Path, notes: LaunchFiles) -> None:
    source = "from inalab.hosts.collective import AggregationError\ndef f():\n    raise AggregationError('no')\nf()\n"
    assert failed(tmp_path, notes, source) == "train.py, line 3: AggregationError: no"


def test_a_script_finds_its_arguments_and_the_modules_beside_it(
    tmp_path: Path, notes: LaunchFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside_the_script.py").write_text("x = 5\n")
    script = tmp_path / "train.py"
    script.write_text("import sys\nfrom beside_the_script import x\nprint(__name__, x, sys.argv)\n")
    assert hosted.run([str(script), "--lr", "1"]) == 0
    assert capsys.readouterr().out == f"__main__ 5 {[str(script), '--lr', '1']}\n"


@pytest.mark.parametrize(("exitcode", "code"), [(3, 3), (-9, 137)])
def test_below_torchrun_an_exit_code_is_the_scripts_own(
    notes: LaunchFiles, monkeypatch: pytest.MonkeyPatch, exitcode: int, code: int
) -> None:
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    def run(asked: Any) -> None:
        assert (asked.node_rank, asked.nnodes, asked.nproc_per_node) == (1, "2", "1")
        assert (asked.master_addr, asked.master_port) == ("192.168.0.2", 29501)
        assert (asked.training_script, asked.training_script_args) == ("inalab.testbed.trial.hosted", ["x.py", "--lr"])
        raise ChildFailedError("x.py", {0: ProcessFailure(0, 1, exitcode, "")})

    monkeypatch.setattr(torchrun, "run", run)
    monkeypatch.setattr(hosted.logging, "disable", lambda level: None)
    given = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "192.168.0.2", "MASTER_PORT": "29501"}
    assert hosted._below_torchrun(given, ["x.py", "--lr"]) == code


@pytest.mark.parametrize(("first", "then", "looks"), [("", "S", 3), ("RSSR", "S", 7), ("S", "R", 2500)])
def test_a_group_is_destroyed_once_gloos_threads_are_idle_for_some_looks(
    monkeypatch: pytest.MonkeyPatch, first: str, then: str, looks: int
) -> None:
    """Or when that takes too long."""

    def destroy_process_group(group: Any = None) -> None:
        destroyed.append(group)

    destroyed: list[Any] = []
    states, looked = chain(first, repeat(then)), count()
    for module in (dist, dist.distributed_c10d):
        monkeypatch.setattr(module, "destroy_process_group", destroy_process_group)
    monkeypatch.setattr(hosted, "time", Clock())
    monkeypatch.setattr(hosted, "gloo_threads", lambda: ["S", next(states)] if next(looked) < 9999 else [])
    hosted._wait_for_idle_gloo_threads()
    dist.destroy_process_group("the group")
    assert destroyed == ["the group"]
    assert next(looked) == pytest.approx(looks, abs=looks // 1000)


def test_exit_codes_are_the_scripts_own(tmp_path: Path, notes: LaunchFiles) -> None:
    script = tmp_path / "train.py"
    for source, code in (("raise SystemExit(3)", 3), ("raise SystemExit", 0), ("x = 1", 0), ("exit('no data')", 1)):
        script.write_text(source)
        assert hosted.run([str(script)]) == code
    assert notes.failure(1) == "no data"


def test_a_script_ends_before_its_libraries_are_taken_down(tmp_path: Path) -> None:
    """A library whose thread still runs would abort the process then, as Gloo's may."""
    script = tmp_path / "ends.py"
    script.write_text(
        "import atexit, ctypes, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.on_exit(libc.abort, None)\n"
        "atexit.register(print, 'over')\n"
        "sys.exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "inalab.testbed.trial.hosted", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "over\n", "")
