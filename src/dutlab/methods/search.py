"""Method `search`: the rates at which the DUT stops meeting goals, all goals in one search (RFC 9971, MLRsearch).

Figures of a link, for each goal by its name; rates are of that link, and of all links together under `a+b`:

    ndr_lower_pps, ndr_upper_pps             relevant lower and upper bound; absent where there is none
    ndr_conditional_pps                      conditional throughput: the lower bound less its loss
    ndr_lower_bps_l1, ndr_conditional_bps_l1 the same on the wire
    search_trials, search_sent_s, search_saved_s

An irregular result has its reasons in the notes and in the raw file `search.json`, which holds every trial too. Loss is of all links
together. A trial that no goal could call good any more is stopped at once (see early_stop); this changes no answer.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.early_stop import HINTS, Matters, allowance, most_frames
from dutlab.methods.goals import Goal, checked, goals_named, parse_goals
from dutlab.methods.ledger import RATE_TOLERANCE, RFC2544_TRIAL_S
from dutlab.methods.mixes import mix_of
from dutlab.methods.mlrsearch import Ask, Bounds, Library
from dutlab.methods.ports import DRAIN, FrameMix, Generator, Measured, Offer, Outcome
from dutlab.methods.search_result import Found, GoalResult, Irregular, result_of, seconds_of
from dutlab.methods.search_trial import Mark, Role, SearchTrial, trial_of
from dutlab.plan.cell import Cell
from dutlab.units import BpsL1, Pps, Seconds, l1_rate, line_rate, si

WARMUP = Seconds(0.5)
LOWEST_SHARE = 0.001
"""The lowest rate of a search, as a share of the highest, unless it is given."""
FEWEST_PPS = Pps(10.0)
REACH_MARGIN = 1.25
"""A search without a given highest rate goes so far above what one short trial at full speed reached: another may reach more."""
RAW_FILE = "search.json"


class EarlyStop(enum.Enum):
    """Whether a trial that is lost for every goal is stopped."""

    AT_ONCE = "at once"
    NEVER = "never"


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
    budget: Seconds | None = None
    """Trials are not begun any more after so many seconds of them; None: many times what the goals need."""

    @property
    def tolerance(self) -> float:
        """Share of a rate that may be missing: never so much that it could hide a bound's width."""
        return min(RATE_TOLERANCE, min(goal.width for goal in self.goals) / 2)


@dataclass(frozen=True)
class Searched(Measured):
    """What `measure` returns: the figures, and the whole search."""

    found: Found | None = None


class _Ended(Exception):
    """The search cannot go on; the text says why."""


async def measure(generator: Generator, cell: Cell, speeds: Mapping[str, BpsL1 | None] | None = None) -> Searched:
    """Searches as the cell says: frame_size, frame_mix, preset or goals (see goals), highest_pps, lowest_pps, warmup_s, drain_s, budget_s.

    `speeds` are the links' line rates; a link without one is searched as far as the generator reaches.
    Raises InputError, HostError, and MeasurementError when not one trial told anything.
    """
    search = search_of(cell, speeds or {})
    log = _Log(generator, search)
    found = await _find(log)
    figures = {link: _figures(found, search.mix, 1) for link in search.links}
    if len(search.links) > 1:
        figures[cell.link_label] = _figures(found, search.mix, len(search.links))
    raw = {RAW_FILE: json.dumps(found.as_json(), indent=1).encode()}
    return Searched(figures=figures, doubts=_doubts(log, found), raw=raw, facts=log.facts, notes=_notes(search, found), found=found)


async def find(generator: Generator, search: Search) -> Found:
    """The same without a cell. Raises as `measure`."""
    return await _find(_Log(generator, search))


def search_of(cell: Cell, speeds: Mapping[str, BpsL1 | None]) -> Search:
    """What `cell` asks for. Raises InputError that says what does not go together."""
    params, mix = cell.params, mix_of(cell)
    if (params.get("preset") is None) == (params.get("goals") is None):
        raise InputError(f"workload {cell.workload} needs either a preset or goals", remedy="write preset: csit, for example")
    goals = goals_named(str(params["preset"])) if params.get("preset") is not None else parse_goals(str(params["goals"]))
    known = {link: speed for link in cell.links if (speed := speeds.get(link)) is not None}
    slowest = min(known, key=lambda link: known[link]) if known else None
    line = None if slowest is None else line_rate(known[slowest], mix.mean)
    highest, named = params.get("highest_pps"), f"the line rate of link {slowest}"
    if highest is not None and line is not None and float(highest) > line:
        asked, most = si(float(highest), "pps", 4), si(line, "pps", 4)
        raise InputError(f"{asked} of {mix.name} is above what link {slowest} carries, {most}", remedy="leave highest_pps out, or lower it")
    search = Search(
        links=cell.links,
        mix=mix,
        goals=goals,
        highest=line if highest is None else Pps(float(highest)),
        highest_is=named if highest is None else "the rate that was asked for",
        lowest=None if params.get("lowest_pps") is None else Pps(float(params["lowest_pps"] or 0)),
    )
    times = {"warmup": params.get("warmup_s"), "drain": params.get("drain_s"), "budget": params.get("budget_s")}
    return replace(search, **{name: Seconds(float(value)) for name, value in times.items() if value is not None})  # type: ignore[arg-type]


