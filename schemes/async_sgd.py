"""Plain asynchronous SGD (Dean et al., NIPS '12): updates are applied as they come, and TCP shares the server's link."""

from __future__ import annotations

from inalab.schemes.model_server import OneModelServer
from inalab.schemes.scheme import Look, Simulation


class Async(OneModelServer):
    """Workers send updates to one server whenever they have one, without waiting for others."""

    name = "async"
    look = Look("asynchronous SGD", "#7a7a7a", "d")
    simulation = Simulation.UPDATES


SCHEME = Async()
