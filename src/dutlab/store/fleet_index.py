"""Index of all runs of a fleet, in the fleet's database. `runs`, `query` and `history` with `--fleet` read it.

It has the tables of a folder's index (index.py), and `places`, with the place of each run. The process that carried out a run adds it
when the run has finished; the rows never change. The content of a run's files is always read from the files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from dutlab.errors import StoreError
from dutlab.store.fleet_database import FleetDatabase, fleet_database
from dutlab.store.fleet_tables import INDEX_SCHEMA
from dutlab.store.index import insert_rows, question_columns
from dutlab.store.manifest import MANIFEST
from dutlab.store.packs import sample_file
from dutlab.store.redaction import Redactor
from dutlab.store.run_folder import RunFolder
from dutlab.store.run_rows import rows_of

_BATCH = 1000
_QUESTION_S = 600
_SAID_IN_POSTGRES = (
    ("%", "%%"), ("?", "%s"), ("instr(", "strpos("),
    ("json_each(runs.modes)", "jsonb_array_elements_text(runs.modes::jsonb) AS json_each(value)"),
    ("json_each(modes)", "jsonb_array_elements_text(modes::jsonb) AS json_each(value)"),
)  # fmt: skip
"""SQL of index.py → its form in PostgreSQL."""


class FleetIndex:
    """Open index of a fleet. It takes statements in SQLite's form."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of sqlite3, or of psycopg, an extra
        self._connection = connection
        self._is_sqlite = isinstance(connection, sqlite3.Connection)
        if not self._is_sqlite:
            connection.execute(f"SELECT set_config('search_path', '{INDEX_SCHEMA}, ' || current_setting('search_path'), false)")

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor of either
        """Carry out one statement; return its cursor."""
        return self._connection.execute(self._said(statement), values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> None:
        """Carry out a statement for each of `rows`."""
        self._connection.cursor().executemany(self._said(statement), rows)

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Return (name, type in DuckDB) of each column that a question may name."""
        if self._is_sqlite:
            rows = [(row[1], row[2]) for row in self._connection.execute(f"PRAGMA table_info({table})")]
        else:
            select = "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = ? AND table_name = ?"
            rows = list(self.execute(f"{select} ORDER BY ordinal_position", (INDEX_SCHEMA, table)))
        return question_columns(rows)

    def batches(self, select: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a SELECT, `size` at a time; PostgreSQL would otherwise send all at once."""
        if self._is_sqlite:
            rows = self._connection.execute(select)
            while batch := rows.fetchmany(size):
                yield batch
            return
        with self._connection.transaction(), self._connection.cursor(name="dutlab_rows") as rows:
            rows.itersize = size
            rows.execute(self._said(select))
            while batch := rows.fetchmany(size):
                yield batch

    def samples(self) -> tuple[list[Path], list[Path], tuple[str, ...]]:
        """Return no packs, the files of samples on this machine, and a note about the runs whose files are elsewhere (ask.RunSource)."""
        select = "SELECT t.run, t.trial, p.place FROM trials t JOIN places p ON p.run = t.run WHERE t.samples = 1 ORDER BY t.run, t.trial"
        here, away = list[Path](), set[str]()
        for batch in self.batches(select, _BATCH):
            for run, trial, place in batch:
                path = sample_file(Path(place).parent, (run, trial))
                if Path(place).name == run and path.is_file():
                    here.append(path)
                else:
                    away.add(run)
        note = f"left out, their samples are out of reach from here: {len(away)} runs; `dutlab campaign fetch RUN` brings one"
        return [], here, (note,) if away else ()

    def discard_damaged(self, packs: Sequence[Path]) -> bool:  # noqa: ARG002 -- as ask.RunSource has it
        """Return False: a fleet has no packs."""
        return False

    def places(self, runs: Sequence[str]) -> dict[str, str]:
        """Return run → place, for the given runs."""
        marks = ", ".join("?" * len(runs)) or "''"
        return dict(self.execute(f"SELECT run, place FROM places WHERE run IN ({marks})", runs).fetchall())  # noqa: S608 - only marks

    def add(self, path: Path, place: str, environment: Mapping[str, str]) -> None:
        """Add the finished run in `path` without the secrets in `environment`; if the index has the run, update its place.

        Raises StoreError if another run has this name.
        """
        try:
            covering = _covering(path, environment)
            rows = rows_of(path, f"finished {path.joinpath(MANIFEST).stat().st_mtime_ns}", 0)
        except Exception as error:
            raise StoreError(f"{path}: cannot be read: {type(error).__name__}: {error}"[:2000]) from error
        with self._whole():
            (before,) = self.execute("SELECT started FROM runs WHERE name = ?", (path.name,)).fetchone() or (None,)
            if before is None:
                insert_rows(self, {table: [tuple(map(covering, row)) for row in of_table] for table, of_table in rows.items()})
            elif before != rows["runs"][0][6]:
                raise StoreError(f"{path.name}: another run of the fleet has this name", remedy="give its folder another name")
            self.execute("DELETE FROM places WHERE run = ?", (path.name,))
            self.execute("INSERT INTO places VALUES (?, ?)", (path.name, place))

    def identity(self) -> str:
        """Identity of the database."""
        return str(self.execute("SELECT id FROM dutlab_store").fetchone()[0])

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make the enclosed statements one transaction."""
        self.execute("BEGIN IMMEDIATE" if self._is_sqlite else "BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # if the connection is lost, the database rolls back itself
                self.execute("ROLLBACK")
            raise

    def _said(self, statement: str) -> str:
        if not self._is_sqlite:
            for ours, theirs in _SAID_IN_POSTGRES:
                statement = statement.replace(ours, theirs)
        return statement


def _storable(value: object) -> object:
    """Return a value that both databases can store: PostgreSQL has no NUL in texts, SQLite no NaN, and neither has lone surrogates."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode(errors="replace").decode()
    return None if value != value else value  # noqa: PLR0124 - NaN


def _covering(path: Path, environment: Mapping[str, str]) -> Callable[[object], object]:
    """Return a function that makes a value storable and covers secrets in it. The run's name stays, because it joins the rows."""
    text = cache(Redactor(RunFolder(path).resolved, environment).text)

    def covered(value: object) -> object:
        stored = _storable(value)
        return text(stored) if isinstance(stored, str) and stored != path.name else stored

    return covered


@contextmanager
def asked_fleet() -> Iterator[FleetIndex]:
    """Open the index in the database that the environment names."""
    with opened_fleet(fleet_database()) as index:
        yield index


@contextmanager
def opened_fleet(database: FleetDatabase, *, answers_s: int = _QUESTION_S) -> Iterator[FleetIndex]:
    """Open the index in `database`. A statement may take `answers_s` seconds.

    Raises FleetDatabaseAway, InputError.
    """
    with database.connected(answers_s) as connection:
        yield FleetIndex(connection)
