"""Keys with which the machines of a campaign know each other: a certificate that all of them have, and its authority.

TLS with both ends checked: who has other keys is no machine of the campaign's. The authority's own key is not kept, so nobody can
make more certificates that these machines would accept.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from inalab.testbed.campaign.machines import MachinesError

FOLDER = Path(typer.get_app_dir("inalab")) / "campaign-keys"  # ~/.config/inalab/campaign-keys
DAYS = 365
EARLIER = timedelta(days=1)  # machines' clocks differ
MAKE = "make new ones with `inalab campaign keys`, and copy them to every machine"


@dataclass(frozen=True)
class Keys:
    """Files of a folder, as PEM."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that signed the machines' own."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """What a machine shows to others."""
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        """What nobody else may read."""
        return self.folder / "key.pem"

    def checked(self) -> Keys:
        """These keys, if they can be used now. Raises MachinesError."""
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            authority = x509.load_pem_x509_certificate(self.authority.read_bytes())
            key = load_pem_private_key(self.key.read_bytes(), None)
            certificate.verify_directly_issued_by(authority)
            if key.public_key() != certificate.public_key():
                raise ValueError
            mode = stat.S_IMODE(self.key.stat().st_mode)
        except FileNotFoundError as error:
            raise MachinesError(
                f"{error.filename} is missing: make keys with `inalab campaign keys` and copy them to every machine, or say where "
                "they are with --keys"
            ) from None
        except OSError as error:
            raise MachinesError(f"{error.filename} cannot be read: {error.strerror}") from None
        except Exception:  # of cryptography's many
            raise MachinesError(
                f"the files in {self.folder} are damaged or do not belong together: copy all three once more"
            ) from None
        if mode & 0o077:
            raise MachinesError(f"others can read {self.key}: chmod 600 {self.key}")
        if (until := certificate.not_valid_after_utc) < datetime.now(UTC):
            raise MachinesError(f"the keys in {self.folder} were valid until {until:%Y-%m-%d}: {MAKE}")
        return self


def make(folder: Path, days: int = DAYS) -> Keys:
    """New keys in a folder that has none. Raises MachinesError."""
    keys = Keys(folder)
    of_authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("inalab campaign: authority", of_authority, None, of_authority, days)
    certificate = _certificate("inalab campaign: machine", key, authority, of_authority, days)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if there := [file for file in (keys.authority, keys.certificate, keys.key) if file.exists()]:
            raise MachinesError(f"{there[0]} is there already: delete the folder first, or name another with --keys")
        _write(keys.authority, authority.public_bytes(Encoding.PEM))
        _write(keys.certificate, certificate.public_bytes(Encoding.PEM))
        _write(keys.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    except OSError as error:
        raise MachinesError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return keys


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Certificate | None, signs: ec.EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    """A certificate for a key; its own authority without an issuer."""
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    constraints = x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None)
    builder = x509.CertificateBuilder(own if issuer is None else issuer.subject, own, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - EARLIER).not_valid_after(now + timedelta(days=days))
    builder = builder.add_extension(constraints, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), critical=False)
    return builder.sign(signs, hashes.SHA256())


def _write(path: Path, content: bytes) -> None:
    """Into a file that is new, for this user alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
