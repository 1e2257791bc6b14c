"""Packs: few files next to the index with the samples of many trials. Opening a hundred thousand files takes longer than reading them.

Packs are made from the trials' files and may be deleted at any time. A question makes them if LEAST or more trials have none.
Only small files of finished runs are packed; other files are read in place. Table `packed` of the index has the pack of each trial.
When a run is removed from the index, its rows are too. A pack with more trials than rows is discarded whole.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dutlab.bounds import DATABASE_MEMORY

PACKS = ".index.samples"
TABLES = """
CREATE TABLE packs (pack TEXT PRIMARY KEY, trials INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE packed (run TEXT NOT NULL, trial INTEGER NOT NULL, pack TEXT NOT NULL, PRIMARY KEY (run, trial)) STRICT, WITHOUT ROWID;
CREATE INDEX packed_by_pack ON packed (pack);
"""
LEAST = 1000
"""Fewest trials for which packs are made."""
_MOST = 5000
"""Most trials in a pack."""
_LARGEST = 256 << 10
"""Largest file that is packed, in bytes. The time to open a larger file is small next to the time to read it."""
_COLUMNS = ("run", "trial", "t_s", "host", "sensor", "name", "unit", "value")

Trial = tuple[str, int]
"""Run's name and trial number."""


def sample_file(runs: Path, trial: Trial) -> Path:
    """Return the path of a trial's samples."""
    return runs / trial[0] / "trials" / f"{trial[1]:04d}" / "samples.parquet"


def place_of_file(filename: str) -> str:
    """Return SQL for the run and trial of a path made by sample_file(); `filename` is the name of its column."""
    return f"split_part({filename}, '/', -4) AS run, split_part({filename}, '/', -2)::INTEGER AS trial"


def packs_of(index: sqlite3.Connection, runs: Path, note: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Make packs if enough trials have none, and return all packs of the index. `note` gets a sentence before that."""
    folder = runs / PACKS
    if not index.execute("PRAGMA database_list").fetchone()[2] or folder.is_symlink():
        return []  # an index in memory, because the folder cannot be written, or a link of another user
    try:
        _forget_stale(index, folder)
        if len(_unpacked(index)) >= LEAST:
            with _alone(folder) as is_alone:
                if is_alone:
                    _remove_unknown(index, folder)
                    _make(index, runs, folder, _small(runs, _unpacked(index)), note)  # the lock's last holder may have packed some
    except (OSError, sqlite3.OperationalError):
        pass  # disk full, or no permission: files without a pack are read in place
    return [folder / pack for (pack,) in index.execute("SELECT pack FROM packs ORDER BY pack")]


def discard_damaged(index: sqlite3.Connection, packs: Sequence[Path]) -> bool:
    """Discard packs that cannot be read; return whether there were any."""
    from dutlab.store.samples import damaged_samples  # noqa: PLC0415 -- a list of runs needs no samples

    damaged = damaged_samples(packs, columns=_COLUMNS)
    _forget(index, [path.name for path in damaged])
    for path in damaged:
        path.unlink(missing_ok=True)
    return bool(damaged)


def _forget(index: sqlite3.Connection, packs: Sequence[str]) -> None:
    with index:
        for table in ("packed", "packs"):
            index.executemany(f"DELETE FROM {table} WHERE pack = ?", [(pack,) for pack in packs])  # noqa: S608 - our own SQL


def _forget_stale(index: sqlite3.Connection, folder: Path) -> None:
    rows = index.execute("SELECT pack, trials, (SELECT count(*) FROM packed WHERE packed.pack = packs.pack) FROM packs").fetchall()
    if stale := [pack for pack, trials, left in rows if left != trials or not (folder / pack).is_file()]:
        _forget(index, stale)


def _unpacked(index: sqlite3.Connection) -> list[Trial]:
    """Return the trials of finished runs that have samples and no pack."""
    select = (
        "SELECT t.run, t.trial FROM trials t JOIN runs r ON r.name = t.run LEFT JOIN packed p ON p.run = t.run AND p.trial = t.trial"
        " WHERE t.samples = 1 AND r.status = 'finished' AND p.run IS NULL ORDER BY t.run, t.trial"
    )
    return [(run, trial) for run, trial in index.execute(select)]


def _small(runs: Path, trials: Sequence[Trial]) -> list[Trial]:
    small = list[Trial]()
    for trial in trials:
        try:
            status = sample_file(runs, trial).stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST:
            small.append(trial)
    return small


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Try to lock the folder of packs for the block; yield whether that worked."""
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _remove_unknown(index: sqlite3.Connection, folder: Path) -> None:
    """Remove packs that a deleted index or a killed process left."""
    known = {pack for (pack,) in index.execute("SELECT pack FROM packs")}
    for path in folder.iterdir():
        if path.name not in known:
            path.unlink()


def _make(index: sqlite3.Connection, runs: Path, folder: Path, trials: Sequence[Trial], note: Callable[[str], None]) -> None:
    if len(trials) < LEAST:
        return
    import secrets  # noqa: PLC0415 -- loads OpenSSL; a list of runs makes no packs

    note(f"putting the samples of {len(trials):,} trials together, so that later questions open fewer files")
    count = -(-len(trials) // _MOST)
    for n in range(count):
        some = trials[n * len(trials) // count : (n + 1) * len(trials) // count]
        pack = f"{secrets.token_hex(8)}.parquet"
        some = _write(runs, folder / pack, some)
        if not some:
            continue
        with index:
            index.execute("INSERT INTO packs VALUES (?, ?)", (pack, len(some)))
            index.executemany("INSERT OR REPLACE INTO packed VALUES (?, ?, ?)", [(run, trial, pack) for run, trial in some])


def _write(runs: Path, pack: Path, trials: Sequence[Trial]) -> Sequence[Trial]:
    """Write the samples of `trials` without damaged files; return the trials in the pack. Raises OSError, as on a full disk."""
    import duckdb  # noqa: PLC0415 - 80 ms that only this needs

    from dutlab.store.samples import damaged_samples  # noqa: PLC0415 -- as above

    try:
        _copy(runs, pack, trials)
    except duckdb.Error as error:
        pack.unlink(missing_ok=True)
        damaged = damaged_samples([sample_file(runs, trial) for trial in trials])
        if not damaged:
            raise OSError(f"{pack}: cannot be written") from error
        left = [trial for trial in trials if sample_file(runs, trial) not in damaged]
        return _write(runs, pack, left) if left else []
    return trials


def _copy(runs: Path, pack: Path, trials: Sequence[Trial]) -> None:
    import duckdb  # noqa: PLC0415 - as above

    from dutlab.store.samples import interruptible, literal_glob  # noqa: PLC0415 -- as above

    with duckdb.connect(":memory:", config={"memory_limit": DATABASE_MEMORY, "temp_directory": ""}) as connection:
        connection.execute("SET VARIABLE globs = $globs", {"globs": [literal_glob(sample_file(runs, trial)) for trial in trials]})
        read = "read_parquet(getvariable('globs'), filename = true)"
        select = f"SELECT {place_of_file('filename')}, t_s, host, sensor, name, unit, value FROM {read}"  # noqa: S608 - our own SQL
        with interruptible():
            connection.execute(f"COPY ({select}) TO $pack (FORMAT PARQUET, COMPRESSION ZSTD)", {"pack": str(pack)})
