"""A campaign on disk, and the state of each of its runs.

A campaign is a folder of plain files, as a run is. Its files are its only state:

    plan.json             fleet and hours of the campaign, and the hash of each input file of its runs (campaign_plan.py)
    planned.jsonl         one line for each planned run, with its arguments
    lock                  held by the one process that carries out the campaign
    end                   exists while the campaign is asked to end: each worker then ends its run properly
    store                 identity of the store with the leases of the workers
    planned/003/runs/     folder in which planned run 3 makes its run folder; a run in it is running or was cut
    planned/003/lock      held by the worker of the planned run and by the process of its run, even after the campaign's process has ended
    planned/003/fence/    tokens of the leases of its workers; the highest one counts (runner/fence.py)
    planned/003/run       name of its run, after the run has finished
    planned/003/tries     one line of JSON for each process: start, end and exit status
    planned/003/costs     one line of JSON for each process with a waiting worker: the cost that the fleet added (fleet/cost.py)
    planned/003/kept      place of its run, after the run is stored there and in the fleet's index (fleet/keeping.py)
    planned/003/said      output of its processes
    runs/                 finished runs

A run is a separate `dutlab run`, so it has its own lock, journal and clean-up. A cut run continues with `dutlab resume`,
which first undoes the changes of the run.
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
from dutlab.store.write import AlreadyWritten, opened_to_append, stored_at, write_once

if TYPE_CHECKING:
    from dutlab.spec.campaign import PlannedCampaign

_LOCK, _RUN, _TRIES, _OUTPUT, _RUNS = "lock", "run", "tries", "said", "runs"
_END, _STORE, _FENCE, _COSTS = "end", "store", "fence", "costs"
_KEPT = "kept"


class CampaignState(StrEnum):
    """State of a planned run."""

    PLANNED = "planned"
    RUNNING = "running"
    CUT = "cut"
    """Started and not finished, without a process that works on it."""
    REFUSED = "refused"
    """Not started, since its process ended before it made a run folder."""
    DONE = "done"


@dataclass(frozen=True)
class RunStanding:
    """A planned run, and its state."""

    planned: PlannedRun
    state: CampaignState
    run: str | None
    """Name of its run, if there is one."""
    tries: int
    exit_status: int | None
    """Exit status of the last process that ended."""
    last_line: str
    """Last output line of that process, if it failed."""
    ended: datetime | None = None
    """Time at which that process ended."""
    cost: FleetCost | None = None
    """Cost that the fleet added to it, over the processes with a waiting worker."""
    kept: str | None = None
    """Place of its run, after the run is stored there and in the fleet's index."""


