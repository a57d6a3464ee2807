"""What training begins again from: what a replica goes on from, and after how many steps that was."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

Saved = tuple[torch.Tensor, int]  # a replica's state, and steps


class Checkpoint(Protocol):
    """Saved every so many steps by one worker; all load it."""

    every: int

    def save(self, state: torch.Tensor, steps: int) -> None: ...

    def load(self) -> Saved | None:
        """The last that was saved, if there is one."""
        ...


@dataclass
class CheckpointFile:
    """On a disk that all hosts share."""

    file: Path
    every: int

    def save(self, state: torch.Tensor, steps: int) -> None:
        """Have the file be this, at once: whoever writes may be killed at any moment."""
        aside = self.file.with_suffix(f".{os.getpid()}")
        torch.save((state, steps), aside)
        aside.replace(self.file)

    def load(self) -> Saved | None:
        """See Checkpoint."""
        found: Saved | None = torch.load(self.file) if self.file.exists() else None
        return found
