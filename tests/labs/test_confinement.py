"""What a submission cannot do: reach the teacher's files or network, run for ever, or end the check."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from inalab.testbed.lab import catalogue, confinement, figures, grading, room
from inalab.testbed.lab.check import check
from inalab.testbed.lab.confinement import LABS, SUBMISSION
from inalab.testbed.lab.lab import Failure, Lab, Outcome, Share
from inalab.testbed.lab.summing import check_sums, tensors
from inalab.testbed.lab.workbench import Workbench
from inalab.testbed.record.runs import ROOT

PYTHON = Lab("Python", "Python", 1, ["work.py"])
HOST = "from inalab.testbed.lab.host import Host\n\n\nclass Worker(Host):\n"


def outcome(folder: Path, work: str, task: object, files: tuple[str, ...] = ("work.py",)) -> Outcome:
    """What comes of one task with this work."""
    (folder / "work.py").write_text(work)
    lab = Lab("Python", "Python", 1, list(files))
    lab.task("the task", 10)(task)  # type: ignore[arg-type]
    (found,) = check(lab, folder)
    return found


def called(bench: Workbench) -> Share:
    return Share(0.5, repr(bench.module().call("work")))


def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[Workbench], Share]:
    """A call that may take a second; the import before it, which a busy machine delays, may take as long as ever."""

    def call(bench: Workbench) -> Share:
        assert bench.module().names
        monkeypatch.setattr("inalab.testbed.lab.student.PATIENCE", 1.0)
        return called(bench)

    return call


def test_only_what_is_needed_can_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the solution")
    work = tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(secret)
    code = f"""
import os
def work():
    found = []
    for path in ({str(secret)!r}, "link", "/root/.bashrc", "/etc/shadow", {str(LABS / "solutions")!r}, "/proc/1/environ"):
        try:
            os.stat(path) if os.path.isdir(path) else open(path).read()
            found.append(path)
        except OSError:
            pass
    return found
"""
    wording = outcome(work, code, called).message
    assert wording in ("[]", "['/proc/1/environ']"), wording  # process 1 inside is bubblewrap's


def test_nothing_can_be_written_but_a_small_tmp(tmp_path: Path) -> None:
    code = """
import os
def work():
    written = []
    for path in ("x", "/usr/x", "/x", "/dev/x", os.path.dirname(os.__file__) + "/x"):
        try:
            open(path, "w").close()
            written.append(path)
        except OSError:
            pass
    open("/tmp/x", "w").close()
    try:
        for n in range(200):
            open(f"/tmp/{n}", "wb").write(bytes(1 << 20))
        written.append("too much")
    except OSError:
        pass
    return written
"""
    assert outcome(tmp_path, code, called).message == "[]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work.py"]


def test_there_is_no_network_and_no_other_process(tmp_path: Path) -> None:
    code = """
import glob, socket
def work():
    names = [name for _, name in socket.if_nameindex()]
    return "seen" if any(b"86423" in open(path, "rb").read() for path in glob.glob("/proc/[0-9]*/cmdline")) else names
"""
    outside = subprocess.Popen(["sleep", "86423"])
    try:
        assert outcome(tmp_path, code, called).message == "['lo']"
    finally:
        outside.kill()
        outside.wait()


def test_an_endless_loop_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(tmp_path, "def work():\n    while True:\n        pass\n", impatient(monkeypatch))
    assert found.message == "work() in work.py does not return within 1 s: an endless loop?"


@pytest.mark.parametrize(
    ("body", "wording"),
    [
        ("    return 1 / 0\n", "ZeroDivisionError"),
        ("    import os\n    os._exit(3)\n", "ended its process"),
        ("    import os\n    os.kill(os.getpid(), 9)\n", "ended its process"),
        ("    return bytearray(1 << 36)\n", "MemoryError"),
        ("    return object()\n", "cannot be handed over"),
        ("    import os\n    return os.write(3, b'x' * 100)\n", ""),
    ],
)
def test_what_ends_a_submission_does_not_end_the_check(body: str, wording: str, tmp_path: Path) -> None:
    found = outcome(tmp_path, f"def work():\n{body}", called)
    assert wording in f"{found.message}\n{found.trace}"
    assert found.points <= 5


def test_what_a_program_prints_and_where_it_failed_is_shown(tmp_path: Path) -> None:
    found = outcome(tmp_path, "def work():\n    print('so far')\n    return [][1]\n", called)
    assert found.output == "so far\n"
    assert 'File "work.py", line 3, in work' in found.trace and "IndexError" in found.trace
    assert "confined_main" not in found.trace


def test_a_file_that_cannot_be_imported_says_where(tmp_path: Path) -> None:
    found = outcome(tmp_path, "def work(:\n", called)
    assert "import work.py" in found.message and "SyntaxError" in found.trace and "line 1" in found.trace


def finished(bench: Workbench) -> None:
    host = bench.host("Worker", "h1")
    calls = host.start(0.0)
    check_sums({"h1": dict(calls).get("finish")}, tensors(1, 16))


@pytest.mark.parametrize("result", ["None", "[1] * 16", "'text'", "{'$array': 'AAAA', 'of': 'O', 'shape': [1]}", "{'$bytes': 3}"])
def test_odd_results_are_failures_of_the_task(result: str, tmp_path: Path) -> None:
    found = outcome(tmp_path, f"{HOST}    def start(self):\n        self.finish({result})\n", finished)
    assert found.points == 0 and found.message


def test_a_host_shares_no_memory_with_another(tmp_path: Path) -> None:
    def counts(bench: Workbench) -> Share:
        hosts = [bench.host("Worker", f"h{n}") for n in range(3)]
        return Share(0.5, str([dict(host.start(0.0))["finish"] for host in hosts]))

    work = f"seen = []\n\n{HOST}    def start(self):\n        seen.append(1)\n        self.finish(len(seen))\n"
    assert outcome(tmp_path, work, counts).message == "[1, 1, 1]"


def test_hosts_share_no_files_no_sockets_and_no_memory_that_an_import_made(tmp_path: Path) -> None:
    work = f"""
