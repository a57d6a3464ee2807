"""A lab's figure: what the student's work measures, beside what the reference solution did."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes

from inalab.testbed.lab import catalogue
from inalab.testbed.lab.confinement import LABS
from inalab.testbed.lab.lab import Failure, LabError
from inalab.testbed.lab.workbench import Workbench

REFERENCE = "reference.json"  # in a lab's folder: what `measure` gave for the solution
LONGEST = 300.0  # seconds that a measurement may take
SUFFIXES = (".png", ".svg", ".pdf")


def measured(name: str, submission: Path) -> Mapping[str, Any]:
    """What the lab's figure measures of a submission. Raises LabError if the work does not go far enough for it."""
    lab = catalogue.load(name)
    with Workbench(submission, lab.files, LONGEST) as bench:
        try:
            return catalogue.plot(name).measure(bench)
        except Failure as failure:
            raise LabError(f"there is nothing to draw yet: {failure}; `inalab lab check` tells more") from None
        except Exception as error:  # of what the program handed over
            raise LabError(f"there is nothing to draw yet: {type(error).__name__}: {error}") from None


def reference(name: str) -> Mapping[str, Any]:
    """What was measured of the reference solution."""
    content: Mapping[str, Any] = json.loads((LABS / name / REFERENCE).read_text())
    return content


def draw(name: str, submission: Path, out: Path) -> Path:
    """Measure, draw and write; the file."""
    if out.suffix not in SUFFIXES:
        raise LabError(f"{out} must end in {', '.join(SUFFIXES)}")
    matplotlib.use("Agg")
    values = measured(name, submission)
    try:
        figure = catalogue.plot(name).draw(values, reference(name))
        with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
            figure.savefig(Path(scratch) / out.name, dpi=150)
            (Path(scratch) / out.name).replace(out)  # whatever a submission has put there, such as a link to another file
    except OSError as error:
        raise LabError(f"{out} cannot be written: {error.strerror}") from None
    except Exception as error:  # of values that no figure can have
        raise LabError(f"what was measured cannot be drawn: {type(error).__name__}: {error}") from None
    return out


def beside(ax: Axes, x: Sequence[float], yours: Sequence[float], reference: Sequence[float], colour: str, label: str) -> None:
    """Two curves of one colour: the student's with points on it, and the reference's broad and pale behind it."""
    ax.plot(x, reference, color=colour, linewidth=7, alpha=0.22, solid_capstyle="round", label=f"{label}, reference")
    ax.plot(x, yours, color=colour, linewidth=1.6, marker="o", markersize=4, label=f"{label}, yours")


def write_reference(name: str) -> Path:
    """Measure the reference solution, and keep what it gave."""
    path = LABS / name / REFERENCE
    path.write_text(json.dumps(measured(name, catalogue.SOLUTIONS / name), indent=1) + "\n")
    return path


if __name__ == "__main__":
    for lab in sys.argv[1:]:
        print(write_reference(lab))
