"""SQL over all runs: DuckDB in memory, over what the index knows and over the samples where they lie.

Tables: `runs`, `trials`, `figures` (run, trial, link, figure, value), `doubts` (run, trial, kind, grade and its words) and `samples`
(run, trial, t_s, host, sensor, name, unit, value). `SHOW TABLES` and `DESCRIBE TABLE` list them and their columns.
A question reads these and changes nothing: question.py admits one SELECT, and DuckDB may open no file but the samples, which it reads
where they lie. It writes no temporary files either, which a killed process would leave behind.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab.errors import InputError, StoreError
from dutlab.store.question import QUESTION_REMEDY, insist_on_question
from dutlab.store.samples import damaged_samples, literal_glob

if TYPE_CHECKING:
    import duckdb

_FROM_INDEX = ("runs", "trials", "figures", "doubts")
_SAMPLES = (
    ("run", "VARCHAR"), ("trial", "INTEGER"), ("t_s", "DOUBLE"), ("host", "VARCHAR"), ("sensor", "VARCHAR"), ("name", "VARCHAR"),
    ("unit", "VARCHAR"), ("value", "DOUBLE"),
)  # fmt: skip
TABLES = (*_FROM_INDEX, "samples")
_KINDS = {"TEXT": "VARCHAR", "INTEGER": "BIGINT", "REAL": "DOUBLE"}
_DTYPES = {"VARCHAR": "O", "BIGINT": "int64", "DOUBLE": "float64"}
_SHOW = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(rf"\s*(?:describe|desc|show)\s+({'|'.join(TABLES)})\s*;?\s*", re.IGNORECASE)
_BATCH = 100_000
_MEMORY_LIMIT = "2GB"
_NO_SAMPLES = "SELECT ''::VARCHAR AS filename, 0.0 AS t_s, '' AS host, '' AS sensor, '' AS name, '' AS unit, 0.0 AS value WHERE false"
_ZONED = "WITH TIME ZONE"


@dataclass(frozen=True)
class QueryAnswer:
    """Columns and rows of a question, and what it could not be asked of, in sentences. Times with a zone are texts (ISO 8601)."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()


def ask(index: sqlite3.Connection, runs: Path, question: str) -> QueryAnswer:
    """The answer to one SELECT. A trial whose samples are damaged is left out of `samples` and named in the notes.

    Raises InputError for what is not a question or is refused by DuckDB.
    """
    if (listed := _listing(index, question)) is not None:
        return listed
    import duckdb  # noqa: PLC0415 - 80 ms that only this needs

    insist_on_question(question)
    samples = _sample_files(index, runs) if "samples" in question.lower() else []
    try:
        return _answer(index, samples, question)
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        if not (damaged := damaged_samples(samples)):
            raise InputError(_first_line(error), remedy=QUESTION_REMEDY) from error
    left = [path for path in samples if path not in damaged]
    notes = tuple(f"left out, its samples cannot be read: {_place(path)}: {why}" for path, why in damaged.items())
    try:
        found = _answer(index, left, question)
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        raise StoreError(f"samples cannot be read: {_first_line(error)}", remedy="verify the run with its MANIFEST.sha256") from error
    return QueryAnswer(found.columns, found.rows, notes)


def _listing(index: sqlite3.Connection, question: str) -> QueryAnswer | None:
    """What SHOW TABLES and DESCRIBE answer; None for a question."""
    if _SHOW.fullmatch(question):
        return QueryAnswer(("table", "columns"), [(name, ", ".join(column for column, _ in _columns(index, name))) for name in TABLES])
    if found := _DESCRIBE.fullmatch(question):
        return QueryAnswer(("column", "type"), list(_columns(index, found[1].lower())))
    return None


def _columns(index: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    """(name, type) of each; a name that a table of the index has."""
    if table not in _FROM_INDEX:
        return list(_SAMPLES)
    return [(name, _KINDS[kind]) for _, name, kind, *_ in index.execute(f"PRAGMA table_info({table})") if name != "seen"]


def _answer(index: sqlite3.Connection, samples: Sequence[Path], question: str) -> QueryAnswer:
    """Raises InputError for what DuckDB refuses; what may be a damaged file is left to the caller."""
    import duckdb  # noqa: PLC0415 - as above

    with duckdb.connect(
        ":memory:", config={"memory_limit": _MEMORY_LIMIT, "temp_directory": "", "python_enable_replacements": False}
    ) as connection:
        for table in _FROM_INDEX:
            if table in question.lower():
                _copy(index, connection, table)
        _view_samples(connection, samples)
        names = [name for path in samples for name in {str(path), literal_glob(path)}]  # the second is how globs name it
        connection.execute(f"SET allowed_paths = {_list(names)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            found = connection.sql(question)
            columns = tuple(found.columns)
            if any(_ZONED in str(kind) for kind in found.types):  # as objects of Python they would need pytz
                found = found.project(", ".join(f"#{n}::VARCHAR" if _ZONED in str(t) else f"#{n}" for n, t in enumerate(found.types, 1)))
            return QueryAnswer(columns, found.fetchall())
        except (duckdb.IOException, duckdb.InvalidInputException):
            raise
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"the question needs more than {_MEMORY_LIMIT} of memory", remedy="ask for fewer rows, or for sums and medians of them"
            ) from error
        except duckdb.Error as error:
            raise InputError(_first_line(error), remedy=QUESTION_REMEDY) from error


def _sample_files(index: sqlite3.Connection, runs: Path) -> list[Path]:
    base = runs.resolve()
    found = index.execute("SELECT run, trial FROM trials WHERE samples = 1 ORDER BY run, trial")
    paths = (base / run / "trials" / f"{trial:04d}" / "samples.parquet" for run, trial in found)
    return [path for path in paths if path.is_file()]  # a pipe in its place would never end


def _place(path: Path) -> str:
    """`RUN trial 7`."""
    return f"{path.parts[-4]} trial {int(path.parts[-2])}"


def _copy(index: sqlite3.Connection, connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """A table of the index, a batch at a time as arrays, so that millions of figures need little memory."""
    import numpy as np  # noqa: PLC0415 - as above

    columns = _columns(index, table)
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns)})")
    rows = index.cursor()
    rows.row_factory = None
    rows.execute(f"SELECT {', '.join(name for name, _ in columns)} FROM {table}")  # noqa: S608 - names of our own tables
    for batch in _batches(rows):
        arrays = {}
        for (name, kind), values in zip(columns, zip(*batch, strict=True), strict=True):
            array = np.empty(len(values), dtype=_DTYPES[kind])
            array[:] = values
            arrays[name] = array
        connection.register("batch", arrays)
        connection.execute(f"INSERT INTO {table} SELECT * FROM batch")  # noqa: S608 - as above
        connection.unregister("batch")


def _batches(rows: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while batch := rows.fetchmany(_BATCH):
        yield batch


def _view_samples(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> None:
    source = f"read_parquet({_list([literal_glob(p) for p in paths])}, filename = true)" if paths else f"({_NO_SAMPLES})"
    place = "split_part(filename, '/', -4) AS run, split_part(filename, '/', -2)::INTEGER AS trial"
    columns = "t_s, host, sensor, name, unit, value"
    connection.execute(f"CREATE VIEW samples AS SELECT {place}, {columns} FROM {source}")  # noqa: S608 - paths are quoted


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
