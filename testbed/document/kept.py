"""The runs that the documentation's pictures and numbers come from: docs/figures/EXPERIMENT, a folder each.

A kept run has run.json, trials.jsonl.xz and its plots as SVG. `inalab.load` and `inalab compare` read it as any other run's folder.
"""

from __future__ import annotations

import json
import lzma
import sys
from functools import cache
from pathlib import Path

import typer

from inalab.testbed import backends
from inalab.testbed.command.conclusion import figures_of, findings_of
from inalab.testbed.draw.plots import saved
from inalab.testbed.plan import experiment as experiments
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.record.provenance import described
from inalab.testbed.record.runs import PACKED, ROOT, ResultsError, Run, load_run, save_record, write_whole
from inalab.testbed.report.page import command

FOLDER = ROOT / "docs" / "figures"
OF_ITS_MACHINE = ("command", "plots")  # what a kept run.json does not have


def names() -> list[str]:
    """The experiments whose runs are kept."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{PACKED}"))


@cache
def load(name: str) -> Run | None:
    """The kept run of an experiment; None where none is kept."""
    return load_run(FOLDER / name) if name in names() else None


def keep(folder: Path) -> Path:
    """Keep a finished run in place of the experiment's present kept run, and draw it. ResultsError if it is not finished."""
    run = load_run(folder)
    if not run.record.get("finished"):
        raise ResultsError(f"the run in {folder} was interrupted: go on with it by --resume")
    kept = Run(FOLDER / run.record["experiment"], {k: v for k, v in run.record.items() if k not in OF_ITS_MACHINE}, run.trials)
    shown = _drawn(kept)
    whole = "".join(json.dumps(trial, allow_nan=False) + "\n" for trial in run.trials)
    kept.folder.mkdir(parents=True, exist_ok=True)
    write_whole(kept.folder / PACKED, lzma.compress(whole.encode(), preset=9 | lzma.PRESET_EXTREME))
    _write(kept, shown)
    return kept.folder


def _drawn(run: Run) -> dict[str, bytes]:
    """A run's plots by name; its findings and captions go into its record."""
    experiment = experiments.load(run.record["experiment"])
    shown = figures_of(run, experiment)
    run.record |= {"findings": findings_of(run, experiment), "captions": {name: caption for name, caption, _ in shown}}
    return {name: saved(name, figure, "svg") for name, _, figure in shown}


def _write(run: Run, shown: dict[str, bytes]) -> None:
    for name, picture in shown.items():
        write_whole(run.folder / f"{name}.svg", picture)
    for old in run.folder.glob("*.svg"):
        if old.stem not in shown:
            old.unlink()
    save_record(run)


def how(run: Run) -> str:
    """When, where and by which code a kept run was measured, and the command that measures it again."""
    record, valid = run.record, sum(t["valid"] for t in run.finished)
    machine = record["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores"
    verb = backends.of_record(record).verb
    commit = described(record.get("git") or {}, 7) or "unknown"
    return (
        f"{verb} {str(record['started'])[:10]} ({where}, commit {commit}): {valid} of {len(run.trials)} trials are valid. "
        f"`{command(record)}`"
    )


def main(folders: list[Path]) -> None:
    """Keep these runs. `make docs` then updates all kept runs' plots and all pages."""
    try:
        for folder in folders:
            print(f"{folder} is kept in {keep(folder)}")
    except (ResultsError, SettingsError) as error:
        sys.exit(f"inalab: {error}")


def redraw() -> None:
    """Write the kept runs' plots and findings as the code now makes them."""
    for name in names():
        run = load_run(FOLDER / name)
        _write(run, _drawn(run))
    load.cache_clear()


if __name__ == "__main__":
    typer.run(main)
