"""Submissions that try to read, forge, hang or take more than they may: each ends in time, earns nothing and learns nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import psutil
import pytest

from inalab.switches.embedded.build import c_compiler
from inalab.testbed.lab import catalogue, confinement, grading, guard, messages, steps, switch
from inalab.testbed.lab.check import check
from inalab.testbed.lab.lab import Failure, Lab, LabError, Outcome, Share
from inalab.testbed.lab.student import StudentModule
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench
from inalab.testbed.record.runs import ROOT

SECRET = "the-exam-of-next-week"
SHADOWS = ("colorsys", "random", "copy", "token", "lark", "numpy", "json", "socket", "pcpp", "scapy", "typing")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "teacher" / "secret"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    shutil.copytree(catalogue.SOLUTIONS / "01-forward", folder)
    return folder


def graded(folder: Path, lab: str = "01-forward") -> list[Outcome]:
    return list(check(catalogue.load(lab), folder))


def one(folder: Path, task: Callable[[Workbench], Share | None], file: str = "work.py") -> Outcome:
    lab = Lab("One", "Python", 1, [file])
    lab.task("the task", 10)(task)
    (found,) = check(lab, folder)
    return found


def calls(folder: Path, code: str) -> Outcome:
    """What comes of calling work() of this code; the task is never passed."""
    (folder / "work.py").write_text(code)
    return one(folder, lambda bench: Share(0.0, repr(bench.module().call("work"))))


def shown(outcomes: list[Outcome]) -> str:
    return "\n".join(f"{o.message}\n{o.trace}\n{o.output}" for o in outcomes)


# --- forged modules


@pytest.mark.parametrize("text", ["", "raise SystemExit('not mine')"], ids=["empty", "ends"])
def test_modules_beside_the_work_are_nobodys(work: Path, text: str) -> None:
    for name in SHADOWS:
        (work / f"{name}.py").write_text(text)
    assert all(o.passed for o in graded(work))


@pytest.mark.parametrize("path", ["solutions/01-forward/forward.p4", "01-forward/check.py"])
def test_solutions_and_checks_cannot_be_read_where_inalab_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(confinement, "PACKAGES", (".",))  # all is shown that is beside the packages
    found = calls(tmp_path, f"def work(): return open({str(ROOT / 'labs' / path)!r}).read()")
    assert "FileNotFoundError" in shown([found]), shown([found])
    given = calls(tmp_path, f"def work(): import os; return sorted(os.listdir({str(ROOT / 'labs')!r}))")
    assert "['given']" in shown([given]), shown([given])


def test_modules_beside_a_host_are_nobodys(tmp_path: Path) -> None:
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not mine')")
    (tmp_path / "own.py").write_text("VALUE = 7\n")
    code = "import colorsys, json, random, own, wire\nimport numpy as np\ndef work():\n    return [np.int64(own.VALUE), random.Random(1).random() < 1]\n"
    assert calls(tmp_path, code).message == "[7, True]"


def test_a_compiler_of_the_submissions_is_not_the_compiler(work: Path, secret: Path) -> None:
    c = f'__asm__(".incbin \\"{secret}\\"");'
    for package in ("switches/embedded", "testbed/lab", "hosts", "topologies"):
        (work / package).mkdir(parents=True, exist_ok=True)
        for part in Path(package).parts, Path(package).parts[:1]:
            (work / Path(*part) / "__init__.py").touch()
    (work / "switches/embedded/__main__.py").write_text(f"print({c!r})")
    (work / "sitecustomize.py").write_text(f"print({c!r}); raise SystemExit(0)")
    outcomes = graded(work)
    assert all(o.passed for o in outcomes) and SECRET not in shown(outcomes)


def test_who_runs_the_submission_is_not_the_submissions(tmp_path: Path) -> None:
    (tmp_path / "testbed/lab").mkdir(parents=True)
    for name in ("testbed/__init__.py", "testbed/lab/__init__.py", "testbed/lab/host.py"):
        (tmp_path / name).touch()
    (tmp_path / "testbed/lab/confined_main.py").write_text("raise SystemExit('mine')")
    code = "import resource, testbed\ndef work():\n    return [resource.getrlimit(resource.RLIMIT_NPROC)[0], testbed.__file__]\n"
    assert calls(tmp_path, code).message.startswith("[256, ") and "/submission" not in calls(tmp_path, code).message


# --- C that is not what the compiler would write


@pytest.mark.parametrize("c", ['__asm__(".incbin \\"{}\\"");', '#include "{}"', '#define FILE "{}"\n#include FILE'])
def test_c_can_include_no_file_of_the_teachers(secret: Path, c: str) -> None:
    with pytest.raises(Failure) as failure:
        switch._executable(c.format(secret).encode(), "one.p4")
    assert "No such file" in failure.value.trace or "not found" in failure.value.trace
    assert SECRET not in failure.value.trace


def test_c_that_compiles_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "COMPILING", 3)
    monkeypatch.setattr(switch, "confined", lambda *_, **__: ["sh", "-c", "exec sleep 1000"])
    with pytest.raises(Failure, match="takes longer than 3 s"):
        switch._executable(b"", "one.p4")


DISHONEST = {
    "says nothing": "for (;;) pause();",
    "never ends an answer": 'for (;;) if (write(1, "\\0\\1\\0\\0\\0\\0", 6) < 0) return 0;',
    "announces 4 GiB": 'write(1, "\\0\\1\\377\\377\\377\\377", 6); for (;;) if (write(1, "x", 1) < 0) return 0;',
    "answers what nobody asked": 'write(1, "\\377\\363\\0\\0\\0\\0\\377\\363\\0\\0\\0\\0", 12); pause();',
    "ends": "return 7;",
    "closes its output": "close(1); for (;;) pause();",
    "stops itself": "raise(SIGSTOP); for (;;) pause();",
}


@pytest.fixture
def dishonest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], StudentSwitch]]:
    """Switches that are C of this body."""
    monkeypatch.setattr(switch, "PATIENCE", 2.0)
    monkeypatch.setattr(switch, "MOST_OUTPUT", 1 << 20)
    made = []

    def start(body: str) -> StudentSwitch:
        executable = tmp_path / "switch"
        text = f"#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) {{ {body} }}\n"
        subprocess.run([c_compiler(), "-w", "-x", "c", "-", "-o", executable], input=text.encode(), check=True)
        made.append(StudentSwitch(tmp_path, executable, 4, [], 1, float("inf")))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.parametrize("body", DISHONEST.values(), ids=DISHONEST)
def test_a_switch_that_keeps_to_nothing_is_a_failure_of_the_task(dishonest: Callable[[str], StudentSwitch], body: str) -> None:
    with pytest.raises(Failure, match="the program does not go on"):
        dishonest(body).send(0, bytes(60))


def test_a_switch_reads_no_file_of_the_submission_and_none_of_the_teachers(
    dishonest: Callable[[str], StudentSwitch], secret: Path
) -> None:
    """The submission's programs meet on links alone: a file that one has could tell another what it cannot know."""
    tried = " ".join(f'if (!access("{path}", F_OK)) return 1;' for path in (secret, "/submission", "/root/.bashrc"))
    with pytest.raises(Failure, match="exit code 3"):
        dishonest(f"{tried} return 3;").send(0, bytes(60))


