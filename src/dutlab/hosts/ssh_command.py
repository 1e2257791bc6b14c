r"""Marks around the output of a command that travels through a login shell.

Each system's line for sshd (systems/posix.py, systems/windows.py) has this printed around the command's own output:

    stdout:  MARK GROUP \n  …the command's own output…
    stderr:  MARK \n        …the command's own output…   MARK STATUS \n

A mark is \036 and a random number, a new one for each command, so that no output of a login script or of the command is taken for
one. What comes before the first mark is dropped. GROUP is the number by which the host's keeper ends the command and its children; a
group of `-` says that there is no such program.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from dutlab.bounds import NOISE_BYTES

_BEGINS = b"\x1e"
_LONGEST_STATUS = 3


def new_mark() -> bytes:
    """For the output of one command."""
    return _BEGINS + secrets.token_hex(8).encode() + b":"


class Head:
    """Takes bytes until the first mark's line is whole; what came before it is noise of the login."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.line: bytes | None = None
        """Text between the mark and the end of its line; None until it came."""
        self.noise = b""

    def take(self, data: bytes) -> bytes:
        """The bytes that belong to the command."""
        if self.line is not None:
            return data
        self.noise += data
        before, mark, after = self.noise.partition(self._mark)
        line, end, rest = after.partition(b"\n")
        if not (mark and end):
            self.noise = self.noise[-NOISE_BYTES:]  # a login that prints without end never begins
            return b""
        self.line, self.noise = line, before
        return rest


class Tail:
    """Lets bytes through and keeps the status among the last of them."""

    def __init__(self, mark: bytes, on_status: Callable[[int], None]) -> None:
        self._held, self._on_status = b"", on_status
        self._status, self._longest = re.compile(re.escape(mark) + rb"(\d{1,3})\n"), len(mark) + _LONGEST_STATUS
        self._mark = mark

    def take(self, data: bytes) -> bytes:
        """The bytes that belong to the command; what may be the beginning of a status is held back."""
        data = self._held + data
        self._held = b""
        if m := self._status.search(data):
            self._on_status(int(m[1]))
            return data[: m.start()] + data[m.end() :]
        at = data.rfind(_BEGINS)
        if at >= 0 and self._may_be_status(data[at:]):
            self._held = data[at:]
            return data[:at]
        return data

    def _may_be_status(self, end: bytes) -> bool:
        """Return whether the following bytes may make a status of `end`."""
        number = end[len(self._mark) :]
        return self._mark.startswith(end) or (end.startswith(self._mark) and len(end) <= self._longest and number.isdigit())

    def rest(self) -> bytes:
        """Return what was held back and is not a status after all."""
        tail, self._held = self._held, b""
        return tail
