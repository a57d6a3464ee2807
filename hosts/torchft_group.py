"""torchft's process group over a network's scheme: the sums of each quorum have a part of the switches of their own.

    manager = Manager(pg=ProcessGroupIna(), …)

torchft's manager agrees with the others' on who is in the next step, and then has its process group take part in that quorum. Here
each quorum is a group that whoever controls the switches admits as a job of its own (hosts.groups), beside the one before. So no
packet of a quorum is added in another one. A worker that ends breaks the groups that it was in: the launcher leaves word of that,
and what is under way fails at once. What the scheme does not carry, Gloo does, over the data network.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from torch._C._distributed_c10d import PrefixStore
from torchft.process_group import ProcessGroupWrapper

from inalab.hosts.launch_files import LaunchFiles
from inalab.hosts.torch_backend import InaProcessGroup, Options, drawn, leave_uncompiled

DOUBT = 0.5  # seconds in which a member comes, where one may have ended
LOOK = 0.01  # seconds between two looks at who has come


class ProcessGroupIna(ProcessGroupWrapper):
    """Takes what torchft's ProcessGroupGloo does: a `timeout` of sums and of whatever it waits for."""

    seen = 0  # workers that had ended when the last quorum was configured

    def _create_pg(self, store: Any, rank: int, world_size: int) -> InaProcessGroup:
        """The group of a quorum, in which this worker has a rank. Raises RuntimeError where the others do not come in time."""
        leave_uncompiled()
        options = replace(Options.from_environment(), apart=True)
        members = PrefixStore("members", store)
        members.set(str(rank), str(options.place.membership.rank))
        self._await([str(other) for other in range(world_size)], members, options.notes)
        ranks = tuple(int(members.get(str(other))) for other in range(world_size))
        return InaProcessGroup(store, rank, world_size, self._timeout, options, ranks, f"quorum {drawn(store, rank)}")

    def _await(self, keys: list[str], store: Any, notes: LaunchFiles | None) -> None:
        """Wait until all members have come. RuntimeError if some do not, and sooner if one may have ended: it was still counted."""
        before, self.seen = self.seen, notes.ends() if notes else 0
        begun = time.monotonic()
        while not store.check(keys):
            doubted = notes is not None and notes.ends() > before
            if time.monotonic() - begun > (DOUBT if doubted else self._timeout.total_seconds()):
                raise RuntimeError(f"{len(keys)} workers were to be in the quorum, and some of them have not come")
            time.sleep(LOOK)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "torchft-ina"

    def shutdown(self) -> None:
        """End the group once what is under way is over."""
        if self._pg is not None:
            self._pg.shutdown()
        super().shutdown()