@dataclass(frozen=True)
class CampaignFolder:
    """A campaign on disk. Nothing is cached: each method reads the files again."""

    path: Path

    @classmethod
    def create(cls, path: Path, planned: PlannedCampaign, dutlab_version: str) -> Self:
        """Make a new folder. Raises InputError if there is a campaign, TestbedError if another process is making it, StoreError."""
        insist_on_none(path)
        folder = cls(path)
        with stored_at(path):
            path.mkdir(parents=True, exist_ok=True)
        with folder.alone():
            write_plan(path, planned, dutlab_version)
        return folder

    @property
    def plan(self) -> PlanHead:
        """Head of its plan. Raises InputError if the folder has no plan, StoreError."""
        return read_head(self.path)

    @property
    def runs(self) -> Path:
        """Folder of finished runs."""
        return self.path / _RUNS

    @property
    def fleet(self) -> Fleet:
        """Fleet that carries out the campaign."""
        return self.plan.fleet

    def planned(self) -> list[PlannedRun]:
        """Return its planned runs, in order. Raises InputError, StoreError."""
        return planned_runs(self.path)

    def planned_run(self, number: int) -> PlannedRun:
        """Return one planned run, without reading the others. Raises InputError, StoreError."""
        return planned_run(self.path, number)

    def place(self, planned: PlannedRun) -> Path:
        """Return the folder of a planned run."""
        return self.path / "planned" / f"{planned.number:03d}"

    def settle(self, planned: PlannedRun) -> str | None:
        """Move a finished run to the folder of finished runs and return its name; None if it has not finished. Safe if killed.

        Only the process that holds the planned run's lock may call this. Otherwise the run could move while its report is being written.
        """
        place = self.place(planned)
        if not (place / _RUN).exists():
            finished = [run.name for run in self._own(planned) if (run / MANIFEST).exists()]
            if not finished:
                return None
            replace_file(place / _RUN, finished[-1].encode())
        return self.done(planned)

    def done(self, planned: PlannedRun) -> str | None:
        """Return the name of its run; None before settle()."""
        try:
            name = outside.read(self.place(planned) / _RUN, INPUT).decode()
        except FileNotFoundError:
            return None
        self.runs.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it was moved before
            (self.own_runs(planned) / name).rename(self.runs / name)
        return name

    def own_runs(self, planned: PlannedRun) -> Path:
        """Return the folder in which a planned run makes its run folder."""
        return self.place(planned) / _RUNS

    def cut_run(self, planned: PlannedRun) -> Path | None:
        """Return the last run that was started and has not finished, if any."""
        return next(iter(reversed(self._own(planned))), None)

    def fences(self, planned: PlannedRun) -> Path:
        """Return the folder of the lease tokens of a planned run's workers."""
        return self.place(planned) / _FENCE

    def lock_of(self, planned: PlannedRun) -> Path:
        """Return the lock file of a planned run, and make its folder. Raises StoreError."""
        own = self.own_runs(planned)
        with stored_at(own):
            own.mkdir(parents=True, exist_ok=True)
        return self.place(planned) / _LOCK

    def said_by(self, planned: PlannedRun) -> Path:
        """Return the file with the output of its processes."""
        return self.place(planned) / _OUTPUT

    def tried(
        self, planned: PlannedRun, began: datetime, ended: datetime, exit_status: int, command: str, *, clock: RunClock | None = None
    ) -> None:
        """Add an ended process to the file of tries; `clock` is the clock of its run. Raises StoreError."""
        entry = {"began": began.isoformat(), "ended": ended.isoformat(), "exit_status": exit_status, "command": command}
        _append(self.place(planned) / _TRIES, entry | ({} if clock is None else {"clock": asdict(clock)}))

    def last_clock(self, planned: PlannedRun) -> RunClock | None:
        """Return the run clock of the last process; None if it wrote none."""
        tries = _entries(self.place(planned) / _TRIES)
        clock = tries[-1].get("clock") if tries else None
        return None if clock is None else RunClock(**clock)

    def kept(self, planned: PlannedRun) -> str | None:
        """Return the place where its run is stored; None if it is not."""
        return next(iter(_lines(self.place(planned) / _KEPT)), None)

    def note_kept(self, planned: PlannedRun, place: str) -> None:
        """Write the place where its run is stored. Raises StoreError."""
        replace_file(self.place(planned) / _KEPT, place.encode())

    def note_cost(self, planned: PlannedRun, cost: FleetCost) -> None:
        """Write the cost that the fleet added to a run. Raises StoreError."""
        _append(self.place(planned) / _COSTS, asdict(cost))

    def request_end(self) -> None:
        """Ask every worker to end its run properly."""
        replace_file(self.path / _END, b"")

    def withdraw_end_request(self) -> None:
        """Withdraw request_end(), so that workers may start runs."""
        (self.path / _END).unlink(missing_ok=True)

    def is_end_requested(self) -> bool:
        """Return whether the campaign is asked to end."""
        return (self.path / _END).exists()

    def first_store(self, identity: str) -> str:
        """Return the identity of the first worker's lease store. If this worker is the first, write and return `identity`."""
        with contextlib.suppress(AlreadyWritten):
            write_once(self.path / _STORE, identity.encode())
        return outside.read(self.path / _STORE, INPUT).decode()

    def _own(self, planned: PlannedRun) -> list[Path]:
        own = self.own_runs(planned)
        return [own / name for name in _names(own)]

    def standing(self, planned: PlannedRun) -> RunStanding:
        """Return the state of a planned run, without changing anything. Raises StoreError if this user may not read it."""
        try:
            return self._standing(planned)
        except PermissionError as error:
            remedy = f"ask as its owner, who may also let others see it: chmod -R g+rX {self.path}"
            raise StoreError(f"{error.filename}: cannot be read: {error.strerror}", remedy=remedy) from error

    def _standing(self, planned: PlannedRun) -> RunStanding:
        place = self.place(planned)
        tries = _entries(place / _TRIES)
        last, ended = (tries[-1]["exit_status"], datetime.fromisoformat(tries[-1]["ended"])) if tries else (None, None)
        last_line = next((line for line in reversed(_lines(place / _OUTPUT)) if line.strip()), "") if last else ""
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
        """Return the start time of its last process; None without one."""
        tries = _entries(self.place(planned) / _TRIES)
        return datetime.fromisoformat(tries[-1]["began"]) if tries else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the campaign's lock. Raises TestbedError if another process carries out the campaign, StoreError."""
        with stored_at(self.path / _LOCK):
            file = opened_to_append(self.path / _LOCK)
        with file as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TestbedError(
                    f"{self.path}: another process runs this campaign", remedy="wait for it, or end it with Ctrl-C"
                ) from None
            yield

    def insist_on_its_files(self, dutlab_version: str) -> None:
        """Raise InputError if input files or dutlab changed: the remaining runs would differ from the finished ones."""
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
    with stored_at(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_to_append(path) as file:
            file.write(f"{json.dumps(entry)}\n".encode())


def _names(runs: Path) -> list[str]:
    return run_names(runs) if runs.is_dir() else []


def _lines(path: Path) -> list[str]:
    try:
        return outside.read(path, CAMPAIGN).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries that _append() wrote; lines truncated by a full disk are skipped."""
    entries = list[dict[str, Any]]()
    for line in _lines(path):
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line))
    return entries
