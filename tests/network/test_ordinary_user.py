"""A trial that an ordinary user runs: in a user namespace, where the kernel allows it."""

from __future__ import annotations

import ctypes
import encodings.idna  # noqa: F401
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inalab.switches.target import Target
from inalab.testbed.backends.networks import Embedded
from inalab.testbed.plan.settings import TrialSettings
from inalab.topologies import isolation
from tests.network.running import run_trial
from tests.network.test_trials import SMALL, trial

NOBODY = 65534
PR_SET_DUMPABLE = 4


def as_ordinary_user(work: Callable[[], int]) -> int:
    """Its exit code, in a process without privileges."""

    def drop() -> int:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a process is that was begun by this user
        return work()

    return isolation.wait(isolation.fork(drop))


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that an ordinary user can write to."""
    folder = Path(f"/tmp/inalab-test-{os.getpid()}")
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.parametrize("scheme", ["switchml", "ring"])
def test_an_ordinary_users_trial_is_that_of_root(
    scheme: str, target: Target, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrialSettings(**{**SMALL, "scheme": scheme, "loss": 0.02})
    of_root = trial(target, scheme=scheme)  # which also imports what the user may not be allowed to read
    monkeypatch.setenv("XDG_CACHE_HOME", str(open_folder))  # root's own cache is closed to others

    def run() -> int:
        if not isolation.possible():
            return 77
        own = Embedded().target(settings.running(), settings.k)
        result = run_trial(settings, 1, own, lambda message: None)
        (open_folder / "result.json").write_text(json.dumps(result["metrics"]))
        return 0

    code = as_ordinary_user(run)
    if code == 77:
        pytest.skip("this kernel does not let an ordinary user make namespaces")
    assert code == 0
    metrics = json.loads((open_folder / "result.json").read_text())
    assert metrics["loss_packets"] > 0 and metrics["queue_drops"] == 0
    assert metrics["model_digest"] == of_root["metrics"]["model_digest"]
