"""Ceiling inside a tunnel: the largest packet that fits, and the goodput of TCP through it.

`outer` is the IP version between the tunnel's ends, and MTU that of the underlay. Goodput is of TCP over IPv4 inside the tunnel, by default
with timestamps, as in `ethernet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dutlab.physics.ceilings.ceiling import Ceiling, insist, number, positive
from dutlab.physics.ceilings.ethernet import (
    AROUND_PACKET_BYTES,
    ETH_HEADER_BYTES,
    TCP_HEADER_BYTES,
    TCP_TIMESTAMP_BYTES,
    UDP_HEADER_BYTES,
    Ip,
)
from dutlab.units import Bps, BpsL1

_INNER_HEADERS = Ip.V4.value + TCP_HEADER_BYTES
_MOST_HEADERS = _INNER_HEADERS + TCP_TIMESTAMP_BYTES
_USUAL_MTU = 1500


class TunnelWrapping(Protocol):
    """Layout of a tunnel's packets."""

    @property
    def name(self) -> str:
        """Name of the tunnel in files and commands."""

    @property
    def source(self) -> str:
        """Source of its layout."""

    def outer_bytes(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> int:
        """Return the IP length of the outer packet, for an inner packet of `inner` bytes on an underlay of MTU `mtu`."""

    def formula(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> str:
        """Return the formula with all its terms."""


@dataclass(frozen=True)
class Esp:
    """ESP in tunnel mode (RFC 4303 section 2)."""

    name: str
    iv: int
    icv: int
    block: int
    """Payload, padding and trailer together are a multiple of this, in bytes."""
    source: str
    nat_t: bool = False
    """True if ESP is inside UDP (RFC 3948)."""

    def outer_bytes(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> int:
        return sum(self._terms(inner, outer))

    def formula(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> str:
        terms = " + ".join(map(str, self._terms(inner, outer)))
        return f"{terms} (IP{', UDP' if self.nat_t else ''}, SPI and sequence, IV, packet, padding, trailer, ICV)"

    def _terms(self, inner: int, outer: Ip) -> tuple[int, ...]:
        padding = -(inner + 2) % self.block
        return (outer.value, *((UDP_HEADER_BYTES,) if self.nat_t else ()), 8, self.iv, inner, padding, 2, self.icv)


@dataclass(frozen=True)
class WireGuard:
    """Outer IP, UDP, type 4, index 4, counter 8, the packet, padding, tag 16.

    Packets are padded to 16 bytes, but never above the tunnel's MTU. wg-quick(8) sets that to the underlay's less 80. Longer packets need
    an MTU set by hand, which is assumed to be the largest that fits.
    """

    name: str = "wireguard"
    source: str = "J. Donenfeld on the WireGuard list, 2017-12-11; padded to 16 bytes, not above the tunnel's MTU (wg-quick: underlay - 80)"

    def outer_bytes(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> int:
        return self._around(outer) + inner + self._padding(inner, outer, mtu)

    def formula(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> str:
        padding = self._padding(inner, outer, mtu)
        return f"{outer.value} + 8 + 4 + 4 + 8 + {inner} + {padding} + 16 (IP, UDP, type, index, counter, packet, padding, tag)"

    def _around(self, outer: Ip) -> int:
        return outer.value + UDP_HEADER_BYTES + 4 + 4 + 8 + 16

    def _padding(self, inner: int, outer: Ip, mtu: int) -> int:
        usual, most = mtu - self._around(Ip.V6), mtu - self._around(outer)
        return max(min(-inner % 16, (usual if inner <= usual else most) - inner), 0)


@dataclass(frozen=True)
class Vxlan:
    """An Ethernet frame without FCS inside UDP (RFC 7348 section 5)."""

    name: str = "vxlan"
    source: str = "RFC 7348 section 5: outer IP, UDP 8, VXLAN 8, inner Ethernet header 14; the outer Ethernet header is not part of the MTU"

    def outer_bytes(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> int:
        return outer.value + UDP_HEADER_BYTES + 8 + ETH_HEADER_BYTES + inner

    def formula(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> str:
        return f"{outer.value} + 8 + 8 + 14 + {inner} (IP, UDP, VXLAN, Ethernet, packet)"


@dataclass(frozen=True)
class Plain:
    """A packet behind a header of fixed length."""

    name: str
    header: int
    """Bytes between the outer IP header and the packet."""
    source: str

    def outer_bytes(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> int:
        return outer.value + self.header + inner

    def formula(self, inner: int, outer: Ip, mtu: int = _USUAL_MTU) -> str:
        return f"{outer.value} + {self.header} + {inner} (IP, header, packet)"


_INSIDE = "RFC 6349 section 4.1.1, TCP over IPv4 inside; timestamps (RFC 7323) take 12 bytes"
_GCM = "RFC 4303 section 2, RFC 4106: IV 8, ICV 16, blocks of 4"
_CBC = "RFC 4303 section 2, RFC 3602: IV 16, blocks of 16; ICV"
_AES_GCM = Esp("esp-aes-gcm", 8, 16, 4, _GCM)
TUNNELS: tuple[TunnelWrapping, ...] = (
    _AES_GCM,
    Esp("esp-aes-gcm-iiv", 0, 16, 4, "as esp-aes-gcm, with the implicit IV of RFC 8750"),
    Esp("esp-chacha20-poly1305", 8, 16, 4, "RFC 4303 section 2, RFC 7634: IV 8, ICV 16, blocks of 4"),
    Esp("esp-null-sha256", 0, 16, 4, "RFC 4303 section 2, RFC 2410: no IV, blocks of 4; ICV 16: RFC 4868"),
    Esp("esp-3des-md5", 8, 12, 8, "RFC 4303 section 2, RFC 2451: IV 8, blocks of 8; ICV 12: RFC 2403"),
    Esp("esp-aes-cbc-sha1", 16, 12, 16, f"{_CBC} 12: RFC 2404"),
    Esp("esp-aes-cbc-sha256", 16, 16, 16, f"{_CBC} 16: RFC 4868"),
    Esp("esp-aes-cbc-sha512", 16, 32, 16, f"{_CBC} 32: RFC 4868"),
    WireGuard(),
    Vxlan(),
    Plain("gre", 4, "RFC 2784 section 2: outer IP, GRE 4 without checksum"),
    Plain("ipip", 0, "RFC 2003 section 3: outer IP and nothing else"),
    Plain("openvpn", 32, "OpenVPN 2.6 (ssl.h, crypto.h): UDP 8, opcode and peer 4, packet number 4, tag 16 of an AEAD cipher"),
)


def largest_inner(tunnel: TunnelWrapping, outer: Ip, mtu: int) -> int:
    """Return the bytes of the largest packet that passes unfragmented. Raises ValueError if no TCP packet does."""
    largest = next((n for n in range(mtu, 0, -1) if tunnel.outer_bytes(n, outer, mtu) <= mtu), 0)
    insist(["" if largest > _MOST_HEADERS else f"an MTU of {mtu} bytes is too small for TCP inside {tunnel.name} over {outer.words}"])
    return largest


def tunnel_ceilings(
    speed: BpsL1, tunnel: TunnelWrapping, *, outer: Ip = Ip.V4, mtu: int = _USUAL_MTU, inner: int | None = None, timestamps: bool = True
) -> tuple[Ceiling, ...]:
    """Return the largest inner packet, and for it (or for `inner`) bytes on the underlay, overhead and goodput. Raises ValueError."""
    insist([positive(speed, "the speed"), positive(mtu, "the MTU")])
    most = largest_inner(tunnel, outer, mtu)
    size = most if inner is None else inner
    insist([
        "" if size > _MOST_HEADERS else f"an inner packet of {size} bytes is too small for IPv4 and TCP",
        "" if size <= most else f"{size} bytes do not fit: {tunnel.name} over {outer.words} takes packets of {most} in an MTU of {mtu}",
    ])  # fmt: skip
    headers = _MOST_HEADERS if timestamps else _INNER_HEADERS
    what = "goodput of TCP inside" if timestamps else "goodput of TCP inside without timestamps"
    over = tunnel.outer_bytes(size, outer, mtu)
    about = f"{tunnel.name}{'+nat-t' if isinstance(tunnel, Esp) and tunnel.nat_t else ''} over {outer.words}, MTU {mtu}"
    terms = tunnel.formula(size, outer, mtu)
    goodput = Bps(speed * (size - headers) / (over + AROUND_PACKET_BYTES))
    on_wire = f"{number(speed)} × ({size} - {headers}) / ({over} + {AROUND_PACKET_BYTES})"
    return (
        Ceiling("inner_mtu_bytes", about, "largest packet inside", most, "B", f"most whose tunnel packet is at most {mtu}", tunnel.source),
        Ceiling("outer_bytes", about, f"tunnel packet around {size} bytes", over, "B", terms, tunnel.source),
        Ceiling("overhead_bytes", about, "added to each packet", over - size, "B", f"{over} - {size}", tunnel.source),
        Ceiling("goodput_bps", about, what, goodput, "bit/s", on_wire, _INSIDE),
    )  # fmt: skip


def tunnel_goodput(speed: BpsL1, name: str, *, mtu: int = _USUAL_MTU) -> Bps:
    """Return the highest goodput of TCP inside the tunnel of that name, over IPv4. Raises ValueError."""
    tunnel = next(t for t in TUNNELS if t.name == name)
    return Bps(next(c.value for c in tunnel_ceilings(speed, tunnel, mtu=mtu) if c.name == "goodput_bps"))
