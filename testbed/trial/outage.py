"""Faults at a moment of a trial, beside those that the switches draw from the seed."""

from __future__ import annotations

import threading
import time

from inalab.switches.control import Control, ControlError
from inalab.switches.loss import DIRECTIONS, Loss, prepare_loss, switch_loss
from inalab.testbed.plan.settings import TrialSettings

PORT = 0  # of the first rack's switch: worker 0's link


class Outage(threading.Thread):
    """Worker 0's link loses every packet, in both directions, for a while."""

    def __init__(self, control: Control, started: float, settings: TrialSettings) -> None:
        """It begins `outage_at` seconds after `started` on the monotonic clock, and starts waiting for that at once."""
        super().__init__(name="outage", daemon=True)
        assert settings.outage_at is not None
        self.control, self.due, self.lasts = control, started + settings.outage_at, settings.outage_ms / 1000
        self.begun = self.ended = 0.0
        self.why = ""
        self.over = threading.Event()  # the training is
        self.start()

    def run(self) -> None:
        """Begin, wait, end; `begun` and `ended` are when it really did."""
        try:
            for direction in range(len(DIRECTIONS)):
                for line in prepare_loss(direction, PORT, Loss(good=1.0), seed=0):
                    self.control.command(line)
            if self._wait(self.due):
                self._switch(True)
                self.begun = time.monotonic()
                if self._wait(self.begun + self.lasts):
                    self._switch(False)
                    self.ended = time.monotonic()
        except ControlError as error:
            self.why = f"the outage could not be applied: {error}"

    def _switch(self, on: bool) -> None:
        for direction in range(len(DIRECTIONS)):
            self.control.command(switch_loss(direction, PORT, on))

    def _wait(self, until: float) -> bool:
        """Wait; False if the training is over before."""
        return not self.over.wait(max(0.0, until - time.monotonic()))

    def stop(self) -> str:
        """The training is over; why the outage did not begin and end within it, empty if it did."""
        self.over.set()
        self.join()
        if not self.why and not self.ended:
            self.why = "the training ended before the outage did: set outage_at lower, or steps higher"
        return self.why
