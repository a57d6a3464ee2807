"""Whose time the processors spent, from a /proc that the tests write."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from inalab.testbed.trial import load, processors
from inalab.testbed.trial.load import LoadMeter
from inalab.testbed.trial.processors import TICKS, Shares, shares


class Machine:
    """A /proc with two processors: what each process has run, and what the rest of the machine did, in seconds."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 0.0
        self.fields = dict.fromkeys(
            ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"), 0.0
        )
        self.processes: dict[int, list[float]] = {}  # user, system, and those of ended children
        self.threads: dict[int, dict[str, float]] = {}
        self.write()

    def process(self, pid: int) -> None:
        self.processes[pid], self.threads[pid] = [0.0] * 4, {str(pid): 0.0}
        self.write()

    def run(self, pid: int, seconds: float, kind: int = 0, thread: str = "") -> None:
        self.processes[pid][kind] += seconds
        self.fields["user" if kind % 2 == 0 else "system"] += seconds
        self.threads[pid][thread or str(pid)] = self.threads[pid].get(thread or str(pid), 0.0) + seconds

    def spend(self, **seconds: float) -> None:
        for field, value in seconds.items():
            self.fields[field] += value

    def write(self) -> None:
        ticks = [round(seconds * TICKS) for seconds in self.fields.values()]
        self.root.mkdir(exist_ok=True)
        (self.root / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3\n")
        for pid, times in self.processes.items():
            (self.root / str(pid)).mkdir(exist_ok=True)
            own = " ".join(str(round(seconds * TICKS)) for seconds in times)
            (self.root / str(pid) / "stat").write_text(f"{pid} (a ) b) S 1 1 1 0 -1 4194304 103 7 8 9 {own} 20 0 1 0 5 6 7\n")

    def window(self, meter: LoadMeter, seconds: float = 0.1) -> None:
        self.now += seconds
        self.write()
        meter.sample()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "proc")
    for pid in (1, 7, 9):
        made.process(pid)
    (tmp_path / "proc" / "self").mkdir()
    monkeypatch.setattr(processors, "PROC", made.root)
    monkeypatch.setattr(load.time, "monotonic", lambda: made.now)
    monkeypatch.setattr(load, "_thread_seconds", lambda pid: dict(made.threads[pid]))
    return made


def test_every_second_is_somebodys(machine: Machine) -> None:
    before = processors.read([7])
    machine.run(7, 0.3, kind=1)  # the switch
    machine.run(9, 0.2)  # a worker
    machine.run(1, 0.1, kind=2)  # what a child of the coordinator ran before it ended
    machine.spend(user=0.4, nice=0.2, system=0.2, idle=0.1, iowait=0.1, irq=0.1, softirq=0.2, steal=0.1, guest=0.4)
    machine.write()
    found = shares(before, processors.read([7]))
    assert found == pytest.approx(Shares(idle=0.1, stolen=0.05, switches=0.15, hosts=0.15, others=0.4))


def test_other_processes_are_told_from_the_trials_own(machine: Machine) -> None:
    meter = LoadMeter({"root": 7})
    machine.run(7, 0.04)
    machine.run(9, 0.02)
    machine.spend(user=0.12, idle=0.0, steal=0.02)
    machine.window(meter)
    machine.run(7, 0.02)
    machine.spend(idle=0.18)
    machine.window(meter)
    found = meter.metrics()
    assert set(found) == set(LoadMeter.METRICS)
    assert (found["saturated"], found["saturated_by"]) == (0.5, "the processors")
    assert found["saturated_shares"]["others"] == pytest.approx(0.6)  # of the full window alone
    assert found["saturated_shares"]["stolen"] == pytest.approx(0.1)
    assert found["cpu_others"] == pytest.approx(0.3)
    assert found["cpu_idle"] == pytest.approx(0.45)
    assert found["cpu_switches"] == pytest.approx(0.15)
    assert found["cpu_hosts"] == pytest.approx(0.05)


def test_the_trials_own_switches_are_named(machine: Machine) -> None:
    meter = LoadMeter({"root": 7})
    for _ in range(3):
        machine.run(7, 0.15)
        machine.run(9, 0.05)
        machine.window(meter)
    found = meter.metrics()
    assert (found["saturated"], found["saturated_by"]) == (1.0, "the processors")
    assert found["saturated_shares"] == pytest.approx({"idle": 0, "stolen": 0, "switches": 0.75, "hosts": 0.25, "others": 0})


@pytest.mark.parametrize(("ran", "threads", "who"), [(0.095, 1, "switch root"), (0.085, 1, ""), (0.15, 2, "")])
def test_a_switch_is_as_busy_as_its_busiest_thread(machine: Machine, ran: float, threads: int, who: str) -> None:
    meter = LoadMeter({"root": 7})
    for thread in range(threads):
        machine.run(7, ran / threads, thread=f"7{thread}" if thread else "7")
    machine.spend(idle=0.2 - ran)
    machine.window(meter)
    found = meter.metrics()
    assert (found["saturated_by"], found["saturated"]) == (who, float(bool(who)))
    assert found["saturated_shares"] == {}


@pytest.mark.parametrize(("idle", "full"), [(0.004, 1.0), (0.02, 0.0)])
def test_a_window_is_full_below_five_percent_of_idle_time(machine: Machine, idle: float, full: float) -> None:
    meter = LoadMeter({})
    machine.spend(idle=2 * idle, user=0.4 - 2 * idle)
    machine.window(meter, 0.2)
    assert meter.metrics()["saturated"] == full


def test_a_window_that_is_not_over_is_not_measured(machine: Machine) -> None:
    meter = LoadMeter({})
    machine.spend(user=0.1)
    machine.window(meter, 0.05)
    assert meter.windows == 0
    machine.window(meter, 0.06)
    assert meter.windows == 1
    machine.window(meter, 0.06)
    assert meter.windows == 1


def test_measuring_takes_a_twentieth_of_the_time_at_most(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = LoadMeter({})
    read = meter._read

    def slowly() -> processors.Spent:
        machine.now += 0.02
        return read()

    monkeypatch.setattr(meter, "_read", slowly)
    machine.window(meter, 0.1)
    assert meter.window == pytest.approx(0.4)
    machine.window(meter, 0.3)
    assert meter.windows == 1


def test_a_real_process_that_computes_is_found_in_proc_and_after_it_ended_with_its_parent() -> None:
    own = processors._by_process
    before = own()[os.getpid()]
    child = multiprocessing.get_context("fork").Process(target=_compute)
    child.start()
    pid = child.pid
    assert pid
    while own()[pid] == 0 and child.is_alive():  # it may have to wait for a processor
        time.sleep(0.01)
    assert own()[pid] > 0
    child.join()
    after = own()
    assert pid not in after
    assert after[os.getpid()] - before >= 0.25


def _compute() -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
