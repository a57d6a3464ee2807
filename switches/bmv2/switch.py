"""simple_switch as P4-utils' switch node, made to say why when it does not start."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
from p4utils.mininetlib.node import P4Switch

from ..control import ControlError
from ..target import SwitchError, last_lines
from .control import ThriftControl

PORTS_SECONDS = 3.0  # in which ports come up


class Bmv2Switch(P4Switch):
    """See switches.target.RunningSwitch. It shares the caller's namespace, where its Thrift port is its own."""

    def __init__(self, name: str, **parameters: Any) -> None:
        try:
            super().__init__(name, **{**parameters, "log_enabled": True, "inNamespace": False})
        except ConnectionRefusedError as error:
            raise SwitchError(str(error)) from None
        self.nanomsg = None  # P4-utils' choice is one file in /tmp for every switch of this number on the machine
        self.log = Path(self.log_dir) / f"p4s.{name}.log"

    def add_arguments(self) -> list[str]:
        """P4-utils' arguments; its log of every packet would cost more than the packets."""
        return [*super().add_arguments(), "--log-level", "warn"]

    def start(self, controllers: Any = None) -> None:
        """Start simple_switch, wait until it answers, and see that it has all its ports: without one it goes on in silence."""
        try:
            super().start(controllers)
            self._await_ports()
        except (ChildProcessError, ControlError) as error:
            self.stop(deleteIntfs=False)
            raise SwitchError(f"switch {self.name} did not start: {error}; {self.last_words()}") from None

    def _await_ports(self) -> None:
        control = self.control()
        wanted = {interface.name for interface in self.intfs.values()} - {"lo"}
        end = time.monotonic() + PORTS_SECONDS
        while lacking := wanted - {port.iface_name for port in control.interfaces() if port.is_up}:
            if time.monotonic() > end:
                raise ControlError(f"it has no port on {', '.join(sorted(lacking))}")
            time.sleep(0.05)
        control.close()

    def dataplane(self) -> int | None:
        """The pid of simple_switch; None when it has ended."""
        try:
            return self.switch_pid if psutil.Process(self.switch_pid).status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def exit_code(self) -> int | None:
        """How simple_switch ended, -number for a signal; None while it runs. The node's shell started it, and knows."""
        if self.dataplane() is not None:
            return None
        code = int(self.cmd(f"wait {self.switch_pid} 2>/dev/null; echo $?").split()[-1])
        return 128 - code if code > 128 else code

    def control(self) -> ThriftControl:
        """Control over the switch's Thrift port."""
        return ThriftControl(self.thrift_port)

    def last_words(self) -> str:
        """The last lines of the switch's log."""
        return last_lines(self.log)