import mmap, os, socket
{HOST.strip()}
    def start(self):
        found = [os.path.exists("/tmp/sum"), shared[0]]
        open("/tmp/sum", "w").close()
        shared[0] = 1
        try:
            socket.socket(socket.AF_UNIX).connect("\\0sum")
            found.append(True)
        except OSError:
            found.append(False)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind("\\0sum")
        self.socket.listen()
        self.finish([bool(f) for f in found])

shared = mmap.mmap(-1, 4096)
"""

    def shares(bench: Workbench) -> Share:
        hosts = [bench.host("Worker", f"h{n}") for n in range(3)]
        return Share(0.5, str([dict(host.start(0.0))["finish"] for host in hosts]))

    assert outcome(tmp_path, work, shares).message == str([[False] * 3] * 3)


def test_an_answer_that_comes_slowly_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import os, stat, time
def work():
    sockets = [n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode)]
    for byte in b"\\0" + b"\\1" * 1000:
        for n in sockets:
            os.write(n, bytes([byte]))
        time.sleep(0.2)
"""
    assert "does not return within 1 s" in outcome(tmp_path, code, impatient(monkeypatch)).message


def test_a_compilation_that_waits_for_ever_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inalab.testbed.lab.switch.COMPILING", 3)
    os.mkfifo(tmp_path / "wait.p4")
    (tmp_path / "one.p4").write_text('#include "wait.p4"\n')
    found = outcome(tmp_path, "", lambda bench: bench.switch(), ("one.p4",))
    assert found.message in ("one.p4 takes longer than 3 s to compile", "one.p4 does not compile")


def test_what_a_program_tells_at_length_is_cut(tmp_path: Path) -> None:
    found = outcome(tmp_path, "def work():\n    return 'x' * (1 << 20)\n", called)
    assert len(found.message) < 30_000


def test_files_of_a_program_have_a_limit_also_in_memory(tmp_path: Path) -> None:
    code = """
import os
def work():
    kept, written = [], 0
    try:
        while written < 1 << 34:
            kept.append(os.memfd_create("x"))
            try:
                while written < 1 << 34:
                    written += os.write(kept[-1], bytes(1 << 20))
            except OSError:
                pass
    except OSError:
        pass
    return written >> 20
"""
    assert 16 <= int(outcome(tmp_path, code, called).message) <= 64 * 16


def test_p4_cannot_include_files_of_the_teacher(tmp_path: Path) -> None:
    secret = tmp_path / "secret.p4"
    secret.write_text("const bit<8> SECRET = 42;")
    work = tmp_path / "work"
    work.mkdir()
    (work / "one.p4").write_text(f'#include "{secret}"\n')

    def compiles(bench: Workbench) -> None:
        bench.switch()

    found = outcome(work, "", compiles, ("one.p4",))
    assert "does not compile" in found.message and "SECRET" not in found.trace


