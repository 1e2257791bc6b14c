"""Processes that a step leaves in the background: the shell text for such a command.

dutlab ends the whole process group of a command when the command's shell ends. A step that starts `nohup PROGRAM &` wants PROGRAM to
continue. So such a command runs inside another shell, which prints its status on standard output. That shell stays, as leader of the group,
until the last process that the command left has ended or the group is ended from outside. It detects this by a pipe that the processes
inherit as file descriptor 9. Programs that start a new session (`iperf3 -D`) leave the group and are not ended.
"""

from __future__ import annotations

import re
import shlex

_STATUS = re.compile(rb"\0ended (\d{1,3})\n")
_LONGEST_STATUS = len(b"\0ended 255\n")
_LEAVES = re.compile(
    r"(?<![&<>|\\])&(?![&>0-9-])"  # COMMAND &, and neither && nor a redirection
    r"|\bnohup\b|\bdaemon\s"
    r"|(?:^|[;&|(]\s*|\s)(?:ba|da|k|z|c|tc)?sh\s+(?!-c)\S"  # sh SCRIPT
    r"|\S\.(?:c|ba|k)?sh\b"
)


def leaves_something(command: str) -> bool:
    """Return whether `command` may leave processes in the background: it has `&`, nohup or a script."""
    return _LEAVES.search(command) is not None


def watched(command: str) -> str:
    """Return a script of sh that runs `command`, prints its status, and stays while any of its processes runs."""
    inner = f"sh -c {shlex.quote(command)} 9>&1 >&3 3>&-"
    return f"{{ dutlab_left=$( {{ {inner}; printf '\\000ended %d\\n' \"$?\" >&3; }} ); }} 3>&1"


def take_status(output: bytearray, since: int) -> int | None:
    """Take the status that `watched` prints out of the output; None while it is not there. Text before `since` was searched already."""
    match = _STATUS.search(output, max(0, since - _LONGEST_STATUS))
    if match is None:
        return None
    status = int(match[1])
    del output[match.start() : match.end()]
    return status
