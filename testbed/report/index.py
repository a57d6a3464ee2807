"""index.html over all runs of a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from inalab.testbed.record.metrics import MISSING
from inalab.testbed.record.runs import ResultsError, Run, load_run, write_whole
from inalab.testbed.report.templates import render


def write_index(results: Path) -> Path:
    """Write results/index.html, the newest run first, and return its path; folders that are no run are passed over."""
    if not results.is_dir():
        raise ResultsError(f"there is no results folder {results}")
    runs = [_entry(run) for run in _runs(results)]
    runs.sort(key=lambda r: r["started"], reverse=True)
    page = results / "index.html"
    write_whole(page, render("index.html.jinja", runs=runs))
    return page


def _runs(results: Path) -> list[Run]:
    found = []
    for record in sorted(results.glob("*/*/run.json")):
        try:
            found.append(load_run(record.parent))
        except ResultsError:
            continue
    return found


def _entry(run: Run) -> dict[str, Any]:
    """What the index shows of a run; links are relative to the results folder."""
    record, git = run.record, run.record.get("git") or {}
    base = f"{quote(run.folder.parent.name)}/{quote(run.folder.name)}"
    failed = sum("metrics" not in t for t in run.trials)
    plots = [run.folder / f"{name}.png" for name in record.get("plots", [])] or sorted(run.folder.glob("*.png"))
    return {
        "name": run.folder.name,
        "experiment": record["experiment"],
        "link": f"{base}/report.html" if (run.folder / "report.html").exists() else "",
        "picture": f"{base}/{quote(plots[0].name)}" if plots and plots[0].exists() else "",
        "target": record["target"],
        "seed": record["seed"],
        "quick": bool(record.get("quick")),
        "set": " ".join(record["set"]),
        "started": str(record.get("started", "")),
        "done": len(run.trials),
        "planned": len(record["trials"]),
        "invalid": sum("metrics" in t and not t.get("valid") for t in run.trials),
        "failed": failed,
        "state": "finished" if record.get("finished") else "interrupted" if "ended" in record else "running, or killed",
        "commit": (git.get("commit") or "")[:10] or ("none known" if git.get("note") else MISSING),
        "changed": bool(git.get("changed")),
        "finding": next(iter(record.get("findings") or []), MISSING),
    }