def test_a_task_ends_in_time_however_many_packets_a_switch_takes_long_for(dishonest: Callable[[str], StudentSwitch]) -> None:
    made = dishonest('for (;;) { usleep(300000); if (write(1, "\\377\\363\\0\\0\\0\\0", 6) < 0) return 0; }')
    made.deadline = time.monotonic() + 1.0
    with pytest.raises(Failure, match="the task takes too long"):
        for _ in range(100):
            made.send(0, bytes(60))


# --- from one confinement to another


def test_calls_that_lead_from_one_confinement_to_another_fail(tmp_path: Path) -> None:
    """Hosts see the same read-only files, and run in one session of one kernel."""
    code = """
import ctypes, fcntl, os, platform
def work():
    file, libc = os.open(__file__, os.O_RDONLY), ctypes.CDLL(None, use_errno=True)
    lock = bytes(64)
    def system(name, *words):
        numbers = {"keyctl": (250, 219), "add_key": (248, 217), "io_setup": (206, 0), "io_uring_setup": (425, 425)}[name]
        if libc.syscall(numbers[platform.machine() == "aarch64"], *words) < 0:
            raise OSError(ctypes.get_errno(), name)
    tried = {
        "flock": lambda: fcntl.flock(file, fcntl.LOCK_SH),
        "lockf": lambda: fcntl.lockf(file, fcntl.LOCK_SH),
        "asking for a lock": lambda: fcntl.fcntl(file, fcntl.F_GETLK, lock),
        "an open file's lock": lambda: fcntl.fcntl(file, 37, lock),
        "lease": lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),
        "watch": lambda: libc.inotify_init1(0) < 0 and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")),
        "key": lambda: system("add_key", b"user", b"sum", b"1", 1, -3),
        "keys": lambda: system("keyctl", 0, -3, 0),
        "contexts": lambda: system("io_setup", 3, ctypes.byref(ctypes.c_ulong())),
        "rings": lambda: system("io_uring_setup", 1, bytes(120)),
        "allowed": lambda: fcntl.fcntl(file, fcntl.F_GETFD),
    }
    found = {}
    for name, call in tried.items():
        try:
            call()
        except OSError as error:
            found[name] = error.errno
    return [sorted(set(tried) - set(found)), sorted(set(found.values())), os.listdir("/proc/sys")]
"""
    assert calls(tmp_path, code).message == "[['allowed'], [1], []]"


