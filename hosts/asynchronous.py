"""Asynchronous training in a script of one's own, over a scheme that keeps the weights (BytePS, section 5; MLfabric; SSP).

    model = Net()
    trained = inalab.Asynchronous(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in batches:
        loss(model(x), y).backward()
        pushed = trained.step()  # in place of optimizer.step()
    trained.end()

No worker waits for another, unless the scheme says so.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from inalab.hosts.collective import Label, Operation
from inalab.hosts.weights import WEIGHTS, flat, put


@dataclass(frozen=True)
class Pushed:
    """What became of a step: the version of the weights that came back, which is how many changes are in them; how many changes of
    others came between the weights that the step was computed with and its own change; its norm; and whether it was dropped."""

    version: float
    delay: float
    norm: float
    dropped: bool = False


class Asynchronous:
    """A model whose weights are kept by the scheme: at first those of worker 0. All workers make one at the same time.

    Each worker's own optimizer turns its gradients into a change of the weights, which is divided by the number of workers. So one
    step of each moves the weights as far as one synchronous step with the mean of their gradients. Buffers stay a worker's own.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, group: Any = None) -> None:
        """Raises ValueError where the group's scheme keeps no weights, or some are not float32."""
        self.optimizer, self.group = optimizer, _keeping(group or dist.group.WORLD)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters or any(p.dtype != torch.float32 for p in self.parameters):
            raise ValueError("weights that a scheme keeps are float32: give a model with such parameters, and no others")
        self.size = dist.get_world_size(self.group)
        place = self.group.place
        self.may_drop = place.scheme.delay_bound(place.settings) is not None
        first, weights = dist.get_rank(self.group) == 0, self._weights()
        self.version = self._take(self._done(weights if first else torch.zeros_like(weights), Operation.KEEP))

    def step(self) -> Pushed:
        """Let the optimizer take its step with the gradients that there are, send the change, and go on with the weights that come
        back. Where the change is dropped the optimizer forgets it."""
        before = self._weights()
        state = copy.deepcopy(self.optimizer.state_dict()) if self.may_drop else None
        self.optimizer.step()
        change = (self._weights() - before) / self.size
        norm, had = float(change.norm()), self.version
        done = self._done(change, Operation.CHANGE)
        self.version = self._take(done)
        update = done.update
        if dropped := update is not None and update.applied_at is None:
            assert state is not None
            self.optimizer.load_state_dict(state)
        delay = update.delay if update is not None and update.delay is not None else self.version - had - (not dropped)
        return Pushed(self.version, delay, norm, dropped)

    def pull(self) -> float:
        """Go on with the weights as they are kept now; their version."""
        self.version = self._take(self._done(self._weights(), Operation.FETCH))
        return self.version

    def end(self) -> float:
        """Wait for the last changes of all workers, and have the weights that result, the same on all; their version."""
        self.group.sum(torch.zeros(1), Label("end")).wait()
        return self.pull()

    def _done(self, tensor: torch.Tensor, operation: Operation) -> Any:
        pending = self.group.sum(tensor, WEIGHTS, operation)
        pending.wait()
        return pending

    def _weights(self) -> torch.Tensor:
        return flat(self.parameters)

    def _take(self, done: Any) -> float:
        """Put weights into the model; their version."""
        put(self.parameters, done.tensor)
        return float(done.version)


def _keeping(group: Any) -> Any:
    """The group, if its scheme keeps weights."""
    place = getattr(group, "place", None)
    if place is None:
        raise ValueError('weights are kept by schemes of the backend "ina": run the script by inalab launch')
    if not place.scheme.keeps_weights:
        raise ValueError(f"scheme {place.scheme.name} keeps no weights: choose async, ssp, mlfabric or byteps")
    return group
