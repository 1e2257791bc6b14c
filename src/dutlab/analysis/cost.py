"""What a mode adds to each packet, in time and in cycles, against the barest mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.analysis.rank import u_quantile
from dutlab.analysis.statistics import CONFIDENCE, Interval, median


@dataclass(frozen=True)
class Cost:
    """Of one mode. Nanoseconds are of the whole box: of one core only where one core does all the work."""

    mode: str
    ns: float
    """Between two packets at the mode's rate."""
    added_ns: float
    """More than the barest mode's; the median over all pairs of repeats."""
    interval: Interval | None
    """Of `added_ns`, exact; None below four repeats a side."""
    cycles: float | None
    """`added_ns` at the processor's frequency, where that is known."""


def costs(pps: Mapping[str, Sequence[float]], *, barest: str | None = None, hertz: float | None = None) -> tuple[Cost, ...]:
    """Mode → packets a second of each repeat, turned into costs; the barest is the fastest unless named. Cheapest first.

    Rates that a link or a generator limited cost less than they seem to. Raises ValueError for a mode without a rate above zero.
    """
    if bad := [mode for mode, values in pps.items() if not values or not all(v > 0 for v in values)]:
        raise ValueError(f"no packets a second above zero in {', '.join(bad)}")
    if not pps:
        return ()
    base = max(pps, key=lambda m: median(pps[m])) if barest is None else barest
    if base not in pps:
        raise ValueError(f"there is no mode {base}; there are {', '.join(pps)}")
    found = [_cost(mode, pps[base], values, hertz) for mode, values in pps.items()]
    return tuple(sorted(found, key=lambda c: c.ns))


def _cost(mode: str, base: Sequence[float], values: Sequence[float], hertz: float | None) -> Cost:
    added = sorted(1e9 / v - 1e9 / b for v in values for b in base)
    k, outside = u_quantile(len(base), len(values), (1 - CONFIDENCE) / 2)
    interval = Interval(added[k - 1], added[len(added) - k], 1 - 2 * outside) if k else None
    middle = median(added)
    return Cost(mode, 1e9 / median(values), middle, interval, None if hertz is None else middle * hertz / 1e9)
