"""Loads of a search from a fit. Short trials show the device's rate and buffers; full trials then confirm the loads around the limit.

For goals that allow no bad trial. The bounds are those of RFC 9971, as with the library: a load with a bad trial is an upper bound, and
only full good trials make a lower bound. So the fit chooses loads, but never decides a bound. In order:

1. Looks: a short trial at the highest rate, and a longer one at the rate that came back. They show the line of forwarded frames
   (stats.forwarding).
2. A full trial just above the limit by the line, which is stopped at its first loss. If the line rests on one trial, or on buffers that may
   be a slower state, a short trial checks it first, because a full trial at a rate that is far too low costs a minute.
3. A full trial one width below the lowest bad load, until one is good.

Frames lost by chance need another rule: one width lower they are as likely. Their rate per frame is estimated from the full trials. If the
next one is unlikely to be good, the search goes down to a load where it is likely, and then up from there.

With an expected rate, a short trial just above it comes first. If it was bad, it replaces the looks, and a full trial follows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.methods.search.mlrsearch import Bounds, LoadOutcome, NextTrial
from dutlab.methods.search.trial import Mark, SearchTrial
from dutlab.spec.goals import Goal
from dutlab.stats.forwarding import APART, ForwardingLine, Overload, forwarding_line
from dutlab.stats.rescore import RescoredBounds, TrialPoint, answer
from dutlab.units import Pps, Seconds

# The constants below were chosen on devices 0, 2, … and 40000 to 40799 of tests/bench/search_cost.py, which reports 1, 3, … separately.
LOOKS = 2
"""Number of trials that always run to their end, for the line."""
LOOK_LONGER = 2.0
"""Duration of a look at the limit, in initial durations of the goal; the first is one of them."""
CHECK_LONGER = 8.0
"""Duration of a check whether frames were held in buffers, in initial durations of the goal."""
AHEAD = 0.9
"""Distance of the upper bound from the limit by the line, in widths; the lower bound is one width below it."""
PROBED_AHEAD = 1.0
"""Additional distance of a short trial, in widths: the upper bound is then set by a full trial below it."""
CHECKED_BELOW = 0.2
"""Distance of a check below the rate that came back, in widths."""
NEARLY = 0.999
"""Share of a width to step: rounding must not leave the bounds wider than the goal."""
CLIMB = 2.0
"""First step up from a load that the line called too high, in widths; then it doubles."""
OVERLOADED = 1e-3
"""Loss ratio above which a trial shows the device's rate; below, it may have lost frames by chance."""
SAME_LIMIT = 0.1
"""Widths above the limit by the line up to which a loss contradicts it."""
SLOWER_AFTER = 3
"""Number of overloaded full trials below the limit after which the line is given up for their rates."""
ALIKE = 3
"""Number of full trials with losses after like times that are not taken for chance."""
ALIKE_RATIO = 1.5
"""Largest ratio of such times. Three times to a loss by chance are so close in 3.6 % of the cases (exponential distribution)."""
RISING = 4
"""Number of such trials, each with a later loss, that are not taken for chance: one in 24 orders."""
STOPPED = 0.99
"""Largest share of its duration after which a trial was stopped at its first loss: others do not show when they lost frames."""
RARE = 0.05
"""Probability by chance below which times are not taken for chance."""
LIKELY = 0.15
"""Least probability of a good trial one width lower; below it, the search goes down further."""
PATIENCE = 0.5
"""Seconds of such trials after which this matters, in full trials: until then they cost little."""
GOOD_BELOW = 0.3
"""Probability of a good trial where it goes down to."""
DROP = 0.5
"""Largest share of the lowest bad load where it goes down to, squared after the next loss, and so on."""
MANY = 10
"""Number of full trials with losses after which the loads close in on each other, whatever the reason."""
FAR_BELOW = 0.8
"""Share of the limit below which a trial is one that went down."""
MOST_DOUBLINGS = 40


