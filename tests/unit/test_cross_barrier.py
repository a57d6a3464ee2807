"""CrossBarrier in one process: what is updated when, in what order sums begin, and what cannot be."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from inalab.hosts.collective import Label
from inalab.hosts.training import cross_barrier
from inalab.hosts.training.cross_barrier import CrossBarrier

SGD = partial(torch.optim.SGD, lr=0.5)


class Two:
    """Two equal workers' sums, which are over when somebody waits."""

    def __init__(self) -> None:
        self.begun: list[Label] = []
        self.waited: list[str] = []

    def sum(self, gradient: torch.Tensor, label: Label) -> Any:
        self.begun.append(label)

        class Work:
            def wait(work) -> None:  # noqa: N805
                self.waited.append(label.name)
                gradient.mul_(2)

        return Work()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    sums = Two()
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "broadcast", lambda tensor, source: None)
    monkeypatch.setattr(cross_barrier, "_sum", sums.sum)
    yield sums


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


X = torch.arange(6.0).view(2, 3)


def test_sums_begin_as_gradients_come_and_the_front_is_the_most_urgent(two: Two) -> None:
    trained = model()
    CrossBarrier(trained, SGD)
    trained(X).sum().backward()
    assert {label.name: label.priority for label in two.begun} == {"0.weight": 0, "0.bias": 1, "2.weight": 2, "2.bias": 3}
    assert {label.name for label in two.begun[:2]} == {"2.weight", "2.bias"}
    assert two.waited == []


def test_a_module_waits_for_its_own_sums_when_it_is_called(two: Two) -> None:
    trained, alone = model(), model()
    CrossBarrier(trained, SGD)
    trained(X).sum().backward()
    before = [p.detach().clone() for p in trained.parameters()]
    trained[0](X)
    assert two.waited == ["0.weight", "0.bias"]
    optimizer = SGD(alone.parameters())
    alone(X).sum().backward()
    optimizer.step()
    for old, new, expected in list(zip(before, trained.parameters(), alone.parameters(), strict=True))[:2]:
        assert not torch.equal(old, new) and torch.equal(new, expected)
    assert torch.equal(trained[2].weight, before[2])


def test_workers_begin_with_what_the_first_one_has(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers, too, and parameters that are not trained."""
    first = nn.Sequential(model(), nn.BatchNorm1d(2))
    first[1].running_mean.fill_(3)
    first[1].num_batches_tracked.fill_(7)
    trained = copy.deepcopy(first)
    for tensor in trained.state_dict().values():
        tensor.zero_()
    trained[1].weight.requires_grad_(False)
    whose = {tensor.data_ptr(): name for name, tensor in trained.state_dict().items()}

    def broadcast(tensor: torch.Tensor, source: int) -> None:
        assert source == 0
        tensor.copy_(first.state_dict()[whose[tensor.data_ptr()]])

    monkeypatch.setattr(dist, "broadcast", broadcast)
    CrossBarrier(trained, SGD)
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, first.state_dict()[name]), name


def test_training_is_that_of_the_optimizer(two: Two) -> None:
    trained, alone = model(), model()
    sgd = partial(torch.optim.SGD, lr=0.01, momentum=0.9)
    training, optimizer = CrossBarrier(trained, sgd), sgd(alone.parameters())
    for step in range(5):
        trained(X + step).square().sum().backward()
        optimizer.zero_grad()
        alone(X + step).square().sum().backward()
        optimizer.step()
    training.synchronize()
    for p, expected in zip(trained.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, expected) and p.grad is None


def test_gradients_of_several_batches_are_summed_once(two: Two) -> None:
    trained, alone = model(), model()
    training, optimizer = CrossBarrier(trained, SGD), SGD(alone.parameters())
    with suppress(KeyError), training.no_sync():
        trained(X).sum().backward()
        raise KeyError
    assert two.begun == []
    trained(2 * X).sum().backward()
    training.synchronize()
    alone(X).sum().backward()
    alone(2 * X).sum().backward()
    optimizer.step()
    assert len(two.begun) == 4
    for p, expected in zip(trained.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, expected)


class Apart(nn.Module):
    """Uses a module's parameters without calling it, and shares a parameter between two."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last, self.tied = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.tied.weight = self.last.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.last(nn.functional.linear(x, self.inner.weight, self.inner.bias)))  # type: ignore[no-any-return]


def test_a_module_that_is_not_called_is_updated_with_its_parent(two: Two) -> None:
    trained = nn.Sequential(Apart())
    alone = copy.deepcopy(trained)
    sgd = partial(torch.optim.SGD, lr=0.01)
    training, optimizer = CrossBarrier(trained, sgd), sgd(alone.parameters())
    for _ in range(3):
        trained(X).sum().backward()
        optimizer.zero_grad()
        alone(X).sum().backward()
        optimizer.step()
    assert set(two.waited) == {"0.inner.weight", "0.inner.bias", "0.last.weight", "0.last.bias"}
    training.synchronize()
    assert len(two.begun) == len(two.waited) == 12
    for p, expected in zip(trained.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, expected)


class Shared(nn.Module):
    """Two parameters whose gradients are views of one tensor, and are read on for a third."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Linear(3, 3)
        self.a, self.b = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.front(x) + self.a.view(2, 3) + self.b.view(2, 3)  # type: ignore[no-any-return]


def test_gradients_that_share_memory_are_summed_apart(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(gradient: torch.Tensor, label: Label) -> Any:
        gradient.mul_(2)
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(cross_barrier, "_sum", at_once)
    trained = Shared()
    alone = copy.deepcopy(trained)
    training, optimizer = CrossBarrier(trained, SGD), SGD(alone.parameters())
    for model in (trained, alone):
        model(X).square().sum().backward()
    training.synchronize()
    optimizer.step()
    for p, expected in zip(trained.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, expected)


def test_two_gradients_without_an_update_between_them_are_refused(two: Two) -> None:
    trained = model()
    CrossBarrier(trained, SGD)
    loss = trained(X).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"parameter 2\.\w+ has a new gradient while the one before is being summed"):
        loss.backward()


def test_parameters_that_are_not_trained_take_no_part(two: Two) -> None:
    trained = model()
    trained[0].weight.requires_grad_(False)
    CrossBarrier(trained, SGD)
    trained(X).sum().backward()
    assert "0.weight" not in {label.name for label in two.begun}
