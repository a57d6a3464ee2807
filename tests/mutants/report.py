"""What is shown of a run over mutants: a line for each, a table by area, and what falls short."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tests.mutants.trials import Outcome, Verdict

LEAST_STOPPED = 90  # percent of all mutants
LEAST_BY_UNIT_TESTS = 80
COLUMNS = {  # the last: neither stopped nor survived, since --unit-only leaves out its network tests
    Outcome.UNIT: "unit", Outcome.NETWORK: "network", Outcome.SURVIVED: "survived", Outcome.BROKEN: "broken", Outcome.LEFT: "left",
}  # fmt: skip


def line(verdict: Verdict) -> str:
    """One verdict."""
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.mutant}: {verdict.outcome.value}{reason}, {verdict.seconds:.0f} s"


def table(verdicts: Sequence[Verdict]) -> Table:
    """Counts by area: stopped by which tests (timed out: by the time limit), or not; and the shares that were stopped."""
    made = Table("area", *COLUMNS.values(), "timed out", "stopped", "by unit")
    for column in made.columns[1:]:
        column.justify = "right"
    areas = sorted({verdict.mutant.area for verdict in verdicts})
    for area in [*areas, "all"]:
        chosen = [v for v in verdicts if area in (v.mutant.area, "all")]
        counts = [str(sum(v.outcome is outcome for v in chosen)) for outcome in COLUMNS]
        late = str(sum(v.timed_out for v in chosen))
        made.add_row(area, *counts, late, *(f"{part:.0f} %" for part in shares(chosen)), end_section=area == areas[-1])
    return made


def shares(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """Percent of the mutants that were stopped, and that were stopped by unit tests."""
    unit, network, *_ = (sum(v.outcome is outcome for v in verdicts) for outcome in COLUMNS)
    total = max(1, len(verdicts))
    return 100 * (unit + network) / total, 100 * unit / total


def failures(verdicts: Sequence[Verdict], whole: bool) -> list[str]:
    """Sentences on what must not be; the shares count where all mutants were tried."""
    found = []
    if survived := sum(v.outcome is Outcome.SURVIVED for v in verdicts):
        found.append(f"{survived} of {len(verdicts)} mutants survived: write a test that stops each")
    if broken := sum(v.outcome is Outcome.BROKEN for v in verdicts):
        found.append(f"{broken} of {len(verdicts)} entries are broken: adapt them to the code")
    if whole:
        stopped, by_unit_tests = shares(verdicts)
        if stopped < LEAST_STOPPED:
            found.append(f"{stopped:.0f} % were stopped, and {LEAST_STOPPED} % must be")
        if by_unit_tests < LEAST_BY_UNIT_TESTS:
            found.append(f"{by_unit_tests:.0f} % were stopped by unit tests, and {LEAST_BY_UNIT_TESTS} % must be")
    return found