def _range(search: Search, highest: Pps) -> tuple[Pps, Pps]:
    """Lowest and highest rate. Raises InputError when no search fits between them."""
    lowest = Pps(max(highest * LOWEST_SHARE, FEWEST_PPS)) if search.lowest is None else search.lowest
    width = max(goal.width for goal in search.goals)
    if not 0 < lowest < highest * (1 - width) or highest == float("inf"):
        between = f"between {si(lowest, 'pps')} and {si(highest, 'pps')}"
        raise InputError(f"there is no room for a search {between}", remedy="raise the highest rate or lower the lowest")
    return lowest, highest


async def _find(log: _Log) -> Found:
    search = log.search
    checked(search.goals)
    highest, highest_is, ended = search.highest, search.highest_is, ""
    if highest is None:
        highest, highest_is = Pps(await log.reach() * REACH_MARGIN), "a quarter above what the generator reached at full speed"
    lowest, highest = _range(search, highest)
    bounds: Mapping[Goal, Bounds] = {}
    with Library(search.goals, lowest=lowest, highest=highest) as library:
        try:
            step = await library.first()
            while isinstance(step, Ask):
                step = await library.tell((await log.answer(step)).told(step, search.tolerance))
            bounds = step
        except _Ended as end:
            ended = str(end)
        except MeasurementError as error:
            if not any(t.counts for t in log.trials):
                raise
            ended = str(error)
    results = {goal.name: result_of(goal, log.trials, search.tolerance, bounds.get(goal)) for goal in search.goals}
    if search.highest is None:
        results = {name: _generators(result) for name, result in results.items()}
    return Found(results, tuple(log.trials), lowest, highest, highest_is, ended, search.tolerance)


def _generators(result: GoalResult) -> GoalResult:
    """Where the highest rate was the generator's own, a missing upper bound is the generator's too."""
    why = tuple(Irregular.GENERATOR if w is Irregular.NO_UPPER else w for w in result.irregular)
    return replace(result, irregular=why)


