"""What `inalab launch` refuses before it starts, the notes that it leaves, and what a script's failure becomes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.collective import AggregationError, Membership
from hosts.notes import FOLDER, Notes
from hosts.place import Place
from hosts.torch_backend import PLACE, Options
from schemes.gloo import SCHEME
from testbed.plan.settings import SettingsError
from testbed.trial import hosted
from testbed.trial.launch import check_script

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [192.168.0.2]:51616. GLHF!"
PLACED = Place(
    SCHEME, SCHEME.Settings(), Membership(0, 1, 2, [[0, 1]]), ["10.0.0.1", "10.0.0.2"], [], [], ["192.168.0.2", "192.168.0.3"], []
)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"x = 1\ndef f(:\n", "line 2: SyntaxError: invalid syntax: def f(:"),
        (b"if True:\nx = 1\n", "line 2: IndentationError: expected an indented block after 'if' statement on line 1: x = 1"),
        (b"x = '\xff'\n", "SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"x = 1\0\n", "source code string cannot contain null bytes"),
    ],
)
def test_a_script_that_is_no_python_is_refused_in_one_sentence(tmp_path: Path, source: bytes, said: str) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(source)
    with pytest.raises(SettingsError) as caught:
        check_script(script)
    assert str(script) in str(caught.value)
    assert said in str(caught.value)
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


# --- notes


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setenv(PLACE, PLACED.dumps())
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(hosted, "CAUSE_SECONDS", 0.0)
    yield Notes(folder)


def test_the_first_reason_is_what_the_pulse_tells(notes: Notes) -> None:
    pulse = Options.from_environment().pulse
    assert pulse() is None
    notes.give_up("worker 0 was killed by SIGKILL")
    notes.give_up("worker 1 ended with exit code 1")
    assert pulse() == "worker 0 was killed by SIGKILL"


def test_without_a_launcher_the_pulse_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, PLACED.dumps())
    monkeypatch.delenv(FOLDER, raising=False)
    assert Options.from_environment().pulse() is None


def failed(tmp_path: Path, notes: Notes, source: str) -> str:
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


def test_a_traceback_begins_in_the_script(tmp_path: Path, notes: Notes) -> None:
    told = failed(tmp_path, notes, "def f():\n    import no_such_module\nf()\n")
    first, *frames, last = told.splitlines()
    assert first == "Traceback (most recent call last):"
    assert frames[0] == '  File "train.py", line 3, in <module>'
    assert last == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_failure_of_gloo_is_one_line_with_the_cause(tmp_path: Path, notes: Notes) -> None:
    source = f"x = 1\nraise RuntimeError({GLOO!r})\n"
    said = "train.py, line 2: worker 1: a collective over Gloo cannot be completed: worker 0 has closed its connection"
    assert failed(tmp_path, notes, source) == said
    notes.give_up("worker 3 was killed by SIGKILL")
    assert failed(tmp_path, notes, source) == f"{said} (worker 3 was killed by SIGKILL)"


def test_a_sum_that_failed_is_one_line(tmp_path: Path, notes: Notes) -> None:
    source = "from hosts.collective import AggregationError\nraise AggregationError('worker 1: job 0, slot 3')\n"
    assert failed(tmp_path, notes, source) == f"train.py, line 2: {AggregationError.__name__}: worker 1: job 0, slot 3"


def test_exit_codes_are_the_scripts_own(tmp_path: Path, notes: Notes) -> None:
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
        [sys.executable, "-m", "testbed.trial.hosted", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "over\n", "")
