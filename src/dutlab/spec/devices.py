"""Devices on the network that dutlab queries: their addresses, users, and the environment variables with their secrets.

Sensors read such devices (spec/sensors.py), and power switches of hosts use them (spec/power.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.printable import without_login
from dutlab.spec.model import SpecModel, fault

__all__ = [
    "LOGIN_FAULT",
    "Address",
    "At",
    "HttpDevice",
    "IpmiDevice",
    "Oid",
    "PlugModel",
    "SnmpDevice",
    "User",
    "Variable",
    "address_of",
    "login_faults",
    "login_of",
    "secrets_of",
]

User = Annotated[str, Field(min_length=1, max_length=100)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
"""Name of an environment variable."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:]*::[0-9A-Fa-f:.]*")
LOGIN_FAULT = fault(("user",), "user: and password-from: belong together", FaultKind.CONFLICT)


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @property
    def pair(self) -> tuple[str, int]:
        """Host and port in the form that sockets take."""
        return self.host, self.port


def address_of(port: int) -> Callable[[object], object]:
    """Return the reader of a device's address; the device listens on `port` unless another is given."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            parts = urlsplit(f"//{value}")
            address = Address(parts.hostname or "", parts.port or port)
        except ValueError as error:
            raise ValueError(_not_an_address(value, error)) from error
        if not _HOST.fullmatch(address.host) or parts.username is not None or parts.path:
            raise ValueError(f"{without_login(value)!r} is not an address, as 192.0.2.40, [2001:db8::40]:1161 or pdu.example")
        return address

    return read


def _written_address(address: Address) -> str:
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


At = Annotated[Address, PlainSerializer(_written_address)]


def _not_an_address(text: str, error: ValueError) -> str:
    """Return a message about a wrong address. For one with a login, omit the error, which may quote a part of the password."""
    shown = without_login(text)
    return f"{shown!r} is not an address: {error}" if shown == text else f"{shown!r} is not an address"


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(_not_an_address(text, error)) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{without_login(text)!r} is not an address of http or https, as http://192.0.2.40")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with a password would be kept in every run; write user: and password-from: VARIABLE")
    if parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{without_login(text)!r} has a character that an address cannot have; write it as %20 writes a space")
    return text


class HttpDevice(SpecModel):
    """Device on the network that is queried by HTTP."""

    url: Annotated[str, Field(max_length=2000), AfterValidator(_url)]
    user: User | None = None
    password_from: Variable | None = Field(default=None, alias="password-from")
    """Environment variable with the password."""
    certificate: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the device's own certificate, in hexadecimal digits; without it this machine must trust the certificate."""

    @property
    def login(self) -> Literal["basic", "digest", "form"]:
        """Method of its login; `digest` is answered when the device requests it (RFC 7616)."""
        return "basic"

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that a user has a password, and that a certificate is given only for https."""
        if (self.user is None) != (self.password_from is None):
            yield LOGIN_FAULT
        if self.certificate and not self.url.startswith("https:"):
            yield fault(("certificate",), "is for https; the address is http", FaultKind.CONFLICT)


PlugModel = Literal["shelly", "shelly-gen1", "tasmota", "mfi"]
"""Models of outlets that are read and switched by HTTP."""


def login_of(model: str | None) -> Literal["basic", "digest", "form"]:
    """Return the login method of a model of outlet.

    A Shelly of the second generation requests a digest; a Tasmota takes the login in the address, an mFi mPower in a form.
    """
    return "form" if model == "mfi" else "digest" if model in ("shelly", "tasmota") else "basic"


def login_faults(model: str | None, user: str | None) -> Iterator[InitErrorDetails]:
    """Yield a fault if the model needs a login and none is given."""
    if model == "mfi" and user is None:
        yield fault(("user",), "an mFi mPower needs a login; write user: and password-from:", FaultKind.CONFLICT)


class IpmiDevice(SpecModel):
    """Management controller that is queried by IPMI 2.0 over the network."""

    address: Annotated[At, BeforeValidator(address_of(623), json_schema_input_type=str)]
    user: User
    password_from: Variable = Field(alias="password-from")


Oid = Annotated[str, Field(max_length=200, pattern=r"^\.?[0-2](\.\d{1,10}){2,}$")]
"""Object identifier in numbers."""


class SnmpDevice(SpecModel):
    """An object of an SNMP agent, with the agent's address and credentials."""

    address: Annotated[At, BeforeValidator(address_of(161), json_schema_input_type=str)]
    oid: Oid
    version: Literal["1", "2c", "3"] = "2c"
    community_from: Variable | None = Field(default=None, alias="community-from")
    """Environment variable with the community; without it the community is `public`."""
    user: User | None = None
    """User of version 3."""
    password_from: Variable | None = Field(default=None, alias="password-from")
    """Environment variable with the user's password (HMAC-SHA-96)."""
    privacy_from: Variable | None = Field(default=None, alias="privacy-from")
    """Environment variable with the privacy password (AES-128); without it nothing is encrypted."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that version 3 has a user with a password, and that the others have a community."""
        if (self.version == "3") != (self.user is not None):
            yield fault(("version",), "version 3 needs user: and password-from:; the others have a community", FaultKind.CONFLICT)
            return
        if (self.user is None) != (self.password_from is None):
            yield LOGIN_FAULT
        if self.privacy_from and self.user is None:
            yield fault(("privacy-from",), "is for version 3", FaultKind.CONFLICT)


def secrets_of(device: object) -> tuple[str, ...]:
    """Return the names of the environment variables that a device on the network needs."""
    names = (getattr(device, name, None) for name in ("password_from", "privacy_from", "community_from"))
    return tuple(name for name in names if name)
