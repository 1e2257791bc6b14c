"""What a search is asked for: goals, range of rates, waits."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from dutlab.errors import InputError
from dutlab.methods.ledger import RATE_TOLERANCE
from dutlab.methods.mixes import mix_of
from dutlab.methods.params import Params
from dutlab.methods.ports import DRAIN, FrameMix
from dutlab.plan.cell import Cell
from dutlab.spec.goals import Goal, goals_named, parse_goals
from dutlab.units import BpsL1, Pps, Seconds, line_rate, si

WARMUP = Seconds(0.5)
LOWEST_SHARE = 0.001
"""The lowest rate of a search, as a share of the highest, unless it is given."""
FEWEST_PPS = Pps(10.0)


class EarlyStop(enum.Enum):
    """Whether a trial that is lost for every goal is stopped; in the words of the experiment file."""

    AT_ONCE = "at-once"
    NEVER = "never"


class AgainAtEnd(enum.Enum):
    """What is offered once more when the search is done; in the words of the experiment file."""

    UPPER = "upper"
    """An upper bound that rests on trials shorter than the full one, in a full trial."""
    BOTH = "both"
    """And the lower bound, after everything else was offered."""


@dataclass(frozen=True)
class Search:
    """What is to be found. Rates in frames a second of each link."""

    links: tuple[str, ...]
    mix: FrameMix
    goals: tuple[Goal, ...]
    highest: Pps | None
    """None: as fast as the generator can, which a first trial finds out."""
    highest_is: str = "the rate that was asked for"
    lowest: Pps | None = None
    warmup: Seconds = WARMUP
    drain: Seconds = DRAIN
    early_stop: EarlyStop = EarlyStop.AT_ONCE
    again_at_end: AgainAtEnd = AgainAtEnd.UPPER
    """Of goals that allow no bad trial."""
    budget: Seconds | None = None
    """Trials are not begun any more after so many seconds; None: many times what the goals need."""

    @property
    def tolerance(self) -> float:
        """Share of a rate that may be missing: never so much that it could hide a bound's width."""
        return min(RATE_TOLERANCE, min(goal.width for goal in self.goals) / 2)

    def between(self, highest: Pps) -> tuple[Pps, Pps]:
        """Lowest and highest rate. Raises InputError when no search fits between them."""
        lowest = Pps(max(highest * LOWEST_SHARE, FEWEST_PPS)) if self.lowest is None else self.lowest
        width = max(goal.width for goal in self.goals)
        if not 0 < lowest < highest * (1 - width) or highest == float("inf"):
            between = f"between {si(lowest, 'pps')} and {si(highest, 'pps')}"
            raise InputError(f"there is no room for a search {between}", remedy="raise the highest rate or lower the lowest")
        return lowest, highest


def search_of(cell: Cell, speeds: Mapping[str, BpsL1 | None]) -> Search:
    """What `cell` asks for.

    Its params: frame_size, frame_mix, preset or goals, highest_pps, lowest_pps, warmup_s, drain_s, budget_s, early_stop, again_at_end.
    `speeds` are the links' line rates. Raises InputError that says what does not go together.
    """
    params, mix = Params(cell), mix_of(cell)
    preset, written = params.maybe("preset", str), params.maybe("goals", str)
    if (preset is None) == (written is None):
        raise InputError(f"workload {cell.workload} needs either a preset or goals", remedy="write preset: csit, for example")
    goals = parse_goals(written) if written is not None else goals_named(str(preset))
    known = {link: speed for link in cell.links if (speed := speeds.get(link)) is not None}
    slowest = min(known, key=lambda link: known[link]) if known else None
    line = None if slowest is None else line_rate(known[slowest], mix.mean)
    highest, lowest = params.maybe("highest_pps", float), params.maybe("lowest_pps", float)
    if highest is not None and line is not None and highest > line:
        asked, most = si(highest, "pps", 4), si(line, "pps", 4)
        raise InputError(f"{asked} of {mix.name} is above what link {slowest} carries, {most}", remedy="leave highest_pps out, or lower it")
    warmup, drain, budget = (params.maybe(name, float) for name in ("warmup_s", "drain_s", "budget_s"))
    return Search(
        links=cell.links,
        mix=mix,
        goals=goals,
        highest=line if highest is None else Pps(highest),
        highest_is=f"the line rate of link {slowest}" if highest is None else "the rate that was asked for",
        lowest=None if lowest is None else Pps(lowest),
        warmup=WARMUP if warmup is None else Seconds(warmup),
        drain=DRAIN if drain is None else Seconds(drain),
        early_stop=params.maybe("early_stop", EarlyStop) or EarlyStop.AT_ONCE,
        again_at_end=params.maybe("again_at_end", AgainAtEnd) or AgainAtEnd.UPPER,
        budget=None if budget is None else Seconds(budget),
    )
