"""Commands to a switch, in the order in which it takes them, with the handles that it will give."""

from __future__ import annotations

from collections.abc import Iterable


class Commands:
    """Collects commands. A switch numbers its multicast nodes from 0 in the order in which they are created."""

    def __init__(self, nodes: int = 0) -> None:
        """`nodes` is how many multicast nodes the switch has already."""
        self.lines: list[str] = []
        self.nodes = nodes

    def add(self, *lines: str) -> None:
        """Add commands that create no multicast node."""
        self.lines += lines

    def multicast_node(self, group: int, replica: int, ports: Iterable[int]) -> int:
        """Create a node that sends replica number `replica` to these ports, in a group that there is; its handle."""
        handle = self.nodes
        self.nodes += 1
        self.add(f"mc_node_create {replica} {' '.join(map(str, ports))}", f"mc_node_associate {group} {handle}")
        return handle
