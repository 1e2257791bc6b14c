"""DuckDB in memory for our own SQL: one database per process, because making one takes longer than most queries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab.bounds import DATABASE_MEMORY
from dutlab.errors import StoreError

if TYPE_CHECKING:
    import duckdb


_made: dict[int, duckdb.DuckDBPyConnection] = {}
"""Process → its database. A forked process must not use the inherited database, because it does not have its threads."""


@contextmanager
def in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with its own temporary tables and variables."""
    import duckdb  # noqa: PLC0415 - 80 ms that only some commands need

    try:
        with _database().cursor() as connection:
            yield connection
    except duckdb.Error:
        _made.pop(os.getpid(), None)  # some errors make a database unusable: make a new one
        raise


def to_parquet(path: Path, select: str, tables: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> int:
    """Write the rows of a query of ours over `tables` to a Parquet file, or replace it; return their number. Raises StoreError."""
    import duckdb  # noqa: PLC0415 - as above

    part = path.with_name(f".{path.name}.part")
    try:
        with in_memory() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            copy = f"COPY ({select}) TO $path (FORMAT PARQUET, COMPRESSION ZSTD)"
            written = connection.execute(copy, {"path": str(part), **(parameters or {})}).fetchone()
        part.replace(path)
    except (duckdb.Error, OSError) as error:
        raise StoreError(f"{path}: cannot be written: {str(error).splitlines()[0]}") from error
    finally:
        part.unlink(missing_ok=True)
    return 0 if written is None else int(written[0])


def _database() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415 - as above

    if os.getpid() not in _made:
        database = _made[os.getpid()] = duckdb.connect(":memory:", config={"memory_limit": DATABASE_MEMORY, "temp_directory": ""})
        with suppress(duckdb.CatalogException):  # DuckDB before 1.3 has no such cache
            database.execute("SET enable_external_file_cache = false")  # read the current content of files
    return _made[os.getpid()]
