"""The command in a child of the tests' own process: it has loaded what the command needs, so a start costs a fork."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from processes import LIMIT_S

_LOADED = ("dutlab.hosts.ssh", "dutlab.hosts.ssh_login", "dutlab.runner.run", "dutlab.runner.stage", "dutlab.report", "dutlab.labs")
_POLL_S = 0.01
_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000  # CLONE_NEWNS and CLONE_NEWNET of linux/sched.h


class Forked:
    """A command that runs; what it says goes into `said`. Killed when the block ends."""

    def __init__(self, pid: int, said: Path) -> None:
        self.pid, self.said, self.returncode = pid, said, None if pid else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if done else None
        return self.returncode

    def wait(self, within_s: float = LIMIT_S) -> int:
        """How it ended. Kills it and raises TimeoutError where it does not in time."""
        deadline = time.monotonic() + within_s
        while (ended := self.poll()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"it did not end in {within_s:g} s: {self.said.read_text()}")
            time.sleep(_POLL_S)
        return ended

    def ended(self, within_s: float = LIMIT_S) -> str:
        """What it said until its end."""
        self.wait(within_s)
        return self.said.read_text(errors="replace")

    def kill(self) -> None:
        """By SIGKILL, which leaves whatever it had started."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


Place = Callable[[], None]
"""What a child does first, to be elsewhere."""


def begin(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, out: Path, err: Path | None = None, place: Place | None = None
) -> Forked:
    """`dutlab ARGV` in a session of its own; what it says on standard error goes to `err`, or to `out` too."""
    _load()
    sys.stdout.flush()
    sys.stderr.flush()
    with out.open("wb") as written, (err or out).open("ab") as complained, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: the threads of xdist are not there in the child
        if (pid := os.fork()) == 0:
            _be_the_command(argv, cwd, env, written.fileno(), (complained if err else written).fileno(), place)
    return Forked(pid, err or out)


def run(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, within_s: float = LIMIT_S, place: Place | None = None
) -> subprocess.CompletedProcess[str]:
    """`dutlab ARGV` to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        with begin(argv, cwd, env, out=out, err=err, place=place) as running:
            status = running.wait(within_s)
        return subprocess.CompletedProcess(list(argv), status, out.read_text(errors="replace"), err.read_text(errors="replace"))


def in_network(namespace: str) -> Place:
    """As `ip netns exec` would start it: with this network, and a /sys that shows it."""

    def enter() -> None:
        with Path("/run/netns", namespace).open(encoding="ascii") as file:
            _insist(_libc().setns(file.fileno(), _NEW_NETWORK))
        _own_mounts()
        subprocess.run(["sh", "-c", "umount -l /sys; exec mount -t sysfs sysfs /sys"], check=True)

    return enter


def without(programs: Sequence[str]) -> Place:
    """On a machine on which these files cannot be run."""

    def hide() -> None:
        _own_mounts()
        for program in programs:
            subprocess.run(["mount", "--bind", os.devnull, program], check=True)

    return hide


def _own_mounts() -> None:
    _insist(_libc().unshare(_NEW_MOUNTS))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _insist(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@cache
def _load() -> None:
    from dutlab.cli.main import COMMANDS  # noqa: PLC0415 - the first command takes this time, and not who imports this module

    for name in ("run", "measure", "lab", "undo", "power", "claims"):
        importlib.import_module(COMMANDS[name].partition(":")[0])
    for name in _LOADED:
        importlib.import_module(name)


def _be_the_command(argv: Sequence[str], cwd: Path, env: Mapping[str, str], out: int, err: int, place: Place | None) -> None:
    """Never returns."""
    status = 1
    try:
        os.setsid()
        if place is not None:
            place()
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        for number, stream in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(number, stream)
        sys.stdin, sys.stdout, sys.stderr = (open(n, m, encoding="utf-8", closefd=False) for n, m in ((0, "r"), (1, "w"), (2, "w")))  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        sys.argv = ["dutlab", *argv]
        from dutlab.cli.main import main  # noqa: PLC0415 - loaded before

        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - shown as the interpreter would
        import traceback  # noqa: PLC0415 - in the child alone

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
