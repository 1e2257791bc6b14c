"""Maximum connection establishment rate (RFC 9693 section 4.5): the highest rate at which each of N new connections is established.

A binary search in which every trial is validated (section 4.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Row
from dutlab.methods.stateful_nat.phases import NatTrial, Phases
from dutlab.units import si

LOWEST_SHARE = 0.001
"""Share of the highest rate below which the search ends without a lower bound."""


@dataclass(frozen=True)
class EstablishmentRate:
    """Known bounds, and every trial."""

    lower_per_s: float | None
    upper_per_s: float | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def figures(self) -> Mapping[str, float]:
        """Known bounds by the names of measures."""
        bounds = {"establishment_lower_per_s": self.lower_per_s, "establishment_upper_per_s": self.upper_per_s}
        return {name: value for name, value in bounds.items() if value is not None}


@dataclass
class _Search:
    phases: Phases
    connections: int
    rows: list[Row] = field(default_factory=list)
    behind: str = ""
    """Rate that the generator reached at the lowest rate that it did not make."""

    async def trial(self, rate_per_s: float) -> NatTrial:
        trial = await self.phases.trial(self.connections, rate_per_s)
        self.rows.append(trial.row)
        return trial


async def measure(phases: Phases, connections: int, highest_per_s: float, *, width: float) -> EstablishmentRate:
    """Run the search. Raises MeasurementError, HostError."""
    search = _Search(phases, connections)
    low, high, by_generator = 0.0, highest_per_s, ""
    rate = highest_per_s
    while True:
        trial = await search.trial(rate)
        if trial.passes and not trial.starved:
            low = rate
            if rate == highest_per_s:
                break
        else:
            high, by_generator = rate, trial.starved if trial.passes else ""
        if high - low <= width * high or high <= highest_per_s * LOWEST_SHARE:
            break
        rate = (low + high) / 2
    again = await search.trial(low) if low else None
    return _result(search, low, high, by_generator, again, no_upper=low == highest_per_s)


def _result(search: _Search, low: float, high: float, by_generator: str, again: NatTrial | None, *, no_upper: bool) -> EstablishmentRate:
    figure, notes, doubts = "establishment_lower_per_s", list[str](), list[Doubt]()
    if no_upper:
        words = f"every connection was established at the highest rate of the search, {si(low, '/s')}: the DUT's limit is at or above it"
        doubts.append(Doubt(DoubtKind.NO_UPPER_BOUND, words, figure))
    elif by_generator:
        words = f"the generator did not begin connections any faster ({by_generator}): the DUT's limit is higher"
        doubts.append(Doubt(DoubtKind.NO_UPPER_BOUND, words, figure))
    if not low:
        last, count = search.rows[-1], search.connections
        words = (
            f"not even at {si(high, '/s')} was each of {count} connections established: {last['arrived_connections']} arrived, "
            f"{last['different_connections']} translated each in its own way, {last['validated_connections'] or 0} answers arrived"
        )
        doubts.append(Doubt(DoubtKind.NO_LOWER_BOUND, words, figure))
    if again is not None and not again.passes:
        words = f"{again.established} of {search.connections} connections were established when {si(low, '/s')} was tried again at the end"
        doubts.append(Doubt(DoubtKind.BOUNDS_MOVED, words, figure))
    notes += [f"establishment rate: {doubt.detail}" for doubt in doubts]
    upper = None if no_upper or by_generator else high
    return EstablishmentRate(low or None, upper, tuple(search.rows), tuple(notes), tuple(doubts))
