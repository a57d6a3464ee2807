"""Training that PyTorch splits: the same steps as an ordinary training's, in which layers take their virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.training.parallel import ParallelTrainer
from inalab.hosts.training.pipeline import DDP, FSDP2, LAYERED, OF_TORCH
from inalab.hosts.training.stragglers import Straggler
from inalab.hosts.training.trainer import Trainer, TrainingSettings
from inalab.testbed import backends
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.theory import bounds
from tests.runs import trial

TAKES = 60.0  # seconds of a step, which nobody waits for


class Clock:
    """Time that passes where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.driver: Any = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep, processor=SOCKETS.processor)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def alone() -> Iterator[None]:
    """torch.distributed's group of all workers, of which there is one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def settings(pipeline: str, **change: Any) -> TrainingSettings:
    return TrainingSettings("digits-mlp-deep", 3, 1, 1000 * TAKES, 2, Straggler(), pipeline=pipeline, **change)


class Whole:
    """A sum over one worker."""

    def wait(self) -> None:
        """It is over."""


@pytest.mark.parametrize("pipeline", [DDP, FSDP2])
@pytest.mark.parametrize("batch", [None, 3])
def test_it_trains_the_model_that_an_ordinary_training_does(pipeline: str, batch: int | None, alone: None) -> None:
    plain = Trainer(settings(LAYERED[0], batch=batch), 0, 1, Clock().driver)
    expected = list(plain.run(lambda tensor, label: Whole()))
    split = ParallelTrainer(settings(pipeline, batch=batch), 0, 1, Clock().driver)
    steps = list(split.run(lambda *call: pytest.fail("PyTorch begins the sums")))
    assert [step.train_loss for step in steps] == [step.train_loss for step in expected]
    assert [(step.test_loss, step.accuracy) for step in steps] == [(step.test_loss, step.accuracy) for step in expected]
    assert [step.accuracy is not None for step in steps] == [False, True, True]
    assert split.digest() == plain.digest()


@pytest.mark.parametrize("pipeline", [DDP, FSDP2])
def test_each_pass_of_a_layer_takes_its_part_of_the_step(pipeline: str, alone: None) -> None:
    clock = Clock()
    trainer = ParallelTrainer(settings(pipeline, forward=0.25), 0, 1, clock.driver)
    shares = [layer.share for layer in trainer.layers]
    parts = [0.25 * TAKES * share for share in shares] + [0.75 * TAKES * share for share in reversed(shares)]
    for number, step in enumerate(trainer.run(lambda *call: None)):
        passes, clock.slept = clock.slept, []
        assert len(passes) == len(parts)
        late = [part - slept for part, slept in zip(parts, passes, strict=True)]
        assert all(seconds > 0 for seconds in late) and sum(late) == pytest.approx(step.compute)
        assert step.ended - step.begun == pytest.approx(TAKES - step.compute)
        assert step.padding == pytest.approx(TAKES - step.compute) and step.busy == TAKES
        assert step.tat == pytest.approx(sum(passes[len(shares) + 1 :]))  # from when the last layer's gradient is there
        assert step.number == number


def test_computing_that_takes_too_long_is_made_up_for_by_the_layers_that_follow(alone: None) -> None:
    clock = Clock()
    trainer = ParallelTrainer(settings(FSDP2), 0, 1, clock.driver)
    steps = trainer.run(lambda *call: None)
    next(steps)
    clock.slept = []
    trainer.mark -= 0.9 * TAKES  # as if so much processor time had been used
    step = next(steps)
    assert step.padding == pytest.approx(TAKES - step.compute) and 0.9 * TAKES < step.compute < TAKES
    assert sum(clock.slept) == pytest.approx(TAKES - step.compute)
    trainer.mark -= 2 * TAKES
    clock.slept = []
    step = next(steps)
    assert step.padding < 0 and clock.slept == []


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        (
            {"pipeline": "hsdp", "racks": 1},
            "pipeline hsdp keeps a whole model in each rack: set racks to 2 or more, or pipeline=fsdp2",
        ),
        ({"pipeline": "ddp", "jobs": ({}, {})}, "pipeline ddp is of one job alone: leave jobs out"),
        ({"pipeline": "fsdp2", "scheme": "mlfabric"}, "scheme mlfabric trains asynchronously alone"),
    ],
)
def test_what_cannot_be_split_is_refused(change: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        TrialSettings(**change).check()


@pytest.mark.parametrize("pipeline", OF_TORCH)
def test_pytorch_has_no_part_in_times_that_are_computed(pipeline: str) -> None:
    chosen = TrialSettings(pipeline=pipeline)
    for target in ("virtual", "simulated"):
        with pytest.raises(SettingsError, match=f"pipeline {pipeline} .*choose target embedded"):
            backends.find(target).refuse(chosen)
    backends.find("embedded").refuse(chosen)
    measured = trial() | {"settings": chosen.model_dump()}
    assert torch.tensor([bounds.of_trial(measured), bounds.of_step(measured)]).isnan().all()
    assert "measure_error" in chosen.idle() and "forward_share" not in chosen.idle()
