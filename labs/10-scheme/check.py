"""Lab 10: a scheme of one's own: exact, robust, bounded, fast. Its trials are real ones, on links of 10 Mbit/s."""

import math
import re
from typing import TypeVar

from pydantic import Field, ValidationError

from inalab.testbed.lab import room
from inalab.testbed.lab.confinement import GIVEN, python
from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.traffic import Traffic
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Your own scheme", language="Python", hours=15, files=["scheme.py"], given=["all_reduce.py"], real_trials=True)

YOURS = "/submission/scheme.py"
WORKERS = 4
SIZES = (1, 7, 1000, 3333, 60_000)
LARGE = max(SIZES)
RECORD = re.compile(r"^\[\d+\] (\{.*\})$", re.MULTILINE)
LONGEST = 100.0  # seconds of a trial
HEADERS = 1.09  # bytes on a link for each byte of a tensor, as a thrifty scheme has them


class Facts(room.Handed):
    """What the scheme says of itself: see testbed.lab.scheme_facts."""

    name: str
    label: str = Field(max_length=100)
    bound: float = Field(allow_inf_nan=True)
    framing: float
    rate: float


class Sum(room.Handed):
    """What a worker found of one sum: see all_reduce.py."""

    rank: int
    number: int
    elements: int
    wrong: int
    seconds: float = Field(gt=0)


Kind = TypeVar("Kind", bound=room.Handed)


def read(kind: type[Kind], text: str) -> Kind:
    """What a line of JSON says. Failure if that is nothing of the kind."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise Failure(
            f"the scheme prints something else in place of {kind.__name__}: {error.errors()[0]['msg']}", text[-1000:]
        ) from None


def facts(bench: Workbench) -> Facts:
    """What the scheme says of itself."""

    def ask() -> Facts:
        command = python("inalab.testbed.lab.scheme_facts", YOURS, str(WORKERS), str(LARGE))
        code, text = room.run(command, bench.submission, LONGEST)
        if code:
            raise Failure("the scheme is refused", text.strip()[-3000:])
        return read(Facts, text.strip().rpartition("\n")[2])

    return bench.once("facts", ask)  # type: ignore[no-any-return]


def trial(bench: Workbench, loss: float = 0.0, workers: int = WORKERS, scheme: str = YOURS) -> list[Sum]:
    """All-reduces on a network; what every worker found of each sum."""
    return bench.once(("trial", loss, workers, scheme), lambda: _trial(bench, loss, workers, scheme))  # type: ignore[no-any-return]


def _trial(bench: Workbench, loss: float, workers: int, scheme: str) -> list[Sum]:
    settings = {"racks": 1, "workers": workers, "loss": loss, "patience": 10}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    script = [str(GIVEN / "all_reduce.py"), *map(str, SIZES)]
    command = python("inalab.testbed.command.cli", "launch", "--scheme", scheme, *words, "--", *script)
    traffic = Traffic()
    code, text = room.run(command, bench.submission, LONGEST, traffic)
    under = f"{workers} workers, {loss:.0%} loss"
    if code:
        raise Failure(f"{under}: the trial fails", text.strip()[-3000:])
    sums = [read(Sum, found) for found in RECORD.findall(text)]
    due = sorted((rank, number, elements) for rank in range(workers) for number, elements in enumerate(SIZES))
    if sorted((s.rank, s.number, s.elements) for s in sums) != due:
        raise Failure(f"{under}: {len(sums)} sums are reported, and due is each of {len(due)} once", text.strip()[-3000:])
    for one in sums:
        if one.wrong:
            raise Failure(f"{under}: worker {one.rank} has a wrong sum: {one.wrong} of {one.elements} elements differ")
    if scheme == YOURS:
        expect_traffic(traffic, workers, under)
    return sums


def expect_traffic(traffic: Traffic, workers: int, under: str) -> None:
    """However a scheme sums, a worker's tensors must leave on its link, and those of the others must come on it.

    Half of it will do, beside what all_reduce.py gathers to compare. Where the kernel shows its counters to nobody, there are none.
    """
    octets, gathered = 4 * sum(SIZES), math.ceil(HEADERS * (workers - 1) * sum(SIZES))
    for rank in range(workers if traffic.carried else 0):
        received, sent = traffic.carried.get(f"h{rank}-eth0", (0, 0))
        if min(received, sent) < gathered + octets / 2:
            raise Failure(
                f"{under}: tensors of {octets} bytes are summed, and beside {gathered} bytes of other traffic the link of worker "
                f"{rank} carries {max(0, sent - gathered)} from it and {max(0, received - gathered)} to it: the sums must go over "
                "the network"
            )


def took(sums: list[Sum]) -> float:
    """Seconds of the large sum: those of the worker that waited longest."""
    return max(one.seconds for one in sums if one.elements == LARGE)


def measured(bench: Workbench) -> float:
    """Seconds of the large sum without loss. Failure if no link is so fast."""
    seconds, least = took(trial(bench)), 4 * LARGE * 8 / (facts(bench).rate * 1e6)
    if seconds < least:
        raise Failure(f"{LARGE} elements take {seconds:.3f} s, and a worker's link takes {least:.3f} s for its own tensor alone")
    return seconds


@lab.task("the file defines a scheme", points=10)
def defined(bench: Workbench) -> None:
    found = facts(bench)
    if not 1.0 <= found.framing <= 3.0:
        raise Failure(f"framing() is {found.framing:g}: bytes on the wire for each byte of the tensor, headers included")
    if not 0 < found.bound < math.inf:
        raise Failure(f"bound() is {found.bound:g} s: no all-reduce of {LARGE} elements takes no time")


@lab.task("exact", points=25)
def exact(bench: Workbench) -> None:
    trial(bench)


@lab.task("robust: 1 percent of all packets are lost", points=15)
def robust(bench: Workbench) -> None:
    trial(bench)
    trial(bench, 0.01)


@lab.task("robust: 5 percent of all packets are lost", points=10)
def very_robust(bench: Workbench) -> None:
    trial(bench)
    trial(bench, 0.05)


@lab.task("bounded: the bound is one, and it is reached", points=20)
def bounded(bench: Workbench) -> Share:
    defined(bench)
    bound, seconds = facts(bench).bound, measured(bench)
    if seconds < 0.95 * bound:
        raise Failure(f"{LARGE} elements take {seconds:.3f} s, and bound() says at least {bound:.3f} s: that is no bound")
    share = by_degrees(seconds / bound, full=1.5, none=4.0)
    return Share(share, f"{LARGE} elements take {seconds / bound:.2f} times bound(); full points up to 1.5, none from 4 on")


@lab.task("fast: as a ring, or faster", points=20)
def fast(bench: Workbench) -> Share:
    ring = 2 * (WORKERS - 1) / WORKERS * LARGE * 4 * 8 * HEADERS / (facts(bench).rate * 1e6)
    ratio = measured(bench) / ring
    share = by_degrees(ratio, full=1.5, none=4.0)
    return Share(share, f"{LARGE} elements take {ratio:.2f} times as long as a ring at best; full points up to 1.5, none from 4 on")
