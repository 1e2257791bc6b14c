"""Leases on testbeds, so that no two workers use one at once: a row a testbed, in SQLite or in PostgreSQL.

The row stays when its lease ends, so each lease of a testbed has a greater token than those before. When one ends is judged by the clock of
the store alone. That is the server's for PostgreSQL. For SQLite, which serves one machine, it is what the kernel counts since the boot:
nobody can set it, and a lease of an earlier boot has ended.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dutlab.errors import InputError, StoreError, TestbedError
from dutlab.store.seal import state_folder

LEASES = "DUTLAB_LEASES"
"""postgresql://…, or the path of an SQLite file."""
_LEASE_COLUMNS = "testbed text PRIMARY KEY, token bigint NOT NULL, holder text, boot text NOT NULL, ends_s double precision NOT NULL"
MIGRATIONS = (
    (
        f"CREATE TABLE dutlab_lease ({_LEASE_COLUMNS})",
        "CREATE TABLE dutlab_store (id text NOT NULL)",
        "INSERT INTO dutlab_store VALUES ({id})",
    ),
)
"""What makes each version of the tables from the one before. Applied ones are never changed; a new one is added at the end."""
_ANSWERS_S = 5
_MIGRATING = 0x6475746C6162
"""The advisory lock of PostgreSQL that one process has while it migrates: the letters of dutlab."""


class LeasesAway(TestbedError):
    """The store of leases cannot be reached now."""


@dataclass(frozen=True)
class BedLease:
    """One that this process has, or had."""

    testbed: str
    token: int
    holder: str


class LeaseStore(Protocol):
    """Every method raises LeasesAway where the store cannot be reached, and may then have done its work all the same."""

    is_for_one_machine: bool

    def identity(self) -> str:
        """The same for everybody who uses this store."""
        ...

    def take(self, testbed: str, holder: str, for_s: float) -> BedLease | None:
        """None where another holder has it; a holder that asks again gets it anew."""
        ...

    def renew(self, lease: BedLease, for_s: float) -> bool:
        """False once it has ended: it cannot be had back, and another one may have it."""
        ...

    def give_back(self, lease: BedLease) -> None:
        """Nothing where it has ended."""
        ...

    def held(self) -> list[BedLease]:
        """Those that have not ended."""
        ...


@dataclass
class _SqlLeases(ABC):
    """What both have in common: the same statements, each by itself, over a connection of its own."""

    is_for_one_machine = True
    _is_ready: bool = field(default=False, init=False)

    def identity(self) -> str:
        return str(self._all("SELECT id FROM dutlab_store", {})[0][0])

    def take(self, testbed: str, holder: str, for_s: float) -> BedLease | None:
        found = self._all(
            "INSERT INTO dutlab_lease (testbed, token, holder, boot, ends_s) VALUES ({testbed}, 1, {holder}, {boot}, {now} + {for_s}) "
            "ON CONFLICT (testbed) DO UPDATE SET token = dutlab_lease.token + 1, holder = excluded.holder, boot = excluded.boot, "
            "ends_s = excluded.ends_s WHERE dutlab_lease.holder IS NULL OR dutlab_lease.holder = excluded.holder "
            "OR dutlab_lease.boot <> excluded.boot OR dutlab_lease.ends_s <= {now} RETURNING token",
            {"testbed": testbed, "holder": holder, "for_s": for_s},
        )
        return BedLease(testbed, int(found[0][0]), holder) if found else None

    def renew(self, lease: BedLease, for_s: float) -> bool:
        told = {**asdict(lease), "for_s": for_s}
        return bool(
            self._all(
                "UPDATE dutlab_lease SET ends_s = {now} + {for_s} "
                "WHERE testbed = {testbed} AND token = {token} AND holder = {holder} AND boot = {boot} AND ends_s > {now} RETURNING token",
                told,
            )
        )

    def give_back(self, lease: BedLease) -> None:
        self._all(
            "UPDATE dutlab_lease SET holder = NULL WHERE testbed = {testbed} AND token = {token} AND holder = {holder} RETURNING token",
            asdict(lease),
        )

    def held(self) -> list[BedLease]:
        rows = self._all(
            "SELECT testbed, token, holder FROM dutlab_lease "
            "WHERE holder IS NOT NULL AND boot = {boot} AND ends_s > {now} ORDER BY testbed",
            {},
        )
        return [BedLease(str(testbed), int(token), str(holder)) for testbed, token, holder in rows]

    @abstractmethod
    def _all(self, statement: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """The rows of one statement, whose `{now}` and `{boot}` are the store's own."""


@dataclass
class SqliteLeases(_SqlLeases):
    """In a file, for the processes of one machine."""

    path: Path

    def _all(self, statement: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        told = {**values, "boot": _boot(), "now": time.clock_gettime(time.CLOCK_BOOTTIME)}
        with self._connected() as db:
            return db.execute(statement.format(**{name: f":{name}" for name in told}), told).fetchall()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.path, timeout=_ANSWERS_S, isolation_level=None)) as db:
                if not self._is_ready:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("CREATE TABLE IF NOT EXISTS dutlab_schema (version integer NOT NULL)")
                    for step in _missing(db.execute("SELECT max(version) FROM dutlab_schema").fetchone()[0], str(self.path)):
                        db.execute(step.format(id=":id"), {"id": str(uuid.uuid4())} if "{id}" in step else {})
                    db.execute("COMMIT")
                    self._is_ready = True
                yield db
        except (OSError, sqlite3.Error) as error:
            remedy = f"see that it can be written, or name another file in {LEASES}"
            raise LeasesAway(f"{self.path}: leases cannot be taken: {error}", remedy=remedy) from error