@dataclass(frozen=True)
class FitTrial:
    """A trial as the fit needs it, per link."""

    load_pps: float
    asked_s: float
    sent_s: float
    forwarded_frames: float
    loss_ratio: float
    """Loss ratio as reported to the search: frames that were not made count as lost."""
    look: bool = False
    """True for one of the first two short trials, which always run to their end."""
    starved: bool = False
    """True if the generator did not reach the load."""

    @property
    def point(self) -> TrialPoint:
        """The trial for definitions of limits."""
        return TrialPoint(self.load_pps, self.asked_s, self.loss_ratio)

    @property
    def overload(self) -> Overload:
        """The trial as a point of the line."""
        return Overload(self.sent_s, self.forwarded_frames)

    @property
    def overloaded(self) -> bool:
        """True if it lost too much for single frames lost by chance."""
        return self.forwarded_frames < self.load_pps * self.sent_s * (1 - OVERLOADED)


class FittedLoads:
    """Chooses the trials of one search. Loads are in frames a second of each link."""

    def __init__(self, goals: Sequence[Goal], *, links: int, lowest: Pps, highest: Pps, expected: Pps | None = None) -> None:
        self._goals, self._links = goals, links
        self._lowest, self._highest = float(lowest), float(highest)
        self._expected = None if expected is None else min(max(float(expected), self._lowest), self._highest)
        self._trials: list[FitTrial] = []

    def next(self) -> NextTrial | None:
        """Return the next trial; None if every goal has its bounds."""
        for goal in self._goals:
            state = _State(goal, self._trials, self._lowest, self._highest)
            if not state.done:
                return _trial(state) if self._trials or self._expected is None else state.above(self._expected)
        return None

    def add(self, trial: SearchTrial, outcome: LoadOutcome) -> None:
        """Store the result of the last trial."""
        forwarded = max(trial.made_frames - trial.failed_frames, 0) / self._links
        self._trials.append(
            FitTrial(
                load_pps=outcome.ask.load,
                asked_s=outcome.ask.duration,
                sent_s=trial.sent_s,
                forwarded_frames=forwarded,
                loss_ratio=outcome.loss_ratio,
                look=outcome.ask.in_full,
                starved=Mark.STARVED in trial.marks,
            )
        )

    @property
    def bounds(self) -> dict[Goal, Bounds]:
        """Bounds of each goal by the trials so far."""
        answers = {goal: answer([t.point for t in self._trials], goal.definition) for goal in self._goals}
        return {goal: Bounds(_pps(of.lower_pps), _pps(of.upper_pps)) for goal, of in answers.items()}


def _pps(rate: float | None) -> Pps | None:
    return None if rate is None else Pps(rate)


