"""A PostgreSQL cluster of Debian's for a test: in a temporary folder, on a Unix socket alone, run by a user who is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capability import need
from processes import LIMIT_S, eventually

USER = "nobody"


def bin_folder() -> Path | None:
    """Where the newest version's programs are; Debian puts none of the server's on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[-3]))
    return found[-1].parent if found else None


class PostgresCluster:
    """Started and stopped as often as a test likes."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user("initdb", "--auth=trust", "--username=dutlab", "--no-sync", "-D", str(folder / "data"))

    @property
    def where(self) -> str:
        """For libpq."""
        return f"postgresql://dutlab@/postgres?host={self.folder}"

    def start(self) -> None:
        """Returns when it takes connections."""
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options],
                stdout=log, stderr=log, cwd="/", start_new_session=True, **self._who(),
            )  # fmt: skip
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        assert eventually(lambda: subprocess.run(ready).returncode == 0), (self.folder / "log").read_text()

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends connections and shuts down in order; SIGQUIT is a crash, which the next start recovers from."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(LIMIT_S)
            self._process = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It answers nobody who comes, as behind a network that is cut: whoever asks waits."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def emptied(self) -> str:
        """Where it is, without any table of dutlab."""
        import psycopg  # noqa: PLC0415 -- only where a cluster runs

        with psycopg.connect(self.where, autocommit=True) as db:
            db.execute("DROP TABLE IF EXISTS dutlab_lease, dutlab_store, dutlab_schema; DROP SCHEMA IF EXISTS dutlab_index CASCADE")
        return self.where

    def _as_user(self, program: str, *argv: str) -> None:
        subprocess.run([str(self._programs / program), *argv], check=True, capture_output=True, cwd="/", **self._who())

    def _who(self) -> dict[str, object]:
        if os.geteuid() != 0:
            return {}
        found = pwd.getpwnam(USER)
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


@contextmanager
def postgres_cluster() -> Iterator[PostgresCluster]:
    """One that runs, and that is gone afterwards."""
    programs = bin_folder()
    need("postgres", programs is not None)
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="dutlab-pg-"))  # a socket's path must be short
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam(USER).pw_uid, -1)
    cluster = None
    try:
        cluster = PostgresCluster(folder, programs)
        cluster.start()
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder)
