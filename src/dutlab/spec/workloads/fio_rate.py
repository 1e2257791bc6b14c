"""Rates that a job of fio asks for: `rate_iops`, `rate`, and how often fio's Poisson process really makes an I/O.

fio draws each gap of `rate_process=poisson` as a whole number of microseconds, and rounds the mean gap down before (fio 3.33, and
usec_for_io in backend.c). So it makes more I/Os than were asked for: 181,000 a second instead of 150,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

from dutlab.spec.drives import is_size, parse_size

DIRECTIONS = ("read", "write", "trim")
_US = 1_000_000


def asked_iops(options: Mapping[str, str]) -> dict[str, float]:
    """Return direction → I/Os a second that one drive's job asks for with all its threads; empty without a rate or a block size.

    fio's rates are of each direction, `READ,WRITE,TRIM`; a single one is of each of them (fio's HOWTO, "I/O rate").
    """
    threads = int(text) if (text := options.get("numjobs", "1")).isdecimal() and len(text) < len("1000000") else 1
    if "rate_iops" in options:
        rates, unit = _each(options["rate_iops"]), 1
    else:
        rates, unit = _each(options.get("rate", "")), _block(options)
    poisson = options.get("rate_process") == "poisson"
    return {way: (poisson_iops(n / unit) if poisson else n / unit) * threads for way, n in rates.items() if n and unit}


def most_write_bytes_per_s(options: Mapping[str, str], seconds: float) -> float | None:
    """Return the most bytes a second that a job's rate option lets it write to a drive; None if its options set no limit."""
    if not (block := _block(options)) or (iops := asked_iops(options).get("write")) is None:
        return None
    return block * (most_arrivals(iops, seconds) if options.get("rate_process") == "poisson" else iops)


def most_arrivals(per_s: float, seconds: float) -> float:
    """Return the most arrivals a second of a Poisson process in `seconds`: its mean and four standard deviations."""
    return per_s + 4 * (per_s / seconds) ** 0.5 if seconds else per_s


def poisson_iops(asked: float) -> float:
    """Return the I/Os a second that fio's Poisson process makes when `asked` are set: its gaps are whole microseconds."""
    gap_us = _US // asked if asked else 0
    return _US * (exp(1 / gap_us) - 1) if gap_us else float("inf")


def nearest_poisson(iops: float) -> int:
    """Return the `rate_iops` with which fio's Poisson process comes closest to `iops`."""
    gap_us = max(1, int(_US // iops))
    asked = (max(1, round(iops)), *(max(1, _US // gap) for gap in (gap_us, gap_us + 1)))
    return min(asked, key=lambda rate: abs(poisson_iops(rate) - iops))


def _each(text: str) -> dict[str, int]:
    words = text.split(",")
    if len(words) == 1:
        words *= len(DIRECTIONS)
    return {way: parse_size(word) for way, word in zip(DIRECTIONS, words, strict=False) if is_size(word)}


def _block(options: Mapping[str, str]) -> int:
    """Return the bytes of a block; 0 if blocks have several sizes."""
    size = options.get("bs", "4k")
    plain = not any(name.startswith(("bs", "blocksize")) and name != "bs" for name in options)
    return parse_size(size) if plain and is_size(size) else 0
