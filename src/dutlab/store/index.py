"""Index of a folder of runs: an SQLite file next to the runs. It is made only from the runs, and rebuilt if missing, damaged or outdated.

A run with a manifest is read once, and again only if its name has another folder. A run without one is read again whenever its folder
has changed. The index only finds runs. Code that needs the current content of a run reads its files.
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
from dutlab.store.fleet_tables import IN_FOLDER, INDEX_TABLES, RESULT_TABLES
from dutlab.store.packs import TABLES as PACK_TABLES
from dutlab.store.results import CellResult
from dutlab.store.run_readers import FINISHED, FoundRun, KnownRun, damaged_rows, found_runs

INDEX = ".index.sqlite"
_VERSION = 8
_TABLES = "; ".join(statement.format(**IN_FOLDER) for statement in (*INDEX_TABLES, *RESULT_TABLES))
_KINDS = {"text": "VARCHAR", "bigint": "BIGINT", "integer": "BIGINT", "double precision": "DOUBLE", "real": "DOUBLE"}
_OF_THE_INDEX = frozenset({"seen", "folder"})
"""Columns that the index needs for its own updates. Questions cannot name them."""
_HOLDERS = (("runs", "name"), ("trials", "run"), ("figures", "run"), ("doubts", "run"), ("results", "run"), ("packed", "run"))
"""(Table, column that names the run)."""
_SEARCHED = "name || ' ' || experiment || ' ' || testbed || ' ' || modes || ' ' || fault"
_OF_FINISHED = (f"{FINISHED} ", f"{FINISHED}!")
"""Bounds of the signatures of finished runs, in sort order; the second is excluded."""
_WAIT_S = 10
"""Seconds to wait for another process that writes the index."""
_AT_ONCE = 500
"""Runs added in one transaction: a killed process loses at most these, and other processes wait at most for these."""
_BEGAN = "CASE WHEN started <> '' THEN started ELSE substr(name, 1, 13) || ':' || substr(name, 14, 2) || ':99' END"
"""SQL for the start of the first trial. A run without a record has the minute in its name, and sorts as the newest of that minute."""
_ALL = 2**62
"""LIMIT that includes all runs, valid in SQLite and PostgreSQL."""


@dataclass(frozen=True)
class RunLine:
    """Entry of the index about a run. `status` is one of dutlab.choices.STATUSES."""

    name: str
    experiment: str
    testbed: str
    lab: bool
    started: str
    ended: str
    """Start and end of the run in ISO 8601, UTC; empty without a record."""
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
    """Filter of a list of runs. An empty field admits every run."""

    experiment: str = ""
    testbed: str = ""
    mode: str = ""
    status: str = ""
    since: str = ""
    """Earliest start in ISO 8601, or its beginning: `2026-11`."""
    until: str = ""
    """Latest start, in the same form. A day or month given here is included."""
    workload: str = ""
    doubt: str = ""
    """Grade of the run's worst doubt; `none` admits runs without doubts."""
    words: str = ""
    """Words that must all occur in the run's name, experiment, testbed, modes or fault."""

    def where(self) -> tuple[str, list[str]]:
        """Return the condition in SQL, and its values."""
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
    """Open the index of `runs`, up to date. It is in memory if `runs` cannot be written. Without `look`, an existing index is not updated.

    `note` gets a sentence before slow steps. Raises InputError if `runs` cannot be read, StoreError if the index is damaged.
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
    """Index of runs: of a folder, or of a fleet (fleet_index.py)."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor of either database
        """Carry out one statement; return its cursor (DB-API 2.0, PEP 249)."""
        ...


def list_runs(connection: RunIndex, wanted: Wanted, *, limit: int = _ALL, skip: int = 0) -> tuple[RunLine, ...]:
    """Return at most `limit` runs that `wanted` admits, newest first, without the first `skip` of them."""
    where, values = wanted.where()
    select = f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {where} ORDER BY {_BEGAN} DESC, name DESC LIMIT ? OFFSET ?"  # noqa: S608 - our own SQL
    return tuple(_line(row) for row in connection.execute(select, (*values, limit, skip)))


def count_runs(connection: RunIndex, wanted: Wanted) -> int:
    """Return the number of runs that `wanted` admits."""
    where, values = wanted.where()
    (count,) = connection.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()  # noqa: S608 - as above
    return int(count)


