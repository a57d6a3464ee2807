"""inalab simulate: a sum that is computed; and how far such times can be trusted."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.record.runs import ResultsError, load_run
from inalab.testbed.simulator import calibration, costs, validation
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.theory import bounds
from inalab.testbed.trial.errors import TrialError

EXPERIMENT = "validation"


def show(settings: TrialSettings, seed: int, console: Console) -> int:
    """Simulate a trial, and print its sums' time; the exit code."""
    begun = time.perf_counter()
    try:
        metrics = computed_trial(settings, seed)["metrics"]
    except TrialError as error:
        raise SettingsError(str(error)) from None
    spent = time.perf_counter() - begun
    tat, elements = metrics["tat_median"], metrics["elements"]
    table = Table(box=None, show_header=False)
    each = settings.each()
    if len(each) > 1:
        bound = "of several jobs there is none"
    elif not each[0].of_scheme().sums:
        bound = "of updates there is none"
    else:
        bound = f"{bounds.seconds(settings, int(elements)) / tat:.1%}"
    counted = f"{metrics['retransmissions']:,} packets, and {metrics['queries']:,} queries"
    for what, value in (
        ("workers", f"{sum(job.plan.size for job in settings.admitted(settings.plan())):,} in {settings.racks} racks"),
        ("elements", f"{elements:,.0f}"),
        ("TAT", f"{1000 * tat:.4g} ms"),
        ("ATE/s", f"{elements / tat / 1e6:,.4g} million"),
        ("of the bound", bound),
        ("sent again", counted if validation.by_packets(each[0].scheme) else "not simulated over TCP"),
        ("computed in", f"{spent:.2g} s"),
        ("costs", f"{settings.costs}: {costs.of(settings.costs).origin}"),
    ):
        table.add_row(what, value)
    console.print(table)
    return 0


def calibrate(folder: Path, console: Console) -> int:
    """Fit the embedded target's costs on a run of experiment validation, and keep them and what was measured; the exit code.

    Of a run in virtual time its times are kept beside what was measured.
    """
    try:
        run = load_run(folder)
    except ResultsError as error:
        raise SettingsError(str(error)) from None
    if run.record["experiment"] != EXPERIMENT or run.record["target"] not in ("embedded", "virtual"):
        raise SettingsError(f"{folder} is no run of experiment {EXPERIMENT} on target embedded or virtual: give one to --calibrate")
    if run.record["target"] == "virtual":
        calibration.keep_virtual(run)
        return validate(None, console)
    try:
        calibration.keep(run)
    except ValueError as error:
        raise SettingsError(f"{folder}: {error}") from None
    known = costs.of("embedded")
    console.print(f"{known.origin}: {known.packets}, message {known.message:.3g} s")
    return validate(None, console)


def validate(out: Path | None, console: Console) -> int:
    """Print what was measured beside what is simulated, and the verdicts; write them as a page too, where one is named."""
    found = validation.compare(calibration.measured(), costs.of("embedded"))
    table = Table(box=None)
    for heading in ("scheme", "point", "measured", "simulated", "error"):
        table.add_column(heading, justify="left" if heading in ("scheme", "point") else "right")
    for c in found:
        table.add_row(
            c.scheme, c.point + (" (fitted)" if c.fitted else ""),
            f"{1000 * c.measured.median:.1f} ms{c.measured.between}",
            f"{1000 * c.simulated:.1f} ms", f"{100 * c.error:+.1f} %",
        )  # fmt: skip
    console.print(table)
    for sentence in validation.verdicts(found):
        console.print(f"• {sentence}")
    if out is not None:
        try:
            out.write_text(calibration.page(found))
        except OSError as error:
            raise SettingsError(f"{out} cannot be written: {error.strerror}") from None
    return 0
