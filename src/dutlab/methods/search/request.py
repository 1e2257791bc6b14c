"""Request of a search: goals, range of rates, waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dutlab.errors import InputError
from dutlab.methods.ledger import RATE_TOLERANCE
from dutlab.methods.ports import DRAIN, NO_TIME
from dutlab.spec.goals import Goal
from dutlab.spec.mixes import Mix
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop, SearchSetting
from dutlab.spec.workloads.search_loads import LoadsBy
from dutlab.units import BpsL1, Pps, Seconds, line_rate, si

WARMUP = Seconds(0.5)
LOWEST_SHARE = 0.001
"""Lowest rate of a search as a share of the highest, unless it is given."""
FEWEST_PPS = Pps(10.0)


@dataclass(frozen=True)
class Search:
    """Request of a search. Rates are in frames a second of each link."""

    links: tuple[str, ...]
    mix: Mix
    goals: tuple[Goal, ...]
    highest: Pps | None
    """Highest rate; None to measure the generator's full speed in a first trial."""
    highest_is: str = "the rate that was asked for"
    lowest: Pps | None = None
    warmup: Seconds = WARMUP
    drain: Seconds = DRAIN
    early_stop: EarlyStop = EarlyStop.AT_ONCE
    again_at_end: AgainAtEnd = AgainAtEnd.UPPER
    """Bounds that are tried again at the end, for goals that allow no bad trial."""
    loads_by: LoadsBy = LoadsBy.LIBRARY
    """Rule that chooses the load of the next trial."""
    expected: Pps | None = None
    """Expected lower bound, tried first; only for loads by a fit."""
    begins: Seconds = NO_TIME
    """Start-up time of the generator before the first frame of each trial; not counted in the budget."""
    budget: Seconds | None = None
    """Seconds after which no more trials begin; None for many times the time that the goals need."""

    @property
    def tolerance(self) -> float:
        """Missing share of a rate that is tolerated: at most half the width of the bounds."""
        return min(RATE_TOLERANCE, min(goal.width for goal in self.goals) / 2)

    def between(self, highest: Pps) -> tuple[Pps, Pps]:
        """Return the lowest and the highest rate. Raises InputError if no search fits between them."""
        lowest = Pps(max(highest * LOWEST_SHARE, FEWEST_PPS)) if self.lowest is None else self.lowest
        width = max(goal.width for goal in self.goals)
        if not 0 < lowest < highest * (1 - width) or highest == float("inf"):
            between = f"between {si(lowest, 'pps')} and {si(highest, 'pps')}"
            raise InputError(f"there is no room for a search {between}", remedy="raise the highest rate or lower the lowest")
        return lowest, highest


def search_of(
    links: tuple[str, ...],
    mix: Mix,
    goals: tuple[Goal, ...],
    speeds: Mapping[str, BpsL1 | None],
    *,
    highest: Pps | None = None,
    lowest: Pps | None = None,
    warmup: Seconds,
    drain: Seconds,
    begins: Seconds = NO_TIME,
    budget: Seconds | None = None,
    early_stop: EarlyStop = EarlyStop.AT_ONCE,
    again_at_end: AgainAtEnd = AgainAtEnd.UPPER,
    loads_by: LoadsBy = LoadsBy.LIBRARY,
    expected: Pps | None = None,
) -> Search:
    """Return a search on `links` up to the line rate of the slowest one (`speeds`). Raises InputError for a highest rate above it."""
    known = {link: speed for link in links if (speed := speeds.get(link)) is not None}
    slowest = min(known, key=lambda link: known[link]) if known else None
    line = None if slowest is None else line_rate(known[slowest], mix.mean)
    if highest is not None and line is not None and highest > line:
        asked, most = si(highest, "pps", 4), si(line, "pps", 4)
        raise InputError(f"{asked} of {mix.name} is above what link {slowest} carries, {most}", remedy="leave highest out, or lower it")
    return Search(
        links=links,
        mix=mix,
        goals=goals,
        highest=line if highest is None else highest,
        highest_is=f"the line rate of link {slowest}" if highest is None else "the rate that was asked for",
        lowest=lowest,
        warmup=warmup,
        drain=drain,
        begins=begins,
        early_stop=early_stop,
        again_at_end=again_at_end,
        loads_by=loads_by,
        expected=expected,
        budget=budget,
    )


def search_of_setting(links: tuple[str, ...], setting: SearchSetting, speeds: Mapping[str, BpsL1 | None]) -> Search:
    """Return the search that the workload `search` asks for. Raises as search_of()."""
    return search_of(
        links,
        setting.frame_size,
        setting.goals,
        speeds,
        highest=setting.highest_pps,
        lowest=setting.lowest_pps,
        warmup=setting.warmup_s,
        drain=setting.drain_s,
        begins=NO_TIME if setting.made_by is None else setting.made_by.begins_s,
        budget=setting.budget_s,
        early_stop=setting.early_stop,
        again_at_end=setting.again_at_end,
        loads_by=setting.loads_by,
        expected=setting.expected_pps,
    )