def test_a_program_that_recirculates_for_ever_is_told(tmp_path: Path) -> None:
    solution = Path("labs/solutions/01-forward/forward.p4").read_text()
    body = "apply { recirculate_preserving_field_list(0); }"
    endless = solution.replace("control ForwardEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {\n    apply {}",
                               "control ForwardEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {\n    " + body)  # fmt: skip
    assert endless != solution
    (tmp_path / "forward.p4").write_text(
        endless.replace("drop();\n        }\n    }", "standard.egress_spec = 1;\n        }\n    }")
    )

    def sends(bench: Workbench) -> None:
        bench.switch().send(0, bytes(60))

    assert "the program sends it round endlessly" in outcome(tmp_path, "", sends, ("forward.p4",)).message


def in_room(tmp_path: Path, command: str, seconds: float = 30.0) -> tuple[int, str]:
    submission = tmp_path / "submission"
    submission.mkdir()
    return room.run(["sh", "-c", command], submission, seconds)


def test_a_trials_room_is_read_only_also_for_who_becomes_root_in_it(tmp_path: Path) -> None:
    attempts = " ; ".join(
        f"{how} && touch {where}/x && echo wrote {where}"
        for where in ("/usr", str(SUBMISSION))
        for how in ("true", f"mount -o remount,rw {where}", f"mount -o remount,rw,bind {where}")
    )
    code, text = in_room(tmp_path, f"{attempts} ; unshare -Urm sh -c '{attempts}' ; ls /root /home 2>/dev/null ; echo done")
    assert "done" in text and "wrote" not in text
    assert not list((tmp_path / "submission").iterdir())
    assert code == 0


def test_a_trials_room_has_no_solutions_where_inalab_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "PACKAGES", (".",))  # all is shown that is beside the packages
    code, text = in_room(tmp_path, f"ls {ROOT}/labs; ls {ROOT}/labs/solutions; touch {ROOT}/labs/x; ls {ROOT}/labs/given")
    assert code == 0 and text.splitlines()[0] == "given"
    assert "solutions': No such file" in text and "Read-only file system" in text


def test_a_trial_leaves_nothing_though_the_check_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submission = tmp_path / "submission"
    submission.mkdir()
    temporary = tmp_path / "temporary"  # the machine's own is also written to by who else runs on it
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    pid = os.fork()
    if pid == 0:
        try:
            room.run(["sh", "-c", "head -c 1000000 /dev/zero > written; sleep 3127"], submission, 60.0)
        finally:
            os._exit(0)
    time.sleep(2)
    assert not list(temporary.iterdir()) and not list(submission.iterdir())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + 10
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not sleepers()


def sleepers() -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "3127"]]


def test_what_a_trial_writes_has_limits(tmp_path: Path) -> None:
    _, text = in_room(
        tmp_path, "head -c 100000000 /dev/zero > one; for n in 1 2 3 4 5 6; do head -c 60000000 /dev/zero > $n; done; du -smx ."
    )
    assert "File" in text or "No space" in text or "too large" in text
    assert int(text.split()[-2]) <= 256


def test_a_trial_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="takes longer than 2 s"):
        in_room(tmp_path, "sleep 1000 & sleep 1000", 2.0)


def test_what_is_printed_moves_no_cursor(tmp_path: Path) -> None:
    found = outcome(tmp_path, "def work():\n    print('\\x1b[2J[red]x')\n    raise ValueError('\\x1b[31m')\n", called)
    assert "\x1b" not in found.output + found.trace and "[red]x" in found.output


def test_mounts_cannot_be_made_writable(tmp_path: Path) -> None:
    code = """
import ctypes, os
def work():
    libc = ctypes.CDLL(None)
    done = []
    for attempt in range(2):
        for path in ("/submission", "/usr"):
            if libc.mount(b"none", path.encode(), None, 0x20 | 0x1000, None) == 0:
                done.append(path)
        try:
            os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
            done.append("core_pattern")
        except OSError:
            pass
        libc.unshare(0x10000000 | 0x20000)  # a further user and mount namespace
    return done
"""
    assert outcome(tmp_path, code, called).message == "[]"


def test_a_trial_cannot_have_another_file_read_as_its_output(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the solution")
    _, text = in_room(tmp_path, f"rm -f output.txt; ln -s {secret} output.txt; echo said")
    assert text.strip() == "said"


def test_a_figure_overwrites_no_file_that_a_link_leads_to(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "victim.png"
    shutil.copytree(catalogue.SOLUTIONS / "01-forward", work)
    victim.write_text("mine")
    (work / "figure.png").symlink_to(victim)
    figures.draw("01-forward", work, work / "figure.png")
    assert victim.read_text() == "mine" and (work / "figure.png").stat().st_size > 10_000


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about root")
def test_root_does_not_grade_real_trials(tmp_path: Path) -> None:
    report = grading.graded(tmp_path, "10-scheme")
    assert report.points == 0 and "use an ordinary account" in report.outcomes[0].message
