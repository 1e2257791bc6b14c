"""ESP tunnels of a testbed, one per link between source and DUT, and their protection. Pure.

Keys are new for each application and are passed through standard input, so no record, journal or process list contains a key.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from dutlab.dut.mode import network_pairs
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.tunnels import inner_source
from dutlab.systems.modes import IKEV2, IKEV2_HOST, IPSEC_REQUIRE, XFRM, Between, DeclaredMode

_FIRST_SPI = 0x1000
"""First SPI in use; 0 to 255 are reserved (RFC 4303 section 2.1)."""
_SECRET_BYTES = 32
_GCM, _CBC, _NULL, _3DES_MD5, _CBC_SHA1, _CBC_SHA512, _GCM_256, _CHACHA20 = XFRM


@dataclass(frozen=True)
class Suite:
    """Protection of a tunnel, in the words of every end that supports it; `{0}`, `{1}` are keys with the lengths in `key_bytes`."""

    mode: DeclaredMode
    key_bytes: tuple[int, ...]
    xfrm: str
    """Arguments of ip-xfrm(8)."""
    setkey: str = ""
    """Arguments of setkey(8) of FreeBSD."""
    vpp: str = ""
    """Arguments of `ipsec sa add` (ipsec_format.c of VPP)."""
    ike: tuple[str, str] = ("", "")
    """Encryption and hash, in the words of VyOS and swanctl.conf(5); an empty hash where the cipher needs none."""
    agreed: str = ""
    """Negotiated cipher, in the words of `swanctl --list-sas`."""

    @property
    def between(self) -> Between:
        """Ends of the mode's tunnel: networks or hosts."""
        return self.mode.tunnel.between if self.mode.tunnel else "networks"


# RFC 4106: 16 bytes of key and 4 of salt, an ICV of 16 bytes.
AES_GCM = Suite(
    _GCM,
    (16, 4),
    setkey="-E aes-gcm-16 0x{0}{1}",
    xfrm="aead rfc4106(gcm(aes)) 0x{0}{1} 128",
    vpp="crypto-alg aes-gcm-128 crypto-key {0} salt 0x{1}",
    ike=("aes128gcm128", "sha256"),
    agreed="AES_GCM_16-128",
)
# setkey knows only rijndael-cbc before FreeBSD 13, and both names since (token.l). RFC 3602 and RFC 4868: an ICV of 16 bytes.
AES_CBC_SHA256 = Suite(
    _CBC,
    (16, 32),
    setkey="-E rijndael-cbc 0x{0} -A hmac-sha2-256 0x{1}",
    xfrm="enc cbc(aes) 0x{0} auth-trunc hmac(sha256) 0x{1} 128",
    vpp="crypto-alg aes-cbc-128 crypto-key {0} integ-alg sha-256-128 integ-key {1}",
    ike=("aes128", "sha256"),
    agreed="AES_CBC-128/HMAC_SHA2_256_128",
)
SUITES = (AES_GCM, AES_CBC_SHA256)
"""Suites that every family supports."""
# RFC 2410, RFC 2451 and 2403, RFC 3602 and 2404, RFC 4868, RFC 4106, RFC 7634: also for the lengths of keys and ICVs.
XFRM_SUITES = (
    *SUITES,
    Suite(
        _NULL, (32,), 'enc ecb(cipher_null) "" auth-trunc hmac(sha256) 0x{0} 128',
        ike=("null", "sha256"), agreed="NULL/HMAC_SHA2_256_128",
    ),
    Suite(
        _3DES_MD5, (24, 16), "enc cbc(des3_ede) 0x{0} auth-trunc hmac(md5) 0x{1} 96",
        ike=("3des", "md5"), agreed="3DES_CBC/HMAC_MD5_96",
    ),
    Suite(
        _CBC_SHA1, (16, 20), "enc cbc(aes) 0x{0} auth-trunc hmac(sha1) 0x{1} 96",
        ike=("aes128", "sha1"), agreed="AES_CBC-128/HMAC_SHA1_96",
    ),
    Suite(
        _CBC_SHA512, (16, 64), "enc cbc(aes) 0x{0} auth-trunc hmac(sha512) 0x{1} 256",
        ike=("aes128", "sha512"), agreed="AES_CBC-128/HMAC_SHA2_512_256",
    ),
    Suite(
        _GCM_256, (32, 4), "aead rfc4106(gcm(aes)) 0x{0}{1} 128",
        ike=("aes256gcm128", ""), agreed="AES_GCM_16-256",
    ),
    Suite(
        _CHACHA20, (32, 4), "aead rfc7539esp(chacha20,poly1305) 0x{0}{1} 128",
        ike=("chacha20poly1305", ""), agreed="CHACHA20_POLY1305",
    ),
)  # fmt: skip
"""Suites of ip-xfrm(8); a kernel may lack a cipher."""
IKE_SUITES = tuple(replace(suite, mode=mode) for suite, mode in zip(XFRM_SUITES, IKEV2, strict=True))
"""Suites whose keys are negotiated by IKEv2."""
IKE_BETWEEN_HOSTS = replace(AES_GCM, mode=IKEV2_HOST)
REQUIRED = replace(AES_GCM, mode=IPSEC_REQUIRE)
"""Suite of a DUT that accepts only protected packets from the source."""


