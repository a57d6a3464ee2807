"""Epochs grow from draw to draw and are compared around 2^32; announcements find whoever sums something else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts import epoch
from inalab.hosts.stream.announcement import announce, differences
from tests.fake_network import Clock
from tests.properties import examples


class Wall(Clock):
    """A clock of the day, at a moment that the test chooses."""

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("moment", [0.0, 1.9e9, 1.9e9 + 0.06249, 2**32 / 16 - 0.01, 2**33 / 16 - 0.0001])
def test_every_epoch_is_newer_than_those_before(monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    """Also where a process begins in the same sixteenth of a second as the one before has drawn in."""
    wall = Wall()
    wall.now = moment
    monkeypatch.setattr(epoch, "time", wall)
    drawn = []
    for _ in range(40):
        drawn.append(epoch.draw())
        assert wall.now >= moment
    assert all(epoch.newer(after, before) for before, after in pairwise(drawn))
    assert epoch.NONE not in drawn and max(drawn) < epoch.EPOCHS
    assert wall.now - moment < 41 / epoch.TICKS + 2 / epoch.TICKS


def test_epochs_are_serial_numbers() -> None:
    assert epoch.newer(1, epoch.NONE) and epoch.newer(2**31, epoch.NONE)
    assert epoch.newer(5, 2**32 - 5) and not epoch.newer(2**32 - 5, 5)
    assert not epoch.newer(7, 7)
    assert epoch.newer(2**31, 1) and not epoch.newer(2**31 + 1, 1)


def total(tensors: list[np.ndarray], k: int) -> np.ndarray:
    summed = np.sum([announce(x, rank, len(tensors), k).astype(np.int64) for rank, x in enumerate(tensors)], axis=0)
    assert (np.abs(summed) < 2**31).all()  # or a switch would saturate
    return summed.astype(np.int32)


@pytest.mark.parametrize(("workers", "k"), [(1, 32), (2, 32), (16, 32), (17, 32), (64, 64), (200, 32), (256, 32), (1024, 32)])
def test_equal_tensors_differ_nowhere_and_one_other_is_found(workers: int, k: int) -> None:
    x = np.zeros(12_345, np.float32)
    tensors = [x] * workers
    assert differences(total(tensors, k), x, list(range(workers)), k) is None
    for other in (np.zeros(12_346, np.float32), np.zeros(12_345, np.int32), np.zeros(0, np.float32)) if workers > 1 else ():
        which = workers // 2
        tensors[which] = other
        for rank in {0, which, workers - 1}:
            wording = differences(total(tensors, k), tensors[rank], list(range(workers)), k)
            assert wording is not None and wording.startswith("the workers sum different tensors: ")
            if workers <= k // 2:
                assert f"{other.size:,} elements of {other.dtype} on worker {which}" in wording
            elif rank % (k // 2) != which % (k // 2):
                lane = [r for r in range(workers) if r % (k // 2) == which % (k // 2)]
                assert wording.endswith(f"some of workers {', '.join(map(str, lane))}" if len(lane) > 1 else f"worker {which}")
        tensors[which] = x


def test_two_who_differ_in_opposite_ways_do_not_hide_each_other() -> None:
    """In one lane, and by as many elements."""
    workers, k = 32, 32
    tensors = [np.zeros(1000, np.float32)] * workers
    tensors[3], tensors[19] = np.zeros(900, np.float32), np.zeros(1100, np.float32)
    wording = differences(total(tensors, k), tensors[0], list(range(workers)), k)
    assert wording is not None and "some of workers 3, 19" in wording


class Long:
    """A tensor of so many elements, of which nobody needs memory."""

    def __init__(self, size: int) -> None:
        self.size, self.dtype = size, np.dtype(np.float32)


@examples(200)
@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=16), st.sampled_from([32, 64]))
def test_lengths_arrive_as_they_are(sizes: list[int], k: int) -> None:
    tensors = [Long(size) for size in sizes]
    wording = differences(total(tensors, k), tensors[0], list(range(len(sizes))), k)  # type: ignore[arg-type]
    if len(set(sizes)) == 1:
        assert wording is None
    else:
        assert wording is not None and all(f"{size:,} elements of float32 on worker" in wording for size in sizes)
