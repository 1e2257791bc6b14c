"""Start, pause, cancel and resume runs from a page.

A run is a separate `dutlab` command in a separate session. It continues when the server ends, and has the lock, journal and clean-up of
any other run. A command gets only names of files and runs that this module has found, never other text of a form.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dutlab.errors import InputError
from dutlab.store.beneath import Beneath, OutsideFolder
from dutlab.store.find import is_running
from dutlab.store.manifest import JOURNAL, MANIFEST, PAUSE

_MOST_FILES = 200
_SUFFIXES = {".yaml", ".yml"}
LOG = ".serve.log"
"""File in the folder of runs with the output of commands started here. Other users may be able to write to that folder."""
_SHOWN_BYTES = 4000


class LogRefused(InputError):
    """Error: the log is a symbolic link, has a second name, or is not a plain file, so it may be another user's file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: is not a plain file with one name, so it is neither written nor shown", remedy="remove it")
        self.path = path


@dataclass
class Control:
    """Actions that --control allows."""

    runs: Path
    experiments: Path | None = None
    """Folder of the experiments that can be started."""
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def files(self) -> list[str]:
        """Return the experiments that can be started, relative to their folder."""
        if self.experiments is None:
            return []
        root = self.experiments.resolve()
        paths = (p for p in sorted(root.rglob("*")) if p.suffix in _SUFFIXES and p.is_file() and p.resolve().is_relative_to(root))
        texts = ((p, _beginning(p)) for p in paths)
        return [p.relative_to(root).as_posix() for p, text in texts if b"experiment" in text and b"workload" in text][:_MOST_FILES]

    def start(self, name: str) -> None:
        """Start a run of an experiment. Raises InputError if files() does not have the name."""
        if self.experiments is None or name not in self.files():
            raise InputError(f"{name}: no experiment that can be started here", remedy="choose one of the list")
        self._command(["run", str(self.experiments.resolve() / name), "--runs", str(self.runs.resolve()), "--unattended", "--yes"])

    def resume(self, run: Path) -> None:
        """Resume a run that was cut. Raises InputError if it is running or has finished."""
        if is_running(run) or (run / MANIFEST).exists():
            raise InputError(f"{run.name}: cannot be resumed", remedy="only a run that was cut can")
        self._command(["resume", str(run.resolve())])

    def pause(self, run: Path) -> None:
        """End a run after the current trial; it can be resumed. Raises InputError if it is not running here, OSError."""
        self._holder(run)
        os.close(os.open(run / PAUSE, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644))

    def cancel(self, run: Path) -> None:
        """End a run as Ctrl-C does: the trial ends and all changes are undone. Raises InputError if it is not running here."""
        try:
            os.kill(self._holder(run), signal.SIGINT)
        except PermissionError:
            raise InputError(f"{run.name}: another user runs it", remedy="cancel it there with Ctrl-C") from None
        except ProcessLookupError:
            return

    def last_words(self) -> str:
        """Return the end of the output of started commands."""
        self._started = [p for p in self._started if p.poll() is None]  # poll() also reaps ended processes
        try:
            with os.fdopen(self._log(os.O_RDONLY), "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _SHOWN_BYTES))
                return log.read().decode(errors="replace")
        except LogRefused as error:
            return str(error)
        except OSError:
            return ""

    def _log(self, flags: int) -> int:
        """Return a descriptor of the log. Raises LogRefused, OSError."""
        try:
            with Beneath.opened(self.runs) as folder:
                handle = folder.open(LOG, flags | os.O_NONBLOCK, 0o600)
        except OutsideFolder:
            raise LogRefused(self.runs / LOG) from None
        node = os.fstat(handle)
        if not stat.S_ISREG(node.st_mode) or node.st_nlink != 1:
            os.close(handle)
            raise LogRefused(self.runs / LOG)
        return handle

    def _holder(self, run: Path) -> int:
        """Return the process that carries out a run, which holds the lock on its journal (proc_locks(5)). Raises InputError."""
        if not is_running(run):
            raise InputError(f"{run.name}: no process runs it", remedy="it has ended, or runs on another machine")
        node = (run / JOURNAL).stat()
        wanted = f"{os.major(node.st_dev):02x}:{os.minor(node.st_dev):02x}:{node.st_ino}"
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            match line.split():
                case [_, "FLOCK", _, "WRITE", pid, place, *_] if place == wanted and int(pid) > 0:
                    return int(pid)
        raise InputError(f"{run.name}: runs where its process cannot be seen", remedy="end it there with Ctrl-C")

    def _command(self, arguments: list[str]) -> None:
        self.last_words()
        try:
            handle = self._log(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:  # such as ENXIO for a pipe without a reader
            raise LogRefused(self.runs / LOG) from error
        with os.fdopen(handle, "ab") as log:
            argv = [sys.executable, "-m", "dutlab", *arguments]
            self._started.append(
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as f:
            return f.read(1 << 16)
    except OSError:
        return b""
