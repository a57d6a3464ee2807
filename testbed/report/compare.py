"""In which trials two runs differ, and by what chance they would if nothing did."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.record import steps
from inalab.testbed.record.metrics import COMPARED, MISSING, Metric, named
from inalab.testbed.record.runs import Run
from inalab.testbed.record.significance import CONFIDENCE, Evidence, by_pairs, by_ranks, judged
from inalab.testbed.record.statistics import FEWEST, Interval, median_interval

EQUAL, DIFFERENT = 0, 3  # exit codes
Key = tuple[str, str]  # a trial's name, and its factors as JSON
Trials = dict[int, dict[str, Any]]  # by seed


@dataclass(frozen=True)
class Finding:
    """A metric of one trial in both runs: medians and intervals to look at, and the evidence that decides.

    `p` is corrected for the number of comparisons; `different` is None where no values of so few seeds could tell.
    """

    metric: Metric
    first: Interval
    second: Interval
    change: Interval | None
    basis: str
    evidence: Evidence
    different: bool | None = None
    p: float | None = None


@dataclass
class Comparison:
    """What two runs have in common and what not; a trial is known by its name and factors, over all its seeds."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    context: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def different(self) -> list[str]:
        """Names of the trials of which a metric differs."""
        return [name for name, found in self.findings.items() if any(f.different for f in found)]

    @property
    def undecided(self) -> list[str]:
        """Names of the trials of which nothing is known to differ, and some metric could not be told to."""
        return [
            name for name, found in self.findings.items() if name not in self.different and any(f.different is None for f in found)
        ]

    @property
    def comparisons(self) -> int:
        """How many there were; values that are equal are none."""
        return sum(not f.evidence.empty for found in self.findings.values() for f in found)

    @property
    def equal(self) -> bool:
        """Whether nothing was found to differ."""
        return not self.different and not self.differences


def compare(a: Run, b: Run) -> Comparison:
    """Match the trials of two runs, and hold their metrics, models and validity against each other."""
    result = Comparison(context=list(_context(a.record, b.record)))
    ours, theirs = _by_key(a), _by_key(b)
    for key in dict.fromkeys([*ours, *theirs]):
        label = _label(key, [*ours, *theirs])
        if key not in ours or key not in theirs:
            result.differences.append(f"only {'A' if key in ours else 'B'} has the trial {label}")
            continue
        _compare_trial(result, label, ours[key], theirs[key])
    _judge(result)
    return result


def _judge(result: Comparison) -> None:
    """Decide about all metrics of all trials at once: the more comparisons, the more evidence each of them needs."""
    verdicts = iter(judged([f.evidence for found in result.findings.values() for f in found]))
    for name, found in result.findings.items():
        result.findings[name] = [replace(f, different=v.different, p=v.p) for f, v in zip(found, verdicts, strict=False)]


def _by_key(run: Run) -> dict[Key, Trials]:
    """The trials by name and factors, then by seed; the last of several that are alike."""
    found: dict[Key, Trials] = {}
    for t in run.trials:
        key = (t["name"], json.dumps(t.get("factors", {}), sort_keys=True, ensure_ascii=False))
        found.setdefault(key, {})[t.get("seed", run.record["seed"])] = t
    return found


def _label(key: Key, keys: list[Key]) -> str:
    """The trial's name, with its factors where trials of that name have different ones."""
    name, factors = key
    return name if all(k[1] == factors for k in keys if k[0] == name) else f"{name} {factors}"


