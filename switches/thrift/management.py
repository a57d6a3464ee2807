"""The program, ports and times of the switch, its queues and mirroring sessions: calls of `standard` and of `simple_switch`."""

from __future__ import annotations

import fcntl
import hashlib
import re
import socket
import struct
from typing import Any, NoReturn

from . import errors
from .binding import TYPES
from .learning import DEVICE
from .notifications import Notifications
from .program import FIRST_LIST, configuration
from .switch import Switch

RESOURCES = ["table", "action_profile", "counter", "meter", "register", "digest"]  # by BmResourceType
SIOCGIFFLAGS, RUNNING = 0x8913, 0x41  # up, and with a link


def is_up(interface: str) -> bool:
    """Whether an interface of this process's network namespace is up and has a link."""
    with socket.socket() as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh14x", interface.encode(), 0))
        except OSError:
            return False
    return bool(struct.unpack("16xh14x", answer)[0] & RUNNING == RUNNING)


class Management:
    """Calls of `standard`, by their names."""

    def __init__(self, switch: Switch, notifications: Notifications) -> None:
        self.switch, self.notifications, self.learning = switch, notifications, notifications.learning

    def bm_mgmt_get_info(self) -> Any:
        return TYPES["BmConfig"](device_id=DEVICE, thrift_port=self.switch.port, notifications_socket=self.notifications.address)

    def bm_get_config(self) -> str:
        self.switch.same()
        return configuration(self.switch.program)

    def bm_get_config_md5(self) -> bytes:
        return hashlib.md5(self.bm_get_config().encode()).digest()

    def bm_reset_state(self) -> None:
        with self.switch.lock:
            self.switch.run(None, "reset_state")
            self.learning.reset()

    def bm_serialize_state(self) -> str:
        return self.switch.run(None, "serialize_state")

    def bm_load_new_config(self, config: str) -> NoReturn:
        raise errors.error("InvalidSwapOperation", "CONFIG_SWAP_DISABLED")

    def bm_swap_configs(self) -> NoReturn:
        raise errors.error("InvalidSwapOperation", "CONFIG_SWAP_DISABLED")

    def bm_get_id_from_name(self, _: int, kind: int, name: str) -> int:
        if not 0 <= kind < len(RESOURCES):
            raise errors.error("InvalidIdLookup", "INVALID_RESOURCE_TYPE")
        names = [one.name for one in self.switch.program.of_kind(RESOURCES[kind])]
        if name not in names:
            self.switch.same()
            raise errors.error("InvalidIdLookup", "INVALID_RESOURCE_NAME")
        return names.index(name) + (FIRST_LIST if RESOURCES[kind] == "digest" else 0)

    # --- ports

    def bm_dev_mgr_show_ports(self) -> list[Any]:
        found = re.findall(r"port=(\d+) interface=(\S+)", self.switch.run(None, "show_ports"))
        return [TYPES["DevMgrPortInfo"](int(port), interface, is_up(interface), {}) for port, interface in found]

    def bm_dev_mgr_add_port(self, interface: str, port: int, pcap: str) -> None:
        self.switch.run("InvalidDevMgrOperation", "port_add", interface, port)

    def bm_dev_mgr_remove_port(self, port: int) -> None:
        self.switch.run("InvalidDevMgrOperation", "port_remove", port)

    # --- digests

    def bm_learning_ack(self, _: int, list_id: int, buffer_id: int, samples: list[int]) -> None:
        with self.switch.lock:
            self.learning.list_of(list_id).acknowledge(buffer_id, samples)

    def bm_learning_ack_buffer(self, _: int, list_id: int, buffer_id: int) -> None:
        with self.switch.lock:
            self.learning.list_of(list_id).acknowledge(buffer_id)

    def bm_learning_set_timeout(self, _: int, list_id: int, timeout_ms: int) -> None:
        self.learning.list_of(list_id).patience = max(timeout_ms, 0) / 1000

    def bm_learning_set_buffer_size(self, _: int, list_id: int, samples: int) -> None:
        self.learning.list_of(list_id).most = samples


class SimpleSwitch:
    """Calls of `simple_switch`, by their names."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    # --- mirroring

    def mirroring_session_add(self, session: int, config: Any) -> None:
        if config.port is not None and config.mgid is not None:
            self.switch.run(None, "mirroring_add_port_and_mgrp", session, config.port, config.mgid)
        elif config.mgid is not None:
            self.switch.run(None, "mirroring_add_mc", session, config.mgid)
        elif config.port is not None:
            self.switch.run(None, "mirroring_add", session, config.port)
        else:
            raise errors.sentence("a mirroring session has a port or a multicast group")

    def mirroring_session_delete(self, session: int) -> None:
        self.switch.run("InvalidMirroringOperation", "mirroring_delete", session)

    def mirroring_session_get(self, session: int) -> Any:
        *_, kind, number = self.switch.run("InvalidMirroringOperation", "mirroring_get", session).split()
        return TYPES["MirroringSessionConfig"](**{"port" if kind == "port" else "mgid": int(number)})

    def mirroring_mapping_add(self, session: int, port: int) -> int:
        self.switch.run(None, "mirroring_add", session, port)
        return 0

    def mirroring_mapping_delete(self, session: int) -> int:
        self.switch.run(None, "mirroring_delete", session)
        return 0

    def mirroring_mapping_get_egress_port(self, session: int) -> int:
        *_, kind, number = self.switch.run(None, "mirroring_get", session).split()
        return int(number) if kind == "port" else -1

    # --- queues; each call returns 0

    def _queue(self, *words: Any) -> int:
        self.switch.run(None, *words)
        return 0

    def set_egress_queue_depth(self, port: int, depth: int) -> int:
        return self._queue("set_queue_depth", depth, port)

    def set_all_egress_queue_depths(self, depth: int) -> int:
        return self._queue("set_queue_depth", depth)

    def set_egress_priority_queue_depth(self, port: int, priority: int, depth: int) -> int:
        return self._queue("set_queue_depth", depth, *_of_priority(port, priority))

    def set_egress_queue_rate(self, port: int, rate: int) -> int:
        return self._queue("set_queue_rate", rate, port)

    def set_all_egress_queue_rates(self, rate: int) -> int:
        return self._queue("set_queue_rate", rate)

    def set_egress_priority_queue_rate(self, port: int, priority: int, rate: int) -> int:
        return self._queue("set_queue_rate", rate, *_of_priority(port, priority))

    # --- time

    def get_time_elapsed_us(self) -> int:
        return self.switch.number(None, "get_time_elapsed")

    def get_time_since_epoch_us(self) -> int:
        return self.switch.number(None, "get_time_since_epoch")


def _of_priority(port: int, priority: int) -> list[int]:
    if priority != 0:
        raise errors.sentence("a port of the embedded switch has one queue: its priority is 0")
    return [port]
