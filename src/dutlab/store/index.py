"""An index over a folder of runs: SQLite beside them, made from them alone, and made anew whenever it is absent, damaged or older.

A run that has its manifest is read once, and not looked at again while its name has the same folder; until then it is read again whenever
its folder has changed. What a run's files say now is always asked of the files themselves: the index finds runs, it proves nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dutlab.errors import InputError, StoreError
from dutlab.store.cell_figures import counts, without_details
from dutlab.store.find import is_running, run_folders
from dutlab.store.manifest import MANIFEST
from dutlab.store.needed import needed_cells
from dutlab.store.packs import TABLES as PACK_TABLES
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import NewerRun, RunFolder

INDEX = ".index.sqlite"
_VERSION = 6
_TABLES = """
CREATE TABLE runs (
  name TEXT PRIMARY KEY, seen TEXT NOT NULL, folder INTEGER NOT NULL, experiment TEXT, testbed TEXT, lab INTEGER, started TEXT, ended TEXT,
  planned INTEGER, measured INTEGER, failed INTEGER, refused INTEGER, disturbed INTEGER, status TEXT NOT NULL,
  modes TEXT, worst_doubt TEXT, fault TEXT
) STRICT;
CREATE TABLE trials (
  run TEXT NOT NULL, trial INTEGER NOT NULL, mode TEXT, factors TEXT, workload TEXT, tool TEXT, links TEXT, frame_size TEXT,
  repeat INTEGER, attempt INTEGER, status TEXT, why TEXT, started TEXT, seconds REAL, doubts TEXT, samples INTEGER, counts INTEGER,
  PRIMARY KEY (run, trial)
) STRICT, WITHOUT ROWID;
CREATE TABLE figures (
  run TEXT NOT NULL, trial INTEGER NOT NULL, link TEXT NOT NULL, figure TEXT NOT NULL, value REAL, PRIMARY KEY (run, trial, link, figure)
) STRICT, WITHOUT ROWID;
CREATE TABLE doubts (
  run TEXT NOT NULL, trial INTEGER NOT NULL, kind TEXT NOT NULL, grade TEXT NOT NULL, about TEXT, text TEXT, detail TEXT, remedy TEXT
) STRICT;
CREATE INDEX doubts_by_run ON doubts (run);
CREATE INDEX runs_by_experiment ON runs (experiment, started);
"""
_COLUMNS = (
    "name, experiment, testbed, lab, started, ended, planned, measured, failed, refused, disturbed, status, modes, worst_doubt, fault"
)
_KINDS = {"text": "VARCHAR", "bigint": "BIGINT", "integer": "BIGINT", "double precision": "DOUBLE", "real": "DOUBLE"}
_OF_THE_INDEX = frozenset({"seen", "folder"})
"""Columns by which it knows what it has read."""
_HOLDERS = (("runs", "name"), ("trials", "run"), ("figures", "run"), ("doubts", "run"), ("packed", "run"))
"""Each table, and its column that names the run."""
_SEARCHED = "name || ' ' || experiment || ' ' || testbed || ' ' || modes || ' ' || fault"
_FINISHED = "finished"
_OF_FINISHED = (f"{_FINISHED} ", f"{_FINISHED}!")
"""What is seen of a finished run is between these."""
_GRADES = ("severe", "warning", "note")
_ALL = 2**62
"""More runs than there are, as a LIMIT that SQLite and PostgreSQL know."""


STATUSES = {
    "running": "a process is carrying it out now",
    "finished": "it has its manifest",
    "cut": "it has none, and nobody carries it out",
    "damaged": "a file cannot be read",
    "newer": "a newer dutlab wrote it",
}


@dataclass(frozen=True)
class RunLine:
    """A run as the index has it. `status` is one of STATUSES."""

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


@dataclass(frozen=True)
class Wanted:
    """Which runs to list; empty is any."""

    experiment: str = ""
    testbed: str = ""
    mode: str = ""
    status: str = ""
    since: str = ""
    """ISO 8601, or the beginning of it: `2026-11`."""
    until: str = ""
    """The same; a day or month that it names is included."""
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
        kept = [(test, value) for test, value in tests if value]
        return " AND ".join(test for test, _ in kept) or "1 = 1", [value for _, value in kept]


@contextmanager
def opened(runs: Path, *, rebuild: bool = False, look: bool = True) -> Iterator[sqlite3.Connection]:
    """The index of `runs`, up to date; without `look` as it was left, where there is one. In memory where `runs` cannot be written.

    Raises InputError when `runs` cannot be read.
    """
    connection, is_kept = _connect(runs / INDEX, rebuild=rebuild)
    connection.row_factory = sqlite3.Row
    try:
        if look or not is_kept:
            _update(connection, runs, run_folders(runs))
            _mark_running(connection, runs)
        yield connection
    finally:
        connection.close()


class RunIndex(Protocol):
    """What answers questions about runs: the index of a folder, or that of a fleet (fleet_index.py)."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor of either database
        """The rows, as DB-API 2.0 has them (PEP 249)."""
        ...


