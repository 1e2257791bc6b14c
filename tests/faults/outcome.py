"""The command, carried out in a child of this process so that a thousand attempts take minutes; and what may never come of it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STATUSES = frozenset({0, 1, 2, 3, 130})
"""As `dutlab --help` documents them."""
BOUNDARY = "cannot be read: "
"""What the boundary of readers says of a fault that no check of ours has named."""
_MEMORY = 3 * 2**30
_POLL_S = 0.002


@dataclass(frozen=True)
class Outcome:
    """How a command ended; `status` is negative for a signal, None when it did not end in its time."""

    argv: tuple[str, ...]
    status: int | None
    out: str
    err: str

    def faults(self) -> list[str]:
        """What is wrong with how it ended, in words."""
        found = []
        if self.status is None:
            found.append("did not end")
        elif self.status not in STATUSES:
            found.append(f"ended with {self.status}")
        if "Traceback" in self.err or "Traceback" in self.out:
            found.append("traceback: " + next((line for line in reversed(self.err.splitlines()) if line.strip()), ""))
        if self.status not in (0, None) and not (self.err.strip() or self.out.strip()):
            found.append("failed without a word")
        return found


def carried_out(argv: Sequence[str], cwd: Path, *, timeout_s: float = 300.0, tells: bool = True) -> Outcome:
    """`dutlab ARGV` in a forked child. Its memory is limited, so that an attempt that needs too much cannot harm the machine."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _be_the_command(argv, cwd, out.fileno(), err.fileno())
        status = _wait(pid, timeout_s)
        out.seek(0)
        err.seek(0)
        texts = (out.read().decode(errors="replace"), err.read().decode(errors="replace")) if tells else ("", "")
    return Outcome(tuple(argv), status, *texts)


def _be_the_command(argv: Sequence[str], cwd: Path, out: int, err: int) -> None:
    """Never returns."""
    status = 70
    try:
        os.setsid()
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdin, sys.stdout, sys.stderr = (open(n, m, encoding="utf-8", closefd=False) for n, m in ((0, "r"), (1, "w"), (2, "w")))  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        sys.argv = ["dutlab", *argv]
        from dutlab.cli.main import main  # noqa: PLC0415 - the parent has imported what it imports

        main()
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 1
    except BaseException:  # noqa: BLE001 - shown as the interpreter would
        import traceback  # noqa: PLC0415 - in the child alone

        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, timeout_s: float) -> int | None:
    deadline = time.monotonic() + timeout_s
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(_POLL_S)
