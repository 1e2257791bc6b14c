"""Whose runs the pages show: those of a folder, or all of a fleet, of which some lie out of reach."""

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
"""A folder of runs is looked through at most so often."""
_ANSWERS_S = 30
"""Time limit of a page's question to a fleet's database."""
_AWAY_S = 3.0
"""A database that was away is not asked again before: who asks would wait for it as long each time."""
_MOST_PLACES = 10_000


@dataclass(frozen=True)
class AwayRun:
    """A run of a fleet whose files cannot be seen from here."""

    place: str
    command: str
    """Command that fetches it; empty where only another machine has it."""


class ServedRuns(Protocol):
    """Source of the pages' runs."""

    of_fleet: bool

    def index(self) -> AbstractContextManager[RunIndex]:
        """Return the index of all of them. Raises InputError, FleetDatabaseAway."""
        ...

    def folder(self, name: str) -> Path:
        """The folder of a run. Raises FileNotFoundError for a name that no run has, InputError for a run out of reach."""
        ...

    def away(self, index: RunIndex, names: Sequence[str]) -> Mapping[str, AwayRun]:
        """Those of the runs whose files are out of reach."""
        ...


@dataclass
class FolderRuns:
    """The runs of a folder."""

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
        """Return whether the folder is to be searched again: once for all requests of a second."""
        with self._lock:
            if (now := time.monotonic()) - self._looked_s < _INDEX_S:
                return False
            self._looked_s = now
            return True


@dataclass
class FleetRuns:
    """All finished runs of a fleet. One that was fetched into `runs` is shown from there, another from where it lies."""

    runs: Path
    database: FleetDatabase
    of_fleet = True
    _folders: dict[str, Path] = field(default_factory=dict)
    _away_until_s: float = float("-inf")

    @contextmanager
    def index(self) -> Iterator[FleetIndex]:
        """Return the database's index. Its own messages are for its owner, not for readers of the pages."""
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
        """A database says where: what is there is shown only if it is a run of this name."""
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
    """Return whether a text can be the name of a run's folder, and no path."""
    return name not in {"", ".", ".."} and not name.startswith(".") and "/" not in name and "\0" not in name


def _plain_folder(path: Path) -> Path | None:
    return None if path.is_symlink() or not path.is_dir() else path
