"""One trial: a network in namespaces of its own, workers on its hosts, and what they and the switches measured."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, Listener, Pipe, wait
from pathlib import Path
from statistics import mean, median
from typing import Any

from experiments import steps
from experiments.faults import Outage
from experiments.fleet import network_commands, spawn_servers
from experiments.load import WINDOW, LoadMeter, Uplinks
from experiments.places import rendezvous
from experiments.settings import TrialSettings
from experiments.validity import judge
from hosts.training import TrainingSettings, preload
from hosts.worker import WorkerSettings, run_worker
from switches.control import Control, ControlError
from switches.target import SwitchError, Target
from topologies import isolation
from topologies.links import NetworkError
from topologies.network import MANAGEMENT_ADDRESS, Network
from topologies.racks import NetworkPlan

COORDINATOR_PORT = 29500
JOIN_SECONDS = 60.0
START_DELAY = 0.2  # seconds between the last hello and the common start
GRACE = 5.0  # seconds that workers have to explain themselves after one has died
Report = Callable[[str, dict[str, Any]], None]


class TrialError(RuntimeError):
    """A trial ended without a result; str() says why."""


def run_trial(settings: TrialSettings, seed: int, target: Target, report: Report) -> dict[str, Any]:
    """Run a trial and return its measurements. `report` is told of every hello, step, done and error.

    Raises TrialError. Whatever ends this process, the trial's processes and interfaces end with it.
    """
    settings.check()
    preload(settings.workload)
    receiver, sender = Pipe(duplex=False)

    def work() -> int:
        receiver.close()
        return _inside(settings, seed, target, sender)

    pid = isolation.start(work)
    sender.close()
    result: dict[str, Any] | None = None
    failure = ""
    try:
        while True:
            try:
                kind, value = receiver.recv()
            except EOFError:
                break
            if kind == "result":
                result = value
            elif kind == "failure":
                failure = value
            else:
                report(kind, value)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = isolation.wait(pid)
        receiver.close()
    if result is None:
        raise TrialError(failure or f"the trial ended with exit code {code} and no result")
    return result


def _inside(settings: TrialSettings, seed: int, target: Target, sender: Connection) -> int:
    """The trial's first process, in its own namespaces."""
    try:
        with tempfile.TemporaryDirectory(dir="/run", prefix="inalab-") as scratch:
            sender.send(("result", _Trial(settings, seed, target, sender, Path(scratch)).run()))
        return 0
    except (TrialError, NetworkError, SwitchError, ControlError) as error:
        sender.send(("failure", str(error)))
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        sender.send(("failure", f"unexpected {type(error).__name__}: {error}"))
    return 1


