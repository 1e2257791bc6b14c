"""Cost of a mode per packet, in time and in cycles, over the barest mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.stats.ratio import difference_bounds
from dutlab.stats.summary import CONFIDENCE, Interval, median


@dataclass(frozen=True)
class Cost:
    """Cost of one mode. Nanoseconds are those of the whole box; they are those of a core only if one core does all the work."""

    mode: str
    ns: float
    """Time between two packets at the median rate of the mode."""
    added_ns: float
    """`ns` less the `ns` of the barest mode."""
    interval: Interval | None
    """95 % interval of `added_ns`; None below four repeats a side, and for the barest mode itself."""
    cycles: float | None
    """`added_ns` at the processor's frequency, where that is known."""


def costs(pps: Mapping[str, Sequence[float]], *, barest: str | None = None, hertz: float | None = None) -> tuple[Cost, ...]:
    """Return the cost of each mode, cheapest first. `pps`: mode → packets a second of each repeat; `barest`: by default the fastest mode.

    If a link or a generator limited a rate, the cost that follows from it is too high. Raises ValueError for a mode without a rate above
    zero, and for an unknown `barest`.
    """
    if bad := [mode for mode, values in pps.items() if not values or not all(v > 0 for v in values)]:
        raise ValueError(f"no packets a second above zero in {', '.join(bad)}")
    if not pps:
        return ()
    base = max(pps, key=lambda m: median(pps[m])) if barest is None else barest
    if base not in pps:
        raise ValueError(f"there is no mode {base}; there are {', '.join(pps)}")
    mode_costs = [_cost(mode, base, pps, hertz) for mode in pps]
    return tuple(sorted(mode_costs, key=lambda c: c.ns))


def _cost(mode: str, base: str, pps: Mapping[str, Sequence[float]], hertz: float | None) -> Cost:
    ns, base_ns = 1e9 / median(pps[mode]), 1e9 / median(pps[base])
    added = ns - base_ns
    away = None if mode == base else difference_bounds([1e9 / v for v in pps[base]], [1e9 / v for v in pps[mode]], base_ns, ns)
    interval = None if away is None else Interval(added - away[0], added + away[1], CONFIDENCE)
    return Cost(mode, ns, added, interval, None if hertz is None else added * hertz / 1e9)