def spi_in(place: int, number: int, count: int) -> int:
    """Return the SPI of packets from the source in one of `count` tunnels of a link; the other direction uses the next SPI."""
    return _FIRST_SPI + 2 * (place * count + number)


@dataclass(frozen=True)
class LinkTunnel:
    """Tunnel of a link: one security association per direction, and the networks whose packets go through it."""

    name: str
    """Name of the link."""
    link: Link
    spi_in: int
    """SPI of packets from the source to the DUT."""
    spi_out: int
    keys_in: tuple[str, ...]
    keys_out: tuple[str, ...]
    secret: str
    """Shared secret for ends that negotiate keys (IKE)."""
    near: str
    """Network of the source, or its address."""
    far: tuple[str, ...]
    """Networks behind the DUT, or its address."""

    @classmethod
    def all_of(cls, testbed: Testbed, suite: Suite, count: int = 1) -> list[Self]:
        """Return `count` tunnels for each link, each with separate keys."""
        tunnels = []
        for place, (name, link) in enumerate(testbed.links.items()):
            if suite.between == "networks":
                near = str(link.source_address.network)
                far = tuple(str(outer.sink_address.network) for inner, outer in network_pairs(testbed) if inner is link)
            else:
                near, far = str(link.source_address.ip), (str(link.dut_in_address.ip),)
            for number in range(count):
                spi, inside = spi_in(place, number, count), f"{inner_source(link, place, number)}/32" if number else near
                keys = [tuple(secrets.token_hex(n) for n in suite.key_bytes) for _ in range(2)]
                tunnels.append(cls(name, link, spi, spi + 1, keys[0], keys[1], secrets.token_hex(_SECRET_BYTES), inside, far))
        return tunnels

    @property
    def ends(self) -> tuple[str, str]:
        """Addresses of source and DUT."""
        return str(self.link.source_address.ip), str(self.link.dut_in_address.ip)

    @property
    def associations(self) -> tuple[tuple[str, str, int, tuple[str, ...]], tuple[str, str, int, tuple[str, ...]]]:
        """Start, end, SPI and keys of the association from the source, and of the one to it."""
        source, dut = self.ends
        return (source, dut, self.spi_in, self.keys_in), (dut, source, self.spi_out, self.keys_out)


def lines(*parts: Sequence[str]) -> str:
    """Return text with a newline after each line."""
    return "".join(f"{line}\n" for part in parts for line in part)


def hidden(text: str, tunnels: Sequence[LinkTunnel]) -> str:
    """Return `text` without the keys, which a program may repeat from its input."""
    for t in tunnels:
        for key in (t.secret, *t.keys_in, *t.keys_out):
            text = text.replace(key, "KEY")
    return text
