"""What a parameter server adds up (merger.c)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp.tree import Tree
from inalab.hosts.cores import ffi, library, pointer, taken, values
from inalab.hosts.stream.datagrams import Datagrams


class Taken(NamedTuple):
    """What a batch of packets leads to.

    `finished` are rows whose results all get. A row comes out twice where integers did not do: first to ask for raw values,
    then with their sum. `asked` has (row, worker) of those who sent a packet again after the result. `ready` has (row, worker,
    rack) for queries: a result goes to one worker, or where that is -1 to all of a rack, or where that is -1, too, to all. `asking`
    are told what is incomplete.
    """

    finished: NDArray[np.int64]
    asked: NDArray[np.void]
    ready: NDArray[np.void]
    asking: NDArray[np.int64]


class Merger:
    """The last two chunks of each place of a job's window; chunk q has row q mod 2w of all arrays."""

    def __init__(
        self, job: int, epoch: int, tree: Tree, results: Datagrams, aggregators: int, share: tuple[int, int] = (0, 1)
    ) -> None:
        """`results`, wire.packet(k) of 2w rows, are what is sent; complete ones are kept there to be sent again.

        `epoch` is the group's: packets of another are counted in `outdated`, and not taken in.

        `share` is the server's number among the job's, and how many there are: chunk q is added by server q mod S.
        """
        window, workers, k = len(results) // 2, len(tree.rack), results.record["vector"].shape[0]
        self.datagrams, self.results = results, results.data
        core = library().merger_new(window, workers, k, aggregators, results.c, results.record.itemsize)
        self.core: Any = ffi.gc(core, library().merger_free)
        for name, its in (("rack", tree.rack), ("number", tree.number), ("bit1", tree.bit1), ("local", tree.local)):
            values(self.core.members, workers)[name] = its
        library().merger_join(self.core, job, epoch, *share)
        self.rows = values(self.core.rows, len(results))
        self.assigned = values(self.core.assigned, aggregators)
        self.held = values(self.core.held, aggregators)  # by how many places
        self.tree, self.workers = tree, workers

    @property
    def outdated(self) -> int:
        """Packets of another group."""
        return int(self.core.outdated)

    def take(self, packets: Datagrams, statuses: Datagrams) -> Taken:
        """Take in packets, and write the statuses that queries ask for to the first of those rows."""
        c = self.core
        library().merger_take(c, packets.c, statuses.c)
        return Taken(*(taken(getattr(c, name), getattr(c, f"{name}_count")) for name in Taken._fields))

    def missing(self, chunk: int) -> NDArray[np.bool_]:
        """By worker, whether it is missing in a chunk."""
        found = np.zeros(self.workers, np.bool_)
        library().merger_missing(self.core, chunk, pointer(found, "bool[]"))
        return found
