"""Method `search`: the rates at which the DUT stops meeting goals, all goals in one search (RFC 9971, MLRsearch).

Figures of a link, for each goal by its name; rates are of that link, and of all links together under `a+b`:

    ndr/lower_pps, ndr/upper_pps             relevant lower and upper bound; absent if there is none
    ndr/conditional_pps                      conditional throughput: the lower bound less its loss
    ndr/lower_bps_l1, ndr/conditional_bps_l1 these rates on the wire
    search_trials, search_sent_s, search_saved_s

The record's tables have one row a goal (`goals`) and one a trial (`trials`). The reasons of an irregular result are in the doubts and the
notes. Loss is of all links together, and a frame that the DUT's port did not take is lost. A trial that can no longer meet any goal is
stopped at once (see early_stop); this changes no result. After the search, bounds of goals that allow no bad trial are tried again (see
again_at_end). This moves no bound either; a note reports a bound that is not confirmed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.events import Tell, no_observer
from dutlab.methods.at_limit import frames_at_limit
from dutlab.methods.carrying import carrying
from dutlab.methods.ports import AtLimit, Bench, Generator, Measured, Offer
from dutlab.methods.search.account import doubts, figures, notes, tables
from dutlab.methods.search.fitted import FittedLoads
from dutlab.methods.search.log import Ended, SearchLog
from dutlab.methods.search.mlrsearch import Bounds, Library, NextTrial
from dutlab.methods.search.request import Search, search_of_setting
from dutlab.methods.search.result import GoalResult, Irregular, SearchResult, result_of
from dutlab.methods.search.trial import Mark, Role
from dutlab.plan.cell import Cell
from dutlab.spec.goals import Goal, checked
from dutlab.spec.workloads.search import AgainAtEnd, SearchSetting
from dutlab.spec.workloads.search_loads import LoadsBy
from dutlab.subject import joined
from dutlab.units import Pps, si


class Side(enum.Enum):
    """One of the two bounds."""

    LOWER = "lower"
    UPPER = "upper"


@dataclass(frozen=True)
class Searched(Measured):
    """Result of `measure`: the figures, and the whole search."""

    search: SearchResult | None = None


async def measure(bench: Bench, cell: Cell) -> Searched:
    """Search as the cell asks (see search_of_setting); a link of unknown speed is searched up to the generator's highest rate.

    Raises InputError, HostError; MeasurementError if no trial had a result.
    """
    setting = cell.setting_as(SearchSetting)
    return await searched(carrying(bench, setting.traffic), search_of_setting(cell.links, setting, bench.speeds))


async def searched(bench: Bench, search: Search) -> Searched:
    """Run any search."""
    log = SearchLog(bench.generator, search, tell=bench.tell)
    result = await _find(log)
    by_link = {link: figures(result, search.mix, 1) for link in search.links}
    if len(search.links) > 1:
        by_link[joined(search.links)] = figures(result, search.mix, len(search.links))
    return Searched(
        figures=by_link,
        doubts=doubts(result, log.doubts),
        raw=log.packed,
        facts=log.facts,
        notes=notes(search, result),
        tables=tables(result),
        search=result,
        at_limit=_at_limit(bench.generator, search, result),
    )


def _at_limit(generator: Generator, search: Search, searched: SearchResult) -> AtLimit | None:
    """Return a function that offers the lower bound of the first goal that has one, for as long as its full trials."""
    for result in searched.results.values():
        if result.lower_pps is not None:
            load = Offer(search.links, search.mix, Pps(result.lower_pps), result.goal.final_s, search.warmup, search.drain)
            return frames_at_limit(generator, load)
    return None


async def find(generator: Generator, search: Search, tell: Tell = no_observer) -> SearchResult:
    """Run a search without a cell; `tell` is called with the bounds as they move. Raises as `measure`."""
    return await _find(SearchLog(generator, search, tell=tell))


async def _find(log: SearchLog) -> SearchResult:
    search = log.search
    checked(search.goals)
    highest, highest_is, ended = search.highest, search.highest_is, ""
    if highest is None:
        highest, highest_is = await log.reach()
    lowest, highest = search.between(highest)
    bounds: Mapping[Goal, Bounds] = {}
    try:
        by = _by_fit if search.loads_by is LoadsBy.FIT else _by_library
        bounds = await by(log, lowest, highest)
    except Ended as end:
        ended = str(end)
    except MeasurementError as error:
        if isinstance(error, MachineTooBusy) or not any(t.counts for t in log.trials):
            raise
        ended = str(error)
    results = {goal.name: result_of(goal, log.trials, search.tolerance, bounds.get(goal)) for goal in search.goals}
    if not ended:
        results = {name: await _tried_again(log, result) for name, result in results.items()}
    if any(t.role is Role.REACH and not t.backpressure_frames for t in log.trials):
        results = {name: _generators(result) for name, result in results.items()}
    return SearchResult(results, tuple(log.trials), lowest, highest, highest_is, ended, search.tolerance)


async def _by_library(log: SearchLog, lowest: Pps, highest: Pps) -> Mapping[Goal, Bounds]:
    """Run the trials that the library asks for. Raises Ended, MeasurementError."""
    search = log.search
    with Library(search.goals, lowest=lowest, highest=highest) as library:
        step = await library.first()
        while isinstance(step, NextTrial):
            step = await library.tell((await log.answer(step)).load_outcome(step, search.tolerance))
        return step


async def _by_fit(log: SearchLog, lowest: Pps, highest: Pps) -> Mapping[Goal, Bounds]:
    """Run the trials that the fit asks for. Raises Ended, MeasurementError."""
    search = log.search
    fitted = FittedLoads(search.goals, links=len(search.links), lowest=lowest, highest=highest, expected=search.expected)
    while (ask := fitted.next()) is not None:
        trial = await log.answer(ask)
        fitted.add(trial, trial.load_outcome(ask, search.tolerance))
    return fitted.bounds


async def _tried_again(log: SearchLog, result: GoalResult) -> GoalResult:
    """Run one more full trial at the bounds of a goal that allows no bad trial: a DUT with memory may have changed.

    Short trials may have set an upper bound before the DUT was warm. A lower bound may date from before the DUT was hot.
    """
    goal = result.goal
    if goal.exceed_ratio > 0 or result.irregular:
        return result
    disagreements = list[str]()
    full = (
        t.duration_s >= goal.final_s for t in log.trials if t.counts and t.load_pps == result.upper_pps and t.loss_ratio > goal.loss_ratio
    )
    if result.upper_pps is not None and not any(full):
        disagreements.append(await _held(log, goal, result.upper_pps, Side.UPPER))
    if result.lower_pps is not None and log.search.again_at_end is AgainAtEnd.BOTH:
        disagreements.append(await _held(log, goal, result.lower_pps, Side.LOWER))
    return replace(result, disagreements=tuple(filter(None, disagreements)))


async def _held(log: SearchLog, goal: Goal, load: Pps, side: Side) -> str:
    """Return how a full trial at a bound contradicts it; empty if it confirms the bound."""
    bound = f"the {side.value} bound, {si(load, 'pps', 5)},"
    try:
        trial = await log.again(load, goal)
    except MeasurementError as error:
        if isinstance(error, MachineTooBusy):
            raise
        return f"{bound} could not be tried again at the end: {error}"
    if trial is None:
        return f"{bound} was not tried again at the end: the time of the search was spent"
    if not trial.is_usable or Mark.STARVED in trial.marks:
        return f"{bound} could not be tried again at the end: {trial.detail or Mark.STARVED.value}"
    if (trial.loss_ratio > goal.loss_ratio) is (side is Side.UPPER):
        return ""
    what = "no more was lost than the goal allows" if side is Side.UPPER else "more was lost than the goal allows"
    return f"{bound} failed when tried again: in a trial of {goal.final_s:g} s at the end {what}"


def _generators(result: GoalResult) -> GoalResult:
    """Mark a missing upper bound as the generator's limit, if the highest rate was the generator's own."""
    why = tuple(Irregular.GENERATOR if w is Irregular.NO_UPPER else w for w in result.irregular)
    return replace(result, irregular=why)
