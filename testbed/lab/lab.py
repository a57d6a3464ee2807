"""A lab: its tasks, what each is worth, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from inalab.testbed.lab.workbench import Workbench


class LabError(Exception):
    """What the person at the command line can mend; str() is one sentence."""


class Failure(Exception):  # noqa: N818 (an outcome of a check)
    """A task that failed; str() says what is wrong, and `trace` shows the packet that it went wrong with."""

    def __init__(self, about: str, trace: str = "") -> None:
        super().__init__(about)
        self.trace = trace


@dataclass(frozen=True)
class Share:
    """A task that gives points by degrees: `earned` of them, 0 to 1, and why."""

    earned: float
    why: str


def by_degrees(value: float, full: float, none: float) -> float:
    """The share of the points that a value earns: all at `full`, nothing at `none`, and evenly less between them."""
    return min(1.0, max(0.0, (none - value) / (none - full)))


@dataclass(frozen=True)
class Task:
    """A part of a check. `function` returns None or a Share, or raises Failure."""

    name: str
    points: int
    function: Callable[[Workbench], Share | None]


@dataclass(frozen=True)
class Outcome:
    """What came of a task. `message` says what is wrong, or why it earned what it did; `output` is what the programs printed."""

    task: str
    points: float
    most: int
    message: str = ""
    trace: str = ""
    output: str = ""

    @property
    def passed(self) -> bool:
        return self.points >= self.most


@dataclass(frozen=True)
class Report:
    """A check of one submission."""

    lab: str
    submission: str
    outcomes: list[Outcome]

    @property
    def points(self) -> float:
        return sum(o.points for o in self.outcomes)

    @property
    def most(self) -> int:
        return sum(o.most for o in self.outcomes)


@dataclass
class Lab:
    """What check.py in a lab's folder defines. `hours` is what a student needs, `files` are those that they edit, and
    `given` those of labs/given that they get beside them."""

    title: str
    language: str
    hours: int
    files: list[str]
    given: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    real_trials: bool = False  # on a network of the kernel, in a room (room.py), which is not safe enough for root

    def task(self, name: str, points: int) -> Callable[[Callable[[Workbench], Share | None]], Callable[[Workbench], Share | None]]:
        """Make a function a task of this lab; the tasks run in the order of the file."""

        def add(function: Callable[[Workbench], Share | None]) -> Callable[[Workbench], Share | None]:
            self.tasks.append(Task(name, points, function))
            return function

        return add

    @property
    def points(self) -> int:
        return sum(task.points for task in self.tasks)


@dataclass(frozen=True)
class Plot:
    """What figure.py in a lab's folder defines: `measure` runs the student's work; `draw` shows both it and the reference."""

    measure: Callable[[Workbench], Mapping[str, Any]]
    draw: Callable[[Mapping[str, Any], Mapping[str, Any]], Figure]
    noisy: bool = False  # measured in real time, and so never twice the same
