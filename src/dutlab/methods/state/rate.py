"""New flows per second: the search of `methods.search`, with trials in which every frame begins a new flow.

The DUT has taken a flow when the flow's first frame arrives. Each trial begins with an empty table and must not fill it: with a full table,
the result would be the rate at which the DUT deletes flows. One flow is one frame, so the loss is the share of lost flows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt
from dutlab.events import Tell, no_observer
from dutlab.methods.dut_tables import FlowCounts, StateTable
from dutlab.methods.ports import Generator, Offer, Outcome, Row
from dutlab.methods.search import method as search
from dutlab.methods.search.account import doubts
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import SearchResult
from dutlab.spec.goals import Goal
from dutlab.spec.workloads.state import StateSetting
from dutlab.units import Pps, Seconds


def counted(before: FlowCounts, after: FlowCounts) -> Row:
    """Return table columns: the tracked flows at the end, and the increase of each error counter."""
    return {"tracked_flows": after.tracked, **after.risen_since(before)}


GOAL = "setup"
ROOM = 0.9
"""Share of the table that a trial may fill."""
SLACK = 1.01
"""Reserve for a generator that sends slightly more than asked."""


@dataclass
class FreshFlows:
    """A generator with new flows in each trial. Before each trial, the DUT's flows are deleted."""

    generator: Generator
    states: StateTable
    setting: StateSetting
    rows: list[Row] = field(default_factory=list)
    """Counters of the DUT in each trial."""

    async def offer(self, offer: Offer) -> Outcome:
        """Offer as in methods.ports, but without warm-up, because its flows would stay in the table."""
        await self.states.forget()
        frames = (
            self.setting.most_flows
            if offer.rate is None
            else min(math.ceil(offer.rate * offer.duration * SLACK) + 1, self.setting.most_flows)
        )
        before = await self.states.counts()
        traffic = self.setting.traffic(frames, seed=len(self.rows) + 1)
        self.rows.append({})
        outcome = await self.generator.offer(replace(offer, warmup=Seconds(0.0), traffic=traffic))
        self.rows[-1] = counted(before, await self.states.counts())
        return outcome


@dataclass(frozen=True)
class Rate:
    """Result, and the DUT's counters of each trial."""

    search: SearchResult
    counters: Sequence[Row]

    @property
    def lower_pps(self) -> Pps | None:
        """Highest rate at which the DUT takes the flows."""
        return self.search.results[GOAL].lower_pps

    @property
    def figures(self) -> Mapping[str, float]:
        """Known bounds of the rate."""
        result = self.search.results[GOAL]
        bounds = {"setup_lower_per_s": result.lower_pps, "setup_upper_per_s": result.upper_pps}
        return {name: float(value) for name, value in bounds.items() if value is not None}

    @property
    def rows(self) -> list[Row]:
        """One row per trial."""
        return [
            {
                "asked_per_s": t.load_pps,
                "duration_s": t.duration_s,
                "begun_flows": t.made_frames,
                "taken_flows": t.received_frames,
                "marks": "; ".join(mark.value for mark in t.marks),
                **counters,
            }
            for t, counters in zip(self.search.trials, self.counters, strict=False)
        ]

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts of the search, about our figures."""
        return doubts(self.search, {}, figure="setup_lower_per_s")

    @property
    def notes(self) -> list[str]:
        """Notes of the search, and a note if the DUT tracked no flows."""
        notes = [note.replace(f"{GOAL}: ", "new flows a second: ", 1) for note in self.search.notes]
        tracked = [row.get("tracked_flows") for row in self.counters if row]
        if tracked and not any(tracked):
            notes.append("new flows: the DUT tracked none in any trial, so this is how fast it forwards, not how fast it takes flows")
        return notes


async def measure(
    generator: Generator, states: StateTable, link: str, setting: StateSetting, *, line_pps: Pps | None, room: int, tell: Tell = no_observer
) -> Rate:
    """Run the search; a trial begins at most `room` flows. Raises MeasurementError if no trial had a result, HostError, InputError."""
    goal = Goal(
        GOAL,
        setting.loss_ratio,
        0.0,
        setting.trial_s,
        setting.trial_s,
        width=max(setting.width_ratio, setting.loss_ratio),
        initial_s=setting.trial_s,
        steps=0,
    )
    of_table = Pps(room / SLACK / setting.trial_s)
    by_line = line_pps is not None and line_pps < of_table
    wanted = Search(
        links=(link,),
        mix=setting.frame_size,
        goals=(goal,),
        highest=line_pps if by_line else of_table,
        highest_is="the line rate"
        if by_line
        else f"the rate at which a trial of {setting.trial_s:g} s begins {room} flows, as many as it may",
        warmup=Seconds(0.0),
        drain=setting.drain_s,
    )
    fresh = FreshFlows(generator, states, setting)
    return Rate(await search.find(fresh, wanted, tell), fresh.rows)
