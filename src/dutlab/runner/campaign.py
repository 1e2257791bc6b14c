"""Carries a campaign out: every planned run once, whatever is killed meanwhile.

What there is to do is looked up in the campaign's folder (campaign_folder.py). Each planned run is carried out by a process of its own
(fleet/place.py), on this machine or by a worker that Dask knows. A run is a `dutlab run` of its own, so its lock, journal and clean-up are
those of any other. One that was cut goes on with `dutlab resume`, which puts back first what it had changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dutlab.errors import InputError, TestbedError
from dutlab.runner.campaign_folder import CampaignFolder, RunStanding
from dutlab.runner.fleet.carrier import PlaceCarrier
from dutlab.spec.campaign import MOST_TRIES, Hours
from dutlab.spec.planned_run import PlannedRun

_LONGEST_WAIT_S = 60.0
"""So that a clock that was set is noticed."""


@dataclass
class CampaignWork:
    """One process's work on a campaign."""

    folder: CampaignFolder
    note: Callable[[str], None]
    """Is told each thing that happens, a line."""
    carrier: PlaceCarrier
    """Starts the process of a planned run, and waits for it."""
    clock: Callable[[], datetime] = lambda: datetime.now().astimezone()
    _tries: dict[int, int] = field(default_factory=dict)

    async def carry_out(self) -> list[RunStanding]:
        """Does what is left, and returns what became of everything. Raises InputError, StoreError, TestbedError."""
        plan = self.folder.plan
        hours = None if plan["hours"] is None else Hours.parse(plan["hours"])
        planned = self.folder.planned()
        with self.folder.alone():
            self.folder.ask_no_more()
            before: datetime | None = None
            for night in sorted({run.night for run in planned}):
                runs = [run for run in planned if run.night == night]
                if hours is not None and before is not None and any(self.folder.done(run) is None for run in runs):
                    await self._until(hours.next_begin(hours.night_of(before) or before))
                await self._night(runs, plan, hours)
                before = max(filter(None, map(self.folder.last_began, runs)), default=None)
        return [self.folder.standing(run) for run in planned]

    async def _night(self, runs: Sequence[PlannedRun], plan: dict[str, Any], hours: Hours | None) -> None:
        def left() -> list[PlannedRun]:
            return [run for run in runs if self.folder.done(run) is None and self._tries.get(run.number, 0) < plan["tries"]]

        while todo := left():
            await self._until_open(hours)
            by_testbed: dict[str, list[PlannedRun]] = {}
            for run in todo:
                by_testbed.setdefault(run.testbed, []).append(run)
            turns = asyncio.Semaphore(plan["at_once"] or (1 if self.folder.fleet.is_local else len(by_testbed)))
            try:
                async with asyncio.TaskGroup() as group:
                    for of_testbed in by_testbed.values():
                        group.create_task(self._on_testbed(of_testbed, turns, hours))
            except ExceptionGroup as several:
                raise several.exceptions[0] from None
            if left() and (hours is None or hours.night_of(self.clock()) is not None):
                self.note(f"{len(left())} to be tried again in {plan['again_after_s']:g} s")
                await asyncio.sleep(plan["again_after_s"])

    async def _on_testbed(self, runs: Sequence[PlannedRun], turns: asyncio.Semaphore, hours: Hours | None) -> None:
        """One after the other, until one says that the testbed cannot be used: the others wait for the next round then."""
        async with turns:
            for run in runs:
                if hours is not None and hours.night_of(self.clock()) is None:
                    return
                status = await self._one(run)
                if status == InputError.exit_status:
                    self._tries[run.number] = MOST_TRIES  # what is wrong now will be wrong later
                if status == TestbedError.exit_status and self.folder.done(run) is None:
                    for other in runs[runs.index(run) + 1 :]:
                        self._tries[other.number] = self._tries.get(other.number, 0) + 1  # a testbed that stays away ends the night
                    return

    async def _one(self, planned: PlannedRun) -> int:
        """Makes the run, or goes on with it; returns the exit status of its process."""
        self._tries[planned.number] = self._tries.get(planned.number, 0) + 1
        self.note(f"{_words(planned)}: {'resumed' if self.folder.cut_run(planned) else 'begun'}")
        status = await self.carrier.carry(planned)
        name = self.folder.done(planned)
        self.note(f"{_words(planned)}: {f'done: {self.folder.runs / name}' if name else f'ended with status {status}'}")
        return status

    async def _until_open(self, hours: Hours | None) -> None:
        if hours is not None and hours.night_of(self.clock()) is None:
            await self._until(hours.next_begin(self.clock()))

    async def _until(self, when: datetime) -> None:
        if when > self.clock():
            self.note(f"waiting until {when:%Y-%m-%d %H:%M}")
        while (left := (when - self.clock()).total_seconds()) > 0:  # noqa: ASYNC110 - nothing but the clock tells
            await asyncio.sleep(min(left, _LONGEST_WAIT_S))


def _words(planned: PlannedRun) -> str:
    parts = [planned.experiment, planned.testbed, planned.version, f"night {planned.night}"]
    return f"{planned.number} ({', '.join(part for part in parts if part)})"