class _State:
    """Result of the trials for one goal."""

    def __init__(self, goal: Goal, trials: Sequence[FitTrial], lowest: float, highest: float) -> None:
        self.goal, self.trials, self.lowest, self.highest = goal, trials, lowest, highest
        bounds: RescoredBounds = answer([t.point for t in trials], goal.definition)
        self.lower, self.upper = bounds.lower_pps, bounds.upper_pps
        self.bad = [t for t in trials if t.loss_ratio > goal.loss_ratio]
        self.good = [t for t in trials if t.loss_ratio <= goal.loss_ratio and t.load_pps < (self.upper or math.inf)]
        self.bad_full = [t for t in self.bad if t.asked_s >= goal.final_s]
        self.look_s = min(goal.initial_s * LOOK_LONGER, goal.final_s)
        self.check_s = min(goal.initial_s * CHECK_LONGER, goal.final_s)

    @property
    def done(self) -> bool:
        """True if the bounds are close enough, or there is no room for one of them."""
        if self.upper is None:
            return self.lower is not None and self.lower >= self.highest
        return self.upper <= self.lowest or (self.lower is not None and (self.upper - self.lower) / self.upper <= self.goal.width)

    @property
    def closing(self) -> float:
        """Highest load to try: one width below the upper bound, where a good full trial ends the search."""
        return self.highest if self.upper is None else max(self.upper * (1 - self.goal.width * NEARLY), self.lowest)

    @property
    def clean(self) -> float:
        """Highest load below the upper bound with a good trial of any length."""
        return max((t.load_pps for t in self.good), default=0.0)

    @property
    def line(self) -> ForwardingLine:
        """Line through the overloaded trials; through all bad ones if none is overloaded."""
        return forwarding_line([t.overload for t in self.bad if t.overloaded] or [t.overload for t in self.bad])

    @property
    def limit(self) -> float:
        """Highest load that a full trial passes, by the line."""
        return self.line.limit_pps(self.goal.final_s) / (1 - self.goal.loss_ratio)

    @property
    def late(self) -> list[FitTrial]:
        """Bad full trials that were stopped early, and were good for longer than a look."""
        return [t for t in self.bad_full if self.look_s < t.sent_s < t.asked_s * STOPPED]

    @property
    def not_by_chance(self) -> bool:
        """True if the last of these lost frames after like times, or each later than the one before: by chance, they rarely do."""
        times = [t.sent_s for t in self.late]
        rising = len(times) >= RISING and all(a < b for a, b in itertools.pairwise(times[-RISING:]))
        return rising or len(_alike(self.late)) >= ALIKE

    @property
    def none_early(self) -> bool:
        """True if the least of n times is too large a share of their sum: by chance, more than y has the probability (1 - n y)^(n - 1)."""
        times = [t.sent_s for t in self.bad_full if not t.overloaded and t.sent_s < t.asked_s * STOPPED]
        return len(times) > ALIKE and (1 - len(times) * min(times) / sum(times)) ** (len(times) - 1) < RARE

    @property
    def near(self) -> float:
        """Factor of one width up."""
        return 1 + self.goal.width * NEARLY

    def full(self, load: float) -> NextTrial:
        """Return a full trial between the bounds."""
        least = self.lowest if self.lower is None else self.lower * self.near
        return NextTrial(Pps(min(max(load, least), self.closing)), self.goal.final_s)

    def short(self, load: float, seconds: float) -> NextTrial:
        """Return a short trial above the loads that were good; a full one if there is no room."""
        inside = self.clean < load < (self.upper or math.inf)
        return NextTrial(Pps(max(load, self.lowest)), Seconds(seconds)) if inside else self.full(load)

    def above(self, expected: float) -> NextTrial:
        """Return a trial one width above an expected rate. Only large buffers take longer than this to lose frames there."""
        return NextTrial(Pps(min(expected / (1 - self.goal.width * NEARLY), self.highest)), Seconds(self.check_s))


def _trial(state: _State) -> NextTrial:
    """Return the next trial of a goal that does not have its bounds."""
    if (look := _look(state)) is not None:
        return look
    width, limit = state.goal.width, state.limit
    unexpected = [t for t in state.bad_full if t.load_pps <= limit * (1 + SAME_LIMIT * width)]
    by_chance, slower = [t for t in unexpected if not t.overloaded], [t for t in unexpected if t.overloaded]
    if len(slower) >= SLOWER_AFTER:
        limit = min(t.overload.rate_pps for t in slower[-SLOWER_AFTER:])
    aim = max(limit * (1 + AHEAD * width), state.lowest)
    if len(state.bad_full) > MANY:
        return _after_many_losses(state)
    if state.not_by_chance or by_chance:
        return _after_late_losses(state) if state.not_by_chance else _after_losses_by_chance(state, by_chance, limit)
    if (check := _check(state, aim)) is not None:
        return check
    if any(t.load_pps >= aim and t.forwarded_frames > state.line.forwarded_frames(t.sent_s) for t in state.good):
        return _climb(state, limit)
    return _above(state, aim)


def _above(state: _State, aim: float) -> NextTrial:
    """Return a trial just above the limit by the line: a full one, unless it could be good or the generator too slow."""
    if any(t.starved for t in state.bad) and aim < state.closing:  # such a trial is not stopped early
        return state.short(aim, state.look_s)
    probe = aim * (1 + PROBED_AHEAD * state.goal.width)
    return state.short(probe, state.look_s) if len(state.bad) == 1 and probe < state.closing else state.full(aim)


def _look(state: _State) -> NextTrial | None:
    """Return one of the first short trials: at the highest rate, then at the rate that came back of it.

    A full trial at the highest rate, if it was good so far. None if both are run, or if an expected rate has shown an upper bound.
    """
    looks = [t for t in state.trials if t.look]
    if not looks and state.upper is not None:
        return None
    if not looks:
        return NextTrial(Pps(state.highest), state.goal.initial_s, in_full=True)
    if state.upper is None:
        return state.full(state.highest)
    if len(looks) >= LOOKS:
        return None
    load = max(min(looks[0].overload.rate_pps / (1 - state.goal.loss_ratio), state.closing), state.lowest)
    return NextTrial(Pps(load), Seconds(state.look_s), in_full=True) if load > state.clean else None


