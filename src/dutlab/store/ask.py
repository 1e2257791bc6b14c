"""SQL over all runs: DuckDB in memory reads the index and the files of samples.

Tables: `runs`, `trials`, `figures` (run, trial, link, figure, value), `doubts` (run, trial, kind, grade and its words),
`results` (the main figures of each cell) and `samples`
(run, trial, t_s, host, sensor, name, unit, value). `SHOW TABLES` and `DESCRIBE TABLE` list them and their columns.
A question only reads: question.py admits one SELECT, and DuckDB may open only files of samples and packs of them (packs.py).
DuckDB writes no temporary files, because a killed process would leave them behind.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from dutlab.bounds import DATABASE_MEMORY
from dutlab.errors import InputError, StoreError
from dutlab.store.index import question_columns
from dutlab.store.packs import discard_damaged, packs_of, place_of_file, sample_file
from dutlab.store.question import QUESTION_REMEDY, insist_on_question
from dutlab.store.samples import damaged_samples, interruptible, literal_glob

if TYPE_CHECKING:
    import duckdb

_FROM_INDEX = ("runs", "trials", "figures", "doubts", "results")
_SAMPLES = (
    ("run", "VARCHAR"), ("trial", "INTEGER"), ("t_s", "DOUBLE"), ("host", "VARCHAR"), ("sensor", "VARCHAR"), ("name", "VARCHAR"),
    ("unit", "VARCHAR"), ("value", "DOUBLE"),
)  # fmt: skip
TABLES = (*_FROM_INDEX, "samples")
_DTYPES = {"VARCHAR": "O", "BIGINT": "int64", "DOUBLE": "float64"}
_SHOW = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(rf"\s*(?:describe|desc|show)\s+({'|'.join(TABLES)})\s*;?\s*", re.IGNORECASE)
_BATCH = 100_000
_NO_SAMPLES = "SELECT '' AS run, 0 AS trial, 0.0 AS t_s, '' AS host, '' AS sensor, '' AS name, '' AS unit, 0.0 AS value WHERE false"
_ZONED = "WITH TIME ZONE"
QUESTION_THREAD = "question"
_AGAIN_S = 0.1
"""Seconds to wait before another interrupt is sent."""


@dataclass(frozen=True)
class QueryAnswer:
    """Answer to a question: columns, rows, and sentences about runs and trials left out. Times with a zone are texts (ISO 8601)."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()


class RunSource(Protocol):
    """Source of runs for a question: a folder or a fleet."""

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Return (name, type in DuckDB) of each column that a question may name."""
        ...

    def batches(self, select: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a SELECT, `size` at a time."""
        ...

    def samples(self) -> tuple[list[Path], list[Path], tuple[str, ...]]:
        """Return the packs, the files of samples without a pack, and sentences about samples that are out of reach."""
        ...

    def discard_damaged(self, packs: Sequence[Path]) -> bool:
        """Discard packs that cannot be read; return whether there were any."""
        ...


def ask(index: sqlite3.Connection, runs: Path, question: str, note: Callable[[str], None] = lambda _: None) -> QueryAnswer:
    """Answer one SELECT about the runs of a folder, as ask_source() does. `note` is called with a sentence before slow steps."""
    return ask_source(_FolderRuns(index, runs, note), question)


def ask_source(index: RunSource, question: str) -> QueryAnswer:
    """Answer one SELECT. A trial whose samples are damaged is left out of `samples` and named in the notes.

    Raises InputError if the text is not a question or DuckDB refuses it, StoreError, KeyboardInterrupt.
    """
    if (listed := _listing(index, question)) is not None:
        return listed
    with interruptible():
        return _asked(index, question)


def _asked(index: RunSource, question: str) -> QueryAnswer:
    import duckdb  # noqa: PLC0415 - 80 ms that only this needs

    insist_on_question(question)
    packs, samples, away = index.samples() if "samples" in question.lower() else ([], [], ())
    try:
        answer = _answer(index, packs, samples, question)
        return QueryAnswer(answer.columns, answer.rows, away)
    except duckdb.Error as error:
        if packs and index.discard_damaged(packs):
            return _asked(index, question)
        if not (damaged := damaged_samples(samples)):
            raise InputError(_first_line(error), remedy=QUESTION_REMEDY) from error
    left = [path for path in samples if path not in damaged]
    notes = tuple(f"left out, its samples cannot be read: {_place(path)}: {why}" for path, why in damaged.items())
    try:
        partial_answer = _answer(index, packs, left, question)
    except duckdb.Error as error:
        raise StoreError(f"samples cannot be read: {_first_line(error)}", remedy="verify the run with its MANIFEST.sha256") from error
    return QueryAnswer(partial_answer.columns, partial_answer.rows, (*away, *notes))


def _listing(index: RunSource, question: str) -> QueryAnswer | None:
    """Answer SHOW TABLES and DESCRIBE; return None for a SELECT."""
    if _SHOW.fullmatch(question):
        return QueryAnswer(("table", "columns"), [(name, ", ".join(column for column, _ in _columns(index, name))) for name in TABLES])
    if match := _DESCRIBE.fullmatch(question):
        return QueryAnswer(("column", "type"), list(_columns(index, match[1].lower())))
    return None


def _columns(index: RunSource, table: str) -> list[tuple[str, str]]:
    """Return (name, type) of each column of a table in TABLES."""
    return index.columns(table) if table in _FROM_INDEX else list(_SAMPLES)


