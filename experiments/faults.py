"""Faults at a moment of a trial, beside those that the switches draw from the seed."""

from __future__ import annotations

import threading
import time

from experiments.settings import TrialSettings
from switches.control import Control
from switches.switchml import Loss, set_loss

PORT = 0  # of the first rack's switch: worker 0's link
DIRECTIONS = {0: "loss_in", 1: "loss_out"}


class Outage(threading.Thread):
    """Worker 0's link loses every packet, in both directions, for a while."""

    def __init__(self, control: Control, started: float, settings: TrialSettings) -> None:
        """It begins `outage_at` seconds after `started` on the monotonic clock, and starts waiting for that at once."""
        super().__init__(name="outage", daemon=True)
        assert settings.outage_at is not None
        self.control, self.due, self.lasts = control, started + settings.outage_at, settings.outage_ms / 1000
        self.begun = self.ended = started
        self.start()

    def run(self) -> None:
        """Begin, wait, end; `begun` and `ended` are when it really did."""
        for direction in DIRECTIONS:
            *prepare, _mode = set_loss(direction, PORT, Loss(good=1.0), seed=0)
            for line in prepare:
                self.control.command(line)
        self._at(self.due)
        for name in DIRECTIONS.values():
            self.control.command(f"register_write {name}.mode {PORT} 1")
        self.begun = time.monotonic()
        self._at(self.begun + self.lasts)
        for name in DIRECTIONS.values():
            self.control.command(f"register_write {name}.mode {PORT} 0")
        self.ended = time.monotonic()

    @staticmethod
    def _at(moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))
