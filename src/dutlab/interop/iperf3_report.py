"""Report of one end of an iperf3 test, from any output format, and the rule that separates UDP tests at different rates."""

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
"""Directions as the client names them."""
SEVERAL_RATES = 1.1
"""Ratio of sent rates above which UDP tests of one file count as tests of different intended rates."""
SAME_RATE = 1.01
"""Then tests are of one rate if their sent rates differ by less than this ratio."""


@dataclass(frozen=True)
class Iperf3Report:
    """Figures by our names, a row for each second, and the requested settings as far as the report has them."""

    figures: Mapping[str, Mapping[str, float]]
    """Place → figures; the place of the whole test comes first."""
    asked: Mapping[str, Value]
    is_server: bool = False
    test_ids: tuple[str, ...] = ()
    """Names of the test, as in `Imported`."""
    seconds: Sequence[Row] = ()
    repairs: tuple[str, ...] = ()
    below_zero: str = ""
    """Count of lost datagrams in words, if it is below zero; else empty."""
    facts: Mapping[str, str] = field(default_factory=dict)
    omitted: int = 0
    """Seconds of the warm-up (-O)."""
    started: datetime | None = None
    apart: Mapping[str, str] = field(default_factory=dict)
    """Client, server and congestion control."""


def places_of(figures: Mapping[str, Mapping[str, float]], *, is_both: bool) -> dict[str, dict[str, float]]:
    """Return the figures by place instead of direction; for a test in both directions also their sum."""
    if is_both:
        return both_ways(LINK, figures.get(FORWARD), figures.get(REVERSE))
    (way, of), *_ = figures.items()
    return {BACK if way == REVERSE else LINK: dict(of)}


def ids_of(cookie: object, ends: Sequence[tuple[object, object]]) -> tuple[str, ...]:
    """Return the names of a test: addresses and ports of its first stream (NAT changes them), and the client's cookie."""
    of_stream = " ".join(sorted(f"{str(address).removeprefix('::ffff:')} {port}" for address, port in ends))
    return tuple(filter(None, (of_stream, str(cookie or ""))))


def with_rates(reports: Sequence[Iperf3Report]) -> list[Iperf3Report]:
    """Add the sent rate in three digits as the intended rate to UDP tests that do not state one, if they sent at different rates."""
    open_ = {n: rate for n, r in enumerate(reports) if r.asked.get("rate_bps") is None and (rate := _sent_bps(r))}
    rates = sorted(open_.values())
    if all(b <= a * SEVERAL_RATES for a, b in pairwise(rates)):
        return list(reports)
    starts = [rate for before, rate in zip([0.0, *rates], rates, strict=False) if rate > before * SAME_RATE]
    rate_by_number = {n: max(start for start in starts if start <= rate) for n, rate in open_.items()}
    return [
        replace(r, asked={**r.asked, "rate_bps": float(f"{rate_by_number[n]:.2e}")}) if n in open_ else r for n, r in enumerate(reports)
    ]


def _sent_bps(report: Iperf3Report) -> float | None:
    """Return the sent rate of a UDP test. A server knows only the received rate and the loss ratio, which give it."""
    if report.asked.get("protocol") != "udp":
        return None
    whole = next(iter(report.figures.values()))
    came, loss = whole.get("goodput_bps"), whole.get("loss_ratio", 0.0)
    return whole.get("sent_bps") or (came / (1 - loss) if came and loss < 1 else None)
