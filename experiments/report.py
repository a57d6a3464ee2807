"""report.html of a run: self-contained, with the plots, the table, the findings and how to run it again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from experiments.results import ResultsError, Run

TEMPLATE = Path(__file__).parent / "report.html.jinja"
DPI = 144


def write_report(run: Run, findings: list[str], figures: list[tuple[str, str, Figure]]) -> Path:
    """Write each figure as PNG and SVG and the page that shows them; returns the page's path."""
    try:
        shown = []
        for name, caption, figure in figures:
            png = run.folder / f"{name}.png"
            figure.savefig(png, dpi=DPI)
            figure.savefig(run.folder / f"{name}.svg")
            shown.append({"name": name, "caption": caption, "data": base64.b64encode(png.read_bytes()).decode()})
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(TEMPLATE.read_text())
        page = run.folder / "report.html"
        page.write_text(
            template.render(run=run, record=run.record, findings=findings, figures=shown, again=_command(run.record), dump=_dump)
        )
        return page
    except OSError as error:
        raise ResultsError(f"the report in {run.folder} cannot be written: {error.strerror}") from None


def _command(record: dict[str, Any]) -> str:
    """The command line that runs this again."""
    words = ["inalab run", record["experiment"], "--target", record["target"], "--seed", str(record["seed"])]
    return " ".join([*words, *(f"--set {text}" for text in record["set"])])


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2)
