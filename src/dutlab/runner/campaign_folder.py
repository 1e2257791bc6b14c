"""A campaign on disk, and what became of each of its runs.

A campaign is a folder of plain files, as a run is, and what is done is what lies in it:

    plan.json             who carries it out and when, and the hash of each file that its runs are read from (campaign_plan.py)
    planned.jsonl         every planned run with its arguments, a line each
    lock                  held by the one process that carries the campaign out
    end                   there while an end is asked for: whoever works on a place ends its run in order
    store                 the identity of the store that its workers have their leases in
    planned/003/runs/     where planned run 3 makes its run folder; what is in it was cut, or goes on
    planned/003/lock      held by the process that works on it and by that of its run, also when no campaign waits for them any more
    planned/003/fence/    the tokens of the leases under which it was worked on; the highest one counts (runner/fence.py)
    planned/003/run       the name of its run, once that has finished
    planned/003/tries     a line of JSON for each process: when it began and ended, and with which status
    planned/003/costs     a line of JSON for each process that was waited for: what the fleet added to its run (fleet/cost.py)
    planned/003/kept      where its run is kept, once it is there and in the fleet's index (fleet/keeping.py)
    planned/003/said      what they said
    runs/                 finished runs

A run is a separate `dutlab run`, so its lock, journal and clean-up are those of any other. A cut run continues with `dutlab resume`,
which first puts back what the run had changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dutlab import outside
from dutlab.bounds import CAMPAIGN, INPUT
from dutlab.errors import StoreError, TestbedError
from dutlab.runner.campaign_plan import PlanHead, insist_on_files, insist_on_none, planned_run, planned_runs, read_head, write_plan
from dutlab.runner.fleet.cost import FleetCost, RunClock
from dutlab.spec.fleet import Fleet
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.find import is_running, run_names
from dutlab.store.manifest import MANIFEST
from dutlab.store.replace import replace_file
from dutlab.store.write import AlreadyWritten, as_store_error, opened_to_append, write_once

if TYPE_CHECKING:
    from dutlab.spec.campaign import PlannedCampaign

_LOCK, _RUN, _TRIES, _SAID, _RUNS = "lock", "run", "tries", "said", "runs"
_END, _STORE, _FENCE, _COSTS = "end", "store", "fence", "costs"
_KEPT = "kept"


class CampaignState(StrEnum):
    """State of a planned run."""

    PLANNED = "planned"
    RUNNING = "running"
    CUT = "cut"
    """It began and has not finished; no process works on it."""
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
    """Exit status of the last process that ended."""
    said: str
    """The last line of that one, where it did not end well."""
    ended: datetime | None = None
    """When that one ended."""
    cost: FleetCost | None = None
    """Cost that the fleet added to it, as far as its processes were waited for."""
    kept: str | None = None
    """Place of its run, once it is kept there and in the fleet's index."""