class _Log:
    """Runs the trials of one search and keeps every one of them."""

    def __init__(self, generator: Generator, search: Search) -> None:
        self.search, self.trials = search, list[SearchTrial]()
        self.facts: dict[str, str] = {}
        self.doubts: dict[DoubtKind, int] = {}
        self._generator, self._matters = generator, Matters(search.goals)
        self._spent, self._budget = 0.0, search.budget or seconds_of(search.goals)

    async def reach(self) -> Pps:
        """How fast the generator is: one short trial at full speed. Raises MeasurementError when it sends nothing."""
        trial = await self._offer(Role.REACH, None, Seconds(max(goal.initial_s for goal in self.search.goals)))
        if trial.sent_pps <= 0:
            raise MeasurementError(f"the generator sent nothing: {trial.detail}", raw=self._raw())
        return Pps(trial.sent_pps)

    async def answer(self, ask: Ask) -> SearchTrial:
        """The trial that the search asks for, as far as it tells something. Raises _Ended, and whatever the generator raises first."""
        if self._spent >= self._budget:
            raise _Ended(f"{self._spent:.0f} s of trials are spent, and it was given {self._budget:.0f} s")
        counted = sum(t.counts for t in self.trials)
        allowed = None
        if self.search.early_stop is EarlyStop.AT_ONCE and counted >= HINTS:
            frames = most_frames(round(ask.load * ask.duration) * len(self.search.links), self.search.tolerance)
            allowed = allowance(frames, self._matters.loss_ratio_at(ask.load))
        trial = await self._one_that_tells(ask, allowed)
        if Mark.SILENT in trial.marks:
            await self._still_there(trial)
        trial = self._keep(replace(trial, counts=True))
        self._matters.learn(ask.load, trial.told(ask, self.search.tolerance).loss_ratio)
        return trial

    async def _one_that_tells(self, ask: Ask, allowed: int | None) -> SearchTrial:
        """A trial that contradicts itself is offered once more; a second one ends the search, which could only guess from there on."""
        first = await self._offer(Role.SEARCH, ask.load, ask.duration, allowed)
        if not _tells_nothing(first):
            return first
        second = await self._offer(Role.SEARCH, ask.load, ask.duration, allowed)
        second = self._keep(replace(second, marks=(*second.marks, Mark.REPEATED)))
        if _tells_nothing(second):
            raise _Ended(f"two trials in a row at {si(ask.load, 'pps')} told nothing: {second.detail}")
        return second

    async def _still_there(self, silent: SearchTrial) -> None:
        """After a trial from which next to nothing came back: does the DUT still forward what it forwarded before? Raises _Ended if not.

        Without this, a DUT that died in mid-search would be found to have a low limit.
        """
        heard = [t for t in self.trials if t.role is Role.SEARCH and not {Mark.SILENT, *_NOTHING} & set(t.marks)]
        if not heard:
            return
        best = min(heard, key=lambda t: (t.loss_ratio, t.load_pps))
        control = await self._offer(Role.CONTROL, Pps(best.load_pps), Seconds(min(t.duration_s for t in heard)))
        if Mark.SILENT in control.marks or _tells_nothing(control):
            raise _Ended(
                f"from trial {silent.number} on nothing came back, not even at {si(best.load_pps, 'pps')}, which had come through in "
                f"trial {best.number}: the DUT is down, or the path is"
            )

    async def _offer(self, role: Role, load: Pps | None, duration: Seconds, allowed: int | None = None) -> SearchTrial:
        search = self.search
        offer = Offer(search.links, search.mix, load, duration, search.warmup, search.drain, allowed)
        try:
            outcome = await self._generator.offer(offer)
        except MeasurementError as error:
            if not self.trials:
                raise
            nothing = trial_of(offer, Outcome(()), number=len(self.trials) + 1, role=role, tolerance=search.tolerance)
            return self._keep(replace(nothing, marks=(Mark.NO_ACCOUNT,), detail=str(error)), new=True)
        self._note(outcome)
        trial = trial_of(offer, outcome, number=len(self.trials) + 1, role=role, tolerance=search.tolerance)
        self._spent += search.warmup + search.drain + trial.sent_s
        return self._keep(trial, new=True)

    def _keep(self, trial: SearchTrial, *, new: bool = False) -> SearchTrial:
        """Writes the trial down, or again with what has become known of it since."""
        if new:
            self.trials.append(trial)
        else:
            self.trials[trial.number - 1] = trial
        return trial

    def _note(self, outcome: Outcome) -> None:
        self.facts.update(outcome.facts)
        for kind in {doubt.kind for doubt in outcome.doubts}:
            self.doubts[kind] = self.doubts.get(kind, 0) + 1

    def _raw(self) -> dict[str, bytes]:
        return {RAW_FILE: json.dumps({"trials": [t.as_json() for t in self.trials]}, indent=1).encode()}


_NOTHING = (Mark.CONTRADICTORY, Mark.NO_ACCOUNT)


def _tells_nothing(trial: SearchTrial) -> bool:
    return any(mark in trial.marks for mark in _NOTHING)


def _figures(found: Found, mix: FrameMix, links: int) -> dict[str, float]:
    """Of `links` links together; what is not known is absent."""
    figures: dict[str, float] = {}
    for name, result in found.results.items():
        for what, rate in (("lower", result.lower_pps), ("upper", result.upper_pps), ("conditional", result.conditional_pps)):
            if rate is not None:
                figures[f"{name}_{what}_pps"] = rate * links
                if what != "upper":
                    figures[f"{name}_{what}_bps_l1"] = l1_rate(Pps(rate * links), mix.mean)
    return figures | {"search_trials": len(found.trials), "search_sent_s": found.sent_s, "search_saved_s": found.saved_s}


def _doubts(log: _Log, found: Found) -> tuple[Doubt, ...]:
    doubts = [Doubt(kind, f"in {count} of {len(found.trials)} trials") for kind, count in log.doubts.items()]
    contradictory = [t for t in found.trials if _tells_nothing(t)]
    if contradictory:
        doubts.append(Doubt(DoubtKind.LEDGER_OPEN, f"trial {contradictory[0].number}: {contradictory[0].detail}"))
    if found.reach:
        doubts.append(Doubt(DoubtKind.TX_STARVED, found.reach))
    shortest = min(goal.final_s for goal in log.search.goals)
    return (*doubts, *([Doubt(DoubtKind.SHORT_TRIAL, f"{shortest:g} s")] if shortest < RFC2544_TRIAL_S else []))


def _notes(search: Search, found: Found) -> tuple[str, ...]:
    saved = f"stopping lost trials early saved {found.saved_s:.0f} s of {found.sent_s + found.saved_s:.0f} s"
    searched = f"searched from {si(found.lowest_pps, 'pps')} to {si(found.highest_pps, 'pps')}, {found.highest_is}"
    waits = f"waits of {search.drain:g} s after a trial, where RFC 2544 section 23 has 2 s and 5 s"
    return (*found.notes, searched, saved, *([waits] if search.drain < 2 else []))  # noqa: PLR2004 RFC 2544 section 23