@dataclass
class PostgresLeases(_SqlLeases):
    """In a database, for many machines. `where` is a connection string of libpq; a password belongs into ~/.pgpass."""

    where: str
    is_for_one_machine = False

    def _all(self, statement: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        told = {**values, "boot": ""}
        names = {name: f"%({name})s" for name in told} | {"now": "extract(epoch FROM clock_timestamp())::double precision"}
        with self._connected() as db:
            return list(db.execute(statement.format(**names), told).fetchall())

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import psycopg  # noqa: PLC0415 -- an extra
        except ImportError:
            raise InputError(f"{LEASES} names PostgreSQL, and psycopg is missing", remedy="pip install 'dutlab[fleet]'") from None
        limits: dict[str, Any] = {
            "connect_timeout": _ANSWERS_S,
            "tcp_user_timeout": _ANSWERS_S * 1000,
            "options": f"-c statement_timeout={_ANSWERS_S}s",
        }
        try:
            with psycopg.connect(self.where, autocommit=True, **limits) as db:
                if not self._is_ready:
                    self._migrate(db)
                yield db
        except psycopg.ProgrammingError as error:
            raise InputError(f"{LEASES}: {str(error).strip()}", remedy="write postgresql://USER@HOST/DATABASE") from error
        except psycopg.Error as error:
            raise LeasesAway(f"leases cannot be taken: {str(error).strip()}", remedy="see that PostgreSQL runs and lets you in") from error

    def _migrate(self, db: Any) -> None:  # noqa: ANN401 -- psycopg.Connection, of an extra
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
            db.execute("CREATE TABLE IF NOT EXISTS dutlab_schema (version integer NOT NULL)")
            for step in _missing(db.execute("SELECT max(version) FROM dutlab_schema").fetchone()[0], "the database of leases"):
                db.execute(step.format(id="%(id)s"), {"id": str(uuid.uuid4())} if "{id}" in step else None)
        self._is_ready = True


def _missing(version: int | None, store: str) -> list[str]:
    """The steps from `version` of the tables to the one that this dutlab knows. Raises StoreError where that is older."""
    known = len(MIGRATIONS)
    if (version or 0) > known:
        raise StoreError(f"{store}: made by a newer dutlab (tables {version}, this one knows {known})", remedy="use the newer dutlab")
    steps = list[str]()
    for number, statements in enumerate(MIGRATIONS[version or 0 :], start=(version or 0) + 1):
        steps += [*statements, f"INSERT INTO dutlab_schema VALUES ({number:d})"]  # noqa: S608 - a number of ours
    return steps


def lease_store() -> LeaseStore:
    """The one that the environment names; else a file of this user on this machine."""
    where = os.environ.get(LEASES, "")
    if where.startswith(("postgresql:", "postgres:")):
        return PostgresLeases(where)
    return SqliteLeases(Path(where) if where else state_folder() / "dutlab" / "leases.sqlite")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