@dataclass(frozen=True)
class CampaignFolder:
    """A campaign on disk. Nothing is cached: what a method returns is what the files say now."""

    path: Path

    @classmethod
    def create(cls, path: Path, planned: PlannedCampaign, dutlab_version: str) -> Self:
        """A new folder. Raises InputError where there is one, StoreError, TestbedError where another process makes it now."""
        insist_on_none(path)
        folder = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise as_store_error(error, path, None) from error
        with folder.alone():
            write_plan(path, planned, dutlab_version)
        return folder

    @property
    def plan(self) -> PlanHead:
        """The head of its plan. Raises InputError where there is none, StoreError."""
        return read_head(self.path)

    @property
    def runs(self) -> Path:
        """Folder of finished runs."""
        return self.path / _RUNS

    @property
    def fleet(self) -> Fleet:
        """Fleet that carries it out."""
        return self.plan.fleet

    def planned(self) -> list[PlannedRun]:
        """Its runs, in their order. Raises InputError, StoreError."""
        return planned_runs(self.path)

    def planned_run(self, number: int) -> PlannedRun:
        """One of them; the others are not looked at. Raises InputError, StoreError."""
        return planned_run(self.path, number)

    def place(self, planned: PlannedRun) -> Path:
        """The folder of a planned run."""
        return self.path / "planned" / f"{planned.number:03d}"

    def settle(self, planned: PlannedRun) -> str | None:
        """The name of its run, if that has finished: then it is brought to the others, and found there after a kill at any instant.

        For the process alone that holds the place: another one could take the run away from a process that still writes its report.
        """
        place = self.place(planned)
        if not (place / _RUN).exists():
            finished = [run.name for run in self._own(planned) if (run / MANIFEST).exists()]
            if not finished:
                return None
            replace_file(place / _RUN, finished[-1].encode())
        return self.done(planned)

    def done(self, planned: PlannedRun) -> str | None:
        """The name of its run, once that has been settled."""
        try:
            name = outside.read(self.place(planned) / _RUN, INPUT).decode()
        except FileNotFoundError:
            return None
        self.runs.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # where it is with the others already
            (self.own_runs(planned) / name).rename(self.runs / name)
        return name

    def own_runs(self, planned: PlannedRun) -> Path:
        """Return the folder in which it makes its run."""
        return self.place(planned) / _RUNS

    def cut_run(self, planned: PlannedRun) -> Path | None:
        """The run that it began and has not finished."""
        return next(iter(reversed(self._own(planned))), None)

    def fences(self, planned: PlannedRun) -> Path:
        """Return the folder of the tokens of those who had the place."""
        return self.place(planned) / _FENCE

    def lock_of(self, planned: PlannedRun) -> Path:
        """Held by whoever works on the place. Makes its folder; raises StoreError."""
        own = self.own_runs(planned)
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise as_store_error(error, own, None) from error
        return self.place(planned) / _LOCK

    def said_by(self, planned: PlannedRun) -> Path:
        """Return the file with the output of its processes."""
        return self.place(planned) / _SAID

    def tried(
        self, planned: PlannedRun, began: datetime, ended: datetime, exit_status: int, command: str, *, clock: RunClock | None = None
    ) -> None:
        """Notes a process that ended; `clock` is that of its run. Raises StoreError."""
        entry = {"began": began.isoformat(), "ended": ended.isoformat(), "exit_status": exit_status, "command": command}
        _append(self.place(planned) / _TRIES, entry | ({} if clock is None else {"clock": asdict(clock)}))

    def last_clock(self, planned: PlannedRun) -> RunClock | None:
        """Return the clock of the run's process that ended last; None where another try came after it."""
        tries = _entries(self.place(planned) / _TRIES)
        clock = tries[-1].get("clock") if tries else None
        return None if clock is None else RunClock(**clock)

    def kept(self, planned: PlannedRun) -> str | None:
        """Return the place where its run is kept."""
        return next(iter(_lines(self.place(planned) / _KEPT)), None)

    def note_kept(self, planned: PlannedRun, place: str) -> None:
        """From now on its run is kept there. Raises StoreError."""
        replace_file(self.place(planned) / _KEPT, place.encode())

    def note_cost(self, planned: PlannedRun, cost: FleetCost) -> None:
        """Keeps what the fleet added to a run. Raises StoreError."""
        _append(self.place(planned) / _COSTS, asdict(cost))

    def ask_to_end(self) -> None:
        """Has every process that works on a place end its run in order."""
        replace_file(self.path / _END, b"")

    def ask_no_more(self) -> None:
        """Lets places be worked on."""
        (self.path / _END).unlink(missing_ok=True)

    def is_end_asked(self) -> bool:
        """Return whether runs are to end."""
        return (self.path / _END).exists()

    def first_store(self, identity: str) -> str:
        """The store that the first worker on this campaign had its leases in; `identity` where this is the first."""
        with contextlib.suppress(AlreadyWritten):
            write_once(self.path / _STORE, identity.encode())
        return outside.read(self.path / _STORE, INPUT).decode()

    def _own(self, planned: PlannedRun) -> list[Path]:
        own = self.own_runs(planned)
        return [own / name for name in _names(own)]

    def standing(self, planned: PlannedRun) -> RunStanding:
        """Return the state of a planned run. Changes nothing. Raises StoreError where this user may not see it."""
        try:
            return self._standing(planned)
        except PermissionError as error:
            remedy = f"ask as its owner, who may also let others see it: chmod -R g+rX {self.path}"
            raise StoreError(f"{error.filename}: cannot be read: {error.strerror}", remedy=remedy) from error

    def _standing(self, planned: PlannedRun) -> RunStanding:
        place = self.place(planned)
        tries = _entries(place / _TRIES)
        last, ended = (tries[-1]["exit_status"], datetime.fromisoformat(tries[-1]["ended"])) if tries else (None, None)
        last_line = next((line for line in reversed(_lines(place / _SAID)) if line.strip()), "") if last else ""
        names = _names(place / _RUNS)
        if (place / _RUN).exists():
            name = outside.read(place / _RUN, INPUT).decode()
            return RunStanding(planned, CampaignState.DONE, name, len(tries), last, last_line, ended, self._cost(place), self.kept(planned))
        run = names[-1] if names else None
        if _is_held(place / _LOCK) or (run is not None and is_running(place / _RUNS / run)):
            return RunStanding(planned, CampaignState.RUNNING, run, len(tries), None, "")
        state = CampaignState.CUT if run else CampaignState.REFUSED if tries else CampaignState.PLANNED
        return RunStanding(planned, state, run, len(tries), last, last_line, ended)

    @staticmethod
    def _cost(place: Path) -> FleetCost | None:
        return FleetCost.together(_entries(place / _COSTS))

    def last_began(self, planned: PlannedRun) -> datetime | None:
        """When its last process began; None without one."""
        tries = _entries(self.place(planned) / _TRIES)
        return datetime.fromisoformat(tries[-1]["began"]) if tries else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Raises TestbedError where another process carries the campaign out, StoreError."""
        try:
            file = opened_to_append(self.path / _LOCK)
        except OSError as error:
            raise as_store_error(error, self.path / _LOCK, None) from error
        with file as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TestbedError(
                    f"{self.path}: another process carries this campaign out", remedy="wait for it, or end it with Ctrl-C"
                ) from None
            yield

    def insist_on_its_files(self, dutlab_version: str) -> None:
        """Raises InputError where the runs that are left would be others than those that were made."""
        insist_on_files(self.path, dutlab_version)


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _append(path: Path, entry: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_to_append(path) as file:
            file.write(f"{json.dumps(entry)}\n".encode())
    except OSError as error:
        raise as_store_error(error, path, None) from error


def _names(runs: Path) -> list[str]:
    return run_names(runs) if runs.is_dir() else []


def _lines(path: Path) -> list[str]:
    try:
        return outside.read(path, CAMPAIGN).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _entries(path: Path) -> list[dict[str, Any]]:
    """Return what _append() wrote. A line cut short by a full disk is left out."""
    entries = list[dict[str, Any]]()
    for line in _lines(path):
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line))
    return entries