def list_runs(connection: RunIndex, wanted: Wanted, *, limit: int = _ALL, skip: int = 0) -> tuple[RunLine, ...]:
    """The newest `limit` runs (all without one) that are `wanted`, newest first, without the first `skip`."""
    where, values = wanted.where()
    select = f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY name DESC LIMIT ? OFFSET ?"  # noqa: S608 - made of our own words
    return tuple(_line(row) for row in connection.execute(select, (*values, limit, skip)))


def count_runs(connection: RunIndex, wanted: Wanted) -> int:
    """How many are `wanted`."""
    where, values = wanted.where()
    (count,) = connection.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()  # noqa: S608 - as above
    return int(count)


def choices(connection: RunIndex) -> dict[str, list[str]]:
    """What a list of runs can be narrowed by, at most 200 of a kind: experiments, testbeds, modes and workloads that runs have."""
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
    """What the figure is of: a link, a direction of one (`a.back`), or all together."""
    frame_size: str
    figure: str
    value: float


def figures_of(connection: RunIndex, experiment: str) -> Iterator[IndexedFigure]:
    """Every figure of the trials that count, in all runs of an experiment, oldest run first."""
    rows = connection.execute(
        "SELECT t.run, t.mode, t.factors, t.workload, t.links, f.link, t.frame_size, f.figure, f.value FROM runs r "
        "JOIN trials t ON t.run = r.name JOIN figures f ON f.run = t.run AND f.trial = t.trial "
        "WHERE r.experiment = ? AND t.counts = 1 AND f.value IS NOT NULL ORDER BY t.run, t.trial, length(f.link) DESC, f.link, f.figure",
        (experiment,),
    )
    for run, mode, factors, workload, links, link, frame_size, figure, value in rows:
        yield IndexedFigure(run, mode, json.loads(factors), workload, links, link, frame_size, figure, value)


def _line(row: Sequence[Any]) -> RunLine:
    told = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return RunLine(**{**told, "lab": bool(told["lab"]), "modes": tuple(json.loads(told["modes"]))})


