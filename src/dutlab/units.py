"""Quantities with their unit in the type, and parsers of the texts in which users write them.

The types are `NewType`s of `float` and `int`: mypy keeps layers and dimensions apart, without a cost at run time.
Frame sizes include the FCS. Bit rates name their layer: L1 counts preamble and gap, L2 does not.
"""

from __future__ import annotations

import re
from typing import NewType

Seconds = NewType("Seconds", float)
Pps = NewType("Pps", float)
BpsL1 = NewType("BpsL1", float)
BpsL2 = NewType("BpsL2", float)
Bps = NewType("Bps", float)
"""Payload bits per second (goodput): no Ethernet layer."""
FrameBytes = NewType("FrameBytes", int)
"""Bytes of an Ethernet frame with FCS: 64 is the shortest legal frame."""

MOST_DIGITS = 15
"""Most digits of a whole number: with more, a float could not distinguish it from its neighbour."""
FCS_BYTES = 4
ETH_L1_OVERHEAD_BYTES = 7 + 1 + 12  # preamble, start delimiter, inter-frame gap (IEEE 802.3)
SHORTEST_FRAME = FrameBytes(64)
LONGEST_STANDARD_FRAME = FrameBytes(1518)
SHORTEST_IPV6_FRAME = FrameBytes(84)
"""The shortest IPv6 frame with room for UDP and a probe: it replaces 64 there."""
RFC2544_FRAME_SIZES = tuple(FrameBytes(n) for n in (64, 128, 256, 512, 1024, 1280, 1518))  # RFC 2544 section 9.1
RFC5180_FRAME_SIZES = (SHORTEST_IPV6_FRAME, *RFC2544_FRAME_SIZES[1:])  # RFC 5180 section 5.1.1

_NUMBER = r"(?P<n>[0-9]{1,18}(?:\.[0-9]{1,30})?|\.[0-9]{1,30})"
_DURATION = rf"{_NUMBER}\s*(?P<u>ns|us|µs|μs|ms|s|min|h|d)"  # both of Unicode's micro signs
_DURATION_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BIT_RATE = rf"{_NUMBER}\s*(?P<u>[kMGT]?)(?P<w>bit/s|b/s|bps)?"
_PPS = rf"{_NUMBER}\s*(?P<u>[kMG]?)pps"
_BYTE_RATE = rf"{_NUMBER}\s*(?P<u>(?:[kMGT]|[KMGT]i)?)(?:B|Bytes?)/s"
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_AMOUNT = rf"{_NUMBER}\s*(?P<u>[kMG]?)"
_SHARE = rf"{_NUMBER}\s*%"
_SCALE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class UnitError(ValueError):
    """A text is not a quantity of the wanted dimension; the message gives the right form."""


def parse_duration(text: str) -> Seconds:
    """Return seconds from `30s`, `500ms`, `2min`, `1.5h`. A bare number has no unit and is refused.

    Raises UnitError.
    """
    if not (m := re.fullmatch(_DURATION, text.strip())):
        raise UnitError(f"{text!r} is not a duration; write a number and one of ns, us, ms, s, min, h, d, as in 30s")
    return Seconds(float(m["n"]) * _DURATION_S[m["u"]])


def parse_bit_rate(text: str) -> float:
    """Return bits per second from `10G`, `2.5 Gbit/s`, `100M`. Prefixes are decimal. The caller knows the layer.

    Raises UnitError, also for `10 Gb`, which is an amount.
    """
    s = text.strip()
    if not (m := re.fullmatch(_BIT_RATE, s)) or not (m["u"] or m["w"]):
        if re.fullmatch(rf"{_NUMBER}\s*[kMGT]?(b|bit|bits|B)", s):
            raise UnitError(f"{text!r} is an amount, not a rate: per what time? Write {s.rstrip('bitsB').strip()}bit/s")
        raise UnitError(f"{text!r} is not a bit rate; write a number with k, M, G or T, as in 10G or 2.5 Gbit/s")
    return float(m["n"]) * _SCALE[m["u"]]


def parse_pps(text: str) -> Pps:
    """Return frames per second from `100kpps`, `1.488 Mpps`.

    Raises UnitError.
    """
    if not (m := re.fullmatch(_PPS, text.strip())):
        raise UnitError(f"{text!r} is not a frame rate; write a number and pps, kpps, Mpps or Gpps, as in 100kpps")
    return Pps(float(m["n"]) * _SCALE[m["u"]])


def parse_byte_rate(text: str) -> float:
    """Return bytes per second from `2800MB/s`, `7 GByte/s`, `113 MiB/s`. Prefixes are decimal, as on drive data sheets, or IEC 80000-13.

    Raises UnitError.
    """
    if not (m := re.fullmatch(_BYTE_RATE, text.strip())):
        raise UnitError(f"{text!r} is not a rate in bytes; write a number with kB/s, MB/s, GB/s, TB/s or KiB/s to TiB/s, as in 2800MB/s")
    return float(m["n"]) * (_SCALE | _BINARY)[m["u"]]


def parse_amount(text: str) -> float:
    """Return a number without a unit, such as requests a second, from `75000`, `75k`, `1.5M`.

    Raises UnitError.
    """
    if not (m := re.fullmatch(_AMOUNT, text.strip())):
        raise UnitError(f"{text!r} is not a number; write digits, with k, M or G if need be, as in 75k")
    return float(m["n"]) * _SCALE[m["u"]]


def parse_share(text: str) -> float:
    """Return 0.02 from `2%`, 0.005 from `0.5 %`. A bare number is ambiguous and is refused.

    Raises UnitError.
    """
    if not (m := re.fullmatch(_SHARE, text.strip())):
        raise UnitError(f"{text!r} is not a share; write a number and %, as in 2%")
    return float(m["n"]) / 100


def number_or_text(text: str) -> int | str:
    """Return a whole number from 0 on as an int, if it has at most MOST_DIGITS digits; return any other text unchanged."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else text


def l1_rate(rate: Pps, mean_frame: float) -> BpsL1:
    """Return the bits per second on the wire at `rate` frames of `mean_frame` bytes with FCS (RFC 5180 appendix A)."""
    return BpsL1(rate * (mean_frame + ETH_L1_OVERHEAD_BYTES) * 8)


def l2_rate(rate: Pps, mean_frame: float) -> BpsL2:
    """Return the bits per second of frames with FCS, without preamble and gap."""
    return BpsL2(rate * mean_frame * 8)


def line_rate(speed: BpsL1, mean_frame: float) -> Pps:
    """Return how many frames of `mean_frame` bytes with FCS a link of `speed` carries in a second (RFC 5180 appendix A)."""
    return Pps(speed / ((mean_frame + ETH_L1_OVERHEAD_BYTES) * 8))


def si(value: float, unit: str, digits: int = 3) -> str:
    """Return a number with a decimal prefix, without an exponent: `si(1488095, "pps")` gives `1.49 Mpps`."""
    rounded = float(f"{value:.{digits}g}")  # before the prefix is chosen: 999 999 is 1 M, not 1000 k
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(rounded) >= factor:
            scaled = rounded / factor
            decimals = max(digits - len(str(int(abs(scaled)))), 0)
            text = f"{scaled:.{decimals}f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {prefix}{unit}"
    return f"{rounded:g} {unit}"