# --- more than there is


def test_processes_without_number_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_PROCESSES", len(psutil.Process().children(recursive=True)) + 60)
    code = "import os, time\ndef work():\n    while os.fork() or not os.fork():\n        pass\n    time.sleep(60)\n"
    found = calls(tmp_path, code)
    # for an ordinary user the kernel may be the first to say so
    assert "processes are more than" in found.message or "Resource temporarily unavailable" in found.trace


def test_memory_of_all_processes_together_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sum(p.memory_info().rss for p in psutil.Process().children(recursive=True))
    monkeypatch.setattr(guard, "SHARE", psutil.virtual_memory().total / (taken + (800 << 20)))
    code = """
import os, time
def work():
    for _ in range(12):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 16)) * 1600
            time.sleep(60)
    time.sleep(60)
"""
    assert "of memory together" in calls(tmp_path, code).message


def test_what_is_printed_without_end_fills_no_disk(tmp_path: Path) -> None:
    code = "def work():\n    while True:\n        print('x' * 65536)\n"
    found = calls(tmp_path, code)
    assert "File too large" in found.trace and len(found.output) < 10_000


def test_what_goes_into_the_background_ends_with_the_task(tmp_path: Path) -> None:
    code = """
import os, time
def work():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "86411"])
        os._exit(0)
    time.sleep(0.5)
    return 1
"""
    assert calls(tmp_path, code).message == "1"
    for _ in range(100):  # the kernel takes its time
        if not (left := [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "86411"]]):
            break
        time.sleep(0.1)
    assert not left


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5_000_000, '{"$array": "AAAA", "of": "f4", "shape": [1000000000000]}', "NaN", '"\\ud800"']
)
def test_odd_messages_are_failures_of_the_task(tmp_path: Path, text: str) -> None:
    code = f"""
import os, stat, struct
def work():
    text = {text!r}.encode() if len({text!r}) < 100 else {text[:1]!r}.encode() * {len(text)}
    for n in range(3, 64):
        if os.path.exists(f"/proc/self/fd/{{n}}") and stat.S_ISSOCK(os.fstat(n).st_mode):
            os.write(n, struct.pack(">I", len(text)))
            while text:
                text = text[os.write(n, text):]
    os._exit(0)
"""
    found = calls(tmp_path, code)
    assert found.points == 0 and found.message


