"""Steps that end processes: `kill`, `pkill`, `killall`, and the commands of Windows."""

from __future__ import annotations

import re

_ENDS = re.compile(r"\b(?P<by>kill|pkill|killall|taskkill|stop-process)\b(?P<what>[^;&|\n]*)", re.IGNORECASE)
"""A command that ends processes, and its words."""
_LAST = re.compile(r"(?:.*[;&|\n])?\s*\[?'?(?:(?:sudo|doas|env)\s+)*(?:/\S*/)?(?:killall|pkill)\b[^;&|\n]*$", re.DOTALL)
"""A text whose last command ends processes by name. A failed command may have the form of a Python list."""
_NONE = 1
"""Status of pkill and killall if no process has the name (pkill(1), killall(1) of psmisc and of FreeBSD)."""


_PROGRAM = re.compile(r"(?:\S*/)?([A-Za-z][\w.+-]*)")
"""A word that may be a program: `cpuset -l 1,2 iperf3 -s` has two."""


def ends_one_of(command: str, running: str) -> bool:
    """Return whether `command` ends a program that `running` names, or one by its number."""
    names = [match[1] for word in running.split() if (match := _PROGRAM.fullmatch(word))]
    ends = [(match["by"].lower(), match["what"]) for match in _ENDS.finditer(command)]
    return any(not what.lstrip().startswith("-0") if by == "kill" else any(name in what for name in names) for by, what in ends)


def found_nothing(command: str, status: int | None) -> bool:
    """Return whether `command` was to end processes by name and there were none: then its purpose is reached."""
    return status == _NONE and _LAST.match(command) is not None
