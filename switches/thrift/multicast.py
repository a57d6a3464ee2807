"""Multicast groups and their nodes: services `simple_pre` and `simple_pre_lag`."""

from __future__ import annotations

import json
import re
from typing import Any

from . import errors
from .switch import Switch

ERROR = "InvalidMcOperation"


class Multicast:
    """The calls, by their names; a group's handle is its number. `_` is the context, of which there is one."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def bm_mc_mgrp_create(self, _: int, group: int) -> int:
        self.switch.run(ERROR, "mc_mgrp_create", group)
        return group

    def bm_mc_mgrp_destroy(self, _: int, group: int) -> None:
        self.switch.run(ERROR, "mc_mgrp_destroy", group)

    def bm_mc_node_create(self, _: int, rid: int, ports: str, lags: str = "") -> int:
        return self.switch.number(ERROR, "mc_node_create", rid, *_ports(ports, lags))

    def bm_mc_node_update(self, _: int, node: int, ports: str, lags: str = "") -> None:
        self.switch.run(ERROR, "mc_node_update", node, *_ports(ports, lags))

    def bm_mc_node_associate(self, _: int, group: int, node: int) -> None:
        self.switch.run(ERROR, "mc_node_associate", group, node)

    def bm_mc_node_dissociate(self, _: int, group: int, node: int) -> None:
        self.switch.run(ERROR, "mc_node_dissociate", group, node)

    def bm_mc_node_destroy(self, _: int, node: int) -> None:
        self.switch.run(ERROR, "mc_node_destroy", node)

    def bm_mc_set_lag_membership(self, _: int, lag: int, ports: str) -> None:
        raise errors.error(ERROR, "ERROR")  # there are no link aggregation groups

    def bm_mc_get_entries(self, _: int) -> str:
        """Groups and the nodes in them; nodes in no group are not shown."""
        groups: list[dict[str, Any]] = []
        nodes: dict[int, tuple[int, list[int]]] = {}
        for line in self.switch.run(ERROR, "mc_dump").splitlines():
            if begins := re.fullmatch(r"mgrp\((\d+)\)", line):
                groups.append({"id": int(begins[1]), "l1_handles": []})
            elif found := re.fullmatch(r"  -> \(L1h=(\d+), rid=(\d+)\) -> \(ports=\[(.*)\]\)", line):
                groups[-1]["l1_handles"].append(int(found[1]))
                nodes[int(found[1])] = int(found[2]), [int(port) for port in found[3].split(", ") if port]
        return json.dumps({
            "mgrps": groups,
            "l1_handles": [{"handle": handle, "rid": rid, "l2_handle": handle} for handle, (rid, _) in nodes.items()],
            "l2_handles": [{"handle": handle, "ports": ports, "lags": []} for handle, (_, ports) in nodes.items()],
            "lags": [],
        })  # fmt: skip


def _ports(ports: str, lags: str) -> list[int]:
    """The ports of a map: a digit each, that of port 0 at the end."""
    if "1" in lags or re.search(r"[^01]", ports):
        raise errors.error(ERROR, "ERROR")
    return [port for port, digit in enumerate(reversed(ports)) if digit == "1"]