@dataclass(frozen=True)
class _FolderRuns:
    index: sqlite3.Connection
    runs: Path
    note: Callable[[str], None]

    def columns(self, table: str) -> list[tuple[str, str]]:
        return question_columns((row[1], row[2]) for row in self.index.execute(f"PRAGMA table_info({table})"))

    def batches(self, select: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        rows = self.index.cursor()
        rows.row_factory = None
        rows.execute(select)
        while batch := rows.fetchmany(size):
            yield batch

    def samples(self) -> tuple[list[Path], list[Path], tuple[str, ...]]:
        return packs_of(self.index, self.runs.resolve(), self.note), _sample_files(self.index, self.runs), ()

    def discard_damaged(self, packs: Sequence[Path]) -> bool:
        return discard_damaged(self.index, packs)


def _answer(index: RunSource, packs: Sequence[Path], samples: Sequence[Path], question: str) -> QueryAnswer:
    """Answer the question. Raises InputError if DuckDB refuses it, and duckdb.Error if a file may be damaged."""
    import duckdb  # noqa: PLC0415 - as above

    with duckdb.connect(
        ":memory:", config={"memory_limit": DATABASE_MEMORY, "temp_directory": "", "python_enable_replacements": False}
    ) as connection:
        for table in _FROM_INDEX:
            if table in question.lower():
                _copy(index, connection, table)
        _view_samples(connection, packs, samples)
        names = [name for path in (*packs, *samples) for name in {str(path), literal_glob(path)}]  # globs use the second form
        connection.execute(f"SET allowed_paths = {_list(names)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            return _ended_by_ctrl_c(connection, lambda: _fetched(connection, question))
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"the question needs more than {DATABASE_MEMORY} of memory", remedy="ask for fewer rows, or for sums and medians of them"
            ) from error
        except duckdb.Error as error:
            if isinstance(error, duckdb.IOException | duckdb.InvalidInputException) or type(error) is duckdb.Error:
                raise  # DuckDB's reader raises the base class for bytes that it cannot name
            raise InputError(_first_line(error), remedy=QUESTION_REMEDY) from error


def _fetched(connection: duckdb.DuckDBPyConnection, question: str) -> QueryAnswer:
    relation = connection.sql(question)
    columns = tuple(relation.columns)
    if any(_ZONED in str(kind) for kind in relation.types):  # as Python objects they would need pytz
        relation = relation.project(", ".join(f"#{n}::VARCHAR" if _ZONED in str(t) else f"#{n}" for n, t in enumerate(relation.types, 1)))
    return QueryAnswer(columns, relation.fetchall())


def _ended_by_ctrl_c(connection: duckdb.DuckDBPyConnection, work: Callable[[], QueryAnswer]) -> QueryAnswer:
    """Run `work` on the connection in a thread, because DuckDB checks for signals only rarely.

    Raises KeyboardInterrupt after DuckDB has stopped.
    """
    answer, given_up = Future[QueryAnswer](), Event()

    def carry_out() -> None:
        if given_up.is_set():
            return
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - answer.result() raises it
            answer.set_exception(error)

    thread = Thread(target=carry_out, name=QUESTION_THREAD, daemon=True)
    try:
        thread.start()
        return answer.result()
    except KeyboardInterrupt:
        given_up.set()  # stops a thread that has not begun
        while thread.is_alive() and not answer.done():
            with suppress(KeyboardInterrupt):
                connection.interrupt()  # DuckDB ignores an interrupt before the question begins
                wait([answer], _AGAIN_S)
        raise


def _sample_files(index: sqlite3.Connection, runs: Path) -> list[Path]:
    """Return the files of samples without a pack."""
    base = runs.resolve()
    select = "SELECT run, trial FROM trials WHERE samples = 1 EXCEPT SELECT run, trial FROM packed ORDER BY run, trial"
    paths = (sample_file(base, (run, trial)) for run, trial in index.execute(select))
    return [path for path in paths if path.is_file()]  # reading a pipe would never end


def _place(path: Path) -> str:
    """Return `RUN trial 7` for a file of samples."""
    return f"{path.parts[-4]} trial {int(path.parts[-2])}"


def _copy(index: RunSource, connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Copy a table of the index into DuckDB, a batch of arrays at a time, so that millions of figures need little memory."""
    import numpy as np  # noqa: PLC0415 - as above

    columns = _columns(index, table)
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns)})")
    select = f"SELECT {', '.join(name for name, _ in columns)} FROM {table}"  # noqa: S608 - names of our own tables
    for batch in index.batches(select, _BATCH):
        arrays = {}
        for (name, kind), values in zip(columns, zip(*batch, strict=True), strict=True):
            array = np.empty(len(values), dtype=_DTYPES[kind])
            array[:] = values
            arrays[name] = array
        connection.register("batch", arrays)
        connection.execute(f"INSERT INTO {table} SELECT * FROM batch")  # noqa: S608 - as above
        connection.unregister("batch")


def _view_samples(connection: duckdb.DuckDBPyConnection, packs: Sequence[Path], files: Sequence[Path]) -> None:
    columns = "t_s, host, sensor, name, unit, value"
    sources = []
    if packs:
        sources.append(f"SELECT run, trial, {columns} FROM read_parquet({_list([literal_glob(p) for p in packs])})")  # noqa: S608 - paths are quoted
    if files:
        read = f"read_parquet({_list([literal_glob(p) for p in files])}, filename = true)"
        sources.append(f"SELECT {place_of_file('filename')}, {columns} FROM {read}")  # noqa: S608 - as above
    connection.execute(f"CREATE VIEW samples AS {' UNION ALL '.join(sources) or _NO_SAMPLES}")


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
