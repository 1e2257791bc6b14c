"""Database of a fleet: leases on its testbeds and the index of its runs. PostgreSQL serves many machines, an SQLite file serves one.

Each use opens a connection, so a restart of the database needs no special code. The first use creates or migrates the tables
(fleet_tables.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dutlab.errors import InputError, StoreError, TestbedError
from dutlab.extras import extra_install_command
from dutlab.own_folder import private_parents
from dutlab.store import fleet_tables
from dutlab.store.seal import state_folder

FLEET_DATABASE = "DUTLAB_FLEET_DB"
"""Environment variable: a connection string of PostgreSQL (libpq), or the path of an SQLite file."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(postgres(?:ql)?):")
_KEYWORDS = re.compile(r"\s*(?:(?:pass)?(?:word|file)|host(?:addr)?|port|dbname|user|service|options|(?:app|ssl|gss|target|conn)\w+)\s*=")
"""The other form of a connection string of libpq: `host=… dbname=…`."""
ANSWERS_S = 5
"""Seconds without an answer after which a database counts as unreachable."""
_MIGRATING = 0x6475746C6162
"""Advisory lock of PostgreSQL that a process holds while it migrates: "dutlab" in ASCII."""


class FleetDatabaseAway(TestbedError):
    """Error: the database cannot be reached now."""


class NotADatabase(InputError):
    """Error: DUTLAB_FLEET_DB does not name a database. The message does not quote it, because it may contain a password."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{FLEET_DATABASE}: {why}", remedy="write postgresql://USER@HOST/DATABASE, or the path of a file")


class FleetDatabase(Protocol):
    """Database with the tables of a fleet."""

    is_for_one_machine: bool

    def connected(self, answers_s: int = ANSWERS_S) -> contextlib.AbstractContextManager[Any]:
        """Open a connection to the migrated tables. Each statement is its own transaction and may take `answers_s` seconds.

        Raises FleetDatabaseAway, and InputError if the environment names no database.
        """
        ...


@dataclass
class SqliteDatabase:
    """SQLite file for the processes of one machine."""

    path: Path
    is_for_one_machine = True
    _is_ready: bool = field(default=False, init=False, compare=False)

    @contextlib.contextmanager
    def connected(self, answers_s: int = ANSWERS_S) -> Iterator[sqlite3.Connection]:
        try:
            private_parents(self.path.parent)
            with contextlib.closing(sqlite3.connect(self.path, timeout=answers_s, isolation_level=None)) as db:
                if not self._is_ready:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("CREATE TABLE IF NOT EXISTS dutlab_schema (version integer NOT NULL)")
                    version = db.execute("SELECT max(version) FROM dutlab_schema").fetchone()[0]
                    for step in _missing(version, str(self.path), fleet_tables.IN_SQLITE):
                        db.execute(step, {"id": str(uuid.uuid4())} if ":id" in step else {})
                    db.execute("COMMIT")
                    self._is_ready = True
                yield db
        except (OSError, sqlite3.Error) as error:
            remedy = f"check that it can be written, or name another file in {FLEET_DATABASE}"
            raise FleetDatabaseAway(f"{self.path}: cannot be used: {error}", remedy=remedy) from error


@dataclass
class PostgresDatabase:
    """PostgreSQL database for many machines. `where` is a connection string of libpq; a password belongs in ~/.pgpass."""

    where: str
    is_for_one_machine = False
    _is_ready: bool = field(default=False, init=False, compare=False)

    @contextlib.contextmanager
    def connected(self, answers_s: int = ANSWERS_S) -> Iterator[Any]:
        try:
            import psycopg  # noqa: PLC0415 -- an extra
        except ImportError:
            raise InputError(f"{FLEET_DATABASE} names PostgreSQL, and psycopg is missing", remedy=extra_install_command("fleet")) from None
        limits: dict[str, Any] = {
            "connect_timeout": ANSWERS_S,
            "tcp_user_timeout": ANSWERS_S * 1000,
            "options": f"-c statement_timeout={answers_s}s",
        }
        try:
            with psycopg.connect(self.where, autocommit=True, **limits) as db:
                if not self._is_ready:
                    self._migrate(db)
                yield db
        except psycopg.ProgrammingError:
            raise NotADatabase("libpq cannot read it") from None  # psycopg's message quotes the address with its password
        except psycopg.Error as error:
            remedy = "check that PostgreSQL runs and accepts your login"
            raise FleetDatabaseAway(f"the fleet's database cannot be used: {str(error).strip()}", remedy=remedy) from error

    def _migrate(self, db: Any) -> None:  # noqa: ANN401 -- psycopg.Connection, of an extra
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
            db.execute("CREATE TABLE IF NOT EXISTS dutlab_schema (version integer NOT NULL)")
            version = db.execute("SELECT max(version) FROM dutlab_schema").fetchone()[0]
            for step in _missing(version, "the fleet's database", fleet_tables.IN_POSTGRES):
                db.execute(step, {"id": str(uuid.uuid4())} if "%(id)s" in step else None)
        self._is_ready = True


def _missing(version: int | None, database: str, words: dict[str, str]) -> list[str]:
    """Return the statements that migrate the tables from `version`. Raises StoreError if a newer dutlab made them."""
    known = len(fleet_tables.MIGRATIONS)
    if (version or 0) > known:
        raise StoreError(f"{database}: made by a newer dutlab (tables {version}, this one knows {known})", remedy="use the newer dutlab")
    steps = list[str]()
    for number, statements in enumerate(fleet_tables.MIGRATIONS[version or 0 :], start=(version or 0) + 1):
        commands = filter(None, (statement.format(**words) for statement in statements))
        steps += [*commands, f"INSERT INTO dutlab_schema VALUES ({number:d})"]  # noqa: S608 - our own number
    return steps


def fleet_database() -> SqliteDatabase | PostgresDatabase:
    """Return the database that the environment names, or this user's file on this machine. Raises NotADatabase."""
    where = os.environ.get(FLEET_DATABASE, "")
    if (address := _ADDRESS.match(where)) is not None:
        login, _, rest = where[address.end() :].partition("/")
        if (scheme := address[1] or address[2]) not in ("postgresql", "postgres"):
            raise NotADatabase(f"{scheme}: not a database that dutlab can use")
        if "@" in rest or login.count("@") > 1:  # libpq would read a part of the password as the host, and quote it in an error
            raise NotADatabase("has a password or a name with @ or /; write these as %40 and %2F, or the password into ~/.pgpass")
        return PostgresDatabase(where)
    if _KEYWORDS.match(where):
        return PostgresDatabase(where)
    return SqliteDatabase(Path(where) if where else state_folder() / "dutlab" / "fleet.sqlite")
