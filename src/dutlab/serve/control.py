"""Start, pause, cancel and resume runs from a page.

A run is a separate `dutlab` command in a separate session. It continues when the server ends, and has the lock, journal and clean-up of
any other run. A command gets only names of files and runs that this module has found, never other text of a form.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dutlab.errors import InputError
from dutlab.printable import printable_lines
from dutlab.spec.yaml_source import read_file
from dutlab.store.beneath import Beneath, OutsideFolder
from dutlab.store.find import is_running, run_names
from dutlab.store.manifest import JOURNAL, MANIFEST, PAUSE

_MOST_FILES = 200
_SUFFIXES = {".yaml", ".yml"}
LOG = ".serve.log"
"""File in the folder of runs with the output of commands started here. Other users may be able to write to that folder."""
_SHOWN_BYTES = 4000
_PLAN_S, _PLAN_BYTES, _PLAN_COLUMNS = 60, 100_000, 110
_OF_THE_COMMAND = re.compile(r"; order\s+seed\s+\d+|^--trials .*\n?", re.MULTILINE)
"""Parts of a plan that do not hold for a run started from the page: its seed is another, and there are no options."""
_FOLDER_S, _LOOK_S = 20.0, 0.2
"""Longest wait for the folder of a started run, and time between two looks, in seconds."""


class LogRefused(InputError):
    """Error: the log is a symbolic link, has a second name, or is not a plain file, so it may be another user's file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: is not a plain file with one name, so it is neither written nor shown", remedy="remove it")
        self.path = path


@dataclass(frozen=True)
class ShownPlan:
    """Plan of an experiment, for a person who decides whether to start it."""

    file: str
    words: str
    """Output of `dutlab plan`; of a refused file its faults."""
    seen: str
    """SHA-256 of the file, by which a start proves that this plan was shown."""
    is_refused: bool


@dataclass
class Control:
    """Actions that --control allows."""

    runs: Path
    experiments: Path | None = None
    """Folder of the experiments that can be started."""
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _cancelled: set[str] = field(default_factory=set)
    """Names of runs that were cancelled here."""

    def files(self) -> list[str]:
        """Return the experiments that can be started, relative to their folder."""
        if self.experiments is None:
            return []
        root = self.experiments.resolve()
        paths = (p for p in sorted(root.rglob("*")) if p.suffix in _SUFFIXES and p.is_file() and p.resolve().is_relative_to(root))
        texts = ((p, _beginning(p)) for p in paths)
        return [p.relative_to(root).as_posix() for p, text in texts if b"experiment" in text and b"workload" in text][:_MOST_FILES]

    def plan(self, name: str) -> ShownPlan:
        """Return the plan of an experiment as `dutlab plan` prints it. Raises InputError if files() does not have the name."""
        path = self._file(name)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "dutlab", "plan", str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PLAN_S,
                check=False, env={**os.environ, "COLUMNS": str(_PLAN_COLUMNS), "NO_COLOR": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise InputError(f"{name}: its plan took more than {_PLAN_S} s", remedy="see `dutlab plan` in a terminal") from None
        words = (done.stdout if done.returncode == 0 else done.stderr)[:_PLAN_BYTES].decode(errors="replace")
        words = _OF_THE_COMMAND.sub("", words)
        return ShownPlan(name, printable_lines(words), _hash(path), is_refused=done.returncode != 0)

    def start(self, name: str, seen: str) -> str:
        """Start a run of an experiment whose plan was shown; `seen` is ShownPlan.seen.

        Return the name of its run folder; empty if the command has made none within some seconds. Raises InputError if files() does not
        have the name, or if the file has changed since its plan was shown.
        """
        path = self._file(name)
        if seen != _hash(path):
            raise InputError(f"{name}: its plan was not shown, or the file has changed since", remedy="look at its plan again")
        before = set(self._names())
        command = self._command(["run", str(path), "--runs", str(self.runs.resolve()), "--unattended", "--yes"])
        return self._run_of(command, before)

    def _file(self, name: str) -> Path:
        if self.experiments is None or name not in self.files():
            raise InputError(f"{name}: no experiment that can be started here", remedy="choose one of the list")
        return self.experiments.resolve() / name

    def _names(self) -> list[str]:
        try:
            return run_names(self.runs)
        except InputError:  # no folder yet
            return []

    def _run_of(self, command: subprocess.Popen[bytes], before: Collection[str]) -> str:
        """Wait for the run folder of a started command: a new one that a process of its session holds. Return its name or an empty text."""
        end_s = time.monotonic() + _FOLDER_S
        while command.poll() is None and time.monotonic() < end_s:
            for name in self._names():
                with suppress(InputError, OSError):
                    if name not in before and os.getsid(self._holder(self.runs / name)) == command.pid:
                        return name
            time.sleep(_LOOK_S)
        return ""

    def is_ending(self, run: Path) -> bool:
        """Return whether a run was cancelled here and has not ended yet."""
        return run.name in self._cancelled and is_running(run)

    def resume(self, run: Path) -> None:
        """Resume a run that was cut. Raises InputError if it is running or has finished."""
        if is_running(run) or (run / MANIFEST).exists():
            raise InputError(f"{run.name}: cannot be resumed", remedy="only a run that was cut can")
        self._cancelled.discard(run.name)
        self._command(["resume", str(run.resolve())])

    def pause(self, run: Path) -> None:
        """End a run after the current trial; it can be resumed. Raises InputError if it is not running here, OSError."""
        self._holder(run)
        os.close(os.open(run / PAUSE, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644))

    def cancel(self, run: Path) -> None:
        """End a run as Ctrl-C does: the trial ends and all changes are undone. Raises InputError if it is not running here."""
        try:
            os.kill(self._holder(run), signal.SIGINT)
            self._cancelled.add(run.name)
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

    def _command(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        self.last_words()
        try:
            handle = self._log(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:  # such as ENXIO for a pipe without a reader
            raise LogRefused(self.runs / LOG) from error
        with os.fdopen(handle, "ab") as log:
            argv = [sys.executable, "-m", "dutlab", *arguments]
            command = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self._started.append(command)
        return command


def _hash(path: Path) -> str:
    """Return the SHA-256 of an experiment file. Raises InputError."""
    return hashlib.sha256(read_file(path)).hexdigest()


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as f:
            return f.read(1 << 16)
    except OSError:
        return b""
