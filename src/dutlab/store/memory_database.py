"""DuckDB in memory for our own words of SQL: one database a process, since to make one takes longer than most of what is asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dutlab.bounds import DATABASE_MEMORY

if TYPE_CHECKING:
    import duckdb


_made: dict[int, duckdb.DuckDBPyConnection] = {}
"""Database of each process: a forked one must not use what it inherits, whose threads it does not have."""


@contextmanager
def in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a connection with its own temporary tables and variables."""
    import duckdb  # noqa: PLC0415 - 80 ms that only some commands need

    try:
        with _database().cursor() as connection:
            yield connection
    except duckdb.Error:
        _made.pop(os.getpid(), None)  # some faults end a database: do not use this one again
        raise


def _database() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415 - as above

    if os.getpid() not in _made:
        database = _made[os.getpid()] = duckdb.connect(":memory:", config={"memory_limit": DATABASE_MEMORY, "temp_directory": ""})
        with suppress(duckdb.CatalogException):  # before 1.3 there is no such cache
            database.execute("SET enable_external_file_cache = false")  # files are read as they are now
    return _made[os.getpid()]
