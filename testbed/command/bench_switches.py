"""Packets per second through one switch: the embedded one, a hand-written one in C, which does nothing else, and BMv2."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import cache, partial
from multiprocessing.connection import Pipe
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.schemes.switchml import SCHEME
from inalab.switches.bmv2 import installation
from inalab.switches.cache import cache_directory
from inalab.switches.commands import Commands
from inalab.switches.embedded.build import c_compiler
from inalab.switches.forwarding import Station
from inalab.switches.switchml import Child, Pool, admit
from inalab.switches.target import Target, on_interfaces, tell
from inalab.testbed import backends
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.record.runs import ROOT
from inalab.topologies import isolation

SECONDS = 3.0
TURNS = 3  # of which the median counts; the switches take turns
SLOTS = {"embedded": 64, "C": 64, "C, polling": 64, "bmv2": 16}  # of the generator's window; BMv2 drops at its input beyond
PORTS = 4
# aims, with 4 ports on two cores: the embedded switch's packets/s, and how many times those of others
PACKETS = {64: 250_000, 256: 150_000}
RATIOS: dict[str, dict[int, float]] = {"C": {64: 0.95, 256: 0.95}, "bmv2": {64: 10, 256: 12}}
LOOKS = {"C": 0, "C, polling": 2000}  # at all rings in vain before the hand-written switch sleeps

# starts a switch on interfaces by port; the process id of what moves packets
Start = Callable[[dict[int, str]], int]


@cache
def build(name: str, looks: int = 0) -> Path:
    """A program of switches/bench, compiled next to the switches' cache."""
    made = cache_directory() / f"{name}-{looks}"
    made.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "switches" / "bench" / f"{name}.c"
    subprocess.run([c_compiler(), "-O2", f"-DSPINS={looks}", "-o", str(made), str(source)], check=True)
    return made


def generator_job(workers: int, slots: int) -> list[str]:
    """Admit the generator's workers, spread evenly over the ports."""
    children = [Child(w, w * PORTS // workers, Station(f"02:00:00:00:00:{w + 1:02x}", f"10.0.0.{w + 1}")) for w in range(workers)]
    commands = Commands()
    commands.add("set_queue_depth 4096")
    admit(commands, 0, Pool(0, slots), Station("02:00:00:00:00:fe", "10.0.0.254"), children, None)
    return commands.lines


def of_target(target: Target, workers: int) -> Start:
    """A target's switch, with SwitchML's program."""

    def start(names: dict[int, str]) -> int:
        switch = on_interfaces(target.switch("bench", Path("/run"), seed=0), names)
        tell(switch, generator_job(workers, SLOTS[target.name]))
        pid = switch.dataplane()
        assert pid is not None
        return pid

    return start


def by_hand(name: str, k: int, workers: int, names: dict[int, str]) -> int:
    """The switch that is written by hand."""
    command = [str(build("reference", LOOKS[name])), str(k), str(SLOTS[name]), str(workers), *names.values()]
    switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert switch.stdout is not None
    if switch.stdout.readline() != "ready\n":
        raise SettingsError("the hand-written switch did not start; see above")
    return switch.pid


def throughput(k: int, workers: int, slots: int, start: Start) -> dict[str, float]:
    """Packets per second through one switch of PORTS ports, closed loop; the switch's own share of a processor, too."""
    generator = build("generator")
    receiver, sender = Pipe(duplex=False)

    def inside() -> int:
        sink = subprocess.Popen(["unshare", "--net", "sleep", "60"])
        time.sleep(0.2)
        names = {port: f"s{port}" for port in range(PORTS)}
        for port, name in names.items():
            subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"g{port}"], check=True)
            subprocess.run(["ip", "link", "set", f"g{port}", "netns", str(sink.pid)], check=True)
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
            subprocess.run(["nsenter", "-t", str(sink.pid), "-n", "ip", "link", "set", f"g{port}", "up"], check=True)
        dataplane = start(names)
        command = [str(generator), str(k), str(slots), str(SECONDS), str(workers // PORTS), *(f"g{p}" for p in names)]
        done = subprocess.run(["nsenter", "-t", str(sink.pid), "-n", *command], capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        received = sum(int(Path(f"/sys/class/net/{name}/statistics/rx_packets").read_text()) for name in names.values())
        fields = Path(f"/proc/{dataplane}/stat").read_text().rpartition(")")[2].split()
        busy = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") / result["seconds"]
        sender.send({"pps": received / result["seconds"], "missing": result["missing"], "busy": busy})
        return 0

    pid = isolation.start(inside)
    sender.close()
    try:
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        raise SettingsError("the throughput benchmark failed; see above") from None
    finally:
        isolation.wait(pid)


def switches(console: Console) -> None:
    """Packets per second of each switch that is there, with what the embedded one's are of the others'."""
    table = Table(title=f"one switch, {PORTS} ports, median of {TURNS} turns of {SECONDS:g} s each", box=SIMPLE_HEAD)
    for heading in ("switch", "k", "workers", "slots", "packets/s", "aim", "busy", "missing", "embedded's ÷ this", "aim"):
        table.add_column(heading, justify="right")
    absent = installation.missing()
    for k in (64, 256):
        targets = {
            name: backends.with_switches(name).program(SCHEME.program, {"K": str(k)})
            for name in ("embedded", *(() if absent else ("bmv2",)))
        }
        for workers in (4, 8):
            starts: dict[str, Start] = {name: of_target(target, workers) for name, target in targets.items()}
            starts |= {name: partial(by_hand, name, k, workers) for name in LOOKS}
            turns = [{name: throughput(k, workers, SLOTS[name], start) for name, start in starts.items()} for _ in range(TURNS)]
            for name in starts:
                of_all = [turn[name] for turn in turns]
                ratio = median([turn["embedded"]["pps"] / turn[name]["pps"] for turn in turns])
                table.add_row(
                    name, str(k), str(workers), str(SLOTS[name]),
                    f"{median([one['pps'] for one in of_all]):,.0f}",
                    f"{PACKETS[k]:,}" if name == "embedded" and workers == PORTS else "",
                    f"{100 * median([one['busy'] for one in of_all]):.0f} %",
                    f"{sum(one['missing'] for one in of_all):.0f}",
                    "" if name == "embedded" else f"{ratio:.2f}",
                    f"{RATIOS[name][k]}" if name in RATIOS else "",
                )  # fmt: skip
    console.print(table)
    if absent:
        names = ", ".join(piece.name for piece in absent)
        console.print(f"bmv2 was not measured: {names} cannot be found (make doctor)", soft_wrap=True)
