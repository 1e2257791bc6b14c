"""Access to a scheduler and its workers: only with a certificate of the fleet's own authority, always over TLS.

Anyone who reaches a scheduler can run any code on its workers, and every user of this machine can reach loopback (`tcp://127.0.0.1:…`).
There the certificate and its key are in one file of the user (mode 0600), made at first use; all parts of such a fleet run as that user.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.errors import InputError
from dutlab.extras import extra_install_command
from dutlab.own_folder import private_text
from dutlab.spec.fleet import scheduler_address
from dutlab.store.seal import own_file

if TYPE_CHECKING:
    from distributed.security import Security

TLS = "DUTLAB_FLEET_TLS"
"""Environment variable: the folder with ca.pem, cert.pem and key.pem."""
_AUTHORITY, _CERTIFICATE, _KEY = "ca.pem", "cert.pem", "key.pem"
_PARTS = ("scheduler", "worker", "client")
_LOOPBACK = "loopback-fleet.pem"


def insist_on_dask() -> None:
    """Raise InputError if the extra is missing; limit Dask's messages to warnings."""
    try:
        import distributed  # noqa: F401, PLC0415 -- an extra
    except ImportError:
        raise InputError("a fleet needs Dask's scheduler, and it is missing", remedy=extra_install_command("fleet")) from None
    logging.getLogger("distributed").setLevel(logging.WARNING)


def dask_address(address: str) -> str:
    """Return the address for Dask: all connections use TLS, also on loopback."""
    return address.replace("tcp://", "tls://", 1)


def security_for(address: str) -> Security:
    """Return the certificate and key for a scheduler's address. Raises InputError if they are missing or others can read the key."""
    try:
        scheduler_address(address)
    except ValueError as error:
        raise InputError(f"{address}: {error}", remedy=f"write tls://, and name the folder of certificates in {TLS}") from None
    if address.startswith("tcp://"):
        path, content = own_file(_LOOPBACK, _new_certificate)
        if content is None:
            raise InputError(
                f"{path}: cannot be kept, or is not a file that only you can use", remedy="remove it, or name a folder in XDG_STATE_HOME"
            )
        return _security(path, path, path)
    named = os.environ.get(TLS, "")
    folder = Path(named)
    if not named or (missing := [name for name in (_AUTHORITY, _CERTIFICATE, _KEY) if not (folder / name).is_file()]):
        what = f"{TLS} is not set" if not named else f"{folder}: without {', '.join(missing)}"
        raise InputError(
            f"{address}: {what}", remedy=f"make certificates as in docs/how-to/many-machines.md, and name their folder in {TLS}"
        )
    private_text(folder / _KEY)
    return _security(folder / _AUTHORITY, folder / _CERTIFICATE, folder / _KEY)


def _security(authority: Path, certificate: Path, key: Path) -> Security:
    from distributed.security import Security  # noqa: PLC0415 -- an extra, and slow to load

    both = {f"tls_{part}_cert": str(certificate) for part in _PARTS} | {f"tls_{part}_key": str(key) for part in _PARTS}
    return Security(tls_ca_file=str(authority), require_encryption=True, **both)


def _new_certificate() -> bytes:
    """Return a new key and its self-signed certificate, in PEM. The certificate is its own authority, so it trusts no other."""
    from cryptography import x509  # noqa: PLC0415 -- slow to load
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 -- as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dutlab on loopback")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))  # RFC 5280, 4.1.2.5: no expiration date
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret + certificate.public_bytes(serialization.Encoding.PEM)