def _connect(path: Path, *, rebuild: bool) -> tuple[sqlite3.Connection, bool]:
    """The index, and whether it was there before."""
    in_its_place = path.is_symlink() or (path.exists() and not path.is_file())  # of somebody else: neither followed nor removed
    for _ in range(0 if in_its_place else 2):
        try:
            connection = sqlite3.connect(path, timeout=10)
            connection.execute("PRAGMA journal_mode = WAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == _VERSION and not rebuild:
                return connection, True
            _make(connection)
        except sqlite3.OperationalError:
            break  # cannot be written here
        except sqlite3.DatabaseError:
            _discard(path)
        else:
            return connection, False
    connection = sqlite3.connect(":memory:")
    _make(connection)
    return connection, False


def _make(connection: sqlite3.Connection) -> None:
    with connection:
        for table in (*(table for table, _ in _HOLDERS), "packs"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.executescript(f"{_TABLES} {PACK_TABLES} PRAGMA user_version = {_VERSION};")


def _discard(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _update(connection: sqlite3.Connection, runs: Path, folders: Mapping[str, int]) -> None:
    """Brings the index up to date. A hundred thousand finished runs cost no stat(2), the others one each: their paths are texts."""
    known = connection.cursor()
    known.row_factory = None
    finished: dict[str, int] = dict(known.execute("SELECT name, folder FROM runs WHERE seen >= ? AND seen < ?", _OF_FINISHED))
    if finished == folders:
        return
    others: dict[str, str] = dict(known.execute("SELECT name, seen FROM runs WHERE seen < ? OR seen >= ?", _OF_FINISHED))
    changed, moved, lost = list[tuple[str, str]](), list[tuple[int, str]](), set[str]()
    for name in sorted(name for name, folder in folders.items() if finished.get(name) != folder):
        seen = _signature(f"{runs}/{name}")
        before = others.get(name) if name not in finished else _seen(known, name)
        if before == seen:
            if seen.startswith(_FINISHED):
                moved.append((folders[name], name))
        elif os.path.exists(f"{runs}/{name}/plan.json"):  # noqa: PTH110 - see above
            changed.append((name, seen))
        else:
            lost.add(name)
    gone = [name for known_names in (finished, others) for name in known_names if name not in folders or name in lost]
    if not gone and not changed and not moved:
        return
    with connection:
        connection.executemany("UPDATE runs SET folder = ? WHERE name = ?", moved)  # a copy of all runs, with their index
        for name in (*gone, *(name for name, _ in changed)):
            for table, column in _HOLDERS:
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608 - our own words
        for name, seen in changed:
            _insert(connection, runs / name, seen, folders[name])


def _seen(known: sqlite3.Cursor, name: str) -> str:
    (seen,) = known.execute("SELECT seen FROM runs WHERE name = ?", (name,)).fetchone()
    return str(seen)


def _mark_running(connection: sqlite3.Connection, runs: Path) -> None:
    """Asks of each run without a manifest whether somebody is at it: that changes without any file of it."""
    open_runs = connection.execute("SELECT name, status FROM runs WHERE status IN ('cut', 'running')").fetchall()
    now = {row["name"]: "running" if is_running(runs / row["name"]) else "cut" for row in open_runs}
    changed = [(now[row["name"]], row["name"]) for row in open_runs if now[row["name"]] != row["status"]]
    if changed:
        with connection:
            connection.executemany("UPDATE runs SET status = ? WHERE name = ?", changed)


def _signature(path: str) -> str:
    """What changes when a run goes on; a finished run's folder stays as it is but for its report."""
    try:
        return f"{_FINISHED} {os.stat(f'{path}/{MANIFEST}').st_mtime_ns}"  # noqa: PTH116 - called for every run of the folder
    except OSError:
        trials = Path(path, "trials")
    try:
        return f"open {trials.stat().st_mtime_ns} {sum(1 for _ in trials.glob('*/record.json'))}"
    except OSError:
        return "open"


def _insert(connection: sqlite3.Connection, path: Path, seen: str, folder: int) -> None:
    """Adds a run. One that cannot be taken in as it is, whatever the reason, is damaged and hinders no other."""
    connection.execute("SAVEPOINT run")
    try:
        insert_rows(connection, rows_of(path, seen, folder))
    except sqlite3.OperationalError:
        raise  # the index itself: no room, or locked
    except Exception as error:  # noqa: BLE001 - the boundary: records of anybody come in here
        connection.execute("ROLLBACK TO run")
        fault = f"{path}: cannot be read: {type(error).__name__}: {error}"[:2000].encode(errors="backslashreplace").decode()
        about = ("", "", 0, "", "", 0, 0, 0, 0, 0)
        insert_rows(connection, {"runs": [(path.name, seen, folder, *about, "damaged", "[]", "", fault)]})
    connection.execute("RELEASE run")


def question_columns(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of a table's columns and their types in either database, those that a question may name, with DuckDB's type."""
    return [(name, _KINDS[kind.lower()]) for name, kind in found if name not in _OF_THE_INDEX]


def insert_rows(connection: Any, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:  # noqa: ANN401 - of either database
    """Adds rows of tables, which all have the columns of _TABLES in their order."""
    for table, of_table in rows.items():
        if of_table:
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(of_table[0]))})", of_table)  # noqa: S608 - our own words


def rows_of(path: Path, seen: str, folder: int) -> dict[str, list[tuple[Any, ...]]]:
    """What each table has of a run. Raises whatever a record of anybody can make it raise."""
    records, faults, newer = list[TrialRecord](), list[str](), False
    resolved: dict[str, Any] = {}
    plan: dict[str, Any] = {}
    try:
        run = RunFolder.open(path)
        resolved, plan = run.resolved, run.plan
        records.extend(run.readable_records(faults, keep=without_details))
    except NewerRun as error:
        newer = True
        faults.append(str(error))
    except (InputError, StoreError, OSError) as error:
        faults.append(str(error))
    status = "newer" if newer else "damaged" if faults else "finished" if seen.startswith(_FINISHED) else "cut"
    modes = json.dumps(list(dict.fromkeys(r.cell.mode for r in records)))
    return {
        "runs": [(path.name, seen, folder, *_about(resolved, plan, records), status, modes, _worst(records), "; ".join(faults)[:2000])],
        "trials": [_trial(path, r) for r in records],
        "figures": [
            (path.name, r.trial, link, name, value) for r in records for link, fs in r.figures.items() for name, value in fs.items()
        ],
        "doubts": [(path.name, r.trial, d.kind, d.grade, d.about, d.text, d.detail, d.remedy) for r in records for d in r.doubts],
    }


def _about(resolved: Mapping[str, Any], plan: Mapping[str, Any], records: list[TrialRecord]) -> tuple[str | int, ...]:
    experiment, testbed = (found if isinstance(found := resolved.get(key), Mapping) else {} for key in ("experiment", "testbed"))
    counts = [sum(r.status == status for r in records) for status in ("measured", "failed", "refused", "disturbed")]
    lab = any(d.kind == "EMBEDDED_LAB" for r in records for d in r.doubts)
    return (
        str(experiment.get("name") or plan.get("experiment") or ""), str(testbed.get("name") or ""), int(lab or bool(testbed.get("lab"))),
        min((r.started.isoformat() for r in records), default=""), max((r.ended.isoformat() for r in records), default=""),
        len(needed_cells(plan, records)), *counts,
    )  # fmt: skip


def _trial(path: Path, r: TrialRecord) -> tuple[str | float | int, ...]:
    size, has_samples = r.cell.params.get("frame_size"), (path / "trials" / f"{r.trial:04d}" / "samples.parquet").exists()
    return (
        path.name, r.trial, r.cell.mode, json.dumps(r.cell.factors), r.cell.workload, r.cell.tool, r.cell.link_label,
        "" if size is None else str(size), r.cell.repeat, r.attempt, r.status, r.why, r.started.isoformat(),
        (r.ended - r.started).total_seconds(), json.dumps(sorted({d.kind for d in r.doubts})), int(has_samples), int(counts(r)),
    )  # fmt: skip


def _worst(records: list[TrialRecord]) -> str:
    grades = {d.grade for r in records for d in r.doubts}
    return next((g for g in _GRADES if g in grades), "")
