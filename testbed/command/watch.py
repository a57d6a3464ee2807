"""inalab watch: what the switches of a running trial hold, drop and wait for, in the terminal."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from inalab.schemes.scheme import Cells
from inalab.switches import loss as losses
from inalab.switches.control import ControlError
from inalab.switches.embedded.control import SocketControl
from inalab.testbed.command.terminal import styled
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.trial.discovery import RunningTrial, trials
from inalab.topologies.plan import NetworkPlan

WIDTH = 64  # slots in a line


def watch(console: Console, seconds: float, once: bool) -> int:
    """Show the newest trial again and again until Ctrl-C, or `once`; the exit code. SettingsError: there is none to show once."""
    if once:
        console.print(picture(newest()))
        return 0
    with Live(Text("waiting for a trial …"), console=console, refresh_per_second=10, screen=console.is_terminal) as live:
        try:
            while True:
                shown = next(trials(), None)
                live.update(picture(shown) if shown else Text("waiting for a trial …"))
                time.sleep(seconds)
        except KeyboardInterrupt:
            return 0


def newest() -> RunningTrial:
    """The newest trial that runs. Raises SettingsError if there is none."""
    trial = next(trials(), None)
    if trial is None:
        raise SettingsError("no trial of yours is running on this machine: start one in another terminal")
    return trial


@dataclass(frozen=True)
class _Seen:
    """What one switch tells at one moment."""

    cells: list[Cells]
    received: int
    sent: int
    queue_drops: int
    lost: int
    passed: int


def picture(trial: RunningTrial) -> RenderableType:
    """The trial as it is now."""
    settings = trial.settings
    plan = settings.plan()
    own = trial.watched(plan)
    workers = f"{plan.topology.racks} × {plan.topology.workers} workers"
    title = f"{settings.running().name}, {workers}, loss {settings.loss:g}, {settings.host_rate:g} Mbit/s"
    panels: list[RenderableType] = []
    waited: Counter[str] = Counter()
    for name in plan.switches:
        try:
            with SocketControl(trial.sockets / f"{name}.sock", timeout=2.0) as control:
                memory = settings.running().memory(control, plan, name, own)
                seen = _look(control, plan, name, memory, settings.loss)
        except (ControlError, ValueError) as error:
            panels.append(Panel(styled(f"does not answer: {error}"), title=styled(name), title_align="left"))
            continue
        panels.append(Panel(_switch(seen), title=styled(name), title_align="left"))
        for cells in seen.cells:
            waited.update(missing for _, out in cells.taken.values() for missing in out)
    wording = ", ".join(f"{name} ({n})" for name, n in waited.most_common(8)) or "none"
    windows = ", ".join(f"{name}: {size:.0f}" for name, size in trial.shown().items())
    shown = [Text(f"windows, in chunks: {windows}")] if windows else []
    return Group(Text(title, style="bold"), *panels, *shown, Text(f"waited for, and in how many slots: {wording}"))


def _look(control: SocketControl, plan: NetworkPlan, name: str, cells: list[Cells], loss: float) -> _Seen:
    ports = control.ports().values()
    total = {key: sum(port.get(key, 0) for port in ports) for key in ("received", "sent", "queue_drops")}
    lost = passed = 0
    for attachment in plan.switches[name].attachments if loss else ():
        if attachment.upper:
            here = losses.counted(control, attachment.port)
            lost, passed = lost + here[0], passed + here[1]
    return _Seen(cells, total["received"], total["sent"], total["queue_drops"], lost, passed)


def _switch(seen: _Seen) -> RenderableType:
    counts = Table.grid(padding=(0, 2))
    words = [f"received {seen.received:,}", f"sent {seen.sent:,}", f"dropped by queues {seen.queue_drops:,}"]
    if seen.passed:
        words.append(f"lost on its links {seen.lost:,} ({seen.lost / (seen.lost + seen.passed):.2%})")
    counts.add_row(*words)
    return Group(*(part for cells in seen.cells for part in (_legend(cells), _strip(cells))), counts)


def _legend(cells: Cells) -> Text:
    complete = sum(not out for _, out in cells.taken.values())
    filling = len(cells.taken) - complete
    return Text(f"{cells.title}: {cells.size - len(cells.taken)} free, {filling} filling, {complete} complete", style="dim")


def _strip(cells: Cells) -> Text:
    """A character a slot: · free, a digit for how many are in, and a block once all are."""
    text = Text()
    for slot in range(cells.size):
        if slot and slot % WIDTH == 0:
            text.append("\n")
        inside, out = cells.taken.get(slot, ([], []))
        if not inside and not out:
            text.append("·", style="dim")
        elif out:
            text.append(str(len(inside)) if len(inside) < 10 else "+", style="yellow")
        else:
            text.append("█", style="green")
    return text
