"""Machines that carry out a campaign's runs: this machine, or workers at each testbed under one Dask scheduler.

fleet: local                              # the default
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
    """Return whether `host` is a loopback address, which only this machine can reach."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def scheduler_address(text: str) -> str:
    """Return the address if it is safe: `tcp://` on loopback, with the user's own key, or `tls://` with certificates.

    Anyone who can connect to a scheduler can make its workers run any program. Raises ValueError.
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
    """Value of the key `fleet` of a campaign."""

    scheduler: Annotated[str, AfterValidator(_scheduler)] = LOCAL
    lease: Annotated[Duration, AfterValidator(_long_enough)] = Seconds(60.0)
    """Time for which a silent worker keeps its testbed."""

    store: Annotated[str, AfterValidator(_store)] | None = None
    """Store of finished runs, as an fsspec address; None keeps them only in the campaign's folder."""

    @property
    def is_local(self) -> bool:
        """True if it does not use Dask."""
        return self.scheduler == LOCAL

    @property
    def is_of_many(self) -> bool:
        """True if it can have several machines."""
        return self.scheduler.startswith("tls://")


def as_fleet(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Accept the address of a scheduler in place of a fleet."""
    return {"scheduler": value} if isinstance(value, str) else value
