"""Scalar fields of input files: names, quantities with units, addresses, ports; and the faults of wrong texts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, ValidationInfo

from dutlab.errors import FaultKind
from dutlab.spec.model import NAME_KEY, ValueFault, from_file
from dutlab.units import Bps, BpsL1, Pps, Seconds, UnitError, parse_bit_rate, parse_duration, parse_pps, parse_share

_NAME = r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?"
_INTERFACE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}"
_VPP_INTERFACE = r"(?=.{1,63}$)[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*"
_ADAPTER = r"(?=.{1,63}$)[^\W_](?:[\w .#()+-]*[\w)])?"
_SSH = (
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>\d{1,5}))?"
)
_IPV4 = 4
_LAST_TCP_PORT = 65535
_UNUSABLE = ("is_multicast", "is_unspecified", "is_loopback", "is_link_local")


def name_fault(text: str) -> str:
    """Return the fault of a name, or ""."""
    if re.fullmatch(_NAME, text):
        return ""
    return f"{text!r} is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names"


def _name(text: str) -> str:
    if what := name_fault(text):
        raise ValueError(what)
    return text


Name = Annotated[str, AfterValidator(_name)]
"""Name that is safe in file names and on command lines."""


def _yes(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value


YesNo = Annotated[bool, BeforeValidator(_yes, json_schema_input_type=bool | Literal["yes", "no"]), Strict()]
"""Truth value. `yes` and `no`, which are texts in YAML 1.2, mean true and false here."""


def _quantity(parse: Callable[[str], float], example: str) -> BeforeValidator:
    def read(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueFault(f"must be a quantity, as in {example}", FaultKind.TYPE)
        if from_file(info):
            raise UnitError(f"{value} has no unit; write it as in {example}")
        return float(value)

    return BeforeValidator(read, json_schema_input_type=Annotated[str, Field(examples=[example])])


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueFault("must be more than 0", FaultKind.RANGE)
    return value


def text_of(value: float, unit: str) -> str:
    """Return `value` with all its digits and its unit, in a form that parses back to the same number."""
    return f"{format(Decimal(repr(float(value))), 'f').removesuffix('.0')}{unit}"


Duration = Annotated[Seconds, _quantity(parse_duration, "30s"), PlainSerializer(lambda v: text_of(v, "s"), return_type=str)]
"""Seconds, 0 allowed; written `30s`, `500ms`."""
BitRate = Annotated[
    BpsL1,
    _quantity(parse_bit_rate, "10G"),
    AfterValidator(_positive),
    PlainSerializer(lambda v: text_of(v, "bit/s"), return_type=str),
]
"""Bits per second on the wire; written `10G`."""
PayloadRate = Annotated[
    Bps,
    _quantity(parse_bit_rate, "100Mbit/s"),
    AfterValidator(_positive),
    PlainSerializer(lambda v: text_of(v, "bit/s"), return_type=str),
]
"""Bits of payload per second; written `100Mbit/s`."""
FrameRate = Annotated[
    Pps,
    _quantity(parse_pps, "100kpps"),
    AfterValidator(_positive),
    PlainSerializer(lambda v: text_of(v, "pps"), return_type=str),
]
"""Frames per second; written `100kpps`."""
Share = Annotated[float, _quantity(parse_share, "0.5%"), PlainSerializer(lambda v: text_of(round(v * 100, 12), "%"), return_type=str)]
"""Share of a whole, as 0.005; written `0.5%`."""


def _address(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if not isinstance(value, str):
        if isinstance(value, ipaddress.IPv4Interface | ipaddress.IPv6Interface):
            return value
        raise ValueFault("must be an address with its prefix length, as in 172.16.0.2/24", FaultKind.TYPE)
    try:
        address = ipaddress.ip_interface(value.strip())
    except ValueError as error:
        raise ValueError(f"{value!r} is not an address; write it with its prefix length, as in 172.16.0.2/24") from error
    if "/" not in value:
        raise ValueError(f"{value} has no prefix length; write it as in {value}/24")
    if unusable := [u for u in _UNUSABLE if getattr(address.ip, u)]:
        raise ValueError(f"{value} is {unusable[0].removeprefix('is_').replace('_', '-')}; a port needs an ordinary address")
    short = address.network.prefixlen < address.max_prefixlen - 1  # RFC 3021 and RFC 6164: both ends of a /31, /127 are hosts
    if short and address.ip == address.network.network_address:
        raise ValueError(f"{value} is the network itself; a host needs an address inside it")
    if short and address.version == _IPV4 and address.ip == address.network.broadcast_address:
        raise ValueError(f"{value} is the broadcast address of its network")
    return address


Address = Annotated[
    ipaddress.IPv4Interface | ipaddress.IPv6Interface,
    BeforeValidator(_address, json_schema_input_type=str),
    PlainSerializer(str, return_type=str),
]
"""Address of a port with its prefix length."""


def _network(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueFault("must be a network with its prefix length, as in 198.18.0.0/15", FaultKind.TYPE)
    try:
        network = ipaddress.ip_network(value.strip())
    except ValueError as error:
        raise ValueError(f"{error}; write a network with its prefix length, as in 198.18.0.0/15") from error
    if network.prefixlen == 0 or network.is_multicast or network.is_loopback or network.is_link_local:
        raise ValueError(f"{value} is not a network that packets are routed to")
    return network


Network = Annotated[
    ipaddress.IPv4Network | ipaddress.IPv6Network,
    BeforeValidator(_network, json_schema_input_type=str),
    PlainSerializer(str, return_type=str),
]
"""Network of unicast addresses, written `198.18.0.0/15`."""


def interface_fault(text: str) -> str:
    """Return the fault of an interface name, or "" (Linux: net/core/dev.c, dev_valid_name; 15 bytes)."""
    if re.fullmatch(_INTERFACE, text):
        return ""
    return f"{text!r} is not an interface name; 1 to 15 of letters, digits, '.', '_' and '-', not beginning with '-' or '.'"


def vpp_interface_fault(text: str) -> str:
    """Return the fault of a VPP interface name, or "": `TenGigabitEthernet3/0/0`, 63 bytes (vnet/interface_types.api)."""
    return "" if re.fullmatch(_VPP_INTERFACE, text) else interface_fault(text)


def adapter_fault(text: str) -> str:
    """Return the fault of a Windows adapter's name, or "": `Ethernet 2`, `vEthernet (Default Switch)`.

    Windows accepts more (NetConnectionID); characters with a special meaning in PowerShell or a shell are refused here.
    """
    if re.fullmatch(_ADAPTER, text):
        return ""
    return f"{text!r} is not the name of an adapter; 1 to 63 of letters, digits, spaces and . _ - + # ( ), beginning with a letter or digit"


def ssh_fault(text: str) -> str:
    """Return the fault of an ssh target, or "". A target that begins with - would be an option of ssh."""
    m = re.fullmatch(_SSH, text)
    if m is None or (m["port"] and not 0 < int(m["port"]) <= _LAST_TCP_PORT):
        return f"{text!r} is not an ssh target; write [user@]host[:port], as in root@192.0.2.11"
    return ""


def named(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Add to each entry of a mapping its own key, as its `name`."""
    if not isinstance(value, Mapping):
        return value
    return {k: {**v, NAME_KEY: k} if isinstance(v, Mapping) else v for k, v in value.items()}
