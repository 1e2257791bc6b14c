"""Time series of a trial in Parquet: columns t_s, host, sensor, name, unit, value. DuckDB in memory writes and reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from dutlab.bounds import SAMPLE_ROWS
from dutlab.errors import StoreError
from dutlab.store.memory_database import in_memory
from dutlab.store.write import as_store_error, disk_full, publish

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 10_000
_COLUMNS = ("t_s", "host", "sensor", "name", "unit", "value")


class SampleRow(Protocol):
    """One value at one time. `t_s` is seconds since the trial's start; `unit` is as written after a number."""

    @property
    def t_s(self) -> float: ...
    @property
    def host(self) -> str: ...
    @property
    def sensor(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def value(self) -> float: ...


def columns(rows: Iterable[SampleRow]) -> dict[str, NDArray[Any]]:
    """Return rows as arrays of equal length, by column."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    samples = list(rows)
    return {
        "t_s": np.array([r.t_s for r in samples], dtype=np.float64),
        "host": _texts([r.host for r in samples]),
        "sensor": _texts([r.sensor for r in samples]),
        "name": _texts([r.name for r in samples]),
        "unit": _texts([r.unit for r in samples]),
        "value": np.array([r.value for r in samples], dtype=np.float64),
    }


def means_of(rows: Iterable[SampleRow]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return sensor → host → unit → name → mean value, in the form of a record. Values that are not finite are left out.

    The first of several values is left out, because it was read before the load began.
    """
    values: dict[tuple[str, str, str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if isfinite(row.value):
            values.setdefault((row.sensor, row.host, row.unit, row.name), []).append((row.t_s, row.value))
    means: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for (sensor, host, unit, name), of in sorted(values.items()):
        first = min(range(len(of)), key=lambda n: of[n][0]) if len(of) > 1 else -1
        mean = fmean(value for n, (_, value) in enumerate(of) if n != first)
        if isfinite(mean):
            means.setdefault(sensor, {}).setdefault(host, {}).setdefault(unit, {})[name] = mean
    return means


def write_samples(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `arrays` (see columns()) to the new file `path`. Raises DiskFull, AlreadyWritten, StoreError."""
    import duckdb  # noqa: PLC0415 - as above

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    estimate = sum(int(a.nbytes) for a in arrays.values())
    try:
        with in_memory() as connection:
            connection.register("arrays", dict(arrays))
            copy = "COPY (SELECT t_s, host, sensor, name, unit, value FROM arrays) TO $path (FORMAT PARQUET, COMPRESSION ZSTD)"
            with interruptible():
                connection.execute(copy, {"path": str(part)})
        with part.open("rb") as f:
            os.fsync(f.fileno())
        publish(part, path)
    except duckdb.IOException as error:
        if "No space left" in str(error) or "Disk quota" in str(error):
            raise disk_full(path, estimate) from error
        raise StoreError(f"{path}: cannot be written: {error}") from error
    except OSError as error:
        raise as_store_error(error, path, estimate) from error
    finally:
        part.unlink(missing_ok=True)


def query_samples(paths: Sequence[Path], select: str, *, wanted: str = "") -> list[tuple[Any, ...]]:
    """Return the rows of the SQL text `select` over the table `samples` of all `paths`. Column `file` is the index into `paths`.

    `select` must be our own SQL. Text of users goes into the SQL variable `wanted`. Raises StoreError.
    """
    if not paths:
        return []
    import duckdb  # noqa: PLC0415 - as above

    try:
        with in_memory() as connection:
            numbered = "CREATE TEMP TABLE paths AS SELECT unnest($paths) AS filename, unnest(range(len($paths))) AS file"
            connection.execute(numbered, {"paths": [str(p) for p in paths]})
            connection.execute("SET VARIABLE wanted = $wanted", {"wanted": wanted})
            connection.execute("SET VARIABLE globs = $globs", {"globs": [literal_glob(p) for p in paths]})
            connection.execute(
                "CREATE TEMP VIEW samples AS SELECT p.file, s.t_s, s.host, s.sensor, s.name, s.unit, s.value"
                " FROM read_parquet(getvariable('globs'), filename = true) s JOIN paths p USING (filename)"
            )
            with interruptible():
                return connection.execute(select).fetchall()
    except duckdb.Error as error:
        raise _unreadable(error) from error


class ManySamples(StoreError):
    """Error: a trial has more samples than a program may load at once."""

    def __init__(self, path: Path, rows: int) -> None:
        what = f"{path}: has {rows} samples, and at most {SAMPLE_ROWS} of a trial are taken in at once"
        super().__init__(what, remedy="ask for means with `dutlab query`, or export the run with `dutlab export parquet`")
        self.path, self.rows = path, rows


def samples_in_order(path: Path) -> Iterator[tuple[float, str, str, str, str, float]]:
    """Yield rows t_s, host, sensor, name, unit, value of a file, by host, sensor, name and time. Raises ManySamples, StoreError."""
    import duckdb  # noqa: PLC0415 - as above

    try:
        with in_memory() as connection, interruptible():
            counted = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata($path)", {"path": literal_glob(path)}).fetchone()
            if counted is not None and (rows := int(counted[0] or 0)) > SAMPLE_ROWS:
                raise ManySamples(path, rows)
            select = f"SELECT {', '.join(_COLUMNS)} FROM read_parquet($path) ORDER BY host, sensor, name, t_s"  # noqa: S608 - our own SQL
            cursor = connection.execute(select, {"path": literal_glob(path)})
            while some := cursor.fetchmany(_AT_ONCE):
                yield from some
    except duckdb.Error as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreError:
    return StoreError(f"samples cannot be read: {str(error).splitlines()[0]}", remedy="verify the run with its MANIFEST.sha256")


def damaged_samples(paths: Sequence[Path], *, columns: Sequence[str] = _COLUMNS) -> dict[Path, str]:
    """Return the damaged files of `paths`, each with the reason. It reads every value, so call it only after a reader has failed."""
    import duckdb  # noqa: PLC0415 - as above

    reason_by_path = dict[Path, str]()
    read = f"SELECT sum(hash({', '.join(columns)})) FROM read_parquet($path)"  # noqa: S608 - our own SQL
    for path in paths:
        try:
            with in_memory() as connection, interruptible():
                connection.execute(read, {"path": literal_glob(path)}).fetchall()
        except duckdb.Error as error:
            reason_by_path[path] = str(error).splitlines()[0]
    return reason_by_path


def _texts(values: Sequence[str]) -> NDArray[np.object_]:
    import numpy as np  # noqa: PLC0415 - as above

    out = np.empty(len(values), dtype=np.object_)
    out[:] = values
    return out


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn DuckDB's RuntimeError after Ctrl-C into KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def literal_glob(path: Path) -> str:
    """Return `path` with special characters in brackets, because DuckDB reads every path as a glob."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
