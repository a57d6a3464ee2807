"""`make bench`, as PyTorch scripts see the schemes: how long sums of different sizes take, and a training, all with defaults."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.testbed.backends.backend import Backend
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.record.runs import ROOT
from inalab.testbed.theory import bounds
from inalab.testbed.trial.launch import with_large_packets

SCRIPTS = ROOT / "experiments" / "scripts"
SCHEMES = ("switchml", "atp", "ring", "byteps", "gloo")
TRAININGS = {
    ("ddp", 0.0): "1.5",
    ("ddp", 0.001): "",
    ("ddp", 0.01): "1.6",
    ("fsdp2", 0.0): "1.5",
    ("fsdp2", 0.01): "",
    ("hsdp", 0.0): "",
}  # with aims
SHARDED = 1 << 20  # elements
CALLS = {"reduce_scatter": "1.05", "all_gather": "0.92", "broadcast": "1.05", "sharded": "1.29"}  # with aims, in S / B
AIMS = {4096: 1.6, 16_384: 1.25, 65_536: 1.18, 262_144: 1.15}  # of SwitchML's sums, in S / B


def launched(scheme: str, script: str, *words: str, loss: float = 0.0) -> str:
    """What worker 0 prints in a launch with defaults, 2 racks of 4 workers at 10 Mbit/s. SettingsError if it fails."""
    command = [sys.executable, "-m", "inalab.testbed.command.cli", "launch", "--scheme", scheme, "--set", f"loss={loss}", "--"]
    done = subprocess.run([*command, str(SCRIPTS / script), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SettingsError(f"{script} has failed over {scheme}: {done.stderr.strip()[-300:]}")
    return "\n".join(line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] "))


def sums(console: Console) -> None:
    """All-reduces of float32, in S / B (the tensor's bits over the rate of a link), and in the scheme's bound."""
    table = Table(title="all_reduce of float32 with defaults, ÷ S/B (÷ bound)", box=SIMPLE_HEAD)
    for heading in ("elements", *SCHEMES, "aim"):
        table.add_column(heading, justify="right")
    found = {scheme: [json.loads(line) for line in launched(scheme, "sums.py").splitlines()] for scheme in SCHEMES}
    for row in zip(*found.values(), strict=True):
        elements, cells = row[0]["elements"], []
        for scheme, its in zip(SCHEMES, row, strict=True):
            settings = with_large_packets(make_settings(TrialSettings, {"scheme": scheme}), (), Backend.largest_k)
            least = bounds.seconds(settings, elements)
            in_bounds = f" ({its['seconds'] / least:.2f})" if least else ""
            assert settings.host_rate
            cells.append(f"{its['seconds'] / (32 * elements / settings.host_rate / 1e6):.2f}{in_bounds}")
        table.add_row(f"{elements:,}", *cells, str(AIMS.get(elements, "")))
    console.print(table)


def sharded(console: Console) -> None:
    """What training with sharded models calls, over SwitchML and Gloo, in S / B."""
    rate = make_settings(TrialSettings, {}).host_rate
    assert rate
    seconds = 32 * SHARDED / rate / 1e6
    table = Table(title=f"{SHARDED:,} elements of float32 with defaults, ÷ S/B", box=SIMPLE_HEAD)
    for heading in ("call", "switchml", "gloo", "aim"):
        table.add_column(heading, justify="right")
    for call, aim in CALLS.items():
        cells = []
        for scheme in ("switchml", "gloo"):
            (row,) = launched(scheme, "sums.py", "--call", call, "--elements", str(SHARDED)).splitlines()
            cells.append(f"{json.loads(row)['seconds'] / seconds:.2f}")
        table.add_row(call, *cells, aim)
    console.print(table)


def training(console: Console) -> None:
    """An unchanged script against Gloo, in one run each: DistributedDataParallel, FSDP2, and its hybrid form."""
    table = Table(title="train_ddp.py with defaults", box=SIMPLE_HEAD)
    for heading in ("parallel", "loss", "gloo", "switchml", "gloo ÷ switchml", "aim", "atp", "gloo ÷ atp"):
        table.add_column(heading, justify="right")
    for (parallel, loss), aim in TRAININGS.items():
        words = ("--model", "transformer", "--parallel", parallel)
        took = {}
        for scheme in ("gloo", "switchml", "atp"):
            (seconds,) = re.findall(r"([\d.]+) s$", launched(scheme, "train_ddp.py", *words, loss=loss), re.M)
            took[scheme] = float(seconds)
        gloo, switchml, atp = (took[scheme] for scheme in ("gloo", "switchml", "atp"))
        cells = f"{gloo:.1f} s", f"{switchml:.1f} s", f"{gloo / switchml:.2f}", aim, f"{atp:.1f} s", f"{gloo / atp:.2f}"
        table.add_row(parallel, f"{100 * loss:g} %", *cells)
    console.print(table)
