"""Keys of `connections` for proxies: the proxy's address, the use of TLS, and the sizes of requested objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from dutlab.errors import FaultKind
from dutlab.spec.fields import YesNo
from dutlab.spec.model import SpecModel, ValueFault

LONGEST_BODY = 64 << 20
MOST_OBJECTS = 64
MOST_WEIGHT = 10_000
_LAST_PORT = 65535
_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_SIZES = "must be the bytes of a body, or weights by bytes, as in {1024: 60, 102400: 40}"

_MIXED = tuple((round(kbyte * 1024), 1) for kbyte in (0.2, 6, 8, 9, 10, 25, 26, 35, 59, 347))
OBJECT_MIXES: Mapping[str, tuple[tuple[int, int], ...]] = {"rfc9411": _MIXED}
"""Name → mix of object sizes: the mixed objects of RFC 9411 section 7.3.3.2."""


def _ports(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    m = _PORTS.fullmatch(text)
    first, last = (int(m[1]), int(m[2] or m[1])) if m else (0, 0)
    if not 0 < first <= last <= _LAST_PORT:
        raise ValueFault("must be a port or several in a row, as in 8080 or 8080-8095", FaultKind.RANGE)
    return text


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():  # keys in a JSON file are text
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueFault(_SIZES, FaultKind.TYPE)
    return value


def _objects(value: Any) -> tuple[tuple[int, int], ...]:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, str) and value in OBJECT_MIXES:
        return OBJECT_MIXES[value]
    parts = value.items() if isinstance(value, Mapping) else [(value, 1)]
    pairs = tuple(sorted((_whole(size), _whole(weight)) for size, weight in parts))
    if not 1 <= len(pairs) <= MOST_OBJECTS or len({size for size, _ in pairs}) < len(pairs):
        raise ValueFault(f"must be 1 to {MOST_OBJECTS} sizes, each once", FaultKind.RANGE)
    if not all(0 <= size <= LONGEST_BODY and 1 <= weight <= MOST_WEIGHT for size, weight in pairs):
        raise ValueFault(f"bodies have at most {LONGEST_BODY} bytes, weights are 1 to {MOST_WEIGHT}", FaultKind.RANGE)
    return pairs


def _as_written(pairs: Sequence[tuple[int, int]]) -> int | dict[str, int]:
    return pairs[0][0] if len(pairs) == 1 else {str(size): weight for size, weight in pairs}


ObjectSizes = Annotated[
    tuple[tuple[int, int], ...],
    BeforeValidator(_objects, json_schema_input_type=int | dict[str, int] | Literal["rfc9411"]),
    PlainSerializer(_as_written, return_type=int | dict[str, int]),
]
"""Pairs (bytes of a body, weight), by ascending size; a single pair is the size of all bodies."""


def objects_text(pairs: Sequence[tuple[int, int]]) -> int | str:
    """Return a single size as a number, several as `1024:60,102400:40`."""
    return pairs[0][0] if len(pairs) == 1 else ",".join(f"{size}:{weight}" for size, weight in pairs)


class ProxyAddress(SpecModel):
    """Address of a proxy or load balancer that forwards connections to the sink."""

    ports: Annotated[str, BeforeValidator(_ports, json_schema_input_type=int | str)]
    address: IPv4Address | IPv6Address | None = None
    """Address on which it listens; None is the address of the DUT's port towards the source."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")] | None = None
    """Host name in requests and server name in TLS (RFC 6066 section 3); None is the address, which TLS does not send."""


def _version(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


HttpVersion = Literal["1.1", "2"]
Http = Annotated[HttpVersion, BeforeValidator(_version, json_schema_input_type=float | HttpVersion)]
TlsVersion = Literal["any", "1.2", "1.3"]
TlsEnds = Literal["both", "client", "server"]


class TlsUse(SpecModel):
    """Use of TLS on the connections."""

    version: Annotated[TlsVersion, BeforeValidator(_version, json_schema_input_type=float | TlsVersion)] = "any"
    """TLS version; `any` is the newest that both ends of a connection support."""
    resume: YesNo = False
    """True to resume sessions; otherwise each handshake is a full one."""
    ends: TlsEnds = "both"
    """Ends of dutlab that use TLS: a proxy may terminate or begin it."""
