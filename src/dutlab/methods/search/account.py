"""Parts of a record about a search: figures, tables, doubts and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ledger import RFC2544_TRIAL_S
from dutlab.methods.ports import Row, Table
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import GoalResult, Irregular, SearchResult
from dutlab.methods.search.trial import Mark
from dutlab.spec.mixes import Mix
from dutlab.subject import part_figure
from dutlab.units import Pps, l1_rate, si

SETTLING_S = 2 + 5  # RFC 2544 section 23: 2 s for residual frames and 5 s for the DUT to settle
_DOUBTS = {
    Irregular.ENDED: DoubtKind.SEARCH_CUT,
    Irregular.NO_LOWER: DoubtKind.NO_LOWER_BOUND,
    Irregular.SILENT: DoubtKind.NO_LOWER_BOUND,
    Irregular.NO_UPPER: DoubtKind.NO_UPPER_BOUND,
    Irregular.GENERATOR: DoubtKind.LIMIT_OF_GENERATOR,
    Irregular.UNLIKE: DoubtKind.BOUNDS_UNLIKE,
}


def figures(result_of_search: SearchResult, mix: Mix, links: int) -> dict[str, float]:
    """Return the figures of `links` links together; unknown ones are absent."""
    known: dict[str, float] = {}
    for name, result in result_of_search.results.items():
        for what, rate in (("lower", result.lower_pps), ("upper", result.upper_pps), ("conditional", result.conditional_pps)):
            if rate is not None:
                known[part_figure(name, f"{what}_pps")] = rate * links
                if what != "upper":
                    known[part_figure(name, f"{what}_bps_l1")] = l1_rate(Pps(rate * links), mix.mean)
    return known | {
        "search_trials": len(result_of_search.trials),
        "search_sent_s": result_of_search.sent_s,
        "search_saved_s": result_of_search.saved_s,
    }


def tables(result_of_search: SearchResult) -> dict[str, Table]:
    """Return the tables `goals` (one row a goal with its result, rates of each link) and `trials` (every trial in its order)."""
    return {
        "goals": [_goal_row(result_of_search, result) for result in result_of_search.results.values()],
        "trials": [t.row(result_of_search.tolerance) for t in result_of_search.trials],
    }


def _goal_row(searched: SearchResult, result: GoalResult) -> Row:
    return {
        **asdict(result.goal),
        "lower_pps": result.lower_pps,
        "upper_pps": result.upper_pps,
        "conditional_pps": result.conditional_pps,
        "irregular": "; ".join(why.mark for why in result.irregular),
        "inversions": result.inversions,
        "disagreements": "; ".join(result.disagreements),
        "lowest_pps": searched.lowest_pps,
        "highest_pps": searched.highest_pps,
        "highest_is": searched.highest_is,
        "ended": searched.ended,
    }


def doubts(searched: SearchResult, of_trials: Mapping[DoubtKind, int], *, figure: str = "") -> tuple[Doubt, ...]:
    """Return the doubts of the results, and those of the trials with the number of trials that have them.

    `figure` is the figure with the lower bound, if it differs from the goal's own.
    """
    all_doubts = [Doubt(kind, f"in {count} of {len(searched.trials)} trials") for kind, count in of_trials.items()]
    for kind, marks in ((DoubtKind.LEDGER_OPEN, {Mark.CONTRADICTORY}), (DoubtKind.TX_STARVED, {Mark.NO_ACCOUNT, Mark.IDLE})):
        if first := next((t for t in searched.trials if marks & set(t.marks)), None):
            all_doubts.append(Doubt(kind, f"trial {first.number}: {first.detail}"))
    all_doubts += [
        doubt
        for result in searched.results.values()
        for doubt in _of_result(searched, result, figure or part_figure(result.goal.name, "lower_pps"))
    ]
    shortest = min(result.goal.final_s for result in searched.results.values())
    return (*all_doubts, *([Doubt(DoubtKind.SHORT_TRIAL, f"{shortest:g} s")] if shortest < RFC2544_TRIAL_S else []))


def _of_result(searched: SearchResult, result: GoalResult, figure: str) -> list[Doubt]:
    name = result.goal.name
    about = figure if result.lower_pps is not None else ""
    details = {
        Irregular.ENDED: searched.ended,
        Irregular.GENERATOR: searched.reach,
        Irregular.NO_UPPER: f"{si(searched.highest_pps, 'pps')} is {searched.highest_is}",
    }
    of = [Doubt(_DOUBTS[why], f"{name}: {details.get(why, why.value)}", about) for why in result.irregular]
    if (width := result.width) is not None and width > result.goal.width:
        of.append(Doubt(DoubtKind.BOUNDS_WIDE, f"{name}: {width:.2%} apart, {result.goal.width:.2%} was requested", about))
    of += [Doubt(DoubtKind.BOUNDS_MOVED, f"{name}: {what}", about) for what in result.disagreements]
    if result.inversions:
        of.append(Doubt(DoubtKind.GOAL_MET_ABOVE, f"{name}: at {result.inversions} rates", about))
    return of


def notes(search: Search, outcome: SearchResult) -> tuple[str, ...]:
    """Return notes for the reader, in sentences."""
    saved = f"stopping lost trials early saved {outcome.saved_s:.0f} s of {outcome.sent_s + outcome.saved_s:.0f} s"
    searched = f"searched from {si(outcome.lowest_pps, 'pps')} to {si(outcome.highest_pps, 'pps')}, {outcome.highest_is}"
    waits = f"waits of {search.drain:g} s after a trial, where RFC 2544 section 23 has 2 s and 5 s"
    held_back = sum(t.backpressure_frames > 0 for t in outcome.trials)
    expected = [] if search.expected is None else [f"{si(search.expected, 'pps', 5)} was expected on each link, and tried first"]
    refused = (
        f"in {held_back} of {len(outcome.trials)} trials the DUT's port did not take every frame; such frames count as lost by the DUT"
    )
    return (
        *outcome.notes,
        searched,
        *expected,
        saved,
        *([refused] if held_back else []),
        *([waits] if search.drain < SETTLING_S else []),
    )
