"""Carry out a campaign: every planned run once, even if processes are killed.

The campaign's folder (campaign_folder.py) holds the remaining work. Each planned run is carried out by a separate process
(fleet/place.py), on this machine or on a Dask worker. A run is a separate `dutlab run`, so it has its own lock, journal and clean-up.
A cut run continues with `dutlab resume`, which first undoes the changes of the run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from dutlab.errors import InputError, TestbedError
from dutlab.runner.campaign_folder import CampaignFolder, RunStanding
from dutlab.runner.campaign_plan import PlanHead
from dutlab.runner.fleet.carrier import PlaceCarrier
from dutlab.spec.campaign import Hours
from dutlab.spec.planned_run import PlannedRun

_LONGEST_WAIT_S = 60.0
"""Longest sleep. After it the clock is read again, since a person or summer time may have changed it."""


@dataclass
class CampaignWork:
    """One process's work on a campaign."""

    folder: CampaignFolder
    note: Callable[[str], None]
    """Function that is called with a line for each event."""
    carrier: PlaceCarrier
    """Carrier that starts the process of a planned run and waits for it."""
    clock: Callable[[], datetime] = lambda: datetime.now().astimezone()

    async def carry_out(self) -> list[RunStanding]:
        """Carry out the remaining runs, and return the state of all. Raises InputError, StoreError, TestbedError."""
        plan = self.folder.plan
        planned = self.folder.planned()
        by_testbed: dict[str, list[PlannedRun]] = {}
        for run in planned:
            by_testbed.setdefault(run.testbed, []).append(run)
        turns = asyncio.Semaphore(plan.at_once or (1 if self.folder.fleet.is_local else len(by_testbed)))
        with self.folder.alone():
            self.folder.withdraw_end_request()
            try:
                async with asyncio.TaskGroup() as group:
                    for testbed, runs in by_testbed.items():
                        group.create_task(_TestbedWork(self, testbed, plan, turns).carry_out(runs))
            except ExceptionGroup as several:
                raise several.exceptions[0] from None
        return [self.folder.standing(run) for run in planned]

    async def one(self, planned: PlannedRun) -> int:
        """Start or resume the run; return the exit status of its process."""
        self.note(f"{_words(planned)}: {'resumed' if self.folder.cut_run(planned) else 'begun'}")
        status = await self.carrier.carry(planned)
        if (name := self.folder.done(planned)) is not None:
            self.note(f"{_words(planned)}: done: {self.folder.runs / name}")
        else:
            self.note(": ".join(filter(None, [_words(planned), f"ended with status {status}", self.folder.standing(planned).last_line])))
        return status


class _TestbedWork:
    """Runs of one testbed, one after the other. Testbeds share only `turns`, so an absent testbed delays no other."""

    def __init__(self, work: CampaignWork, testbed: str, plan: PlanHead, turns: asyncio.Semaphore) -> None:
        self._work, self._folder, self._testbed, self._turns = work, work.folder, testbed, turns
        self._hours = None if plan.hours is None else Hours.parse(plan.hours)
        self._most_tries, self._again_after_s = plan.tries, plan.again_after_s
        self._tries = Counter[int]()
        self._missed = set[int]()
        """Numbers of runs that were skipped because the testbed could not be used."""

    async def carry_out(self, runs: Sequence[PlannedRun]) -> None:
        """Carry out the runs night by night, within the campaign's hours. Runs that found the testbed in use are tried the next night.

        Once the testbed could not be used for as many nights as the campaign has, its remaining runs are given up.
        """
        nights = [list(of_night) for _, of_night in groupby(runs, key=lambda run: run.night)]
        nights_missed = 0
        for before, of_night in zip([[], *nights], nights, strict=False):
            if self._hours is not None and self._left(of_night) and (began := [b for b in map(self._folder.last_began, before) if b]):
                await self._until(self._hours.night_after(_wall_clock(max(began))))
            while missed := await self._missed_of(of_night):
                self._note(f"could not be used; {missed} of night {of_night[0].night} missed")
                nights_missed += 1
                if self._hours is None:
                    break
                if nights_missed >= len(nights):
                    return
                await self._until(self._hours.night_after(self._now()))

    async def _missed_of(self, runs: Sequence[PlannedRun]) -> int:
        """Carry out the remaining runs of a night; return how many are missing because the testbed could not be used."""
        self._tries.clear()
        self._missed.clear()
        while self._left(runs):
            if self._hours is not None and not self._is_open():
                await self._until(self._hours.next_begin(self._now()))
            await self._round(self._left(runs))
            if (again := self._left(runs)) and self._is_open():
                self._note(f"{len(again)} to be tried again in {self._again_after_s:g} s")
                await asyncio.sleep(self._again_after_s)
        return sum(run.number in self._missed and self._folder.done(run) is None for run in runs)

    def _left(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        return [run for run in runs if self._tries[run.number] < self._most_tries and self._folder.done(run) is None]

    async def _round(self, runs: Sequence[PlannedRun]) -> None:
        """Carry out the runs in order, until one finds that the testbed cannot be used. That counts as a try of all later runs."""
        for at, run in enumerate(runs):
            async with self._turns:
                if not self._is_open():
                    return
                status = await self._work.one(run)
            self._tries[run.number] += 1
            self._missed.discard(run.number)
            if status == InputError.exit_status:
                self._tries[run.number] = self._most_tries  # wrong input stays wrong
            if status == TestbedError.exit_status and self._folder.done(run) is None:
                after = [other.number for other in runs[at + 1 :]]
                self._tries.update(after)
                self._missed.update([run.number, *after])
                return

    def _is_open(self) -> bool:
        return self._hours is None or self._hours.night_of(self._now()) is not None

    def _now(self) -> datetime:
        return _wall_clock(self._work.clock())

    async def _until(self, when: datetime) -> None:
        if when > self._now():
            self._note(f"waiting until {when:%Y-%m-%d %H:%M}")
        while (left := (when - self._now()).total_seconds()) > 0:  # noqa: ASYNC110 - only the clock shows it
            await asyncio.sleep(min(left, _LONGEST_WAIT_S))

    def _note(self, what: str) -> None:
        self._work.note(f"{self._testbed}: {what}")


def _wall_clock(when: datetime) -> datetime:
    """Convert a time to this machine's wall clock; it may come from another machine or from before a change of summer time."""
    return when.astimezone().replace(tzinfo=None)


def _words(planned: PlannedRun) -> str:
    parts = [planned.experiment, planned.testbed, planned.version, f"night {planned.night}"]
    return f"{planned.number} ({', '.join(part for part in parts if part)})"
