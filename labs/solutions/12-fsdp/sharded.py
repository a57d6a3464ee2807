"""Lab 12: a worker that keeps a shard of each layer, and gathers a layer when it needs it."""

import layers
import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, workers, shards, chunks, x, target, slots, steps):
        self.number, self.workers, self.shards, self.chunks = number, workers, shards, chunks
        self.x, self.target, self.slots, self.steps = x, target, slots, steps
        self.momenta = [np.zeros_like(shard) for shard in shards]
        self.of_layer = workers * chunks  # chunks
        self.gathers = -1  # the number of the latest, modulo 256
        self.arrived = {}  # of each gather that is under way, here or elsewhere: values by chunk
        self.running, self.free, self.sums = "", 0, {}
        self.training = self.train()
        self.go_on(None)

    def train(self):
        """The training, which yields each collective, and gets its result."""
        for _ in range(self.steps):
            inputs = [self.x]
            for layer in range(len(self.shards)):
                parameters = yield "gather", layer
                inputs.append(layers.forward(parameters, inputs[-1]))
            error = layers.error(inputs.pop(), self.target)
            for layer in reversed(range(len(self.shards))):
                parameters = yield "gather", layer
                gradient, error = layers.backward(parameters, inputs.pop(), error)
                sums = yield "scatter", layer, gradient
                self.shards[layer], self.momenta[layer] = layers.update(self.shards[layer], self.momenta[layer], sums, self.workers)
        self.finish(np.concatenate(self.shards))

    def go_on(self, result):
        """Give a collective's result to the training, and begin the next one."""
        self.running = ""
        try:
            self.running, *given = self.training.send(result)
        except StopIteration:
            return
        getattr(self, self.running)(*given)

    def gather(self, layer):
        self.layer, self.gathers = layer, (self.gathers + 1) % 256
        own = layers.bits(self.shards[layer])
        for n in range(self.chunks):
            chunk = layer * self.of_layer + self.number * self.chunks + n
            values = own[n * wire.LANES : (n + 1) * wire.LANES]
            self.send(wire.update(self.number, values, chunk=chunk, version=self.gathers, kind=layers.PARAMETERS, to=b"\xff" * 6))
            self.keep(self.gathers, chunk, values)
        self.gathered()

    def keep(self, gather, chunk, values):
        self.arrived.setdefault(gather, {})[chunk] = values

    def gathered(self):
        """Go on, if all of the layer is there."""
        if self.running == "gather" and len(self.arrived[self.gathers]) == self.of_layer:
            found = self.arrived.pop(self.gathers)
            self.go_on(layers.floats(np.concatenate([found[chunk] for chunk in sorted(found)])))

    def scatter(self, layer, gradient):
        self.layer, self.gradient, self.free, self.sums = layer, gradient, 0, {}
        for n in range(min(self.slots, self.of_layer)):
            self.send_gradient(n)

    def send_gradient(self, n):
        """The layer's chunk n, to its owner."""
        values = self.gradient[n * wire.LANES : (n + 1) * wire.LANES]
        chunk, owner = self.layer * self.of_layer + n, n // self.chunks
        self.send(wire.update(self.number, values, slot=n % self.slots, chunk=chunk, to=wire.address(owner)))

    def receive(self, packet):
        got, free = wire.read(packet), layers.freed(packet)
        if free is not None:
            self.done(free)
        elif got is not None and got.kind == wire.RESULT:
            self.sums[got.chunk] = got.values
            self.done(got.chunk)
        elif got is not None and got.kind == layers.PARAMETERS:
            self.keep(got.version, got.chunk, got.values)
            self.gathered()

    def done(self, chunk):
        """The slot of a chunk is free."""
        self.free += 1
        n = chunk - self.layer * self.of_layer + self.slots
        if n < self.of_layer:
            self.send_gradient(n)
        if self.free == self.of_layer:
            self.go_on(np.concatenate([self.sums[chunk] for chunk in sorted(self.sums)]))
