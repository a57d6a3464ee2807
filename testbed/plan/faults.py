"""Faults as data: what happens to whom, and when. `die h3 at 2; restart h3 at 4` is a schedule of two.

die     the process of a worker's host, of a server (s0) or of a switch gets SIGKILL. Nothing crosses a switch that has died
hang    likewise SIGSTOP, and SIGCONT after `for` seconds, if that is set
restart  a worker, or a switch, begins again with nothing; what runs is killed before. A switch forwards packets at once, and admits
         jobs after `for` seconds, if that is set
slow    a worker's compute takes so many times as long, for a while
down    a link loses everything, in both directions
loss    a link loses packets at this rate, in both directions
reorder  a link holds this share of the packets back, so that others overtake them, in both directions
duplicate   this share of a link's packets comes twice, in both directions
jitter  a link's packets take up to so many ms longer, in both directions, and stay in order
rate    a link carries so many Mbit/s, in both directions
cut     the management network does not reach a worker, for a while

Names are those of `inalab network`: hosts h0, h1, …, servers s0, …, switches tor0, …; a link is named by its two ends, h0-tor0, or
by its lower one. `any worker`, `any server` and `any switch`, and a time `1..3`, are drawn from the trial's seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from inalab.topologies.plan import NetworkPlan

WORDS = {
    "die": "worker server switch",
    "hang": "worker server",
    "restart": "worker switch",
    "slow": "worker",
    "down": "link",
    "loss": "link",
    "reorder": "link",
    "duplicate": "link",
    "jitter": "link",
    "rate": "link",
    "cut": "worker",
}  # and to whom it happens
DISORDER = ("reorder", "duplicate", "jitter")
VALUED = ("slow", "loss", "rate", *DISORDER)
LASTING = ("hang", "slow", "down", "loss", "restart", "rate", "cut", *DISORDER)
LEAST, MOST = {"slow": 1.0, "rate": 0.1}, {"loss": 1.0, "reorder": 1.0, "duplicate": 1.0, "jitter": 1e4}  # values
STREAM = 41  # of random numbers that are no other's
NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
FORM = re.compile(
    rf"(?P<what>\w+)\s+(?P<whom>any \w+|[\w-]+)(?:\s+(?P<value>{NUMBER}))?"
    rf"\s+(?:at\s+(?P<at>{NUMBER})(?:\.\.(?P<until>{NUMBER}))?|in step\s+(?P<step>\d+))(?:\s+for\s+(?P<lasts>{NUMBER}))?"
)


class Fault(BaseModel):
    """One. Its text is `WHAT WHOM [VALUE] at SECONDS[..SECONDS] | in step N [for SECONDS]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    what: str
    whom: str
    value: float | None = Field(
        None, description="slow: how many times as long; loss and the like: the share; jitter: ms; rate: Mbit/s"
    )
    at: float | None = Field(None, ge=0, le=86_400, description="seconds into the training")
    until: float | None = Field(None, ge=0, le=86_400, description="the latest time, where it is drawn")
    step: int | None = Field(None, ge=1, description="once a worker has ended the steps before this one, instead of a time")
    lasts: float | None = Field(None, gt=0, le=86_400, description="seconds; unless set, to the end")

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        if not (found := FORM.fullmatch(given.strip())):
            raise ValueError(f"{given.strip()!r} is no fault: write one as `die h3 at 2`, or `loss h0-tor0 0.1 in step 5 for 2`")
        return {name: value for name, value in found.groupdict().items() if value is not None}

    @model_validator(mode="after")
    def _sound(self) -> Fault:
        if self.what not in WORDS:
            raise ValueError(f"{self.what} is no fault: choose one of {', '.join(WORDS)}")
        if (self.value is None) == (self.what in VALUED):
            raise ValueError(f"{self.what} {'takes a' if self.what in VALUED else 'has no'} number behind {self.whom}")
        if self.value is not None and not LEAST.get(self.what, 0.0) <= self.value <= MOST.get(self.what, 1e5):
            bounds = "shares of packets are from 0 to 1, a slow-down from 1 on, and a link's rate from 0.1 Mbit/s on"
            raise ValueError(f"{self.what} {self.value:g} is out of range: {bounds}")
        if (self.at is None) == (self.step is None):
            raise ValueError(f"{self.what} {self.whom} needs a time, as `at 2`, or a step, as `in step 5`")
        if self.until is not None and (self.at is None or self.until < self.at):
            raise ValueError(f"{self.what} {self.whom}: a drawn time is between a first and a last one, as `at 1..3`")
        if self.lasts is None and self.what == "cut":
            raise ValueError(
                f"cut {self.whom} needs its length, as `for 10`: a job does without the management network for a while"
            )
        if self.lasts is not None and self.what not in LASTING:
            raise ValueError(f"{self.what} does not end: leave `for` out")
        return self

    def __str__(self) -> str:
        """As it is written."""
        value = f" {self.value:g}" if self.value is not None else ""
        until = f"..{self.until:g}" if self.until is not None else ""
        when = f"at {self.at:g}{until}" if self.at is not None else f"in step {self.step}"
        return f"{self.what} {self.whom}{value} {when}" + (f" for {self.lasts:g}" if self.lasts is not None else "")


def faults_of(text: str) -> list[str]:
    """Those of a schedule as text."""
    return [part for part in re.split(r"[;\n]", text) if part.strip()]


def known(plan: NetworkPlan) -> dict[str, list[str]]:
    """Names of what faults happen to, by kind."""
    links = [name for link in plan.links for name in (link.name, link.lower)]
    nodes = {"worker": [host.name for host in plan.hosts], "server": [host.name for host in plan.servers]}
    return nodes | {"switch": list(plan.switches), "link": links}


def refuse_unknown(faults: Sequence[Fault], plan: NetworkPlan) -> None:
    """Raise ValueError for a fault of what this network does not have."""
    names = known(plan)
    for fault in faults:
        kinds = WORDS[fault.what].split()
        if fault.whom.startswith("any "):
            if (kind := fault.whom.removeprefix("any ")) not in kinds or not names[kind]:
                raise ValueError(f"fault `{fault}`: there is no {kind} to {fault.what}")
        elif not any(fault.whom in names[kind] for kind in kinds):
            there = ", ".join(name for kind in kinds for name in dict.fromkeys(names[kind]))
            raise ValueError(f"fault `{fault}`: {fault.whom} is not one of {there}")


def drawn(faults: Sequence[Fault], plan: NetworkPlan, seed: int) -> list[Fault]:
    """The faults with what is random drawn from the seed, and links by their names of two ends."""
    names = known(plan)
    names["link"] = [link.name for link in plan.links]
    of_lower = {link.lower: link.name for link in plan.links}
    found = []
    for number, fault in enumerate(faults):
        draw = np.random.default_rng([seed, STREAM, number])
        changes: dict[str, Any] = {}
        if fault.whom.startswith("any "):
            changes["whom"] = str(draw.choice(names[fault.whom.removeprefix("any ")]))
        elif WORDS[fault.what] == "link":
            changes["whom"] = of_lower.get(fault.whom, fault.whom)
        if fault.until is not None:
            assert fault.at is not None
            changes |= {"at": float(draw.uniform(fault.at, fault.until)), "until": None}
        found.append(fault.model_copy(update=changes))
    return found
