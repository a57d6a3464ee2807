"""Lab 12: a worker that keeps a shard of each layer, and gathers a layer when it needs it. You write what is marked TODO."""

import layers
import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, workers, shards, chunks, x, target, slots, steps):
        """`shards` has this worker's parameters of each layer (float32), `chunks` chunks each; `x` and `target` are its data."""
        self.number, self.workers, self.shards, self.chunks = number, workers, shards, chunks
        self.x, self.target, self.slots, self.steps = x, target, slots, steps
        self.momenta = [np.zeros_like(shard) for shard in shards]
        self.of_layer = workers * chunks  # chunks of a layer; its chunk n belongs to worker n // chunks
        self.training = self.train()
        self.go_on(None)

    def train(self):
        """The training, which yields each collective, and gets its result."""
        for _ in range(self.steps):
            inputs = [self.x]
            for layer in range(len(self.shards)):
                parameters = yield "gather", layer
                inputs.append(layers.forward(parameters, inputs[-1]))
            # TODO 6: backward, from the last layer on: gather it again, `sums = yield "scatter", layer, gradient`, update its shard
        self.finish(np.concatenate(self.shards))

    def go_on(self, result):
        """Give a collective's result to the training, and begin the next one. (Given.)"""
        try:
            collective, *given = self.training.send(result)
        except StopIteration:
            return
        getattr(self, collective)(*given)

    def gather(self, layer):
        # TODO 4: send this worker's shard to all; when all of the layer has come, self.go_on(the layer's parameters)
        pass

    def scatter(self, layer, gradient):
        # TODO 5: the first chunks, each to its owner; when all slots are free again, self.go_on(the sums of this worker's shard)
        pass

    def receive(self, packet):
        got = wire.read(packet)  # a RESULT or PARAMETERS, or None
        free = layers.freed(packet)  # the chunk of a FREE, or None
        # TODO 4: parameters, which may be of the next gather already; TODO 5: sums and free slots
