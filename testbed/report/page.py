"""report.html of a run: self-contained, with the findings, the plots, the trials, and how to run it again."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from inalab.testbed.draw.plots import saved
from inalab.testbed.plan.groups import ungrouped
from inalab.testbed.record.metrics import MISSING
from inalab.testbed.record.provenance import described
from inalab.testbed.record.runs import Run, save_record, write_whole
from inalab.testbed.record.statistics import coverage
from inalab.testbed.report.index import write_index
from inalab.testbed.report.tables import seed_table, trial_table, verdict
from inalab.testbed.report.templates import render

DPI = 200
LARGEST_SVG = 2_000_000  # bytes; a plot beyond is shown as PNG


def write_report(run: Run, findings: list[str], figures: list[tuple[str, str, Figure]]) -> Path:
    """Write each figure as PNG, SVG and PDF, the page that shows them, and the index over all runs; returns the page's path.

    What the index tells of a run is kept in its run.json: the findings, the plots' names.
    """
    shown = []
    for name, caption, figure in figures:
        png, svg = saved(name, figure, "png", dpi=DPI), saved(name, figure, "svg")
        write_whole(run.folder / f"{name}.png", png)
        write_whole(run.folder / f"{name}.svg", svg)
        write_whole(run.folder / f"{name}.pdf", saved(name, figure, "pdf"))
        shown.append({"name": name, "caption": caption.rstrip("."), "source": _embedded(svg, png)})
    run.record |= {"findings": findings, "plots": [f["name"] for f in shown]}
    save_record(run)
    page = run.folder / "report.html"
    content = render(
        "report.html.jinja",
        run=run, record=run.record, findings=findings, figures=shown, again=command(run.record), facts=_facts(run),
        table=trial_table(run), medians=seed_table(run), unsound=_unsound(run), context=_context(run.record),
        intervals=_intervals(run),
    )  # fmt: skip
    write_whole(page, content)
    folder = run.folder.absolute()
    if folder.parent.name == run.record["experiment"]:
        write_index(folder.parent.parent)
    return page


def command(record: dict[str, Any]) -> str:
    """The command line that runs this again, for a shell."""
    what = record.get("source", record["experiment"])
    words = ["inalab", "run", what, "--target", record["target"], "--seed", str(record["seed"])]
    words += ["--quick"] if record.get("quick") else []
    words += [word for source in record.get("schemes_added", []) for word in ("--scheme", source)]
    words += ["--capture", ",".join(record["capture"])] if record.get("capture") else []
    return shlex.join([*words, *(word for text in record["set"] for word in ("--set", text))])


def _unsound(run: Run) -> list[dict[str, Any]]:
    """The trials that failed or are not valid, with their number in the table and their reasons."""
    words = {"invalid": "not valid", "failed": "failed"}
    return [
        {"number": n, "name": t["name"], "seed": t.get("seed"), "verdict": words[verdict(t)],
         "problems": t.get("problems") or ["no reason was recorded"]}
        for n, t in enumerate(run.trials, start=1)
        if verdict(t) != "valid"
    ]  # fmt: skip


def _facts(run: Run) -> list[tuple[str, Any]]:
    record = run.record
    planned, seeds = len(record["trials"]), sorted({t["seed"] for t in run.trials if "seed" in t})
    return [
        ("run", run.folder.name),
        *([("network", record["network"])] if record.get("network") else []),
        ("target", record["target"]),
        ("seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds)) or record["seed"]),
        ("trials", f"{len(run.trials)} of {planned}" + ("" if record.get("finished") else ", interrupted")),
        *([("run again", f"{again} trials that were not valid")] if (again := _again(run)) else []),
        *([("captured", ", ".join(record["capture"]))] if record.get("capture") else []),
        ("started", _clock(record.get("started"))),
        ("ended", _clock(record.get("ended"))),
        *([("machines", f"{len(kinds)} kinds, see below")] if len(kinds := record.get("machines", [])) > 1 else []),
        ("commit", described(record.get("git") or {}, 12) or MISSING),
    ]


def _intervals(run: Run) -> str:
    """What the plots' intervals are, where trials have several seeds."""
    names = [t["name"] for t in run.finished if t["valid"]]
    most = max(map(names.count, set(names)), default=0)
    if not (covered := coverage(most)):
        return ""
    return f"Intervals are between order statistics; those of {most} valid seeds hold the true median with {100 * covered:.0f} %"


def _again(run: Run) -> int:
    """How many trials ran more than once (inalab campaign --again)."""
    return sum(trial.get("tries", 1) > 1 for trial in run.trials)


def _context(record: dict[str, Any]) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """Settings, versions and machine, each as (name, value, whether it was set by hand)."""
    by_hand = {ungrouped(text.partition("=")[0]) for text in record["set"]}
    git, code = record.get("git") or {}, record.get("code") or {}
    on_target = {f"{record['target']}: {k}": v for k, v in (record.get("target_versions") or {}).items()}
    parts = {
        "Settings": record.get("settings", {}),
        "Versions": record.get("versions", {}) | on_target,
        "Machine": record.get("machine", {}),
        "Machines of the trials": {
            f"{kind['processor']}, {kind['cores']} cores, kernel {kind['kernel']}": f"{kind['trials']} trials"
            for kind in record.get("machines", [])
            if len(record["machines"]) > 1
        },
        "Code": {"changed since the commit" if k == "changed" else k: _known(v) for k, v in git.items() if v != []}
        | {k.replace("_", " "): v for k, v in code.items()},
    }
    return [
        (title, [(k, _plain(v), title == "Settings" and bool(by_hand & {k, k.rpartition(".")[2]})) for k, v in part.items()])
        for title, part in parts.items()
        if part or title != "Machines of the trials"
    ]


def _clock(stamp: str | None) -> str:
    return (stamp or MISSING).replace("T", " ").replace("+", " +")


def _known(value: Any) -> Any:
    return "not known" if value is None else value


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "default", True: "yes", False: "no"}[value]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _embedded(svg: bytes, png: bytes) -> str:
    """A plot as a data URI: sharp at any size, unless it has so much to draw that the page would be slow."""
    data, kind = (svg, "svg+xml") if len(svg) <= LARGEST_SVG else (png, "png")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
