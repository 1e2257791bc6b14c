"""Throughput (RFC 2544 section 26.1): the fastest rate at which no frame is lost, by the search of `methods.search`."""

from __future__ import annotations

from dataclasses import replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.ledger import HELD_BACK_MARGIN
from dutlab.methods.ports import Generator
from dutlab.methods.rfc2544.context import LEARNING_S, LEAST_DRAIN_S, RESIDUAL_S, Rfc2544Result, SuiteContext, made, made_pps
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import GoalResult, SearchResult
from dutlab.spec.goals import Goal, goals_named
from dutlab.spec.workloads.search import AgainAtEnd
from dutlab.units import Pps, Seconds, l1_rate

REACH_S = 5.0
"""Seconds of sending at full speed to find the highest rate, if the medium's rate is not known."""
SHORTEST_S = 0.2


LINE_RATE = "the line rate"


async def reach(stand: SuiteContext) -> tuple[Pps, str]:
    """Return the highest rate of each direction if the medium's rate is not known, and its description. Raises MeasurementError."""
    outcome = await stand.offer(None, Seconds(max(stand.setting.seconds(REACH_S), SHORTEST_S)))
    rate, sent = made_pps(outcome.flows), sum(flow.sent_frames for flow in outcome.flows)
    if rate <= 0 or not sent:
        raise MeasurementError("the generator sent nothing at full speed", raw=dict(outcome.raw))
    if (taken := sent / made(outcome.flows)) < 1:
        return Pps(rate * taken * HELD_BACK_MARGIN), "twice what the DUT's port took at full speed"
    return Pps(rate), "what the generator makes at full speed"


def goal_of(stand: SuiteContext) -> Goal:
    """Return the goal of the preset `rfc2544` with scaled trials."""
    (goal,) = goals_named("rfc2544")
    final = Seconds(goal.final_s * stand.setting.scale)
    return replace(goal, final_s=final, sum_s=final, initial_s=Seconds(min(goal.initial_s, final)), width=stand.setting.width_ratio)


async def bounds(stand: SuiteContext, generator: Generator) -> GoalResult:
    """Return the bounds of the highest rate of `generator` at which nothing is lost. Raises as measure()."""
    return (await _search(stand, generator, AgainAtEnd.UPPER)).results[goal_of(stand).name]


async def _search(stand: SuiteContext, generator: Generator, again_at_end: AgainAtEnd, expected: Pps | None = None) -> SearchResult:
    setting, goal = stand.setting, goal_of(stand)
    search = Search(
        links=stand.directions,
        mix=setting.frame_size,
        goals=(goal,),
        highest=stand.maximum,
        highest_is=stand.maximum_is,
        warmup=Seconds(min(setting.seconds(LEARNING_S), goal.final_s)),
        drain=Seconds(max(setting.seconds(RESIDUAL_S), LEAST_DRAIN_S)),
        again_at_end=again_at_end,
        loads_by=setting.loads_by,
        expected=expected,
    )
    return await find(generator, search, stand.tell)


async def measure(stand: SuiteContext) -> Rfc2544Result:
    """Search for the throughput, which is the lower bound. Raises MeasurementError if no trial had a result, InputError."""
    setting, goal = stand.setting, goal_of(stand)
    search_result = await _search(stand, stand.generator, AgainAtEnd.BOTH, setting.expected_pps)
    result = search_result.results[goal.name]
    row = {
        "lower_pps": result.lower_pps,
        "upper_pps": result.upper_pps,
        "max_pps": stand.maximum,
        "max_is": stand.maximum_is,
        "trials": len(search_result.trials),
        "trial_s": float(goal.final_s),
        "disagreements": "; ".join(result.disagreements),
        "sent_s": search_result.sent_s,
    }
    if result.lower_pps is None:
        return Rfc2544Result([row], {}, search_result.notes)
    total = Pps(result.lower_pps * len(stand.directions))
    figures = {
        "throughput_pps": total,
        "throughput_bps_l1": l1_rate(total, setting.frame_size.mean),
        "throughput_share_ratio": result.lower_pps / stand.maximum,
        "max_pps": stand.maximum * len(stand.directions),
    }
    return Rfc2544Result(
        [row], figures, search_result.notes, [Doubt(DoubtKind.BOUNDS_MOVED, what, "throughput_pps") for what in result.disagreements]
    )