def choices(connection: RunIndex) -> dict[str, list[str]]:
    """Return the values that can filter a list of runs, at most 200 of each kind: experiments, testbeds, modes, workloads."""
    asked = {
        "experiment": "SELECT DISTINCT experiment FROM runs",
        "testbed": "SELECT DISTINCT testbed FROM runs",
        "mode": "SELECT DISTINCT value FROM runs, json_each(runs.modes)",
        "workload": "SELECT DISTINCT workload FROM trials",
    }
    return {name: sorted(row[0] for row in connection.execute(f"{select} LIMIT 200") if row[0]) for name, select in asked.items()}


@dataclass(frozen=True)
class IndexedFigure:
    """One figure of one trial, with its run and cell."""

    run: str
    mode: str
    factors: Mapping[str, str]
    workload: str
    links: str
    """Links that the trial used: `a+b`."""
    link: str
    """Subject of the figure: a link, a direction of a link (`a.back`), or all together."""
    frame_size: str
    figure: str
    value: float
    started: str = ""
    """Start of the run in UTC, as ISO 8601 text; empty if it is not known."""


def figures_of(connection: RunIndex, experiment: str) -> Iterator[IndexedFigure]:
    """Yield every figure of the trials that count, in all runs of an experiment, oldest run first."""
    rows = connection.execute(
        "SELECT t.run, t.mode, t.factors, t.workload, t.links, f.link, t.frame_size, f.figure, f.value, r.started FROM runs r "
        "JOIN trials t ON t.run = r.name JOIN figures f ON f.run = t.run AND f.trial = t.trial "
        "WHERE r.experiment = ? AND t.counts = 1 AND f.value IS NOT NULL "
        "ORDER BY r.started, t.run, t.trial, length(f.link) DESC, f.link, f.figure",
        (experiment,),
    )
    for run, mode, factors, *of_cell in rows:
        yield IndexedFigure(run, mode, json.loads(factors), *of_cell)


@dataclass(frozen=True)
class DoubtedTrials:
    """Numbers of a run's trials by their doubts."""

    disturbed: int
    """Trials that other work disturbed, or that have no result for that reason."""
    severe: int
    """Trials with a severe doubt."""
    imported: int
    """Trials from another tool's files, which dutlab did not watch."""
    of: int
    """All trials with a record."""


def doubted_trials(connection: RunIndex, run: str) -> DoubtedTrials:
    """Return how many trials of a run are disturbed or severely doubted."""
    doubt = "SELECT 1 FROM doubts d WHERE d.run = t.run AND d.trial = t.trial AND d.kind = 'DISTURBED'"
    asked = (
        f"SELECT count(*) FROM trials t WHERE t.run = ? AND (t.status = 'disturbed' OR EXISTS ({doubt}))",  # noqa: S608 - our own SQL
        "SELECT count(DISTINCT trial) FROM doubts WHERE run = ? AND grade = 'severe'",
        "SELECT count(DISTINCT trial) FROM doubts WHERE run = ? AND kind = 'IMPORTED'",
        "SELECT count(*) FROM trials WHERE run = ?",
    )
    return DoubtedTrials(*(int(connection.execute(select, (run,)).fetchone()[0]) for select in asked))


def results_in(connection: RunIndex, runs: Sequence[str]) -> dict[str, tuple[CellResult, ...]]:
    """Return run → its results, for those of `runs` that have any."""
    marks = ", ".join("?" * len(runs)) or "''"
    names = [column.name for column in fields(CellResult)]
    select = f"SELECT run, {', '.join(names)} FROM results WHERE run IN ({marks}) ORDER BY run, result"  # noqa: S608 - our own SQL
    out: dict[str, list[CellResult]] = {}
    for run, *row in connection.execute(select, tuple(runs)):
        of = dict(zip(names, row, strict=True))
        if of["median"] is not None:  # not a number, which SQLite has not
            of |= {"factors": json.loads(of["factors"]), "at_least": bool(of["at_least"]), "disturbed": bool(of["disturbed"])}
            out.setdefault(run, []).append(CellResult(**of))
    return {run: tuple(of) for run, of in out.items()}


