"""Manually keyed ESP tunnels between the source and the DUT, one a link, as text for setkey(8) on FreeBSD and ip-xfrm(8) on Linux.

Keys are made anew for each application and travel through standard input, so no record, journal or list of processes holds one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from dutlab.dut.pairs import network_pairs
from dutlab.spec.testbed import Link, Testbed

_FIRST_SPI = 0x1000
"""0 to 255 are reserved (RFC 4303 section 2.1)."""


@dataclass(frozen=True)
class Suite:
    """What protects a tunnel, in the words of both ends. `{0}` and `{1}` stand for keys of as many bytes as `key_bytes` says."""

    key_bytes: tuple[int, ...]
    setkey: str
    xfrm: str


# RFC 4106: 16 bytes of key and 4 of salt, an ICV of 16 bytes.
AES_GCM = Suite((20,), "-E aes-gcm-16 0x{0}", "aead rfc4106(gcm(aes)) 0x{0} 128")
# RFC 3602 and RFC 4868: an ICV of 16 bytes.
AES_CBC_SHA256 = Suite((16, 32), "-E aes-cbc 0x{0} -A hmac-sha2-256 0x{1}", "enc cbc(aes) 0x{0} auth-trunc hmac(sha256) 0x{1} 128")


@dataclass(frozen=True)
class Tunnel:
    """One link's: a security association each way, and the networks that go through it."""

    link: Link
    spi_in: int
    """Of packets from the source to the DUT."""
    spi_out: int
    keys_in: tuple[str, ...]
    keys_out: tuple[str, ...]
    far: tuple[str, ...]
    """The networks behind the DUT."""

    @classmethod
    def all_of(cls, testbed: Testbed, suite: Suite) -> list[Self]:
        """With keys of their own."""
        made = []
        for number, link in enumerate(testbed.links.values()):
            far = tuple(str(outer.dut_out_address.network) for inner, outer in network_pairs(testbed) if inner is link)
            spi = _FIRST_SPI + 2 * number
            keys = [tuple(secrets.token_hex(n) for n in suite.key_bytes) for _ in range(2)]
            made.append(cls(link, spi, spi + 1, keys[0], keys[1], far))
        return made

    @property
    def ends(self) -> tuple[str, str]:
        """Address of the source, address of the DUT."""
        return str(self.link.source_address.ip), str(self.link.dut_in_address.ip)

    @property
    def near(self) -> str:
        """The network of the source."""
        return str(self.link.dut_in_address.network)


def for_setkey(tunnels: list[Tunnel], suite: Suite) -> str:
    """The DUT's half, for `setkey -c`; whatever was there before is gone."""
    return "\n".join(["flush ;", "spdflush ;", *(line for t in tunnels for line in _setkey_lines(t, suite)), ""])


def for_xfrm(tunnels: list[Tunnel], suite: Suite) -> str:
    """The source's half, for `ip -batch -`; whatever was there before is gone."""
    return "\n".join(["xfrm state flush", "xfrm policy flush", *(line for t in tunnels for line in _xfrm_lines(t, suite)), ""])


def _setkey_lines(t: Tunnel, suite: Suite) -> Iterator[str]:
    source, dut = t.ends
    yield f"add {source} {dut} esp {t.spi_in:#x} -m tunnel {suite.setkey.format(*t.keys_in)} ;"
    yield f"add {dut} {source} esp {t.spi_out:#x} -m tunnel {suite.setkey.format(*t.keys_out)} ;"
    for far in t.far:
        yield f"spdadd {t.near} {far} any -P in ipsec esp/tunnel/{source}-{dut}/require ;"
        yield f"spdadd {far} {t.near} any -P out ipsec esp/tunnel/{dut}-{source}/require ;"


def _xfrm_lines(t: Tunnel, suite: Suite) -> Iterator[str]:
    source, dut = t.ends
    for start, end, spi, keys in ((source, dut, t.spi_in, t.keys_in), (dut, source, t.spi_out, t.keys_out)):
        yield f"xfrm state add src {start} dst {end} proto esp spi {spi:#x} reqid {t.spi_in} mode tunnel {suite.xfrm.format(*keys)}"
    for far in t.far:
        for near_end, far_end, way, start, end in ((t.near, far, "out", source, dut), (far, t.near, "in", dut, source)):
            template = f"tmpl src {start} dst {end} proto esp reqid {t.spi_in} mode tunnel"
            yield f"xfrm policy add src {near_end} dst {far_end} dir {way} {template}"