def _compare_trial(result: Comparison, label: str, a: Trials, b: Trials) -> None:
    for run, mine, other in (("A", a, b), ("B", b, a)):
        if missing := sorted(set(mine) - set(other)):
            result.differences.append(f"{label}: only {run} has {_seeds(missing)}")
        alone = sorted(s for s, t in mine.items() if not t.get("valid") and s in other and other[s].get("valid"))
        if alone:
            result.differences.append(f"{label}: {_seeds(alone)} not valid in {run} alone, so left out of the medians")
    both = sorted(s for s in set(a) & set(b) if not a[s].get("valid") and not b[s].get("valid"))
    if both:
        result.notes.append(f"{label}: {_seeds(both)} not valid in either, so left out of the medians")
    synchronous = [s for s in sorted(set(a) & set(b)) if a[s]["settings"].get("pipeline") != ASYNCHRONOUS]
    if diverged := [s for s in sorted(set(a) | set(b)) if _diverged(a.get(s)) or _diverged(b.get(s))]:
        result.notes.append(f"{label}: the model diverged at {_seeds(diverged)}, so that it is compared with no other")
    synchronous = [s for s in synchronous if s not in diverged]
    changed = [s for s in synchronous if _model(a[s]) and _model(b[s]) and _model(a[s]) != _model(b[s])]
    if changed:
        result.differences.append(f"{label}: the final models differ at {_seeds(changed)}")
    result.context += _settings_of(label, a, b, result.context)
    same_seeds = set(a) == set(b)
    a, b = ({s: t for s, t in trials.items() if t.get("valid") and "metrics" in t} for trials in (a, b))
    if a and b:
        findings = [_compare_metric(named(key), a, b, same_seeds) for key in COMPARED]
        result.findings[label] = [f for f in findings if f is not None]
        for key in COMPARED:
            lacking = len(a) - len(_values(key, a)) + len(b) - len(_values(key, b))
            if 0 < lacking < len(a) + len(b):
                result.notes.append(f"{label}: {named(key).heading} is left out of {lacking} trials, where it is no finite number")


def _compare_metric(metric: Metric, a: Trials, b: Trials, same_seeds: bool) -> Finding | None:
    """By pairs where both have the same seeds, else by ranks. None: no values.

    Of one seed the intervals are over the steps: they show the step's spread, and not how runs differ from one another.
    """
    mine, yours = _values(metric.key, a), _values(metric.key, b)
    if not mine or not yours:
        return None
    common = sorted(set(mine) & set(yours))
    if same_seeds and common:
        mine, yours = ({s: values[s] for s in common} for values in (mine, yours))
    first, second = (median_interval(list(values.values()), CONFIDENCE) for values in (mine, yours))
    if not same_seeds or not common:
        evidence = by_ranks(list(mine.values()), list(yours.values()))
        return Finding(metric, first, second, None, f"{first.n}, {second.n} seeds", evidence)
    evidence = by_pairs([yours[s] - mine[s] for s in common])
    if len(common) >= FEWEST:
        change, none = _change(list(mine.values()), list(yours.values()))
        return Finding(metric, first, second, change if none == 1 else None, f"{len(common)} pairs", evidence)
    if metric.key in PER_STEP:
        over = [_steps(metric.key, [trials[s] for s in common]) for trials in (a, b)]
        first, second = (median_interval(values, CONFIDENCE) for values in over) if all(over) else (first, second)
    return Finding(metric, first, second, None, f"{len(common)} pair{'s' * (len(common) > 1)}", evidence)


def _change(a: list[float], b: list[float]) -> tuple[Interval, float]:
    """The interval of b/a over pairs, and 1, which stands for no change; of b − a, and 0, where some a is 0."""
    if all(a):
        return median_interval([y / x for x, y in zip(a, b, strict=True)], CONFIDENCE), 1.0
    return median_interval([y - x for x, y in zip(a, b, strict=True)], CONFIDENCE), 0.0


def _values(key: str, trials: Trials) -> dict[int, float]:
    """A metric by seed, where it is a finite number."""
    found = {seed: t["metrics"].get(key) for seed, t in trials.items()}
    return {s: float(v) for s, v in found.items() if isinstance(v, int | float) and math.isfinite(v)}


PER_STEP = {
    "tat_median": steps.aggregation_time,
    "step_median": steps.duration,
}


def _steps(key: str, trials: list[dict[str, Any]]) -> list[float]:
    """One number for each step of each trial, of which the metric is the median; none if the steps do not tell."""
    values = []
    for trial in trials:
        try:
            values += [PER_STEP[key](group) for group in steps.exchanges(trial.get("steps", []))]
        except KeyError:
            return []
    return values


def _model(trial: dict[str, Any]) -> str:
    return str(trial.get("metrics", {}).get("model_digest") or "")


