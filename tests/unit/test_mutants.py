"""The mutants' lists fit the code, and `python -m tests.mutants` tells what became of each."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.mutants.lists import ListError, Mutant, read_lists
from tests.shares import share

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds, for what takes a few

CODE = """
def larger(a, b):
    return a if a > b else b

def countdown(n):
    while n > 0:
        n -= 1
    return n
"""
TESTS = """
from code_under_test import countdown, larger

def test_larger():
    assert larger(1, 2) == 2

def test_countdown():
    assert countdown(3) == 0
"""
CONFIGURATION = """
from hypothesis import settings

settings.register_profile('mutants')

def pytest_addoption(parser):
    parser.addoption("--deep", action="store_true")
"""
TESTED = '["tests/unit/test_code.py"]'


def entry(name: str, before: str, after: str, tests: str = TESTED) -> str:
    return f'[[mutant]]\nname = "{name}"\nfile = "code_under_test.py"\nbefore = "{before}"\nafter = "{after}"\ntests = {tests}\n'


STOPPED = entry("smaller", "a > b", "a < b")
SURVIVING = entry("at least", "a > b", "a >= b")
BROKEN = entry("gone", "a >> b", "a < b")
ENDLESS = entry("endless", "n -= 1", "n -= 0")
SLEEPING = entry("sleeping", "n -= 1", "__import__('subprocess').run(['sleep', '600'], start_new_session=True)")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository with a test, without a list."""
    root = tmp_path / "repository"
    for folder in ("tests/mutants", "tests/unit"):
        (root / folder).mkdir(parents=True)
    (root / "code_under_test.py").write_text(CODE)
    (root / "tests/unit/test_code.py").write_text(TESTS)
    (root / "conftest.py").write_text(CONFIGURATION)
    (tmp_path / "temporary").mkdir()
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


def start(root: Path, lists: dict[str, str], *options: str) -> subprocess.Popen[str]:
    """`python -m tests.mutants` on a repository; its temporary files are in a folder beside that."""
    for area, text in lists.items():
        (root / f"tests/mutants/{area}.toml").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.mutants", "--root", root, *options], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(root.parent / "temporary")},
    )  # fmt: skip


def run(root: Path, lists: dict[str, str], *options: str) -> tuple[int, str]:
    """The exit code, and what was printed; nothing is left of the copies."""
    process = start(root, lists, *options)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert list((root.parent / "temporary").iterdir()) == []
    assert (root / "code_under_test.py").read_text() == CODE
    return process.returncode, printed


def test_every_entry_fits_the_code_once() -> None:
    assert {str(mutant): problem for mutant in read_lists(ROOT) if (problem := mutant.problem(ROOT))} == {}


def test_mutants_that_are_stopped_survive_or_do_not_fit(repository: Path) -> None:
    code, printed = run(repository, {"one": STOPPED + SURVIVING, "two": BROKEN})
    assert code == 1
    assert "one: smaller: stopped by a unit test (tests/unit/test_code.py::test_larger)" in printed
    assert "one: at least: survived" in printed
    assert "two: gone: broken entry (its text occurs 0 times in code_under_test.py, not once)" in printed
    assert "1 of 3 mutants survived" in printed
    assert "1 of 3 entries are broken" in printed
    assert "33 % were stopped, and 90 % must be" in printed


def test_exit_code_zero_where_all_are_stopped_also_by_the_time_limit(repository: Path) -> None:
    code, printed = run(repository, {"one": STOPPED + ENDLESS}, "--patience", "2")
    assert code == 0
    assert "100 %" in printed
    assert "endless: stopped by a unit test (the time limit)" in printed


def test_a_test_that_fails_without_mutants(repository: Path) -> None:
    (repository / "tests/unit/test_code.py").write_text(TESTS.replace("== 2", "== 3"))
    code, printed = run(repository, {"one": STOPPED})
    assert code == 2
    assert "a test fails without any mutant; mend it first: tests/unit/test_code.py::test_larger" in printed


def test_network_tests_are_left_out_without_failing(repository: Path) -> None:
    (repository / "tests/network").mkdir()
    (repository / "tests/network/test_far.py").write_text("def test_far():\n    assert False\n")
    code, printed = run(repository, {"one": SURVIVING.replace("tests/unit/test_code", "tests/network/test_far")}, "--unit-only")
    assert code == 0
    assert "one: at least: left to network tests" in printed


def test_code_that_git_does_not_know(repository: Path) -> None:
    shutil.rmtree(repository / ".git")
    code, printed = run(repository, {"one": STOPPED})
    assert code == 2
    assert "clone the repository with git" in printed


def test_only_the_mutants_that_are_chosen(repository: Path) -> None:
    _, printed = run(repository, {"one": STOPPED + SURVIVING, "two": BROKEN}, "--area", "one", "--name", "small")
    assert "smaller" in printed
    assert "at least" not in printed
    assert "gone" not in printed


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(repository: Path, sent: signal.Signals) -> None:
    process = start(repository, {"one": SLEEPING + STOPPED}, "--jobs", "1")
    try:
        sleeping = await_sleep(process)
        process.send_signal(sent)
        printed, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.terminate()
    assert process.returncode == 130
    assert "interrupted" in printed
    assert list((repository.parent / "temporary").iterdir()) == []
    assert not sleeping.is_running()


def await_sleep(process: subprocess.Popen[str]) -> psutil.Process:
    """The `sleep 600` among its descendants, once there is one."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.cmdline() == ["sleep", "600"]:
                    return child
        time.sleep(0.05)
    raise AssertionError("nothing sleeps")


def test_shares_are_all_mutants_once() -> None:
    mutants = [Mutant(area="a", name=str(n), file="f", before="b", after="c", tests=("t",)) for n in range(23)]
    parts = [share(mutants, f"{part}/10") for part in range(1, 11)]
    assert sorted(m.name for part in parts for m in part) == sorted(m.name for m in mutants)
    assert {len(part) for part in parts} == {2, 3}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "no list of mutants"),
        ("[[mutant", "no list of mutants"),
        (STOPPED.replace("after", "aftr"), "'smaller'.*aftr"),
        (STOPPED + STOPPED, "two mutants with the name 'smaller'"),
        (entry("untested", "a > b", "a < b", "[]"), "tests"),
    ],
)
def test_lists_that_cannot_be_read(repository: Path, text: str, complaint: str) -> None:
    (repository / "tests/mutants/one.toml").write_text(text)
    with pytest.raises(ListError, match=complaint):
        read_lists(repository)


@pytest.mark.parametrize("wrong", ["0/10", "11/10", "3", "a/b"])
def test_shares_that_do_not_exist(repository: Path, wrong: str) -> None:
    code, printed = run(repository, {"one": STOPPED}, "--share", wrong)
    assert code == 2
    assert f"{wrong} is no share" in printed