def _line(row: Sequence[Any]) -> RunLine:
    value_by_column = dict(zip(_COLUMNS, row, strict=True))
    return RunLine(**{**value_by_column, "lab": bool(value_by_column["lab"]), "modes": tuple(json.loads(value_by_column["modes"]))})


def _connect(path: Path, *, rebuild: bool) -> tuple[sqlite3.Connection, bool]:
    """Return the index, and whether it existed already."""
    for _ in range(0 if _is_inaccessible(path) else 2):
        try:
            connection = sqlite3.connect(path, timeout=_WAIT_S)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # after a power cut, the runs are read again
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
                break  # the folder cannot be written
        else:
            return connection, False
    connection = sqlite3.connect(":memory:")
    _make(connection)
    return connection, False


def _is_inaccessible(path: Path) -> bool:
    """Return whether `path` is not a plain file, or this user may not look at it. Such an object is neither followed nor removed."""
    try:
        return path.is_symlink() or (path.exists() and not path.is_file())
    except OSError:
        return True


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    """Return every table, index, view and trigger with its statement. A foreign trigger would run with our statements."""
    return frozenset(connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))


@cache
def _own_schema() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        _make(connection)
        return _schema(connection)


def _make(connection: sqlite3.Connection, *, rebuild: bool = False) -> None:
    """Make empty tables in one transaction, unless another process has made them meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if rebuild or _version(connection) != _VERSION:
            for table in (*(table for table, _ in _HOLDERS), "packs"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in f"{_TABLES};{PACK_TABLES}PRAGMA user_version = {_VERSION}".split(";"):
                connection.execute(statement)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether the file is damaged. Subclasses of the error have other causes: locked, not writable, wrong statement."""
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
    """Return a new index if this one is damaged, or its copy in memory if it cannot be written."""
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
    """Bring the index up to date. Finished runs need no stat(2); every other run needs one. Paths are plain strings, for speed."""
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


def _take_in(connection: sqlite3.Connection, runs: Path, run: FoundRun) -> None:
    """Replace the rows of a run. Rows that another process has added in the meantime are replaced too."""
    if run.rows is None:
        if run.seen.startswith(FINISHED):  # the runs were copied together with their index
            connection.execute("UPDATE runs SET folder = ? WHERE name = ?", (run.folder, run.name))
        return
    _forget(connection, run.name)
    connection.execute("SAVEPOINT run")
    try:
        insert_rows(connection, run.rows)
    except sqlite3.OperationalError:
        raise  # the index itself: disk full, or locked
    except Exception as error:  # noqa: BLE001 - a foreign record may have values that SQLite cannot store
        connection.execute("ROLLBACK TO run")
        insert_rows(connection, damaged_rows(runs / run.name, run.seen, run.folder, error))
    connection.execute("RELEASE run")


def _forget(connection: sqlite3.Connection, run: str) -> None:
    for table, column in _HOLDERS:
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (run,))  # noqa: S608 - our own SQL


def _seen(connection: sqlite3.Connection, name: str) -> str:
    (state,) = connection.execute("SELECT seen FROM runs WHERE name = ?", (name,)).fetchone()
    return str(state)


def _mark_running(connection: sqlite3.Connection, runs: Path) -> None:
    """Update the status of each run without a manifest, `cut` or `running`, which changes without a change of its files."""
    open_runs = connection.execute("SELECT name, status FROM runs WHERE status IN ('cut', 'running')").fetchall()
    now = {name: "running" if is_running(runs / name) else "cut" for name, _ in open_runs}
    changed = [(now[name], name) for name, status in open_runs if now[name] != status]
    if changed:
        with connection:
            connection.executemany("UPDATE runs SET status = ? WHERE name = ?", changed)


def question_columns(columns: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (name, type in DuckDB) of the columns that a question may name, from the columns of either database."""
    return [(name, _KINDS[kind.lower()]) for name, kind in columns if name not in _OF_THE_INDEX]


def insert_rows(connection: Any, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:  # noqa: ANN401 - of either database
    """Insert rows by table. Each row has all columns of its table, in the order of INDEX_TABLES."""
    for table, of_table in rows.items():
        if of_table:
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(of_table[0]))})", of_table)  # noqa: S608 - our own SQL
