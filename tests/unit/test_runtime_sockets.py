"""The control socket's path: taken from nobody who lives, and no other file is removed for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.control import SocketControl
from inalab.switches.sockets import claim_socket, socket_path

PROGRAM = Path("tests/programs/queues.p4")


def start(path: Path) -> subprocess.Popen[str]:
    """A switch without ports that listens at a path."""
    return subprocess.Popen([build(PROGRAM), "--socket", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refused(path: Path) -> str:
    """The sentence with which a switch ends that cannot listen at a path."""
    switch = start(path)
    _, sentences = switch.communicate(timeout=10)
    assert switch.returncode == 1
    assert sentences.startswith("error: ")
    assert sentences.count("\n") == 1
    return sentences


def dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_only_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    dead_socket(path)
    switch = start(path)
    assert switch.stdout is not None
    assert switch.stdout.readline() == "ready\n"
    assert "a process listens there already" in refused(path)
    with SocketControl(path) as control:
        assert "hits" not in control.command("show_ports")
    switch.terminate()
    assert switch.wait(timeout=10) == 0
    assert not path.exists()
    switch.communicate()


def test_the_command_line_goes_on_after_a_refused_command(tmp_path: Path) -> None:
    switch = start(path := tmp_path / "s.sock")
    assert switch.stdout is not None
    assert switch.stdout.readline() == "ready\n"
    tell = [sys.executable, "-m", "inalab.switches.cli", str(path)]
    done = subprocess.run(tell, input="nonsense\nhelp\nget_time_elapsed\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: nonsense: there is no command nonsense: help lists all\n")
    assert "register_read REGISTER [CELL]" in done.stdout
    assert done.stdout.splitlines()[-1].isdigit()
    assert subprocess.run([*tell, "get_time_elapsed"], capture_output=True, check=False).returncode == 0
    switch.terminate()
    switch.communicate(timeout=10)
    gone = subprocess.run([*tell, "get_time_elapsed"], capture_output=True, text=True, check=False)
    assert gone.returncode == 1
    assert gone.stderr == f"error: no switch answers at {path}: No such file or directory\n"


@pytest.mark.parametrize("kind", ["file", "link to a file", "link to a dead socket", "folder", "fifo"])
def test_another_file_stays(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "s.sock", tmp_path / "other"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        dead_socket(other) if "socket" in kind else other.write_text("precious")
        path.symlink_to(other)
    before = path.lstat()
    assert "no socket" in refused(path)
    assert path.lstat().st_ino == before.st_ino
    if kind == "file":
        assert path.read_text() == "precious"


def test_a_socket_in_no_folder_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in refused(tmp_path / "none" / "s.sock")


def test_a_successor_keeps_its_socket(tmp_path: Path) -> None:
    """A switch that ends removes its own socket only, not that of a switch which took the path meanwhile."""
    path = tmp_path / "s.sock"
    first = start(path)
    assert first.stdout is not None
    first.stdout.readline()
    path.unlink()
    second = start(path)
    assert second.stdout is not None
    second.stdout.readline()
    first.terminate()
    first.communicate(timeout=10)
    with SocketControl(path) as control:
        control.command("show_ports")
    second.terminate()
    second.communicate(timeout=10)


def test_of_many_that_claim_one_path_one_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    dead_socket(path)
    switches = [start(path) for _ in range(8)]
    heads = [switch.stdout.readline() for switch in switches if switch.stdout]
    assert sorted(heads) == [""] * 7 + ["ready\n"]
    with SocketControl(path) as control:
        assert control.command("show_copies") == "most_copies=none refused=0 input_drops=0\n"
    for switch in switches:
        switch.terminate()
        switch.communicate(timeout=10)
    with pytest.raises(ControlError):
        SocketControl(path)


def test_signals_are_events(tmp_path: Path) -> None:
    """A handler could run just before the switch sleeps: the switch would sleep on, and end at the next packet only."""
    switch = start(tmp_path / "s.sock")
    assert switch.stdout is not None
    switch.stdout.readline()
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{switch.pid}/status").read_text().splitlines())
    both = 1 << signal.SIGTERM - 1 | 1 << signal.SIGINT - 1
    assert int(status["SigBlk"], 16) & both == both
    switch.send_signal(signal.SIGINT)
    switch.communicate(timeout=10)
    assert switch.returncode == 0


def test_a_name_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (str(victim), "../victim", "a/b", ""):
        with pytest.raises(OSError, match="no name for a switch"):
            claim_socket(name)
        command = [sys.executable, "-m", "inalab.switches.embedded", str(PROGRAM), "-i", "0@nosuch0", "--name", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "no name for a switch" in done.stderr
        assert "Traceback" not in done.stderr
    assert victim.read_text() == "precious"
    assert claim_socket("mine") == tmp_path / "inalab" / "mine.sock"


def test_the_folder_of_sockets_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "inalab").mkdir(mode=0o755)  # as earlier versions made it
    assert socket_path("mine") == tmp_path / "inalab" / "mine.sock"
    assert (tmp_path / "inalab").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["folder", "link", "file"])
def test_a_folder_of_sockets_that_is_somebody_elses_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp anybody may have made it first, to hear the commands or to lead them elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)  # so the runtime folder is not this user's, either
    place = tmp_path / "inalab-4711"
    if what == "folder":
        place.mkdir()
    elif what == "link":
        place.symlink_to(tmp_path)
    else:
        place.touch()
    for use in (socket_path, claim_socket):
        with pytest.raises(OSError, match=f"{place} is not a folder of this user's: set XDG_RUNTIME_DIR"):
            use("mine")
    assert socket_path("./mine.sock") == Path("./mine.sock")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    done = subprocess.run(
        [sys.executable, "-m", "inalab.switches.cli", "mine", "show_ports"], env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