def test_a_message_has_a_size(tmp_path: Path) -> None:
    found = calls(tmp_path, f"def work():\n    return 'x' * {messages.MOST}\n")
    assert found.points == 0 and "a message of" in found.message


# --- names, links and odd files


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "socket"])
@pytest.mark.parametrize("name", ["forward.p4", "lab.toml"])
def test_what_is_no_file_is_not_read(work: Path, secret: Path, name: str, kind: str) -> None:
    (work / name).unlink(missing_ok=True)
    if kind == "link":
        (work / name).symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(work / name)
    elif kind == "folder":
        (work / name).mkdir()
    else:
        os.mknod(work / name, 0o140644)
    report = grading.graded(work, None if name == "lab.toml" else "01-forward")
    assert report.points == 0 and SECRET not in shown(report.outcomes)


def test_lines_of_a_program_are_shown_of_its_own_files_alone(work: Path, secret: Path) -> None:
    os.mkfifo(work / "fifo.p4")
    pipe = os.open(work / "fifo.p4", os.O_RDWR)
    os.write(pipe, b"what somebody wrote\n")
    Timer(0.5, os.close, [pipe]).start()  # so that a reader does not wait for ever
    (work / "link.p4").symlink_to(secret)
    (work / "own.p4").write_text("control C() {}")
    for name in ("fifo.p4", "link.p4", "../teacher/secret", str(secret), "none.p4", "own.p4\0"):
        assert steps.source(steps.Step(name, 1, ()), work) is None
    assert steps.source(steps.Step("own.p4", 1, ()), work) == "own.p4:1: control C() {}"


@pytest.mark.parametrize("name", ["m[/x]", "a\nb", "\x1b[2J", "grades.json", "-rf", "é" * 100])
def test_a_submission_of_any_name_is_graded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    report = grading.graded(tmp_path / name, "01-forward")
    grading.writable(tmp_path / "out")
    grading.write_gradescope(report, tmp_path / "out" / grading.name_of(tmp_path / name, [tmp_path / name]))
    assert grading.write_grades([report], tmp_path / "out").is_file()


def test_a_forged_answer_is_but_an_answer(tmp_path: Path) -> None:
    """Whatever a submission prints or hands over beside its answer is shown, and counts for nothing."""
    code = """
import sys
sys.stdout.write('{"points": 10, "most": 10, "passed": true}\\n')
def work():
    return {"result": 10, "points": 10, "error": None, "names": ["work"], "calls": []}
"""
    assert calls(tmp_path, code).points == 0


def test_what_an_import_says_it_defines_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("__all__ = ['work']\n")
    module = StudentModule(tmp_path, "work.py", float("inf"))
    try:
        with pytest.raises(Failure, match="does not define work"):
            module.call("work")
    finally:
        module.close()


def test_sums_cannot_be_known_without_packets(tmp_path: Path) -> None:
    """Lab 7's workers get tensors that no seed gives away: one that sums what it believes the others have is wrong."""
    folder = tmp_path / "work"
    catalogue.begin("07-without", folder)
    code = (folder / "allreduce.py").read_text()
    known = """
import numpy as np
class Knows(Node):
    def start(self, number, workers, tensor=(), **given):
        draw = np.random.default_rng(len(tensor))
        self.finish(sum(draw.integers(-1000, 1001, len(tensor)).astype(np.float32) for _ in range(workers)))
RingWorker = ServerWorker = SplitWorker = Server = SplitServer = Knows
def shares(workers, spares):
    return [float("nan")] * (workers + spares)
"""
    (folder / "allreduce.py").write_text(f"{code}\n{known}")
    outcomes = graded(folder, "07-without")
    assert sum(o.points for o in outcomes) == 0
    assert "has a wrong sum" in outcomes[0].message  # and not only that nothing was sent


def test_no_lab_is_graded_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text('lab = "../../etc"\n')
    with pytest.raises(LabError, match="must say which lab it is"):
        catalogue.lab_of(tmp_path)
