r"""How an argv travels through a login shell that may be any shell, and what comes back around its output.

sshd hands one string to the user's login shell: sh, bash, csh on older FreeBSD, fish. So the string holds nothing that any of them
reads in a way of its own: `exec sh -c 'eval "$(printf %b "…")"' dutlab` with every byte that is not plain as `\0ooo`.

sshd starts each command as leader of a session of its own (session.c, do_exec_no_pty: setsid), so the login shell's number is the number
of its process group. Most login shells become the script's sh; pfSense's, rc.initial, runs it as a child and waits (2.7.2, lines 50 to
53). So the group is asked for, and taken only where it is this sh's own number or its parent's: a server that starts no session would lose
itself. The script tells the group before the command runs, tells the status after it, and then kills the group, itself included: children
do not outlive the command that left them.

    stdout:  MARK GROUP \n  …the command's own output…
    stderr:  MARK \n        …the command's own output…   MARK STATUS \n

A mark is \036 and a number that is drawn anew for each command, so that nothing that a login script or the command itself prints is taken
for one. What comes before the first mark is dropped. A group of `-` says that there is no such program.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Sequence

from dutlab.hosts.plain import COLOURFUL

_BEGINS = b"\x1e"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:= ")
_PREAMBLE = (
    "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C NO_COLOR=1 TERM=dumb; "
    f"export PATH LC_ALL NO_COLOR TERM; unset {' '.join(COLOURFUL)}; "
)
_SCRIPT = (
    'command -v "$1" >/dev/null 2>&1 || { printf "MARK-\\n"; printf "MARK\\nMARK127\\n" >&2; exit 127; }; '
    # The fifth word of Linux's stat (proc(5)); the BSDs have no such file and are asked by ps(1).
    "group=; { read -r _ _ _ _ group _ </proc/$$/stat; } 2>/dev/null || group=$(ps -o pgid= -p $$ 2>/dev/null); "
    'group=${group##* }; [ "$group" = "$PPID" ] || group=$$; '
    'trap : TERM HUP INT; printf "MARK%s\\n" $group; printf "MARK\\n" >&2; '
    '"$@"; status=$?; printf "MARK%s\\n" $status >&2; kill -s KILL -- -$group 2>/dev/null; exit $status'
)
_LONGEST_STATUS = 3


def new_mark() -> bytes:
    """For the output of one command."""
    return _BEGINS + secrets.token_hex(8).encode() + b":"


def command_line(argv: Sequence[str], mark: bytes) -> str:
    """The string for sshd that runs `argv` with `mark` around its output."""
    script = _SCRIPT.replace("MARK", mark.decode().replace("\x1e", "\\036"))
    return through_login_shell(f"{_PREAMBLE}set -- {shlex.join(argv)}; {script}")


def through_login_shell(script: str) -> str:
    """The string for sshd that runs a POSIX `script`, whatever the login shell is."""
    plain = "".join(chr(b) if b in _PLAIN else f"\\0{b:03o}" for b in script.encode())
    return f"""exec sh -c 'eval "$(printf %b "{plain}")"' dutlab"""


class Head:
    """Takes bytes until the first mark's line is whole; what came before it is noise of the login."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.line: bytes | None = None
        """What stands between the mark and the end of its line; None until it came."""
        self.noise = b""

    def take(self, data: bytes) -> bytes:
        """The bytes that belong to the command."""
        if self.line is not None:
            return data
        self.noise += data
        before, mark, after = self.noise.partition(self._mark)
        line, end, rest = after.partition(b"\n")
        if not (mark and end):
            return b""
        self.line, self.noise = line, before
        return rest


class Tail:
    """Lets bytes through and keeps the status that stands among the last of them."""

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
        """Whether what comes next may make a status of `end`."""
        number = end[len(self._mark) :]
        return self._mark.startswith(end) or (end.startswith(self._mark) and len(end) <= self._longest and number.isdigit())

    def rest(self) -> bytes:
        """What was held back and is no status after all."""
        held, self._held = self._held, b""
        return held
