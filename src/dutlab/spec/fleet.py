"""Machines that carry out a campaign's runs: this one, or workers at each testbed, which one Dask scheduler knows.

fleet: local                              # what it is when the key is left out
fleet: tls://controller.example:8786
fleet: {scheduler: tcp://127.0.0.1:8786, lease: 20s}
fleet: {store: s3://measurements/runs}
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration
from dutlab.spec.model import SpecModel, ValueFault
from dutlab.units import Seconds

LOCAL = "local"
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")
_SHORTEST_S = Seconds(5.0)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def scheduler_address(text: str) -> str:
    """`tcp://` on loopback, where the user's own key is used, or `tls://` with certificates. Raises ValueError.

    Whoever may speak to a scheduler has its workers run anything.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65535:  # noqa: PLR2004 - a port has 16 bits
        raise ValueFault("must be `local` or a scheduler, as in tls://controller.example:8786", FaultKind.TYPE)
    if match[1] == "tcp" and not is_loopback(match[2]):
        raise ValueError("only tls:// may leave this machine: without it, any user who reaches a scheduler can run anything on its workers")
    return text


def _scheduler(text: str) -> str:
    return text if text == LOCAL else scheduler_address(text)


def _long_enough(value: Seconds) -> Seconds:
    if value < _SHORTEST_S:
        raise ValueFault(f"must be at least {_SHORTEST_S:g}s", FaultKind.RANGE)
    return value


def _store(text: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme or not (parts.netloc or parts.path):
        raise ValueFault("must be an address, as in s3://measurements/runs", FaultKind.TYPE)
    if parts.username or parts.password:
        raise ValueError("must hold no password: the worker's environment has it")
    return text.rstrip("/")


class Fleet(SpecModel):
    """The key `fleet` of a campaign."""

    scheduler: Annotated[str, AfterValidator(_scheduler)] = LOCAL
    lease: Annotated[Duration, AfterValidator(_long_enough)] = Seconds(60.0)
    """Time for which a testbed stays with a worker that is silent."""

    store: Annotated[str, AfterValidator(_store)] | None = None
    """Store of finished runs, as fsspec names it; None leaves them in the campaign's folder alone."""

    @property
    def is_local(self) -> bool:
        """Without Dask."""
        return self.scheduler == LOCAL

    @property
    def is_of_many(self) -> bool:
        """True if it has several machines."""
        return self.scheduler.startswith("tls://")


def as_fleet(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Accept the address of a scheduler in place of a fleet."""
    return {"scheduler": value} if isinstance(value, str) else value
