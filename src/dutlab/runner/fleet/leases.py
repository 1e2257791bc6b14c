"""Leases on testbeds, so that no two workers use one testbed at once: one row for each testbed, in the fleet's database.

The row remains when its lease ends, so each lease of a testbed has a greater token than those before. Only the clock of the database
decides when a lease ends. For PostgreSQL that is the server's clock. For SQLite, which serves one machine, it is the kernel's time since
boot: it cannot be set, and a lease of an earlier boot has ended.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from dutlab.store.fleet_database import FleetDatabase, PostgresDatabase, SqliteDatabase, fleet_database


@dataclass(frozen=True)
class BedLease:
    """Lease that this process holds or has held."""

    testbed: str
    token: int
    holder: str


class LeaseStore(Protocol):
    """Store of leases. Every method raises FleetDatabaseAway if the database cannot be reached; it may have taken effect even then."""

    @property
    def database(self) -> FleetDatabase:
        """Database of the leases."""
        ...

    def identity(self) -> str:
        """Return the identity of this store, which is the same for all its users."""
        ...

    def take(self, testbed: str, holder: str, for_s: float) -> BedLease | None:
        """Take a lease; None if another holder has it. A holder that asks again gets a new lease."""
        ...

    def renew(self, lease: BedLease, for_s: float) -> bool:
        """Renew a lease; False if it has ended. It is then lost, and another holder may have it."""
        ...

    def give_back(self, lease: BedLease) -> None:
        """Give a lease back. An ended lease is ignored."""
        ...

    def held(self) -> list[BedLease]:
        """Return the leases that have not ended."""
        ...


@dataclass
class _SqlLeases(ABC):
    """Common part of both stores: the SQL statements, each a separate transaction."""

    def identity(self) -> str:
        return str(self._all("SELECT id FROM dutlab_store", {})[0][0])

    def take(self, testbed: str, holder: str, for_s: float) -> BedLease | None:
        rows = self._all(
            "INSERT INTO dutlab_lease (testbed, token, holder, boot, ends_s) VALUES ({testbed}, 1, {holder}, {boot}, {now} + {for_s}) "
            "ON CONFLICT (testbed) DO UPDATE SET token = dutlab_lease.token + 1, holder = excluded.holder, boot = excluded.boot, "
            "ends_s = excluded.ends_s WHERE dutlab_lease.holder IS NULL OR dutlab_lease.holder = excluded.holder "
            "OR dutlab_lease.boot <> excluded.boot OR dutlab_lease.ends_s <= {now} RETURNING token",
            {"testbed": testbed, "holder": holder, "for_s": for_s},
        )
        return BedLease(testbed, int(rows[0][0]), holder) if rows else None

    def renew(self, lease: BedLease, for_s: float) -> bool:
        parameters = {**asdict(lease), "for_s": for_s}
        return bool(
            self._all(
                "UPDATE dutlab_lease SET ends_s = {now} + {for_s} "
                "WHERE testbed = {testbed} AND token = {token} AND holder = {holder} AND boot = {boot} AND ends_s > {now} RETURNING token",
                parameters,
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
        """Run one statement, with the store's own `{now}` and `{boot}`; return its rows."""


@dataclass
class SqliteLeases(_SqlLeases):
    """Leases in a file, for the processes of one machine."""

    database: SqliteDatabase

    def _all(self, statement: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        parameters = {**values, "boot": _boot(), "now": time.clock_gettime(time.CLOCK_BOOTTIME)}
        with self.database.connected() as db:
            return db.execute(statement.format(**{name: f":{name}" for name in parameters}), parameters).fetchall()


@dataclass
class PostgresLeases(_SqlLeases):
    """Leases in a server's database, for many machines."""

    database: PostgresDatabase

    def _all(self, statement: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        parameters = {**values, "boot": ""}
        names = {name: f"%({name})s" for name in parameters} | {"now": "extract(epoch FROM clock_timestamp())::double precision"}
        with self.database.connected() as db:
            return list(db.execute(statement.format(**names), parameters).fetchall())


def lease_store() -> LeaseStore:
    """Return the lease store in the database that the environment names, else in this user's file on this machine."""
    database = fleet_database()
    return SqliteLeases(database) if isinstance(database, SqliteDatabase) else PostgresLeases(database)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
