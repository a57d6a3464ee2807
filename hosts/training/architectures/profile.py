"""An architecture from a profile of a script with DistributedDataParallel: its buckets, and when each one's gradient is there.

Of torch.profiler's file (`export_chrome_trace`, with record_shapes), a step is what lies between the optimizer's last two steps,
and it takes as long on gpu `profile`. A Chakra trace (torch.profiler.ExecutionTraceObserver) has an order and no times: its
buckets share a step's time alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from inalab.hosts.training.architectures.architecture import Architecture, LayerShape, Timing

SUM, OPTIMIZER, BACKWARD = "c10d::allreduce_", "Optimizer.step#", "autograd::engine::evaluate_function"
GPU = "kernel"  # the category of what a GPU does
PROFILE = "profile"


@dataclass(frozen=True)
class Event:
    """What a profile has of one, in milliseconds, or in order where it has no times; and the elements that are summed."""

    name: str
    begin: float
    end: float
    elements: int


def read(path: Path) -> Architecture:
    """The architecture in a profile. ValueError says what is wrong with the file."""
    try:
        found = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    try:
        timed = "traceEvents" in found
        events = _profiled(found["traceEvents"]) if timed else _observed(found["nodes"])
    except (AttributeError, KeyError, TypeError, IndexError, ValueError):
        what = "neither torch.profiler's file (with record_shapes=True) nor a Chakra trace"
        raise ValueError(f"{path} is {what}") from None
    if not timed:
        return Architecture(path.name, tuple(_layers(_step(path, events), None)), {})
    if any(event.name == GPU for event in events):
        raise ValueError(f"{path} has what a GPU does, whose times are not those of the processor: profile on a processor")
    return _timed(path, _step(path, events))


def _timed(path: Path, step: list[Event]) -> Architecture:
    """The events of a step, the optimizer's before it first."""
    begin, *rest = step
    backward = min((event.begin for event in rest if event.name.startswith(BACKWARD)), default=math.inf)
    sums = [event.begin for event in rest if event.name == SUM]
    if not begin.end <= backward < sums[0]:
        raise ValueError(f"{path} has no backward pass before a step's first sum")
    takes = sums[-1] - begin.end
    forward = (backward - begin.end) / takes
    timing = Timing(takes, None, f"the profile {path}")
    return Architecture(path.name, tuple(_layers(step, backward)), {PROFILE: timing}, forward)


def _layers(step: Iterable[Event], backward: float | None) -> list[LayerShape]:
    """A step's buckets, front first, with what each one's part of the backward pass takes."""
    sums = [event for event in step if event.name == SUM]
    takes = [1.0] * len(sums)
    if backward is not None:
        takes = [after - before for before, after in pairwise([backward, *(event.begin for event in sums)])]
    named = [LayerShape(f"bucket {i}", event.elements, part) for i, (event, part) in enumerate(zip(sums, takes, strict=True))]
    return named[::-1]


def _step(path: Path, events: list[Event]) -> list[Event]:
    """Of the last step: from the optimizer's step before it on."""
    events = sorted(events, key=lambda event: event.begin)
    updates = [i for i, event in enumerate(events) if event.name.startswith(OPTIMIZER)]
    for before, after in reversed(list(pairwise(updates))):
        step = events[before:after]
        if any(event.name == SUM for event in step):
            return step
    raise ValueError(f"{path} has no all-reduce between two steps of an optimizer: profile some steps with DistributedDataParallel")


def _profiled(events: list[dict[str, Any]]) -> list[Event]:
    found = []
    for event in events:
        if event.get("ph") == "X":
            name = GPU if event.get("cat") == GPU else str(event["name"])
            elements = _size(event["args"]["Input Dims"][0]) if name == SUM else 0
            found.append(Event(name, event["ts"] / 1000, (event["ts"] + event["dur"]) / 1000, elements))
    return found


def _observed(nodes: list[dict[str, Any]]) -> list[Event]:
    return [
        Event(str(node["name"]), node["id"], node["id"], _size(node["inputs"]["shapes"][0]) if node["name"] == SUM else 0)
        for node in nodes
    ]


def _size(shapes: list[list[int]]) -> int:
    """Of tensors of these shapes together."""
    return sum(math.prod(shape) for shape in shapes)
