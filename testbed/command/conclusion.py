"""What a run comes to: its table, findings, figures and page."""

from __future__ import annotations

import traceback

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.schemes import registry
from inalab.schemes.scheme import Look
from inalab.testbed import backends
from inalab.testbed.draw import plots
from inalab.testbed.draw.curves import NOTHING
from inalab.testbed.draw.lanes import lanes
from inalab.testbed.plan.experiment import Experiment
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.report.page import write_report

COLUMNS = ("final_accuracy", "step_median", "tat_median", "ate_per_second", "loss_achieved", "retransmissions")


def conclude(run: Run, experiment: Experiment, console: Console, again: bool = False) -> bool:
    """Print the table and the findings, and write plots and report.html; False if the trials' numbers could not be drawn.

    Then an experiment that has just run shows where it raised what, and the page says so. One that is reported `again` keeps its
    earlier page and plots.
    """
    if not run.trials:
        console.print("no trial has ended, so there is nothing to report")
        return True
    console.print(results_table(run))
    findings, figures, drawn = _drawn(run, experiment, traced=not again)
    for sentence in findings:
        console.print(f"• {sentence}")
    if again and not drawn:
        return False
    report = write_report(run, findings, figures)
    console.print(f"plots and report: {report}", soft_wrap=True)
    return drawn


def figures_of(run: Run, experiment: Experiment) -> list[tuple[str, str, Figure]]:
    """Name, caption and figure of each plot; none where no trial has measurements. Schemes are drawn as the run recorded them."""
    for name, look in run.record.get("looks", {}).items():
        low, high = look["of_bound"]
        registry.remember(name, registry.Drawn(Look(**{k: v for k, v in look.items() if k != "of_bound"}), (low, high)))
    with plots.styled():
        return [*experiment.figures(run), *lanes(run)] if run.finished else []


def findings_of(run: Run, experiment: Experiment) -> list[str]:
    """What a run shows, a sentence each; and how much it does not."""
    return [*backends.of_record(run.record).caveats(run.record), *_known(experiment.findings(run))]


def _drawn(run: Run, experiment: Experiment, traced: bool) -> tuple[list[str], list[tuple[str, str, Figure]], bool]:
    """Findings and figures. A bug in an experiment's own must not take the other experiments' trials with it."""
    if not run.finished:
        return [], [], True
    try:
        figures = figures_of(run, experiment)
        return findings_of(run, experiment), figures, True
    except Exception as error:
        backend = backends.of_record(run.record)
        if isinstance(error, KeyError) and (lacking := backend.lacks(error)):
            return [*backend.caveats(run.record), lacking], [], True
        if traced:
            traceback.print_exc()
        return [f"The figures could not be drawn: {type(error).__name__}: {error}"], [], False


def _known(findings: list[str]) -> list[str]:
    """The findings whose numbers are all known, and how many others there are."""
    known = [sentence for sentence in findings if NOTHING not in sentence]
    if lacking := len(findings) - len(known):
        needs = f"{lacking} more finding{'s need' if lacking > 1 else ' needs'} points that have no valid trial"
        known.append(f"{needs}: the trials' problems say what to change.")
    return known


def results_table(run: Run) -> Table:
    """One row for the trials of a name, for 80 columns: medians over the seeds whose trial is valid, or over all if none is."""
    table = Table(
        title=f"{run.record['experiment']} (target {run.record['target']}, seed {run.record['seed']})",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    headings = (
        "trial",
        "acc.\n%",
        "step\nms",
        "median\nTAT ms",
        "ATE/s\n1000s",
        "loss %\n(requested)",
        "retrans-\nmissions",
        "valid",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "trial" else "right", no_wrap=heading != "trial")
    for name in dict.fromkeys(t["name"] for t in run.trials):
        trials = [t for t in run.trials if t["name"] == name]
        valid = [t for t in trials if t["valid"]]
        counted = f"{len(valid)}/{len(trials)}"
        shown = [t["metrics"] for t in valid or trials if "metrics" in t]
        if not shown:
            table.add_row(name, *["–"] * (len(headings) - 2), "failed")
            continue
        m = {key: median_interval([x[key] for x in shown if x.get(key) is not None]).median for key in COLUMNS}
        loss = trials[0]["settings"].get("loss")
        cells = (
            f"{100 * m['final_accuracy']:.1f}" if "final_accuracy" in shown[0] else "–", f"{1000 * m['step_median']:.0f}",
            f"{1000 * m['tat_median']:.0f}", f"{m['ate_per_second'] / 1e3:.0f}",
            f"{100 * m['loss_achieved']:.3f} ({100 * loss:g})" if loss else "–", f"{m['retransmissions']:,.0f}", counted,
        )  # fmt: skip
        table.add_row(name, *cells)
    return table
