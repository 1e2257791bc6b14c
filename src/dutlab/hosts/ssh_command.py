r"""Marks around the output of a command that runs in a login shell.

Each system's command line for sshd (systems/posix.py, systems/windows.py) prints these marks around the output of the command:

    stdout:  MARK GROUP \n  …the command's own output…
    stderr:  MARK \n        …the command's own output…   MARK STATUS \n

A mark is \036 and a random number, a new one for each command, so output of a login script or of the command cannot be mistaken for one.
Text before the first mark is dropped. GROUP is the number by which the host's keeper ends the command and its children. A group of `-`
means that the program does not exist.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from dutlab.bounds import NOISE_BYTES

_BEGINS = b"\x1e"
_LONGEST_STATUS = 3


def new_mark() -> bytes:
    """Return a new mark for the output of one command."""
    return _BEGINS + secrets.token_hex(8).encode() + b":"


class Head:
    """Filter that removes the first mark and the login's output before it."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.line: bytes | None = None
        """Text between the mark and the end of its line; None until the line is complete."""
        self.noise = b""

    def take(self, data: bytes) -> bytes:
        """Return the bytes that belong to the command."""
        if self.line is not None:
            return data
        self.noise += data
        before, mark, after = self.noise.partition(self._mark)
        line, end, rest = after.partition(b"\n")
        if not (mark and end):
            self.noise = self.noise[-NOISE_BYTES:]  # limits memory for a login that prints without end
            return b""
        self.line, self.noise = line, before
        return rest


class Tail:
    """Filter that passes bytes on, and removes the status from them."""

    def __init__(self, mark: bytes, on_status: Callable[[int], None]) -> None:
        self._held, self._on_status = b"", on_status
        self._status, self._longest = re.compile(re.escape(mark) + rb"(\d{1,3})\n"), len(mark) + _LONGEST_STATUS
        self._mark = mark

    def take(self, data: bytes) -> bytes:
        """Return the bytes that belong to the command. A possible beginning of a status is held back."""
        data = self._held + data
        self._held = b""
        if m := self._status.search(data):
            self._on_status(int(m[1]))
            return data[: m.start()] + data[m.end() :]
        at = data.rfind(_BEGINS)
        if at >= 0 and self._is_status_prefix(data[at:]):
            self._held = data[at:]
            return data[:at]
        return data

    def _is_status_prefix(self, end: bytes) -> bool:
        """Return True if the bytes after `end` may complete a status."""
        number = end[len(self._mark) :]
        return self._mark.startswith(end) or (end.startswith(self._mark) and len(end) <= self._longest and number.isdigit())

    def rest(self) -> bytes:
        """Return the bytes that were held back but are not a status."""
        tail, self._held = self._held, b""
        return tail
