"""The results of a campaign: a file a trial, under its identity. Each appears whole, and once unless it is to be replaced."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from inalab.testbed.record.runs import ResultsError


class Store:
    """A folder of results. Several processes may commit to it, also on machines that share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"{folder} cannot be written: {error.strerror}") from None

    def has(self, identity: str) -> bool:
        """Whether the trial has a result."""
        return self._path(identity).exists()

    def read(self, identity: str) -> dict[str, Any]:
        """A trial's result. Raises ResultsError if there is none, or its file has been damaged since."""
        path = self._path(identity)
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ResultsError(f"{path} cannot be read ({error}): delete it, and its trial runs again") from None
        return found

    def commit(self, identity: str, result: dict[str, Any], replacing: bool = False) -> bool:
        """Keep a result; False if there is one already, which stays unless `replacing`. Raises ResultsError if there is no room.

        It is written aside, synced, and linked into place, which replaces nothing (link(2)), or renamed, which does.
        """
        path = self._path(identity)
        aside = self.folder / f".{identity}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
        try:
            with open(aside, "w") as file:
                json.dump(result, file, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            if replacing:
                os.rename(aside, path)
            else:
                os.link(aside, path)
            self._sync()
        except FileExistsError:
            return False
        except OSError as error:
            raise ResultsError(f"{path} cannot be written: {error.strerror}") from None
        finally:
            with suppress(OSError):
                aside.unlink()
        return True

    def _sync(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, identity: str) -> Path:
        return self.folder / f"{identity}.json"
