"""Submissions as they come from other systems and programs: found and read, or told in one sentence what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from inalab.testbed.lab import catalogue, grading, handed_in
from inalab.testbed.lab.lab import LabError

FILES = ("lab.toml", "pool.p4", "worker.py")
BESIDE = ("desktop.ini", "Thumbs.db", ".DS_Store", "__MACOSX/._pool.p4", "__MACOSX/.DS_Store")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lab 4's solution in the folder w of the working folder, with what Windows and macOS leave beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(catalogue.SOLUTIONS / "04-window", "w")
    Path("w/lab.toml").write_text('lab = "04-window"\n')
    for name in BESIDE:
        Path("w", name).parent.mkdir(exist_ok=True)
        Path("w", name).write_bytes(b"\0\1")
    return Path("w")


def rewritten(work: Path, encoding: str, newline: str = "\n") -> None:
    for name in FILES:
        text = (work / name).read_text() + ("// ü" if name.endswith(".p4") else "# ü")
        (work / name).write_bytes(text.replace("\n", newline).encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_files_of_windows_are_read(work: Path, encoding: str) -> None:
    rewritten(work, encoding, "\r\n")
    for path in work.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o600)
    report = grading.graded(work, None)
    assert report.points == 100, report.outcomes


@pytest.mark.parametrize("lab", [None, "4"])
@pytest.mark.parametrize(
    ("encoding", "wording"),
    [("utf-16", "is UTF-16, or no text: save it as UTF-8"), ("latin-1", "is not UTF-8 in line {}: save it as UTF-8")],
)
def test_other_encodings_are_told(work: Path, encoding: str, wording: str, lab: str | None) -> None:
    rewritten(work, encoding)
    first = "pool.p4" if lab else "lab.toml"
    line = (work / first).read_bytes().count(b"\n") + 1
    with pytest.raises(LabError, match=f"^w/{first} {wording.format(line)}$"):
        catalogue.named(lab, work)


@pytest.mark.parametrize(
    ("name", "came"),
    [(name, name.upper()) for name in FILES]
    + [
        ("pool.p4", came)
        for came in ("pool.p4.txt", "pool (1).p4", "pool - Copy.p4", "Pool-2.P4", "work\\pool.p4", "a\\b\\POOL.P4")
    ],
)
def test_a_file_under_another_name_is_to_be_renamed(work: Path, name: str, came: str) -> None:
    (work / name).rename(work / came)
    for lab in (None,) if name == "lab.toml" else (None, "4"):
        with pytest.raises(LabError, match=f"^{re.escape(f'w has {came}: rename it to {name}')}$"):
            catalogue.named(lab, work)


@pytest.mark.parametrize("below", ["04-window", "Anna Huber/04-window", "a/b/c"])
@pytest.mark.parametrize("lab", [None, "4"])
def test_work_that_is_deeper_is_told_where(work: Path, below: str, lab: str | None) -> None:
    Path("outer", below).parent.mkdir(parents=True)
    shutil.move(work, Path("outer", below))
    with pytest.raises(LabError, match=rf"^outer has none of .*: they are in {below}/, so name that folder$"):
        catalogue.named(lab, Path("outer"))


def test_work_that_a_link_leads_to_is_not_looked_at(work: Path) -> None:
    Path("outer").mkdir()
    Path("outer/link").symlink_to(work.resolve())
    with pytest.raises(LabError, match="is no lab"):
        catalogue.named(None, Path("outer"))


@pytest.mark.parametrize("name", ["anna.ZIP", "anna.tar.gz", "anna.7z"])
def test_an_archive_is_to_be_unpacked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(LabError, match=rf"{name} is an archive: unpack it, and name the folder$"):
        catalogue.named(None, tmp_path / name)
    with pytest.raises(LabError, match=rf" has none of lab.toml, and {name}: unpack that$"):
        catalogue.named(None, tmp_path)


def test_what_no_program_is_is_told(work: Path) -> None:
    (work / "pool.p4").chmod(0)
    with pytest.raises(LabError, match=r"^w/pool\.p4 cannot be read: allow it, as with chmod u\+r$"):
        catalogue.named("4", work)
    (work / "pool.p4").chmod(0o600)
    with open(work / "pool.p4", "r+b") as opened:
        opened.truncate(handed_in.LARGEST + 1)
    with pytest.raises(LabError, match=r"^w/pool\.p4 has 4 MiB: no program is so large$"):
        catalogue.named("4", work)
    (work / "pool.p4").unlink()
    (work / "pool.p4").symlink_to("/etc/passwd")
    with pytest.raises(LabError, match=r"^w/pool\.p4 cannot be read: it is a link, and not the file itself$"):
        catalogue.named("4", work)


def test_the_same_sentence_is_for_the_student_and_the_teacher(work: Path) -> None:
    (work / "worker.py").rename(work / "worker.py.txt")
    (outcome,) = grading.graded(work, None).outcomes
    assert outcome.message == "w has worker.py.txt: rename it to worker.py" and outcome.most == 0