class _Trial:
    """A trial under way, seen from inside its namespaces."""

    def __init__(self, settings: TrialSettings, seed: int, target: Target, sender: Connection, scratch: Path) -> None:
        self.settings, self.seed, self.target, self.sender, self.scratch = settings, seed, target, sender, scratch
        self.plan = NetworkPlan(settings.topology())
        self.size = self.plan.racks.size
        self.steps: list[dict[str, Any]] = []
        self.done: dict[int, dict[str, Any]] = {}
        self.errors: dict[int, str] = {}
        self.pids: dict[int, int] = {}
        self.data = ""

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        loss = self.settings.loss_model()
        commands = network_commands(self.plan, self.settings.slots, loss, self.seed)
        network = Network(self.plan, self.target, commands, self.scratch, self.seed)
        secret = secrets.token_bytes(16)
        with Listener((MANAGEMENT_ADDRESS, COORDINATOR_PORT), backlog=self.size, authkey=secret) as listener:
            spawn_servers(network, lambda host: self.settings.place(self.plan, host))
            self._fork_workers(network, secret)
            connections = self._join(listener)
        started = time.monotonic() + START_DELAY
        load = LoadMeter({name: pid for name in network.controls if (pid := network.switch(name).dataplane())})
        uplinks = Uplinks(network)
        outage = Outage(network.controls["tor0"], started, self.settings) if self.settings.outage_at is not None else None
        for connection in connections.values():
            connection.send(("start", started))
        setup = time.monotonic() - began
        self._follow(connections, load)
        if outage and (why := outage.stop()) and not self.errors:
            raise TrialError(why)
        measured = self._measure(network.controls) | load.metrics() | uplinks.carried()
        measured["outage"] = [outage.begun - started, outage.ended - started] if outage else []
        if self.errors:
            raise TrialError(self._why())
        network.stop()
        return self._result(measured, started, setup)

    # --- workers

    def _fork_workers(self, network: Network, secret: bytes) -> None:
        s = self.settings
        training = TrainingSettings(
            s.workload, s.steps, self.seed, s.compute_ms, s.evaluate_every, s.straggler_model(), s.batch, s.learning_rate,
            s.measure_error,
        )  # fmt: skip
        for host in self.plan.hosts:
            meeting = rendezvous(self.plan, host, s.scheme)
            settings = WorkerSettings(
                s.place(self.plan, host), meeting, (MANAGEMENT_ADDRESS, COORDINATOR_PORT), secret, training, s.timeline
            )
            pid = network.spawn(host.rank, partial(run_worker, settings))
            self.pids[pid] = host.rank
            self.sender.send(("worker", {"rank": host.rank, "pid": pid}))

    def _join(self, listener: Listener) -> dict[int, Connection]:
        """Wait until every worker has said hello; TrialError names those that did not."""
        connections: dict[int, Connection] = {}
        listener._listener._socket.settimeout(0.2)  # type: ignore[attr-defined]
        end = time.monotonic() + JOIN_SECONDS
        waiting: list[Connection] = []
        while len(connections) < self.size:
            try:
                waiting.append(listener.accept())
            except TimeoutError:
                pass
            for connection in wait(waiting, 0):
                assert isinstance(connection, Connection)
                try:
                    kind, value = connection.recv()
                except EOFError:
                    waiting.remove(connection)
                    continue
                if kind == "error":
                    raise TrialError(value["message"])
                self.data = value["data"]
                connections[value["rank"]] = connection
                waiting.remove(connection)
                self.sender.send((kind, value))
            dead = self._reap()
            if dead or time.monotonic() > end:
                missing = sorted(set(range(self.size)) - set(connections))
                why = "; ".join(dead.values()) or f"not heard of after {JOIN_SECONDS:g} s"
                raise TrialError(f"workers {', '.join(map(str, missing))} did not join: {why}")
        return connections

    def _reap(self) -> dict[int, str]:
        """Workers that ended since the last look, and how."""
        dead = {}
        for pid, rank in list(self.pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.pids[pid]
                code = os.waitstatus_to_exitcode(status)
                if code:
                    dead[rank] = f"worker {rank} " + (
                        f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                    )
        return dead

    def _follow(self, connections: dict[int, Connection], load: LoadMeter) -> None:
        """Collect what the workers say until all are done, or until one is dead and the others have explained."""
        open_ = dict(connections)
        give_up = float("inf")
        while open_ and time.monotonic() < give_up:
            load.sample()
            for connection in wait(list(open_.values()), WINDOW):
                rank = next(r for r, c in open_.items() if c is connection)
                try:
                    assert isinstance(connection, Connection)
                    kind, value = connection.recv()
                except (EOFError, ConnectionResetError):
                    del open_[rank]
                    continue
                self._hear(kind, value)
            for rank, how in self._reap().items():
                self.errors.setdefault(rank, how)
            if self.errors and give_up == float("inf"):
                give_up = time.monotonic() + GRACE
                reason = next(iter(self.errors.values()))
                for rank, connection in open_.items():
                    if rank not in self.errors:
                        try:
                            connection.send(("abort", reason))
                        except OSError:
                            continue
        for rank in set(range(self.size)) - set(self.done) - set(self.errors):
            self.errors[rank] = f"worker {rank} said nothing more"

    def _why(self) -> str:
        """Who died, if someone did, and what the others say of it: the one of them that knows best whom it misses."""
        died = [text for text in self.errors.values() if "cannot be completed" not in text]
        told = [text for text in self.errors.values() if "cannot be completed" in text]
        told.sort(key=lambda text: "has not seen worker" not in text)
        return "; ".join([*dict.fromkeys(died), *told[:1]])

    def _hear(self, kind: str, value: dict[str, Any]) -> None:
        if kind == "step":
            self.steps.append(value)
        elif kind == "done":
            self.done[value["rank"]] = value
        elif kind == "error":
            self.errors[value["rank"]] = value["message"]
        self.sender.send((kind, value))

    # --- measurements

    def _measure(self, controls: dict[str, Control]) -> dict[str, Any]:
        """Counters of all switches: per port, losses per link direction, packets turned away."""
        switches: dict[str, Any] = {}
        loss = {"lost": 0, "passed": 0}
        for name, control in controls.items():
            switches[name] = {
                "ports": control.ports(),
                "copies_missing": self._copies_missing(name, control),
                "rejected": [control.counter("admission.rejected", reason) for reason in range(4)],
            }
            for a in self.plan.switches[name].attachments:
                if a.upper and self.settings.loss:
                    for direction in ("loss_in", "loss_out"):
                        loss["lost"] += control.counter(f"{direction}.dropped", a.port)
                        loss["passed"] += control.counter(f"{direction}.passed", a.port)
        return {"switches": switches, "loss": loss}

    def _copies_missing(self, name: str, control: Control) -> int:
        """Copies of broadcasts that never reached egress: what a full queue drops, also where the target does not tell."""
        children = len(self.plan.children(name))
        broadcasts = sum(control.counter("sender.broadcasts", cell) for cell in range(2 * self.settings.slots))
        return broadcasts * children - sum(control.counter("addresser.sent", child) for child in range(children))

    def _result(self, measured: dict[str, Any], started: float, setup: float) -> dict[str, Any]:
        digests = {d["digest"] for d in self.done.values()}
        for record in self.steps:
            record["begun"] -= started
            record["ended"] -= started
        self.steps.sort(key=lambda r: (r["step"], r["rank"]))
        for done in self.done.values():
            done["timeline"] = [[round(when - started, 3), *counts] for when, *counts in done["timeline"]]
        evaluated = [r for r in self.steps if "accuracy" in r]
        groups = steps.groups(self.steps)
        sums = [steps.aggregation_time(group) for group in groups]
        elements = self.steps[0]["elements"]
        lost, numbered = measured["loss"]["lost"], measured["loss"]["lost"] + measured["loss"]["passed"]
        metrics = {
            "duration": max(r["ended"] for r in self.steps),
            "setup": setup,
            "elements": elements,
            "tat_median": median(sums),
            "tat_mean": mean(sums),
            "step_median": median([steps.duration(group) for group in groups]),
            **steps.shares(groups),
            "rtt": median([r["rtt"] for r in self.steps]),
            "retransmissions": sum(d["counters"]["retransmissions"] for d in self.done.values()),
            "packets_sent": sum(d["counters"]["sent"] for d in self.done.values()),
            "loss_achieved": lost / numbered if numbered else 0.0,
            "loss_packets": numbered,
            "cpu_idle": measured["cpu_idle"],
            "saturated": measured["saturated"],
            "saturated_by": measured["saturated_by"],
            "padding_min": min(r["padding"] for r in self.steps),
            "queue_drops": sum(_drops(switch) for switch in measured["switches"].values()),
            "model_digest": sorted(digests)[0] if len(digests) == 1 else "",
        }
        metrics["ate_per_second"] = elements / metrics["tat_median"]
        metrics |= {key: measured[key] for key in ("uplink_bytes", "outage") if measured[key]}
        if evaluated:
            metrics |= {"final_accuracy": evaluated[-1]["accuracy"], "final_test_loss": evaluated[-1]["test_loss"]}
        if errors := [r["error"] for r in self.steps if "error" in r]:
            metrics["error_median"] = median(errors)
        problems = judge(metrics, self.settings)
        return {
            "metrics": metrics,
            "valid": not problems,
            "problems": problems,
            "workers": [self.done[r] for r in sorted(self.done)],
            "switches": measured["switches"],
            "steps": self.steps,
            "data_sha256": self.data,
        }


def _drops(switch: dict[str, Any]) -> int:
    """Packets that a switch dropped where nobody asked for it, as far as its ports tell, and at least the missing copies."""
    told: int = sum(p.get(kind, 0) for p in switch["ports"].values() for kind in ("queue_drops", "ring_drops", "send_errors"))
    return max(told, int(switch["copies_missing"]))
