"""Functions of torch.distributed that a backend cannot extend, with what `ina` needs of them: monitored_barrier, which goes by the
backend's name, and the rendezvous by environment variables, which scripts written for one machine lead to localhost."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

MEETING = "INALAB_MEETING"  # address:port where `inalab launch` has the workers meet
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def extend() -> None:
    """Have torch's functions know of `ina`; a release of torch that has no such handlers keeps its own."""
    dist.monitored_barrier = distributed_c10d.monitored_barrier = _monitored_barrier(dist.monitored_barrier)
    handlers = getattr(importlib.import_module("torch.distributed.rendezvous"), "_rendezvous_handlers", {})
    if "env" in handlers:
        handlers["env"] = _meeting(handlers["env"])


def _monitored_barrier(of_gloo: Callable[..., None]) -> Callable[..., None]:
    def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        chosen = distributed_c10d._get_default_group() if group is None else group
        if isinstance(chosen, dist.ProcessGroup) and dist.get_backend(chosen) == "ina":
            ina: Any = chosen
            ina.monitored_barrier(timeout, wait_all_ranks)
        else:
            of_gloo(group, timeout, wait_all_ranks)

    monitored_barrier.__doc__ = of_gloo.__doc__
    return monitored_barrier


def _meeting(env: Callable[..., Any]) -> Callable[..., Any]:
    """The rendezvous of env://, where `inalab launch` says if a script has set MASTER_ADDR to what each worker takes for itself."""

    def handler(*given: Any, **named: Any) -> Any:
        where, asked = os.environ.get(MEETING, ""), os.environ.get("MASTER_ADDR", "")
        if where and asked in LOCAL and f"{asked}:{os.environ.get('MASTER_PORT')}" != where:
            if os.environ.get("RANK") == "0":
                why = f"the script sets MASTER_ADDR to {asked}, but each worker is a host of its own"
                print(f"inalab: {why}; they meet at {where} instead", file=sys.stderr, flush=True)
            os.environ["MASTER_ADDR"], _, os.environ["MASTER_PORT"] = where.rpartition(":")
        return env(*given, **named)

    return handler
