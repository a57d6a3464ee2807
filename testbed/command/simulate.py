"""inalab simulate: how long a sum takes on a network that is computed packet by packet."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from testbed.plan.settings import TrialSettings
from testbed.simulator.plans import sum_of
from testbed.simulator.switchml import Costs


def show(settings: TrialSettings, elements: int, costs: Costs, console: Console) -> int:
    """Simulate one sum, and print its time; the exit code."""
    begun = time.perf_counter()
    found, bound = sum_of(settings, elements, costs)
    spent = time.perf_counter() - begun
    tat = float(found.ended.max())
    table = Table(box=None, show_header=False)
    for what, value in (
        ("workers", f"{len(found.ended):,} in {settings.racks} racks"),
        ("elements", f"{elements:,}"),
        ("TAT", f"{1000 * tat:.4g} ms"),
        ("ATE/s", f"{elements / tat / 1e6:,.4g} million"),
        ("of the bound", f"{bound / tat:.1%}"),
        ("events", f"{found.events:,} in {spent:.2g} s"),
    ):
        table.add_row(what, value)
    console.print(table)
    ideal = costs == Costs()
    console.print(
        "An ideal network: hosts and switches take no time, and links have no delay."
        if ideal
        else "The costs of hosts, switches and links are as given; nothing has measured them."
    )
    return 0
