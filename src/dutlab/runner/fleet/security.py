"""Who may speak to a scheduler and to its workers: whoever has a certificate of the fleet's own authority."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.errors import InputError
from dutlab.extras import how_to_add
from dutlab.spec.fleet import scheduler_address

if TYPE_CHECKING:
    from distributed.security import Security

TLS = "DUTLAB_FLEET_TLS"
"""The folder with ca.pem, cert.pem and key.pem."""
_AUTHORITY, _CERTIFICATE, _KEY = "ca.pem", "cert.pem", "key.pem"


def insist_on_dask() -> None:
    """Raises InputError where the extra is missing. Dask tells its troubles alone from then on."""
    try:
        import distributed  # noqa: F401, PLC0415 -- an extra
    except ImportError:
        raise InputError("a fleet needs Dask's scheduler, and it is missing", remedy=how_to_add("fleet")) from None
    logging.getLogger("distributed").setLevel(logging.WARNING)


def security_for(address: str) -> Security | None:
    """None on loopback without TLS. Raises InputError for anything else without it, and for a key that others can read."""
    try:
        scheduler_address(address)
    except ValueError as error:
        raise InputError(f"{address}: {error}", remedy=f"write tls://, and name the folder of certificates in {TLS}") from None
    if address.startswith("tcp://"):
        return None
    from distributed.security import Security  # noqa: PLC0415 -- an extra, and slow to load

    named = os.environ.get(TLS, "")
    folder = Path(named)
    if not named or (missing := [name for name in (_AUTHORITY, _CERTIFICATE, _KEY) if not (folder / name).is_file()]):
        what = f"{TLS} is not set" if not named else f"{folder}: without {', '.join(missing)}"
        raise InputError(
            f"{address}: {what}", remedy=f"make certificates as docs/how-to/many-machines.md says, and name their folder in {TLS}"
        )
    if (folder / _KEY).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{folder / _KEY}: others can read it", remedy=f"chmod 600 {folder / _KEY}")
    authority, certificate, key = (str(folder / name) for name in (_AUTHORITY, _CERTIFICATE, _KEY))
    return Security(
        tls_ca_file=authority, require_encryption=True,
        tls_scheduler_cert=certificate, tls_scheduler_key=key, tls_worker_cert=certificate, tls_worker_key=key,
        tls_client_cert=certificate, tls_client_key=key,
    )  # fmt: skip
