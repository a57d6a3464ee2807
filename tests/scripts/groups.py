"""Makes and destroys the group of all workers three times, with a second one of all workers beside it; prints the sums."""

import json

import torch
import torch.distributed as dist

had: list[list[float]] = []
for turn in range(3):
    dist.init_process_group("ina")
    rank, size = dist.get_rank(), dist.get_world_size()
    beside = dist.new_group()
    sums = []
    for number in range(4):
        one, two = torch.full((3000,), 0.5 * (turn + 1) * (rank + 1)), torch.full((500,), rank + number, dtype=torch.int32)
        works = [dist.all_reduce(one, async_op=True), dist.all_reduce(two, group=beside, async_op=True)]
        for work in works if rank % 2 else works[::-1]:
            work.wait()
        assert torch.all(one == one[0]) and torch.all(two == two[0])
        sums += [float(one[0]), float(two[0])]
    had.append(sums)
    if turn == 1:
        dist.destroy_process_group(beside)
    dist.destroy_process_group()
print(json.dumps({"rank": rank, "size": size, "had": had}))
