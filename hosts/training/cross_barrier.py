"""A script's next forward pass waits for sums layer by layer, the most urgent first (ByteScheduler, SOSP '19; BytePS, OSDI '20).

    from inalab.hosts.training.cross_barrier import CrossBarrier

    training = CrossBarrier(model, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
    for x, y in batches:
        criterion(model(x), y).backward()
    training.synchronize()

It replaces DistributedDataParallel and the optimizer. A parameter's sum begins when backward() has its gradient, and its priority
is its place in the model, front first. The parameter is updated when the forward pass next comes to its module, which is all that
waits for it: so there is no step(), and no zero_grad(). DistributedDataParallel, with whatever hook, waits for all sums at the end
of backward().

Some modules are never called: their parent uses their parameters directly, as attention does with its output projection. These
parameters are updated when the parent is called. The first forward pass shows which modules these are. Whatever but a forward pass
reads parameters, such as a checkpoint, comes after synchronize(). Anything that needs all gradients at once, such as clipping by
their norm, is impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from inalab.hosts.collective import Label
from inalab.hosts.torch_backend import InaProcessGroup

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class CrossBarrier:
    """Trains a model in the default process group of torch.distributed, from worker 0's parameters and buffers.

    All workers' models must compute alike, so that their gradients come in the same order. `optimizer` is called once for every
    parameter; `optimizers` has what it made, by the parameter's name, for a schedule of learning rates.
    """

    def __init__(self, model: nn.Module, optimizer: MakeOptimizer) -> None:
        self.model, self.size = model, dist.get_world_size()
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.labels = {p: Label(name, number) for number, (name, p) in enumerate(trained.items())}
        self.optimizers = {name: optimizer([p]) for name, p in trained.items()}
        self.under_way: dict[nn.Parameter, tuple[Any, torch.Tensor]] = {}  # the work, and the gradient that becomes the sum
        self.called: set[nn.Module] = set()  # in the first forward pass
        self.needed_by: dict[nn.Module, list[nn.Parameter]] = {}  # once that is over
        self.summing = True
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), 0)
        for module in model.modules():
            module.register_forward_pre_hook(self._before, prepend=True)
        for p in trained.values():
            p.register_post_accumulate_grad_hook(self._begin)  # type: ignore[no-untyped-call]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backward() in this block are added up on each worker, and summed with those of the first one after it."""
        self.summing = False
        try:
            yield
        finally:
            self.summing = True

    def synchronize(self) -> None:
        """Wait for all sums, and update all parameters. Raises the error of a sum that failed, as a forward pass does."""
        for p in self.labels:
            self._update(p)

    def _before(self, module: nn.Module, given: Any) -> None:
        """A forward pass comes to a module."""
        if not self.needed_by:
            self.called.add(module)
        for p in self.needed_by.get(module, []):
            self._update(p)

    def _begin(self, p: torch.Tensor) -> None:
        """A gradient is there: sum it."""
        assert isinstance(p, nn.Parameter) and p.grad is not None
        if not self.needed_by:
            self.needed_by = self._owners()
        if p in self.under_way:
            raise RuntimeError(
                f"parameter {self.labels[p].name} has a new gradient while the one before is being summed: call its module, which "
                "updates it, or put all calls of backward() but the last into no_sync()"
            )
        if self.summing:
            gradient = p.grad.clone()  # autograd may still read the memory of the gradient itself
            p.grad = None
            self.under_way[p] = _sum(gradient, self.labels[p]), gradient

    def _owners(self) -> dict[nn.Module, list[nn.Parameter]]:
        """Which parameters a module's forward pass needs: its own, and those of modules below that are not called."""
        found: dict[nn.Module, list[nn.Parameter]] = {self.model: []}

        def own(module: nn.Module, nearest: nn.Module) -> None:
            nearest = module if module in self.called else nearest
            found.setdefault(nearest, []).extend(p for p in module.parameters(recurse=False) if p in self.labels)
            for child in module.children():
                own(child, nearest)

        own(self.model, self.model)
        return found

    def _update(self, p: nn.Parameter) -> None:
        """Wait for a parameter's sum, if there is one, and take it."""
        if p not in self.under_way:
            return
        work, total = self.under_way.pop(p)
        work.wait()
        p.grad = total.div_(self.size)
        self.optimizers[self.labels[p].name].step()
        p.grad = None


def _sum(gradient: torch.Tensor, label: Label) -> Any:
    group = dist.group.WORLD
    return group.sum(gradient, label) if isinstance(group, InaProcessGroup) else dist.all_reduce(gradient, async_op=True)
