"""Log of a search: runs the trials that the search asks for, stores every one, and ends the search when more trials cannot help."""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from dutlab.doubts import DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.events import SEARCH, Tell, no_observer
from dutlab.methods.early_stop import Matters, allowance, most_frames
from dutlab.methods.ledger import HELD_BACK_MARGIN, doubts_of
from dutlab.methods.ports import Generator, Offer, Outcome
from dutlab.methods.search.mlrsearch import NextTrial
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import seconds_of
from dutlab.methods.search.trial import Mark, Role, SearchTrial, trial_of
from dutlab.spec.goals import Goal
from dutlab.spec.workloads.search import EarlyStop
from dutlab.subject import joined, part_figure
from dutlab.units import Pps, Seconds, si

REACH_MARGIN = 1.25
"""Factor on the rate of a short trial at full speed, without a given highest rate: other trials may reach more."""

_OF_FLOWS = frozenset({DoubtKind.DUPLICATES, DoubtKind.FOREIGN_FRAMES})
"""Doubts from a trial's frames, except loss; other doubts are among its marks."""


class Ended(Exception):
    """The search must stop; the text is the reason."""


class SearchLog:
    """Runs the trials of one search.

    `facts`, `doubts` (number of trials with each) and `raw` come from the generator. `clock` returns seconds: time around trials counts
    too, since a person waits for it.
    """

    def __init__(self, generator: Generator, search: Search, clock: Callable[[], float] = time.monotonic, tell: Tell = no_observer) -> None:
        self.search, self.trials = search, list[SearchTrial]()
        self.facts: dict[str, str] = {}
        self.doubts: dict[DoubtKind, int] = {}
        self.raw: dict[str, bytes] = {}
        """Raw output of the generator for all trials, in order."""
        self._generator, self._matters, self._clock = generator, Matters(search.goals), clock
        self._tell = tell
        self._spent, self._budget = 0.0, search.budget or seconds_of(search.goals)

    @property
    def packed(self) -> dict[str, bytes]:
        """The raw files, each as gzip: a search has dozens of trials with long outputs."""
        return {f"{name}.gz": gzip.compress(output, mtime=0) for name, output in self.raw.items()}

    def _bounds(self, load: Pps) -> dict[str, float]:
        """Return, for each goal, the highest load so far that met it and the lowest that did not, for observers."""
        bounds = {"intended_pps": float(load)}
        points = [(t.load_pps, t.loss_ratio) for t in self.trials if t.counts and t.load_pps is not None]
        for goal in self.search.goals:
            upper = min((load for load, loss in points if loss > goal.loss_ratio), default=math.inf)
            lower = max((load for load, loss in points if loss <= goal.loss_ratio and load < upper), default=0.0)
            if upper < math.inf:
                bounds[part_figure(goal.name, "upper_pps")] = float(upper)
            if lower:
                bounds[part_figure(goal.name, "lower_pps")] = float(lower)
        return bounds

    async def reach(self) -> tuple[Pps, str]:
        """Return the highest rate of the search, from a short trial at full speed, and its description.

        Raises MeasurementError if nothing is sent.
        """
        trial = await self._offer(Role.REACH, None, Seconds(max(goal.initial_s for goal in self.search.goals)))
        if trial.made_pps <= 0:
            raise MeasurementError(f"the generator sent nothing: {trial.detail}", raw=self.packed)
        if trial.backpressure_frames:
            taken = trial.made_pps * trial.sent_frames / trial.made_frames
            if taken > 0:
                return Pps(taken * HELD_BACK_MARGIN), "twice what the DUT took at full speed"
        return Pps(trial.made_pps * REACH_MARGIN), "a quarter above what the generator reached at full speed"

    async def answer(self, ask: NextTrial) -> SearchTrial:
        """Run the trial that the search asks for, until it has a usable result. Raises Ended, and errors of the generator's first trial."""
        if self._spent >= self._budget:
            raise Ended(f"{self._spent:.0f} s are spent, and the budget is {self._budget:.0f} s")
        allowed = None
        if self.search.early_stop is EarlyStop.AT_ONCE and not ask.in_full:
            frames = most_frames(round(ask.load * ask.duration) * len(self.search.links), self.search.tolerance)
            allowed = allowance(frames, self._matters.loss_ratio_at(ask.load))
        trial = await self._one_that_tells(ask, allowed)
        if Mark.SILENT in trial.marks:
            await self._still_there(trial)
        trial = self._keep(replace(trial, counts=True))
        self._matters.learn(ask.load, trial.load_outcome(ask, self.search.tolerance).loss_ratio)
        self._tell(joined(self.search.links), SEARCH, self._bounds(ask.load))
        return trial

    async def again(self, load: Pps, goal: Goal) -> SearchTrial | None:
        """Run a full trial at a bound of `goal`, without reporting it to the search; None if no time is left. Raises as `answer`."""
        if self._spent >= self._budget:
            return None
        allowed = None
        if self.search.early_stop is EarlyStop.AT_ONCE:
            frames = most_frames(round(load * goal.final_s) * len(self.search.links), self.search.tolerance)
            allowed = allowance(frames, goal.loss_ratio)
        return await self._offer(Role.AGAIN, load, goal.final_s, allowed)

    async def _one_that_tells(self, ask: NextTrial, allowed: int | None) -> SearchTrial:
        """Run a trial; repeat it once if it contradicts itself. Raises Ended after a second one, because the search would have to guess."""
        first = await self._offer(Role.SEARCH, ask.load, ask.duration, allowed)
        if first.is_usable:
            return first
        second = await self._offer(Role.SEARCH, ask.load, ask.duration, allowed)
        second = self._keep(replace(second, marks=(*second.marks, Mark.REPEATED)))
        if not second.is_usable:
            raise Ended(f"two trials in a row at {si(ask.load, 'pps')} gave no result: {second.detail}")
        return second

    async def _still_there(self, silent: SearchTrial) -> None:
        """Check after a trial with almost no received frames that the DUT still forwards a rate that passed before. Raises Ended.

        Without this check, a DUT that fails during the search would seem to have a low limit.
        """
        heard = [t for t in self.trials if t.role is Role.SEARCH and t.is_usable and Mark.SILENT not in t.marks]
        if not heard:
            return
        best = min(heard, key=lambda t: (t.loss_ratio, t.load_pps))
        control = await self._offer(Role.CONTROL, Pps(best.load_pps), Seconds(min(t.duration_s for t in heard)))
        if Mark.SILENT in control.marks or not control.is_usable:
            raise Ended(
                f"from trial {silent.number} on nothing came back, not even at {si(best.load_pps, 'pps')}, which had come through in "
                f"trial {best.number}: the DUT or the path is down"
            )

    async def _offer(self, role: Role, load: Pps | None, duration: Seconds, allowed: int | None = None) -> SearchTrial:
        search = self.search
        offer = Offer(search.links, search.mix, load, duration, search.warmup, search.drain, allowed)
        began = self._clock()
        try:
            outcome = await self._generator.offer(offer)
        except MeasurementError as error:
            if not self.trials or isinstance(error, MachineTooBusy):
                raise
            self._spent += self._clock() - began
            self._add_raw(error.raw)
            nothing = trial_of(offer, Outcome(()), number=len(self.trials) + 1, role=role, tolerance=search.tolerance)
            return self._keep(replace(nothing, marks=(Mark.NO_ACCOUNT,), detail=str(error)))
        self._note(offer, outcome)
        for disturbed in outcome.thrown_away:
            thrown = trial_of(offer, disturbed, number=len(self.trials) + 1, role=role, tolerance=search.tolerance)
            self._keep(replace(thrown, marks=(Mark.DISTURBED,), detail=disturbed.disturbed or disturbed.link_lost))
        trial = trial_of(offer, outcome, number=len(self.trials) + 1, role=role, tolerance=search.tolerance)
        # A device without a clock takes no time: its trials count with their nominal time.
        self._spent += max(self._clock() - began - search.begins, search.warmup + search.drain + trial.sent_s)
        return self._keep(trial)

    def _keep(self, trial: SearchTrial) -> SearchTrial:
        """Store the trial, or replace it with its newer state."""
        self.trials[trial.number - 1 : trial.number] = [trial]
        return trial

    def _note(self, offer: Offer, outcome: Outcome) -> None:
        self.facts.update(outcome.facts)
        self._add_raw(outcome.raw)
        of_flows = {doubt.kind for flow in outcome.flows for doubt in doubts_of(offer, flow)} & _OF_FLOWS
        for kind in {doubt.kind for doubt in outcome.doubts} | of_flows:
            self.doubts[kind] = self.doubts.get(kind, 0) + 1

    def _add_raw(self, raw: Mapping[str, bytes]) -> None:
        for name, output in raw.items():
            self.raw[name] = self.raw.get(name, b"") + output