def _check(state: _State, aim: float) -> NextTrial | None:
    """Return a check of large buffers: a longer trial at the least rate that came back. A slower state would explain the looks as well.

    None if there was one, or the full trial is not much below this rate.
    """
    load = min(t.overload.rate_pps for t in state.bad) * (1 - CHECKED_BELOW * state.goal.width)
    if state.bad_full or state.good or len(state.bad) != LOOKS or load <= aim:
        return None
    return state.short(load, state.check_s)


def _climb(state: _State, limit: float) -> NextTrial:
    """Return a short trial above the loads that were good, as the line has losses at some of them: the step doubles each time."""
    width, passed, upper = state.goal.width, state.clean, state.upper or state.highest
    steps = sum(t.load_pps >= limit * (1 - OVERLOADED) for t in state.good)
    load = passed * (1 + width * CLIMB * _doubled(steps - 1))
    load = min(load, max(math.sqrt(passed * upper), passed * (1 + width)))
    return state.short(load, state.look_s) if load < state.closing else state.full(state.closing)


def _after_late_losses(state: _State) -> NextTrial:
    """Return a full trial further down, after losses that came late and not by chance: the device is hotter, or its credit is spent.

    The last two times that differ enough show the line that the looks were too short for. Without them, the step down doubles each time.
    """
    width, (*before, last) = state.goal.width, state.late or state.bad_full
    earlier = next((t for t in reversed(before) if t.sent_s * APART <= last.sent_s), None)
    if earlier is not None:
        line = forwarding_line([earlier.overload, last.overload])
        aim = line.limit_pps(state.goal.final_s) / (1 - state.goal.loss_ratio) * (1 + AHEAD * width)
        if (state.lower or state.lowest) * (1 + width) < aim < state.closing:
            return state.full(aim)
    if state.lower is not None and state.upper is not None:
        return state.full(math.sqrt(state.lower * state.upper))
    return state.full(state.closing / (1 + width * _doubled(max(len(_alike(state.late)) - ALIKE, 0))))


def _after_many_losses(state: _State) -> NextTrial:
    """Return a full trial far enough from the others that the search ends soon, whatever the device does."""
    if state.lower is not None and state.upper is not None:
        return state.full(math.sqrt(state.lower * state.upper))
    return state.full(state.closing / (1 + state.goal.width * _doubled(len(state.bad_full) - MANY)))


def _alike(trials: Sequence[FitTrial]) -> list[FitTrial]:
    """Return the last of these trials that were sent for like times."""
    alike: list[FitTrial] = []
    for trial in reversed(trials):
        times = [t.sent_s for t in (*alike, trial)]
        if max(times) > ALIKE_RATIO * min(times):
            break
        alike.append(trial)
    return alike


def _after_losses_by_chance(state: _State, by_chance: Sequence[FitTrial], limit: float) -> NextTrial:
    """Return a full trial one width lower, or at a load where a good trial is likely, or above such a one.

    Losses are taken as independent of each other, with one rate per frame. One full trial more counts as without loss.
    """
    final_s, full_good = state.goal.final_s, [t for t in state.good if t.asked_s >= state.goal.final_s]
    frames = sum(t.load_pps * t.sent_s for t in (*by_chance, *full_good)) + by_chance[0].load_pps * final_s
    losses_per_pps = len(by_chance) / frames * final_s
    drops = sum(t.load_pps < FAR_BELOW * limit for t in by_chance)
    lasted = sum(t.sent_s for t in by_chance)
    going_down = drops > 0 and state.lower is None
    if lasted < PATIENCE * final_s or (math.exp(-losses_per_pps * state.closing) >= LIKELY and not going_down):
        return state.full(state.closing)
    if state.none_early:
        return _after_late_losses(state)
    if state.lower is not None:
        return state.full(state.lower * (1 + state.goal.width * NEARLY * _doubled(2 * (len(full_good) - 1))))
    return state.full(min(-math.log(GOOD_BELOW) / losses_per_pps, state.closing * DROP ** (1 + drops)))


def _doubled(times: int) -> float:
    return 2.0 ** min(times, MOST_DOUBLINGS)
