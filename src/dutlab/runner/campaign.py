"""Carries a campaign out: every planned run once, whatever is killed meanwhile.

A campaign is a folder of plain files, as a run is, and what is done is what lies in it:

    plan.json             every planned run with its arguments, and the hash of each file that they are read from
    lock                  held by the one process that carries the campaign out
    planned/003/runs/     where planned run 3 makes its run folder; what is in it was cut, or goes on
    planned/003/lock      held by that run's process, also when nobody waits for it any more
    planned/003/run       the name of its run, once that has finished
    planned/003/tries     a line of JSON for each process: when it began and ended, and with which status
    planned/003/said      what they said
    runs/                 finished runs

A run is a `dutlab run` of its own, so its lock, journal and clean-up are those of any other. One that was cut goes on with `dutlab resume`,
which puts back first what it had changed.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from dutlab.errors import InputError, StoreError, TestbedError
from dutlab.spec.campaign import MOST_TRIES, Hours, PlannedCampaign, PlannedRun
from dutlab.store.find import is_running, run_names
from dutlab.store.manifest import MANIFEST
from dutlab.store.replace import replace_file

SCHEMA_VERSION = 1
_PLAN, _LOCK, _RUN, _TRIES, _SAID, _RUNS = "plan.json", "lock", "run", "tries", "said", "runs"
_LOOK_S = 1.0
_LONGEST_WAIT_S = 60.0
"""So that a clock that was set is noticed."""
_SHOWN_BYTES = 2000


class CampaignState(StrEnum):
    """What became of a planned run."""

    PLANNED = "planned"
    RUNNING = "running"
    CUT = "cut"
    """It began and has not finished; nobody works on it."""
    REFUSED = "refused"
    """A process for it ended before there was a run."""
    DONE = "done"


@dataclass(frozen=True)
class RunStanding:
    """A planned run, and what became of it."""

    planned: PlannedRun
    state: CampaignState
    run: str | None
    """The name of its run, if there is one."""
    tries: int
    exit_status: int | None
    """Of the last process that ended."""
    said: str
    """The last line of that one, where it did not end well."""


@dataclass(frozen=True)
class CampaignFolder:
    """A campaign on disk. Nothing is cached: what a method returns is what the files say now."""

    path: Path

    @classmethod
    def create(cls, path: Path, planned: PlannedCampaign, dutlab_version: str) -> Self:
        """A new folder. Raises InputError where there is one, StoreError."""
        if (path / _PLAN).exists():
            raise InputError(f"{path}: there is a campaign already", remedy=f"`dutlab campaign resume {path}` goes on with it")
        campaign = planned.campaign
        plan = {
            "schema_version": SCHEMA_VERSION,
            "campaign": campaign.name,
            "dutlab_version": dutlab_version,
            "hours": None if campaign.hours is None else str(campaign.hours),
            "at_once": campaign.at_once,
            "tries": campaign.tries,
            "again_after_s": campaign.again_after,
            "files": {str(file): _hash(file) for file in planned.files},
            "runs": [asdict(run) for run in planned.runs],
        }
        replace_file(path / _PLAN, json.dumps(plan, indent=1).encode())
        return cls(path)

    @property
    def plan(self) -> dict[str, Any]:
        """plan.json. Raises InputError where there is none, StoreError."""
        try:
            plan = json.loads((self.path / _PLAN).read_bytes())
        except FileNotFoundError:
            raise InputError(f"{self.path}: not a campaign", remedy="name the folder that holds plan.json and planned") from None
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.path / _PLAN}: cannot be read: {error}") from error
        if not isinstance(plan, dict) or plan.get("schema_version") != SCHEMA_VERSION or "runs" not in plan:
            raise InputError(f"{self.path / _PLAN}: not a campaign's plan of this version of dutlab")
        return plan

    @property
    def runs(self) -> Path:
        """Where finished runs are."""
        return self.path / _RUNS

    def planned(self) -> list[PlannedRun]:
        """Its runs, in their order. Raises InputError, StoreError."""
        return [PlannedRun(**{**run, "arguments": tuple(run["arguments"])}) for run in self.plan["runs"]]

    def place(self, planned: PlannedRun) -> Path:
        """The folder of a planned run."""
        return self.path / "planned" / f"{planned.number:03d}"

    def settle(self, planned: PlannedRun) -> str | None:
        """The name of its run, if that has finished: then it is brought to the others, and found there after a kill at any instant."""
        place = self.place(planned)
        own = place / _RUNS
        if not (place / _RUN).exists():
            finished = [name for name in _names(own) if (own / name / MANIFEST).exists()]
            if not finished:
                return None
            replace_file(place / _RUN, finished[-1].encode())
        name = (place / _RUN).read_text(encoding="utf-8")
        if (own / name).exists():
            self.runs.mkdir(exist_ok=True)
            (own / name).rename(self.runs / name)
        return name

    def standing(self, planned: PlannedRun) -> RunStanding:
        """What became of a planned run. Changes nothing."""
        place = self.place(planned)
        tries = [json.loads(line) for line in _lines(place / _TRIES)]
        last = tries[-1]["exit_status"] if tries else None
        said = next((line for line in reversed(_lines(place / _SAID)) if line.strip()), "") if last else ""
        names = _names(place / _RUNS)
        if (place / _RUN).exists():
            return RunStanding(planned, CampaignState.DONE, (place / _RUN).read_text(encoding="utf-8"), len(tries), last, said)
        run = names[-1] if names else None
        if _is_held(place / _LOCK) or (run is not None and is_running(place / _RUNS / run)):
            return RunStanding(planned, CampaignState.RUNNING, run, len(tries), None, "")
        state = CampaignState.CUT if run else CampaignState.REFUSED if tries else CampaignState.PLANNED
        return RunStanding(planned, state, run, len(tries), last, said)

    def last_began(self, planned: PlannedRun) -> datetime | None:
        """When its last process began; None without one."""
        tries = _lines(self.place(planned) / _TRIES)
        return datetime.fromisoformat(json.loads(tries[-1])["began"]) if tries else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Raises TestbedError where another process carries the campaign out."""
        with (self.path / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TestbedError(
                    f"{self.path}: another process carries this campaign out", remedy="wait for it, or end it with Ctrl-C"
                ) from None
            yield

    def insist_on_its_files(self, dutlab_version: str) -> None:
        """Raises InputError where the runs that are left would be others than those that were made."""
        plan = self.plan
        if plan["dutlab_version"] != dutlab_version:
            raise InputError(
                f"{self.path}: was begun with dutlab {plan['dutlab_version']}, and this is {dutlab_version}",
                remedy="go on with that version, or begin another campaign",
            )
        if changed := [file for file, was in plan["files"].items() if _hash(Path(file)) != was]:
            raise InputError(
                f"{self.path}: changed since the campaign began: {', '.join(changed)}", remedy="put them back, or begin another campaign"
            )


@dataclass
class CampaignWork:
    """One process's work on a campaign."""

    folder: CampaignFolder
    note: Callable[[str], None]
    """Is told each thing that happens, a line."""
    clock: Callable[[], datetime] = lambda: datetime.now().astimezone()
    _tries: dict[int, int] = field(default_factory=dict)

    async def carry_out(self) -> list[RunStanding]:
        """Does what is left, and returns what became of everything. Raises InputError, StoreError, TestbedError."""
        plan = self.folder.plan
        hours = None if plan["hours"] is None else Hours.parse(plan["hours"])
        planned = self.folder.planned()
        with self.folder.alone():
            before: datetime | None = None
            for night in sorted({run.night for run in planned}):
                runs = [run for run in planned if run.night == night]
                if hours is not None and before is not None and any(self.folder.settle(run) is None for run in runs):
                    await self._until(hours.next_begin(hours.night_of(before) or before))
                await self._night(runs, plan, hours)
                before = max(filter(None, map(self.folder.last_began, runs)), default=None)
        return [self.folder.standing(run) for run in planned]

    async def _night(self, runs: Sequence[PlannedRun], plan: dict[str, Any], hours: Hours | None) -> None:
        def left() -> list[PlannedRun]:
            return [run for run in runs if self.folder.settle(run) is None and self._tries.get(run.number, 0) < plan["tries"]]

        while todo := left():
            await self._until_open(hours)
            turns = asyncio.Semaphore(plan["at_once"])
            by_testbed: dict[str, list[PlannedRun]] = {}
            for run in todo:
                by_testbed.setdefault(run.testbed, []).append(run)
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
                if status == TestbedError.exit_status and self.folder.settle(run) is None:
                    for other in runs[runs.index(run) + 1 :]:
                        self._tries[other.number] = self._tries.get(other.number, 0) + 1  # a testbed that stays away ends the night
                    return

    async def _one(self, planned: PlannedRun) -> int:
        """Makes the run, or goes on with it; returns the exit status of its process."""
        place = self.folder.place(planned)
        own = place / _RUNS
        own.mkdir(parents=True, exist_ok=True)
        lock = os.open(place / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            while not _taken(lock):  # noqa: ASYNC110 - a process that this campaign's last one began goes on
                await asyncio.sleep(_LOOK_S)
            if self.folder.settle(planned) is not None:
                return 0
            cut = _names(own)
            argv = ["resume", str(own / cut[-1])] if cut else ["run", *planned.arguments, "--runs", str(own), "--unattended"]
            self._tries[planned.number] = self._tries.get(planned.number, 0) + 1
            self.note(f"{_words(planned)}: {'resumed' if cut else 'begun'}")
            began = self.clock()
            with (place / _SAID).open("ab") as said:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "dutlab", *argv, "--yes",
                    stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, pass_fds=(lock,),
                )  # fmt: skip
                status = await _ended(process)
            entry = {"began": began.isoformat(), "ended": self.clock().isoformat(), "exit_status": status, "command": argv[0]}
            with (place / _TRIES).open("a", encoding="utf-8") as tries:
                tries.write(json.dumps(entry) + "\n")
            name = self.folder.settle(planned)
            self.note(f"{_words(planned)}: {f'done: {self.folder.runs / name}' if name else f'ended with status {status}'}")
            return status
        finally:
            os.close(lock)

    async def _until_open(self, hours: Hours | None) -> None:
        if hours is not None and hours.night_of(self.clock()) is None:
            await self._until(hours.next_begin(self.clock()))

    async def _until(self, when: datetime) -> None:
        if when > self.clock():
            self.note(f"waiting until {when:%Y-%m-%d %H:%M}")
        while (left := (when - self.clock()).total_seconds()) > 0:  # noqa: ASYNC110 - nothing but the clock tells
            await asyncio.sleep(min(left, _LONGEST_WAIT_S))


async def _ended(process: asyncio.subprocess.Process) -> int:
    """The status of a run's process; it is ended in order, and waited for, when this one is to end."""
    try:
        return await process.wait()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await asyncio.shield(process.wait())
        raise


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _names(runs: Path) -> list[str]:
    return run_names(runs) if runs.is_dir() else []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _hash(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _words(planned: PlannedRun) -> str:
    parts = [planned.experiment, planned.testbed, planned.version, f"night {planned.night}"]
    return f"{planned.number} ({', '.join(part for part in parts if part)})"
