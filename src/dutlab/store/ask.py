"""SQL over all runs: DuckDB in memory, over what the index knows and over the samples where they lie.

Tables: `runs`, `trials`, `figures` (run, trial, link, figure, value) and `samples` (run, trial, t_s, host, sensor, name, value).
Only questions are answered: one SELECT, and no file but the samples can be read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab.errors import InputError, StoreError
from dutlab.store.samples import literal_glob

if TYPE_CHECKING:
    import duckdb

_FROM_INDEX = ("runs", "trials", "figures")
_BATCH = 100_000
_MEMORY_LIMIT = "700MB"
_NO_SAMPLES = "SELECT ''::VARCHAR AS filename, 0.0 AS t_s, '' AS host, '' AS sensor, '' AS name, 0.0 AS value WHERE false"


@dataclass(frozen=True)
class Answer:
    """Columns and rows of a question."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def ask(index: sqlite3.Connection, runs: Path, question: str) -> Answer:
    """The answer to one SELECT. Raises InputError for what is no question or is refused by DuckDB, StoreError for a damaged file."""
    import duckdb  # noqa: PLC0415 - 80 ms that only this needs

    with duckdb.connect(":memory:", config={"memory_limit": _MEMORY_LIMIT}) as connection:
        _insist_on_question(connection, question)
        for table in _FROM_INDEX:
            if table in question.lower():
                _copy(index, connection, table)
        if "samples" in question.lower():
            _view_samples(index, connection, runs)
        base = runs.resolve()
        connection.execute(f"SET allowed_directories = {_list([str(base), literal_glob(base)])}")  # the second is how globs name it
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            found = connection.execute(question)
            return Answer(tuple(c[0] for c in found.description or ()), found.fetchall())
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise StoreError(f"samples cannot be read: {_first_line(error)}", remedy="verify the run with its MANIFEST.sha256") from error
        except duckdb.Error as error:
            raise InputError(_first_line(error), remedy="tables are runs, trials, figures and samples") from error


def _insist_on_question(connection: duckdb.DuckDBPyConnection, question: str) -> None:
    import duckdb  # noqa: PLC0415 - as above

    try:
        statements = connection.extract_statements(question)
    except duckdb.Error as error:
        raise InputError(_first_line(error), remedy="write one SELECT") from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("only a single SELECT is answered", remedy="runs are never changed by a question")


def _copy(index: sqlite3.Connection, connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """A table of the index, a batch at a time as arrays, so that millions of figures need little memory."""
    import numpy as np  # noqa: PLC0415 - as above

    columns = [(name, kind) for _, name, kind, *_ in index.execute(f"PRAGMA table_info({table})") if name != "seen"]
    kinds = {"TEXT": "VARCHAR", "INTEGER": "BIGINT", "REAL": "DOUBLE"}
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kinds[kind]}' for name, kind in columns)})")
    rows = index.cursor()
    rows.row_factory = None
    rows.execute(f"SELECT {', '.join(name for name, _ in columns)} FROM {table}")  # noqa: S608 - names of our own tables
    for batch in _batches(rows):
        arrays = {}
        for (name, kind), values in zip(columns, zip(*batch, strict=True), strict=True):
            array = np.empty(len(values), dtype=object if kind == "TEXT" else np.int64 if kind == "INTEGER" else np.float64)
            array[:] = values
            arrays[name] = array
        connection.register("batch", arrays)
        connection.execute(f"INSERT INTO {table} SELECT * FROM batch")  # noqa: S608 - as above
        connection.unregister("batch")


def _batches(rows: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while batch := rows.fetchmany(_BATCH):
        yield batch


def _view_samples(index: sqlite3.Connection, connection: duckdb.DuckDBPyConnection, runs: Path) -> None:
    base = runs.resolve()
    found = index.execute("SELECT run, trial FROM trials WHERE samples = 1 ORDER BY run, trial")
    paths = [base / run / "trials" / f"{trial:04d}" / "samples.parquet" for run, trial in found]
    source = f"read_parquet({_list([literal_glob(p) for p in paths])}, filename = true)" if paths else f"({_NO_SAMPLES})"
    place = "split_part(filename, '/', -4) AS run, split_part(filename, '/', -2)::INTEGER AS trial"
    columns = "t_s, host, sensor, name, value"
    connection.execute(f"CREATE VIEW samples AS SELECT {place}, {columns} FROM {source}")  # noqa: S608 - paths are quoted


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
