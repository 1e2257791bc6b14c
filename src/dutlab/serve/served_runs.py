"""Runs that the pages show: the runs of a folder, or all runs of a fleet, some of which are out of reach."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dutlab.errors import InputError
from dutlab.store.fleet_database import FLEET_DATABASE, FleetDatabase, FleetDatabaseAway
from dutlab.store.fleet_index import FleetIndex, opened_fleet
from dutlab.store.index import RunIndex, opened
from dutlab.store.object_store import is_address

_INDEX_S = 1.0
"""Shortest time between two updates of a folder's index, in seconds."""
_ANSWERS_S = 30
"""Time limit of a page's query to a fleet's database, in seconds."""
_AWAY_S = 3.0
"""Seconds for which an unreachable database is not tried again, so that requests do not all wait for it."""
_MOST_PLACES = 10_000


@dataclass(frozen=True)
class AwayRun:
    """Run of a fleet whose files are out of reach."""

    place: str
    command: str
    """Command that fetches the run; empty if only another machine has it."""


class ServedRuns(Protocol):
    """Source of the pages' runs."""

    of_fleet: bool

    def index(self) -> AbstractContextManager[RunIndex]:
        """Open the index of all runs. Raises InputError, FleetDatabaseAway."""
        ...

    def folder(self, name: str) -> Path:
        """Return the folder of a run. Raises FileNotFoundError if no run has the name, InputError for a run out of reach."""
        ...

    def away(self, index: RunIndex, names: Sequence[str]) -> Mapping[str, AwayRun]:
        """Return name → run, for those of `names` whose files are out of reach."""
        ...


@dataclass
class FolderRuns:
    """Runs of a folder."""

    runs: Path
    of_fleet = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: float = float("-inf")

    @contextmanager
    def index(self) -> Iterator[RunIndex]:
        with opened(self.runs, look=self._is_time()) as index:
            yield index

    def folder(self, name: str) -> Path:
        if not _is_name(name) or (path := _plain_folder(self.runs / name)) is None:
            raise FileNotFoundError(name)
        return path

    def away(self, index: RunIndex, names: Sequence[str]) -> Mapping[str, AwayRun]:  # noqa: ARG002 -- as ServedRuns has it
        return {}

    def _is_time(self) -> bool:
        """Return whether the index must be updated: once for all requests of a second."""
        with self._lock:
            if (now := time.monotonic()) - self._looked_s < _INDEX_S:
                return False
            self._looked_s = now
            return True


@dataclass
class FleetRuns:
    """All finished runs of a fleet. Runs fetched into `runs` are read there, others at their own place."""

    runs: Path
    database: FleetDatabase
    of_fleet = True
    _folders: dict[str, Path] = field(default_factory=dict)
    _away_until_s: float = float("-inf")

    @contextmanager
    def index(self) -> Iterator[FleetIndex]:
        """Open the database's index. Messages of the database are not passed on, because readers of the pages must not see them."""
        if time.monotonic() < self._away_until_s:
            raise _away()
        try:
            with opened_fleet(self.database, answers_s=_ANSWERS_S) as index:
                yield index
        except FleetDatabaseAway:
            self._away_until_s = time.monotonic() + _AWAY_S
            raise _away() from None

    def folder(self, name: str) -> Path:
        if not _is_name(name):
            raise FileNotFoundError(name)
        if known := _plain_folder(self._folders.get(name, self.runs / name)):
            return known
        with self.index() as index:
            place = index.places([name]).get(name)
        if place is None:
            raise FileNotFoundError(name)
        if (path := self._reached(name, place)) is None:
            away = self._away_run(name, place)
            remedy = f"`{away.command}` brings it" if away.command else "see its pages on the machine that has it, or copy it here"
            raise InputError(f"{name}: its files are out of reach from here, in {place}", remedy=remedy)
        if len(self._folders) < _MOST_PLACES:
            self._folders[name] = path
        return path

    def away(self, index: RunIndex, names: Sequence[str]) -> Mapping[str, AwayRun]:
        places = index.places(names) if isinstance(index, FleetIndex) else {}
        return {name: self._away_run(name, place) for name, place in places.items() if self._reached(name, place) is None}

    def _reached(self, name: str, place: str) -> Path | None:
        """Return the folder of a run, or None. The path is from a database, so the folder must be a run of this name."""
        here = _plain_folder(self.runs / name)
        there = Path(place)
        if here is None and not is_address(place) and there.is_absolute() and there.name == name:
            here = _plain_folder(there)
        return here if here is not None and (here / "plan.json").is_file() else None

    def _away_run(self, name: str, place: str) -> AwayRun:
        into = "" if self.runs == Path("runs") else f" --into {shlex.quote(str(self.runs))}"
        return AwayRun(place, f"dutlab campaign fetch {shlex.quote(name)}{into}" if is_address(place) else "")


def _away() -> FleetDatabaseAway:
    return FleetDatabaseAway(
        "the database of the fleet does not answer",
        remedy=f"check that it runs and that {FLEET_DATABASE} names it; then load this page again",
    )


def _is_name(name: str) -> bool:
    """Return whether a text can be the name of a run's folder, and is not a path."""
    return name not in {"", ".", ".."} and not name.startswith(".") and "/" not in name and "\0" not in name


def _plain_folder(path: Path) -> Path | None:
    return None if path.is_symlink() or not path.is_dir() else path
