"""What a run's record says of the code: every way in which what ran can differ from the commit that it names."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend
from inalab.testbed.command import runner
from inalab.testbed.plan.sweep import SweepSettings
from inalab.testbed.record import provenance
from inalab.testbed.record.provenance import MOST_FILES, code_digest, environment, git_state
from inalab.testbed.record.runs import load_run
from inalab.testbed.report.index import write_index
from inalab.testbed.report.page import write_report
from inalab.testbed.trial.apart import Apart
from inalab.topologies import isolation
from tests.runs import make_run, measured, trial


def git(root: Path, *words: str) -> str:
    given = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(root), *given, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository that looks like this one, everything committed."""
    root = tmp_path / "tree"
    for name in ("experiments/one.py", "hosts/a/worker.py", "switches/s.py", "topologies/t.py", "p4/x.p4", "docs/d.md", "Makefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    (root / ".gitignore").write_text("__pycache__/\n*.pyc\nignored*\nresults/\n")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return root


def state(root: Path, experiment: str = "experiments/one.py") -> dict[str, Any]:
    return git_state(root, root / experiment)


def test_a_clean_checkout_has_its_commit_and_no_changes(tree: Path) -> None:
    assert state(tree) == {"commit": git(tree, "rev-parse", "HEAD"), "changed": False, "files": []}
    cache = tree / "experiments" / "__pycache__"
    cache.mkdir()
    (cache / "one.cpython-311.pyc").write_bytes(b"")
    (tree / "docs" / "d.md").write_text("no code\n")
    (tree / "notes.txt").write_text("no code\n")
    assert state(tree)["changed"] is False


def _untracked(root: Path) -> str:
    (root / "experiments" / "mine.py").write_text("")
    return "experiments/mine.py"


def _ignored(root: Path) -> str:
    (root / "experiments" / "ignored.py").write_text("")
    return "experiments/ignored.py"


def _in_an_ignored_folder(root: Path) -> str:
    (root / "hosts" / "ignored").mkdir()
    (root / "hosts" / "ignored" / "x y.py").write_text("")
    return "hosts/ignored/x y.py"


def _compiled(root: Path) -> str:
    (root / "hosts" / "numpy.pyc").write_text("")
    return "hosts/numpy.pyc"


def _modified(root: Path) -> str:
    (root / "p4" / "x.p4").write_text("// other\n")
    return "p4/x.p4"


def _staged(root: Path) -> str:
    (root / "topologies" / "new.py").write_text("")
    git(root, "add", "topologies/new.py")
    return "topologies/new.py"


def _removed(root: Path) -> str:
    (root / "switches" / "s.py").unlink()
    return "switches/s.py"


def _first_on_the_path(root: Path) -> str:
    (root / "numpy.py").write_text("")
    return "numpy.py"


def _makefile(root: Path) -> str:
    (root / "Makefile").write_text("all:\n")
    return "Makefile"


CHANGES = [
    _untracked, _ignored, _in_an_ignored_folder, _compiled, _modified, _staged, _removed, _first_on_the_path, _makefile,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_every_file_that_may_run_and_is_not_the_commits_is_named(tree: Path, change: Callable[[Path], str]) -> None:
    name = change(tree)
    found = state(tree)
    assert (found["changed"], found["files"]) == (True, [name])


def test_the_experiments_own_file_counts_wherever_it_is(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "mine.py"
    outside.write_text("")
    assert git_state(tree, outside)["files"] == [str(outside)]
    (tree / "results").mkdir()
    (tree / "results" / "[mine].py").write_text("")
    assert state(tree)["changed"] is False
    assert state(tree, "results/[mine].py")["files"] == ["results/[mine].py"]
    assert state(tree, "docs/d.md")["changed"] is False  # tracked and not modified


def test_many_files_are_counted_and_some_named(tree: Path) -> None:
    for n in range(MOST_FILES + 5):
        (tree / "experiments" / f"e{n:02}.py").write_text("")
    found = state(tree)
    assert len(found["files"]) == MOST_FILES
    assert found["note"] == f"{MOST_FILES + 5} files differ from the commit: the first {MOST_FILES} are named"


def test_an_export_without_git_says_so(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = tree / "results" / "export"  # within another repository: that one's commit is not the code's
    (export / "experiments").mkdir(parents=True)
    (export / "experiments" / "one.py").write_text("")
    found = git_state(export, export / "experiments" / "one.py")
    assert found["commit"] == "" and found["changed"] is None
    assert found["note"] == "no commit is known: the code is not in a git repository of its own"
    bare = tmp_path / "bare"
    (bare / "experiments").mkdir(parents=True)
    assert "not a git repository" in git_state(bare, bare / "one.py")["note"]
    git(tmp_path, "init", "-q", str(bare))
    assert git_state(bare, bare / "one.py")["note"].startswith("no commit is known: ")  # before the first one
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state(tree)["note"] == "no commit is known: git is not installed"


def test_variables_of_git_lead_nowhere_else(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a hook of another repository starts a run."""
    commit = git(tree, "rev-parse", "HEAD")
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert state(tree) == {"commit": commit, "changed": False, "files": []}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_read(tree: Path) -> None:
    """As where root runs what a user has checked out."""
    commit = git(tree, "rev-parse", "HEAD")
    for path in (tree, *tree.rglob("*")):
        os.chown(path, 12345, 12345)
    assert state(tree) == {"commit": commit, "changed": False, "files": []}


def test_the_digest_of_the_code_tells_edits_apart_that_git_does_not(tree: Path) -> None:
    first = code_digest(tree)
    (tree / "docs" / "d.md").write_text("no code\n")
    assert code_digest(tree) == first
    digests = {first}
    for text in ("# a\n", "# b\n"):
        (tree / "hosts" / "a" / "worker.py").write_text(text)
        digests.add(code_digest(tree))
    (tree / "hosts" / "a" / "worker.py").rename(tree / "hosts" / "worker.py")
    assert len(digests | {code_digest(tree)}) == 4


def test_a_record_has_the_digest_of_the_experiments_file_and_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    monkeypatch.setattr(provenance.psutil, "virtual_memory", lambda: SimpleNamespace(total=int(7.75 * 2**30)))
    monkeypatch.setattr(provenance, "granted_buffer", lambda: 425_984)
    file.write_text("x = 1\n")
    recorded = environment(file)
    assert (recorded["machine"]["memory_gib"], recorded["socket_buffer_kib"]) == (7.8, 416)
    assert recorded["code"]["experiment"] == str(file)
    assert recorded["code"]["experiment_sha256"] == hashlib.sha256(b"x = 1\n").hexdigest()
    assert recorded["git"]["changed"] is not False  # it is no file of the commit
    inside = environment(provenance.ROOT / "experiments" / "workers.py")
    assert inside["code"]["experiment"] == "experiments/workers.py"
    assert inside["code"]["sha256"] == recorded["code"]["sha256"]


EXPERIMENT = """
from inalab.testbed.plan.sweep import Point, SweepSettings, paired
Settings, QUICK = SweepSettings, {}
def trials(settings, seed):
    return paired([Point("one", {}, {})], settings, seed)
def figures(run):
    return []
def findings(run):
    return []
"""


def test_a_run_of_an_untracked_experiment_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    file = tmp_path / "untracked.py"
    file.write_text(EXPERIMENT)
    spec = importlib.util.spec_from_file_location("untracked", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Made(Backend):
        def start(self, settings: Any, seed: int, capture: Any = None) -> Apart:
            return Apart(isolation.fork, lambda sender: measured(seed))

    monkeypatch.setattr(backends, "find", lambda name: Made())
    request = runner.Request("quickstart", "embedded", 1, [])
    code, _ = runner.run_experiment(request, module, SweepSettings(seeds=1), tmp_path / "results", Console(quiet=True))  # type: ignore[arg-type]
    assert code == 0
    (folder,) = (tmp_path / "results" / "quickstart").iterdir()
    record = json.loads((folder / "run.json").read_text())
    assert record["code"]["experiment_sha256"] == hashlib.sha256(EXPERIMENT.encode()).hexdigest()
    assert record["git"]["changed"] in (True, None)
    if record["git"]["changed"]:
        assert str(file) in record["git"]["files"]


def test_the_report_and_the_index_say_what_is_known(tmp_path: Path) -> None:
    changed = make_run(tmp_path, [trial()], git={"commit": "0123456789abcdef", "changed": True, "files": ["experiments/mine.py"]})
    page = write_report(changed, [], []).read_text()
    assert "0123456789ab, with changes" in page
    assert "experiments/mine.py" in page
    note = "no commit is known: git is not installed"
    unknown = make_run(tmp_path, [trial()], git={"commit": "", "changed": None, "files": [], "note": note}, experiment="other")
    page = write_report(unknown, [], []).read_text()
    assert note in page
    assert "with changes" not in page
    index = write_index(tmp_path).read_text()
    assert "none known" in index
    assert index.count("<small>changed</small>") == 1
    assert load_run(unknown.folder).record["git"]["changed"] is None
