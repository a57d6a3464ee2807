"""Numbers in the documentation, filled in from the kept runs, so that none is typed.

A page names a number in a comment, and the number stands between that and the next comment:

    <!--= workers ate_per_second scheme=switchml workers=8 / scheme=ring -->1.61 (1.60 to 1.62)<!--.-->

That is: an experiment, a measure, and the factors of a point, as they stand in its trials. The measure is a metric of trials.jsonl,
a function of testbed.measures, such as of_bound or time_to_accuracy(0.9), or one of the experiment's own. After a slash come
the factors in which another point differs; a minus marks a factor that the other point does not have. The number is then the
ratio to that point, seed by seed. Options begin with a colon: `:.1f` formats the number, `:100` multiplies it, `:short` leaves out
the bounds, `:largest` takes the largest value over all trials instead of the median.

The text between `<!--record workers-->` and the next comment shows a kept run's figures, how it was measured, and its findings.
Where no run of an experiment is kept, the page says so.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from inalab.testbed import measures
from inalab.testbed.document import kept
from inalab.testbed.draw.curves import estimate, matching, ratio
from inalab.testbed.measures import Measure, metric
from inalab.testbed.plan import experiment as experiments
from inalab.testbed.record.runs import ROOT, ResultsError, Run
from inalab.testbed.record.statistics import Interval

NUMBER = re.compile(r"<!--= (.*?) -->(.*?)<!--\.-->", re.S)
RECORD = re.compile(r"<!--record ([\w-]+)-->\n(.*?)<!--\.-->", re.S)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def filled(page: str, folder: Path) -> str:
    """A page in this folder with the numbers and records that it names. ResultsError says which is unknown."""
    page = NUMBER.sub(lambda found: f"<!--= {found[1]} -->{number(' '.join(found[1].split()))}<!--.-->", page)
    return RECORD.sub(lambda found: f"<!--record {found[1]}-->\n{record(found[1], folder)}<!--.-->", page)


def record(name: str, folder: Path) -> str:
    """A kept run's figures, how it was measured, and what it showed, in Markdown for a page in this folder."""
    run = kept.load(name)
    if run is None:
        return f"No run of this experiment is kept yet: `inalab run {name}` measures it.\n"
    shown = ""
    for figure, caption in run.record["captions"].items():
        path = os.path.relpath(run.folder / f"{figure}.svg", folder)
        shown += f"![{run.record['description'].rstrip('.')}]({path})\n\n{caption.rstrip('.')}.\n\n"
    findings = "".join(f"- {sentence}\n" for sentence in run.record["findings"])
    return f"{shown}{kept.how(run)}\n\n<details markdown><summary>Every finding of this run</summary>\n\n{findings}\n</details>\n"


def number(query: str) -> str:
    """The number that a query names. ResultsError if its run is kept and has no such number."""
    name, *words = shlex.split(query)
    run = kept.load(name)
    if run is None:
        return "(not measured yet)"
    try:
        return _number(run, words)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ResultsError(f"the documentation names a number that does not exist: {query}: {error}") from None


def _number(run: Run, words: list[str]) -> str:
    options = [word[1:] for word in words if word.startswith(":")]
    (what, *point), other = _split([word for word in words if not word.startswith(":")])
    factors = _factors(run, point)
    times = next((float(o) for o in options if o.replace(".", "").isdigit()), 1.0)
    form = next((o for o in options if re.fullmatch(r"[,.]?\.?\d*[fg]", o)), ".2f")
    measure = _measure(run.record["experiment"], what)
    if not matching(run, **factors):
        raise ValueError("no trial has these factors")
    if "largest" in options:
        if other:
            raise ValueError("a ratio has no largest value")
        each = np.hstack([measure(t) for t in matching(run, **factors) if t["valid"]])
        return f"{times * np.nanmax(each):{form}}"
    lacking = {word[1:] for word in other if word.startswith("-")}
    base = {k: v for k, v in (factors | _factors(run, other)).items() if k not in lacking}
    found = ratio(run, measure, factors, base) if other else estimate(run, measure, **factors)
    if not found.n:
        raise ValueError("no valid trial has it")
    return _words(Interval(times * found.median, times * found.low, times * found.high, found.n), form, "short" in options)


def _words(found: Interval, form: str, short: bool) -> str:
    middle, low, high = (f"{value:{form}}" for value in (found.median, found.low, found.high))
    return middle if short or not found.known else f"{middle} ({low} to {high})"


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("/") if "/" in words else len(words)
    return words[:at], words[at + 1 :]


def _factors(run: Run, words: list[str]) -> dict[str, Any]:
    """key=value as in trials.jsonl: numbers and true, false, null are those of JSON, where the trials do not have text there."""
    found = {}
    for word in (word for word in words if "=" in word):
        key, _, value = word.partition("=")
        text = any(isinstance(t["factors"].get(key), str) for t in run.trials)
        try:
            found[key] = value if text else json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _measure(experiment: str, name: str) -> Measure:
    name, _, argument = name.rstrip(")").partition("(")
    own: Any = getattr(experiments.load(experiment), name, None) or getattr(measures, name, None)
    if not callable(own):
        return metric(name)
    found: Measure = own(float(argument)) if argument else own
    return found


def fill(path: Path) -> bool:
    """Fill a page in place; whether it changed."""
    before = path.read_text()
    after = filled(before, path.parent)
    if after != before:
        path.write_text(after)
    return after != before
