"""Report of one end of an iperf3 test, in any form; and the rule which tests are not repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from dutlab.interop.imported_run import BACK, LINK
from dutlab.methods.ports import Row
from dutlab.spec.workloads.setting import Value
from dutlab.tools.iperf3.json_output import both_ways

FORWARD, REVERSE = "forward", "reverse"
"""Directions in the client's words."""
SEVERAL_RATES = 1.1
"""Tests of UDP in one file that sent at rates so far apart were not asked for the same rate."""


@dataclass(frozen=True)
class Iperf3Report:
    """Figures by our names, a row for each second, and the request as far as the report has it."""

    figures: Mapping[str, Mapping[str, float]]
    """Place → figures, that of the whole test first."""
    asked: Mapping[str, Value]
    is_server: bool = False
    test_ids: tuple[str, ...] = ()
    """Test ids, as in `Imported`."""
    seconds: Sequence[Row] = ()
    repairs: tuple[str, ...] = ()
    below_zero: str = ""
    """Reason for a count of lost datagrams below zero."""
    facts: Mapping[str, str] = field(default_factory=dict)
    omitted: int = 0
    """Seconds of the warm-up (-O)."""
    started: datetime | None = None
    apart: Mapping[str, str] = field(default_factory=dict)
    """Client, server and congestion control."""


def places_of(figures: Mapping[str, Mapping[str, float]], *, is_both: bool) -> dict[str, dict[str, float]]:
    """Figures by direction, by the place of each; of a test in both directions also their sum."""
    if is_both:
        return both_ways(LINK, figures.get(FORWARD), figures.get(REVERSE))
    (way, of), *_ = figures.items()
    return {BACK if way == REVERSE else LINK: dict(of)}


def ids_of(cookie: object, ends: Sequence[tuple[object, object]]) -> tuple[str, ...]:
    """Names of a test: addresses and ports of its first stream, which NAT changes, and the cookie that the client made."""
    of_stream = " ".join(sorted(f"{str(address).removeprefix('::ffff:')} {port}" for address, port in ends))
    return tuple(filter(None, (of_stream, str(cookie or ""))))


def with_rates(reports: Sequence[Iperf3Report]) -> list[Iperf3Report]:
    """Add the sent rate, in two digits, to tests of UDP that do not say the asked rate, where they sent at several rates."""
    open_ = {n: rate for n, r in enumerate(reports) if r.asked.get("rate_bps") is None and (rate := _sent_bps(r))}
    rates = sorted(open_.values())
    if all(b <= a * SEVERAL_RATES for a, b in pairwise(rates)):
        return list(reports)
    return [replace(r, asked={**r.asked, "rate_bps": float(f"{open_[n]:.1e}")}) if n in open_ else r for n, r in enumerate(reports)]


def _sent_bps(report: Iperf3Report) -> float | None:
    """Return the sent rate of UDP: a server knows what arrived, and what share that is."""
    if report.asked.get("protocol") != "udp":
        return None
    whole = next(iter(report.figures.values()))
    came, loss = whole.get("goodput_bps"), whole.get("loss_ratio", 0.0)
    return whole.get("sent_bps") or (came / (1 - loss) if came and loss < 1 else None)
