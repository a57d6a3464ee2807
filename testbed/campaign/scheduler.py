"""Where a campaign's scheduler is, and whether one speaks with it encrypted: by TLS, unless it is on this machine.

Dask itself checks nobody without TLS: who reaches the port of a scheduler or a worker runs programs there.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from distributed.security import Security

from inalab.testbed.campaign.machines import MachinesError

if TYPE_CHECKING:
    from inalab.testbed.campaign.keys import Keys

GREETING = 30.0  # seconds that a scheduler has for its first word: its machine may be busy
SAME = "copy the same keys to every machine, and start the scheduler again"
LOCAL = "inproc"  # a scheduler in this process, which has no port


class AbsentError(MachinesError):
    """No scheduler answers; one may, later."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduler's address, such as tls://10.0.0.1:8786, and the keys for it; none for tcp://."""

    address: str
    keys: Keys | None

    def security(self) -> Security:
        """For Dask's clients."""
        if self.keys is None:
            return Security(require_encryption=False)
        return Security(
            require_encryption=True, tls_ca_file=str(self.keys.authority), tls_client_cert=str(self.keys.certificate),
            tls_client_key=str(self.keys.key),
        )  # fmt: skip

    def words(self) -> list[str]:
        """For `dask scheduler` and `dask worker`."""
        if self.keys is None:
            return []
        return [
            "--tls-ca-file", str(self.keys.authority), "--tls-cert", str(self.keys.certificate), "--tls-key", str(self.keys.key),
        ]  # fmt: skip

    def greet(self) -> None:
        """Wait for the scheduler's first word. Raises AbsentError if none answers, MachinesError if it has other keys, or none."""
        where = urlsplit(self.address)
        if where.scheme == LOCAL:
            return
        try:
            connection = socket.create_connection((where.hostname, where.port), GREETING)
        except OSError as error:
            raise AbsentError(
                f"no Dask scheduler answers at {self.address}: start one with `inalab campaign scheduler` "
                f"({error.strerror or error})"
            ) from None
        with closing(connection):
            self._hear(connection)

    def _hear(self, connection: socket.socket) -> None:
        try:
            if self.keys is not None:
                context: ssl.SSLContext = self.security().get_connection_args("client")["ssl_context"]
                connection = context.wrap_socket(connection)
            if not connection.recv(1):  # with TLS 1.3 it is here that the other end refuses us
                raise ConnectionResetError
        except ssl.SSLCertVerificationError as error:
            raise MachinesError(
                f"the scheduler at {self.address} has other keys than {self._folder()} ({error.verify_message}): {SAME}"
            ) from None
        except TimeoutError:
            hint = "" if self.keys else ", or it expects TLS: then use tls://, with its keys"
            raise AbsentError(f"the scheduler at {self.address} says nothing: it is frozen{hint}") from None
        except (ssl.SSLError, ConnectionError) as error:
            raise MachinesError(self._unheard(error)) from None

    def _unheard(self, error: Exception) -> str:
        if self.keys is None:
            return f"what answers at {self.address} is no Dask scheduler"
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            return f"the scheduler at {self.address} does not accept the keys in {self._folder()}: {SAME}"
        return f"what answers at {self.address} has no TLS: start the scheduler with `inalab campaign scheduler`, or use --no-tls"

    def _folder(self) -> Path | None:
        return self.keys.folder if self.keys else None


def scheduler_at(address: str, folder: Path | None = None, tls: bool = True) -> Scheduler:
    """The scheduler at an address, with the keys in a folder, by default `keys.FOLDER`. Raises MachinesError.

    An address without tls:// or tcp:// has TLS, unless it is this machine's own, or `tls` is not wanted.
    """
    found = _parsed(address if "://" in address else f"//{address}")
    local = found.scheme == LOCAL or _is_loopback(found.hostname or "")
    scheme = found.scheme or ("tls" if tls and not local else "tcp")
    whole = f"{scheme}://{found.netloc}{found.path if scheme == LOCAL else ''}"
    if scheme == "tls" and not tls:
        raise MachinesError(f"{address} has TLS: leave out --no-tls")
    if scheme == "tcp" and tls and not local:
        raise MachinesError(
            f"{address} is not encrypted, and whoever reaches it can run programs as you: use tls://{found.netloc}, or --no-tls "
            "on a network that you trust"
        )
    if scheme != "tls":
        return Scheduler(whole, None)
    return Scheduler(whole, _keys(folder))


def _keys(folder: Path | None) -> Keys:
    try:
        from inalab.testbed.campaign.keys import FOLDER, Keys
    except ImportError as error:
        raise MachinesError(f"keys need {error.name}, which is missing: pip install cryptography") from None
    return Keys(folder or FOLDER).checked()


def _parsed(address: str) -> SplitResult:
    try:
        found = urlsplit(address)
        if found.scheme != LOCAL and (found.scheme not in ("", "tcp", "tls") or found.hostname is None or found.port is None):
            raise ValueError("it has no host and port, or something else than tls:// or tcp://")
    except ValueError as error:
        address = address.removeprefix("//")
        raise MachinesError(f"{address} is no address of a Dask scheduler, such as tls://10.0.0.1:8786: {error}") from None
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