def _diverged(trial: dict[str, Any] | None) -> bool:
    return "diverged" in (trial or {}).get("metrics", {})


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _context(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What else is different: (what, in A, in B)."""
    for key in ("experiment", "target", "seed", "quick"):
        if a.get(key) != b.get(key):
            yield key, str(a.get(key, MISSING)), str(b.get(key, MISSING))
    for key in ("settings", "versions", "target_versions", "machine", "git", "code"):
        yield from _pairs(key.replace("_", " "), a.get(key) or {}, b.get(key) or {})


def _pairs(what: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield f"{what}: {name}", str(a.get(name, MISSING)), str(b.get(name, MISSING))


def _settings_of(label: str, a: Trials, b: Trials, known: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Settings in which the trial differs and that the runs' settings do not already tell."""
    named = {what.removeprefix("settings: ") for what, _, _ in known if what.startswith("settings: ")}
    first, second = (next(iter(trials.values())).get("settings", {}) for trials in (a, b))
    return [pair for pair in _pairs(label, first, second) if pair[0].removeprefix(f"{label}: ") not in named]


# --- printing


def show_comparison(a: Run, b: Run, console: Console, every: bool) -> int:
    """Print in what two runs differ, all metrics with `every`; returns EQUAL (nothing was found) or DIFFERENT."""
    result = compare(a, b)
    console.print(f"A: {a.folder}\nB: {b.folder}", soft_wrap=True)
    if result.context:
        console.print(_context_table(result.context))
    for name in list(result.findings) if every else result.different:
        console.print(_metrics_table(name, result.findings[name]))
    for sentence in _conclusions(result):
        console.print(f"• {sentence}")
    return EQUAL if result.equal else DIFFERENT


def _conclusions(result: Comparison) -> Iterator[str]:
    yield from result.notes
    yield from result.differences
    for name in result.different:
        wording = ", ".join(f"{f.metric.heading} (p = {f.p:.2g})" for f in result.findings[name] if f.different)
        yield f"{name}: differs in {wording}"
    if same := [name for name in result.findings if name not in (*result.different, *result.undecided)]:
        yield f"no difference found in: {', '.join(same)}"
    yield from _refusals(result)
    if not result.findings:
        yield "no trial is valid in both runs, so no metric was compared"
    elif n := result.comparisons:
        tests = [text for pairs, text in TESTS.items() if any(f.evidence.pairs is pairs for f in _tested(result))]
        many = f"all {n} comparisons together" if n > 1 else "one comparison"
        yield f"confidence {100 * CONFIDENCE:.0f} % over {many}: {' and '.join(tests)}, p-values corrected by Holm's method"


TESTS = {True: "sign test over pairs of equal seeds", False: "rank test between different seeds"}


def _tested(result: Comparison) -> list[Finding]:
    return [f for found in result.findings.values() for f in found if not f.evidence.empty]


def _refusals(result: Comparison) -> Iterator[str]:
    """For trials of too few seeds: no verdict, and how many seeds could tell among as many comparisons."""
    by_seeds: dict[tuple[int, int], list[str]] = {}
    for name in result.undecided:
        evidence = [f.evidence for f in result.findings[name] if f.different is None]
        few = min(e.seeds for e in evidence)
        by_seeds.setdefault((few, max(e.needed(result.comparisons) for e in evidence)), []).append(name)
    for (few, needed), names in by_seeds.items():
        yield (
            f"{few} seed{'s' * (few > 1)} cannot tell: run {needed} or more "
            f"(no difference found, and none could be, in: {', '.join(names)})"
        )


def _context_table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table(title="Requested and run differently", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", "A", "B"):
        table.add_column(heading, overflow="fold")
    for what, first, second in rows:
        table.add_row(what, first, second)
    return table


def _metrics_table(name: str, findings: list[Finding]) -> Table:
    """A row a metric, for 80 columns: medians, and their intervals below."""
    table = Table(title=name, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("A", "B", "B/A"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("over", no_wrap=True)
    table.add_column("p", no_wrap=True, justify="right")
    table.add_column("differs", no_wrap=True)
    for f in findings:
        verdict = Text("yes", "bold") if f.different else "no" if f.different is False else "unknown"
        p = MISSING if f.p is None else f"{f.p:.2g}"
        what = f"{f.metric.heading}, {f.metric.unit}" if f.metric.unit else f.metric.heading
        table.add_row(what, _text(f.metric, f.first), _text(f.metric, f.second), _ratio(f), f.basis, p, verdict)
    return table


def _text(metric: Metric, interval: Interval) -> str:
    return metric.text(interval.median) + _bounds(metric.text(interval.low), metric.text(interval.high))


def _ratio(finding: Finding) -> str:
    """B/A: over pairs with its interval, else of the two medians."""
    if c := finding.change:
        return f"{c.median:.3f}" + _bounds(f"{c.low:.3f}", f"{c.high:.3f}")
    return f"{finding.second.median / finding.first.median:.3f}" if finding.first.median else MISSING


def _bounds(low: str, high: str) -> str:
    return f"\n{low}–{high}" if low != high else ""
