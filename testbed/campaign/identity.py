"""What a trial is, as a number: SHA-256 of all that its result depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import inalab
from inalab.hosts.plugins import is_file
from inalab.hosts.training.architectures import catalog
from inalab.schemes.scheme import Scheme
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.record.foreign import Foreign
from inalab.testbed.record.provenance import code_digest, digest_of, version_of
from inalab.testbed.record.runs import ROOT

# whatever takes part in a trial; how it is planned, drawn and told of does not
CODE = (
    "hosts", "inalab/__init__.py", "p4", "requirements.lock", "schemes", "switches", "testbed/backends", "testbed/plan/groups.py",
    "testbed/plan/settings.py", "testbed/record", "testbed/simulator", "testbed/theory", "testbed/trial", "testbed/virtual",
    "topologies",
)  # fmt: skip


COMPUTING = ("torch", "numpy", "scipy", "scikit-learn", "greenlet")  # packages on which a trial's numbers depend


@cache
def code() -> str:
    """SHA-256 of the code that matters to a trial, with the package's own file and the versions of what computes.

    Where inalab is installed, ROOT has neither the former by the name in CODE nor requirements.lock.
    """
    whole = hashlib.sha256(code_digest(ROOT, CODE).encode())
    whole.update(digest_of(Path(inalab.__file__)).encode())
    whole.update(json.dumps({name: version_of(name) for name in COMPUTING}).encode())
    return whole.hexdigest()


def scheme_files(trial: Trial) -> list[str]:
    """The files of the schemes that a trial uses and that inalab does not have."""
    return sorted({scheme.source for scheme in _schemes(trial) if is_file(scheme.source)})


def _schemes(trial: Trial) -> list[Scheme]:
    """Those of its jobs, and of its switches' program."""
    return [*(job.of_scheme() for job in trial.settings.each()), *trial.settings.running().schemes]


def foreign_files(trial: Trial) -> dict[str, str]:
    """SHA-256 of each file, by path, that a trial reads and that inalab does not have."""
    return Foreign(CODE).read_by(_schemes(trial), trial.settings.k, *named_files([trial]))


def named_files(trials: Iterable[Trial]) -> list[Path]:
    """The files that settings of trials name: of topologies, architectures, profiles, and what schemes have in files."""
    words = {word for trial in trials for job in trial.settings.each() for word in job.resolved().values() if isinstance(word, str)}
    files = (catalog.file_of(word) for word in sorted(words))
    return [file for file in files if file is not None and file.is_file()]


def changed(trial: Trial, foreign: Mapping[str, str]) -> str:
    """A sentence if a foreign file that the trial reads is another than when it was planned; empty if none is."""
    return replaced(foreign) or _differing(foreign_files(trial), foreign)


def replaced(foreign: Mapping[str, str]) -> str:
    """Likewise, before code of theirs is run: whether the files themselves are as they were."""
    return _differing({path: digest_of(Path(path)) if Path(path).is_file() else "" for path in foreign}, foreign)


def _differing(files: Mapping[str, str], planned: Mapping[str, str]) -> str:
    """A sentence about the files that are not as planned; empty if all are. Both are SHA-256 by path."""
    differ = sorted(path for path in files.keys() | planned.keys() if files.get(path) != planned.get(path))
    return f"{', '.join(differ)} is another file here than when the campaign was planned" if differ else ""


def identity(trial: Trial, target: str, foreign: dict[str, str] | None = None) -> str:
    """SHA-256, in hex, of a trial's resolved settings, seed, target and code; `foreign` are its foreign_files."""
    files = foreign_files(trial) if foreign is None else foreign
    above = os.path.commonpath([os.path.dirname(path) for path in files]) if files else ""
    others = sorted((os.path.relpath(path, above), digest) for path, digest in files.items())
    whole: dict[str, Any] = {
        "settings": trial.settings.resolved(), "seed": trial.seed, "target": target, "code": code(), "foreign": others,
    }  # fmt: skip
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=list).encode()).hexdigest()
