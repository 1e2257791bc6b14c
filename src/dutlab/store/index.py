"""Index of a folder of runs: an SQLite file next to them, made from them alone, and made again when absent, damaged, older or changed.

A run with a manifest is read once, and not again while its name has the same folder; before that it is read again whenever its folder has
changed. Whoever needs what a run's files say now reads the files: the index finds runs, it proves nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from dutlab.errors import StoreError
from dutlab.store.find import is_running, run_folders
from dutlab.store.fleet_tables import IN_FOLDER, INDEX_TABLES
from dutlab.store.packs import TABLES as PACK_TABLES
from dutlab.store.run_readers import FINISHED, FoundRun, KnownRun, damaged_rows, found_runs

INDEX = ".index.sqlite"
_VERSION = 7
_TABLES = "; ".join(statement.format(**IN_FOLDER) for statement in INDEX_TABLES)
_KINDS = {"text": "VARCHAR", "bigint": "BIGINT", "integer": "BIGINT", "double precision": "DOUBLE", "real": "DOUBLE"}
_OF_THE_INDEX = frozenset({"seen", "folder"})
"""Columns by which it knows what it has read."""
_HOLDERS = (("runs", "name"), ("trials", "run"), ("figures", "run"), ("doubts", "run"), ("packed", "run"))
"""Each table, and its column that names the run."""
_SEARCHED = "name || ' ' || experiment || ' ' || testbed || ' ' || modes || ' ' || fault"
_OF_FINISHED = (f"{FINISHED} ", f"{FINISHED}!")
"""Beginnings of a finished run's signature; they enclose all of them in order."""
_WAIT_S = 10
"""For another process that is writing."""
_AT_ONCE = 500
"""Runs that are taken in together: a process that is killed loses no more, and another waits for no more."""
_BEGAN = "CASE WHEN started <> '' THEN started ELSE substr(name, 1, 13) || ':' || substr(name, 14, 2) || ':99' END"
"""When the first trial was started; of a run without a record its name has the minute, and it is the newest of that."""
_ALL = 2**62
"""More runs than there are, as a LIMIT that SQLite and PostgreSQL know."""


@dataclass(frozen=True)
class RunLine:
    """A run as the index has it. `status` is one of dutlab.choices.STATUSES."""

    name: str
    experiment: str
    testbed: str
    lab: bool
    started: str
    ended: str
    """ISO 8601, UTC; empty without a record."""
    planned: int
    measured: int
    failed: int
    refused: int
    disturbed: int
    status: str
    modes: tuple[str, ...]
    worst_doubt: str
    fault: str


_COLUMNS = tuple(column.name for column in fields(RunLine))


@dataclass(frozen=True)
class Wanted:
    """Filter of a list of runs; empty is any."""

    experiment: str = ""
    testbed: str = ""
    mode: str = ""
    status: str = ""
    since: str = ""
    """ISO 8601, or the beginning of it: `2026-11`."""
    until: str = ""
    """End; a day or month that it names is included."""
    workload: str = ""
    doubt: str = ""
    """The grade of the worst one; `none`: without any."""
    words: str = ""
    """Each of them is in the run's name, experiment, testbed, modes or fault."""

    def where(self) -> tuple[str, list[str]]:
        """The condition in SQL, and its values."""
        tests = [
            ("experiment = ?", self.experiment), ("testbed = ?", self.testbed), ("status = ?", self.status), ("started >= ?", self.since),
            (f"started <> '' AND substr(started, 1, {len(self.until)}) <= ?", self.until),
            ("EXISTS (SELECT 1 FROM json_each(modes) WHERE json_each.value = ?)", self.mode),
            ("EXISTS (SELECT 1 FROM trials WHERE trials.run = runs.name AND trials.workload = ?)", self.workload),
            ("coalesce(nullif(worst_doubt, ''), 'none') = ?", self.doubt),
            *((f"instr(lower({_SEARCHED}), ?) > 0", word) for word in self.words.lower().split()),
        ]  # fmt: skip
        conditions = [(test, value) for test, value in tests if value]
        return " AND ".join(test for test, _ in conditions) or "1 = 1", [value for _, value in conditions]


@contextmanager
def opened(
    runs: Path, *, rebuild: bool = False, look: bool = True, note: Callable[[str], None] = lambda _: None
) -> Iterator[sqlite3.Connection]:
    """The index of `runs`, up to date; without `look` as it was left, where there is one. In memory where `runs` cannot be written.

    `note` gets a sentence about what takes seconds. Raises InputError when `runs` cannot be read, StoreError when the index was damaged.
    """
    connection, is_kept = _connect(runs / INDEX, rebuild=rebuild)
    try:
        if look or not is_kept:
            try:
                _look(connection, runs, note)
            except sqlite3.DatabaseError as error:
                connection = _another(connection, runs / INDEX, error)
                _look(connection, runs, note)
        connection.row_factory = sqlite3.Row
        yield connection
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        remedy = "ask again: it is made again from the runs" if _discard(runs / INDEX) else "have its owner remove it"
        raise StoreError(f"{runs / INDEX}: is damaged", remedy=remedy) from error
    finally:
        connection.close()


