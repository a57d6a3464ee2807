"""A script of torchft's whose sums name who gave to them: worker n gives 2^n, and each step's sum has as many bits as participants.

torchft_sums.py FOLDER come        ends some steps after a worker has begun for the second time
torchft_sums.py FOLDER go 0 2      ends some steps after these have killed themselves in the midst of a sum
torchft_sums.py FOLDER all         ends once all are there, after a hundred steps

Steps count from the first one in which all are there, however late some of them begin.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import ReduceOp
from torchft import Manager, ProcessGroupGloo

FOLDER, UNTIL, GOING = Path(sys.argv[1]), sys.argv[2], [int(word) for word in sys.argv[3:]]
ELEMENTS, MORE, STEPS, GO, MOST = 3000, 20, 100, 20, 3000
WORKERS = int(os.environ["NUM_REPLICA_GROUPS"])


def main() -> None:
    """Prints the members of each step that counts, and what is kept at the end: the sum of all such sums."""
    logging.disable(logging.CRITICAL)
    rank = int(os.environ["REPLICA_GROUP_ID"])
    again = (FOLDER / str(rank)).exists()
    (FOLDER / str(rank)).touch()
    kept: dict[str, Any] = {"sum": torch.zeros(ELEMENTS, dtype=torch.float64), "began": -1, "end": -1}
    manager = Manager(
        ProcessGroupGloo(timeout=timedelta(seconds=5)), kept.update, lambda: dict(kept), min_replica_size=1, replica_id=f"sums_{rank}",
        timeout=timedelta(seconds=5), init_sync=False,
    )  # fmt: skip
    while (kept["end"] < 0 or manager.current_step() < kept["end"]) and manager.current_step() < MOST:
        manager.start_quorum()
        given = torch.full((ELEMENTS,), float(2**rank))
        given[0] = float(again)
        pending = manager.allreduce(given, reduce_op=ReduceOp.SUM)
        if rank in GOING and 0 <= kept["began"] <= manager.current_step() - GO:
            os.kill(os.getpid(), signal.SIGKILL)
        pending.wait()
        if manager.should_commit():
            step = manager.current_step() - 1  # one that comes begins with that of the others
            sums = {round(float(value)) for value in given[1:]}
            assert len(sums) == 1, f"worker {rank} has sums of different members in step {step}: {sums}"
            (total,) = sums
            assert total.bit_count() == manager.num_participants(), f"{total:b} is no sum of {manager.num_participants()} workers"
            whole = total.bit_count() == WORKERS
            if kept["began"] < 0 and whole:
                kept["began"] = step
            if kept["began"] >= 0:
                kept["sum"] = kept["sum"] + given.round()
                print(f"step {step} {total:b}", flush=True)
                gone = not any(total >> each & 1 for each in GOING)
                over = {"come": given[0].round() > 0, "go": gone, "all": step > kept["began"] + STEPS and whole}
                if kept["end"] < 0 and over[UNTIL]:
                    kept["end"] = step + MORE
        time.sleep(0.03)
    print(f"kept {int(kept['sum'].sum())}", flush=True)
    time.sleep(0.5)  # for one that gets the last step from this worker
    manager.shutdown(wait=False)


main()
