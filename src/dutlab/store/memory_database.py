"""DuckDB in memory for our own SQL: one database per process, because making one takes longer than most queries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dutlab.bounds import DATABASE_MEMORY

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


def _database() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415 - as above

    if os.getpid() not in _made:
        database = _made[os.getpid()] = duckdb.connect(":memory:", config={"memory_limit": DATABASE_MEMORY, "temp_directory": ""})
        with suppress(duckdb.CatalogException):  # DuckDB before 1.3 has no such cache
            database.execute("SET enable_external_file_cache = false")  # read the current content of files
    return _made[os.getpid()]