class RunIndex(Protocol):
    """Index that answers questions about runs: that of a folder, or that of a fleet (fleet_index.py)."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor of either database
        """The rows, as DB-API 2.0 has them (PEP 249)."""
        ...


def list_runs(connection: RunIndex, wanted: Wanted, *, limit: int = _ALL, skip: int = 0) -> tuple[RunLine, ...]:
    """The newest `limit` runs (all without one) that are `wanted`, newest first, without the first `skip`."""
    where, values = wanted.where()
    select = f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {where} ORDER BY {_BEGAN} DESC, name DESC LIMIT ? OFFSET ?"  # noqa: S608 - made of our own words
    return tuple(_line(row) for row in connection.execute(select, (*values, limit, skip)))


def count_runs(connection: RunIndex, wanted: Wanted) -> int:
    """Return the number of runs that `wanted` admits."""
    where, values = wanted.where()
    (count,) = connection.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()  # noqa: S608 - as above
    return int(count)


def choices(connection: RunIndex) -> dict[str, list[str]]:
    """Return values that narrow a list of runs, at most 200 of a kind: experiments, testbeds, modes and workloads that runs have."""
    asked = {
        "experiment": "SELECT DISTINCT experiment FROM runs",
        "testbed": "SELECT DISTINCT testbed FROM runs",
        "mode": "SELECT DISTINCT value FROM runs, json_each(runs.modes)",
        "workload": "SELECT DISTINCT workload FROM trials",
    }
    return {name: sorted(row[0] for row in connection.execute(f"{select} LIMIT 200") if row[0]) for name, select in asked.items()}


@dataclass(frozen=True)
class IndexedFigure:
    """One figure of one trial, and its place in the experiment."""

    run: str
    mode: str
    factors: Mapping[str, str]
    workload: str
    links: str
    """Those that were driven: `a+b`."""
    link: str
    """Subject of the figure: a link, a direction of one (`a.back`), or all together."""
    frame_size: str
    figure: str
    value: float


def figures_of(connection: RunIndex, experiment: str) -> Iterator[IndexedFigure]:
    """Every figure of the trials that count, in all runs of an experiment, oldest run first."""
    rows = connection.execute(
        "SELECT t.run, t.mode, t.factors, t.workload, t.links, f.link, t.frame_size, f.figure, f.value FROM runs r "
        "JOIN trials t ON t.run = r.name JOIN figures f ON f.run = t.run AND f.trial = t.trial "
        "WHERE r.experiment = ? AND t.counts = 1 AND f.value IS NOT NULL "
        "ORDER BY r.started, t.run, t.trial, length(f.link) DESC, f.link, f.figure",
        (experiment,),
    )
    for run, mode, factors, workload, links, link, frame_size, figure, value in rows:
        yield IndexedFigure(run, mode, json.loads(factors), workload, links, link, frame_size, figure, value)


def _line(row: Sequence[Any]) -> RunLine:
    value_by_column = dict(zip(_COLUMNS, row, strict=True))
    return RunLine(**{**value_by_column, "lab": bool(value_by_column["lab"]), "modes": tuple(json.loads(value_by_column["modes"]))})


def _connect(path: Path, *, rebuild: bool) -> tuple[sqlite3.Connection, bool]:
    """The index, and whether it was there before."""
    for _ in range(0 if _is_of_others(path) else 2):
        try:
            connection = sqlite3.connect(path, timeout=_WAIT_S)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes follows from the runs again
            if _version(connection) == _VERSION and not rebuild:
                if _schema(connection) == _own_schema():
                    return connection, True
                connection.close()
                if not _discard(path):
                    break
                connection = sqlite3.connect(path, timeout=_WAIT_S)
                connection.execute("PRAGMA journal_mode = WAL")
            _make(connection, rebuild=rebuild)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error) or not _discard(path):
                break  # it cannot be written here
        else:
            return connection, False
    connection = sqlite3.connect(":memory:")
    _make(connection)
    return connection, False


def _is_of_others(path: Path) -> bool:
    """Return whether something else is in its place, neither followed nor removed, or this user may not look there."""
    try:
        return path.is_symlink() or (path.exists() and not path.is_file())
    except OSError:
        return True


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    """Every table, index, view and trigger, as its statement: a trigger of somebody else would run with ours."""
    return frozenset(connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))


@cache
def _own_schema() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        _make(connection)
        return _schema(connection)


def _make(connection: sqlite3.Connection, *, rebuild: bool = False) -> None:
    """Empty tables, all at once; another process may have made them meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if rebuild or _version(connection) != _VERSION:
            for table in (*(table for table, _ in _HOLDERS), "packs"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in f"{_TABLES};{PACK_TABLES}PRAGMA user_version = {_VERSION}".split(";"):
                connection.execute(statement)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether the file is not an index; subclasses of the error say that it is locked, cannot be written, or was asked wrongly."""
    return type(error) is sqlite3.DatabaseError


def _discard(path: Path) -> bool:
    """Remove the index; return whether that worked."""
    try:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _another(connection: sqlite3.Connection, path: Path, error: sqlite3.DatabaseError) -> sqlite3.Connection:
    """In the place of an index that is damaged, a new one; of one that cannot be written, its copy in memory."""
    if _is_damage(error):
        connection.close()
        _discard(path)
        return _connect(path, rebuild=True)[0]
    copy = sqlite3.connect(":memory:")
    connection.rollback()
    connection.backup(copy)
    connection.close()
    return copy


def _look(connection: sqlite3.Connection, runs: Path, note: Callable[[str], None]) -> None:
    _update(connection, runs, run_folders(runs), note)
    _mark_running(connection, runs)


def _update(connection: sqlite3.Connection, runs: Path, folders: Mapping[str, int], note: Callable[[str], None]) -> None:
    """Brings the index up to date. A hundred thousand finished runs cost no stat(2), the others one each: their paths are texts."""
    finished: dict[str, int] = dict(connection.execute("SELECT name, folder FROM runs WHERE seen >= ? AND seen < ?", _OF_FINISHED))
    others: dict[str, str] = dict(connection.execute("SELECT name, seen FROM runs WHERE seen < ? OR seen >= ?", _OF_FINISHED))
    if finished == folders and not others:
        return
    with connection:
        for name in (*(finished.keys() - folders.keys()), *(others.keys() - folders.keys())):
            _forget(connection, name)
    changed = sorted(name for name, folder in folders.items() if finished.get(name) != folder)
    asked = [KnownRun(name, folders[name], others.get(name, "") if name not in finished else _seen(connection, name)) for name in changed]
    updates = found_runs(runs, asked, note)
    while some := list(islice(updates, _AT_ONCE)):
        with connection:
            for run in some:
                _take_in(connection, runs, run)


def _take_in(connection: sqlite3.Connection, runs: Path, found: FoundRun) -> None:
    """Another process may have taken it in meanwhile: what is found last is kept."""
    if found.rows is None:
        if found.seen.startswith(FINISHED):  # a copy of all runs, with their index
            connection.execute("UPDATE runs SET folder = ? WHERE name = ?", (found.folder, found.name))
        return
    _forget(connection, found.name)
    connection.execute("SAVEPOINT run")
    try:
        insert_rows(connection, found.rows)
    except sqlite3.OperationalError:
        raise  # the index itself: no room, or locked
    except Exception as error:  # noqa: BLE001 - a number or text of anybody's record, which SQLite does not hold
        connection.execute("ROLLBACK TO run")
        insert_rows(connection, damaged_rows(runs / found.name, found.seen, found.folder, error))
    connection.execute("RELEASE run")


def _forget(connection: sqlite3.Connection, run: str) -> None:
    for table, column in _HOLDERS:
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (run,))  # noqa: S608 - our own words


def _seen(connection: sqlite3.Connection, name: str) -> str:
    (state,) = connection.execute("SELECT seen FROM runs WHERE name = ?", (name,)).fetchone()
    return str(state)


def _mark_running(connection: sqlite3.Connection, runs: Path) -> None:
    """Asks of each run without a manifest whether somebody is at it: that changes without any file of it."""
    open_runs = connection.execute("SELECT name, status FROM runs WHERE status IN ('cut', 'running')").fetchall()
    now = {name: "running" if is_running(runs / name) else "cut" for name, _ in open_runs}
    changed = [(now[name], name) for name, status in open_runs if now[name] != status]
    if changed:
        with connection:
            connection.executemany("UPDATE runs SET status = ? WHERE name = ?", changed)


def question_columns(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the columns of a table, from either database, that a question may name, with DuckDB's type."""
    return [(name, _KINDS[kind.lower()]) for name, kind in found if name not in _OF_THE_INDEX]


def insert_rows(connection: Any, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:  # noqa: ANN401 - of either database
    """Adds rows of tables, which all have the columns of INDEX_TABLES in their order."""
    for table, of_table in rows.items():
        if of_table:
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(of_table[0]))})", of_table)  # noqa: S608 - our own words
