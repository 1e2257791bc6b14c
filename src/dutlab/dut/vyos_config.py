"""VyOS's configuration mode: trees are read as `set` lines and replaced in one commit, which is atomic and never saved.

A DUT that lost its connection recovers with a reboot. `commit-confirm` is not used, because it asks a question on the standard input from
which the script itself is read.

The commands `set`, `delete` and `commit` of VyOS are shell functions that always end with 0 (vyatta-cfg of VyOS 1.4,
functions/interpreter/vyatta-cfg-run: vyatta_cfg_cmd_run prints the program's output and returns the status of printing, and
vyatta_config_commit ends with `unset`). So the script calls the programs below them, `my_set`, `my_delete` and `my_commit`, whose status
shows failures. It checks that nothing remains uncommitted, and the configuration is read back. `my_commit` is not called when nothing
changed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dutlab.dut.mode import UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.systems.plain import plain

_TEMPLATE = "source /opt/vyatta/etc/functions/script-template"
_PROGRAM = "/opt/vyatta/sbin/my_"
_CHANGED = "cli-shell-api sessionChanged"
_READ_WHOLE = "dutlab: read"
SAVED = "/config/config.boot"
"""File that VyOS loads automatically."""
_COMMITTED = "dutlab: committed"
# The later, experimental back end has other programs, which are not supported; this file exists while it is in use (same source).
_OTHER_BACK_END = "[ ! -f /var/run/vyconf_backend ] || { echo 'dutlab: VyOS with the vyconf back end is not known'; refused=1; }"
# Configuration commands need the group vyattacfg (docs.vyos.io, Command Scripting). vbash always ends with 0, so a script prints a line at
# its end to show that it was completed.
_SHELL = ("sg", "vyattacfg", "-c", "vbash -s")
COMMIT = (
    "sh",
    "-c",
    f"""output=$(sg vyattacfg -c 'vbash -s' 2>&1); echo "$output" >&2; case $output in *'{_COMMITTED}'*) ;; *) exit 1 ;; esac""",
)
"""Command that runs a script() from its standard input."""
COMMIT_S = 120.0
"""Time limit of a commit, in seconds."""
_SAME = (
    rf"""out=$(printf '%s\n' '{_TEMPLATE}' 'run show configuration commands' "echo '{_READ_WHOLE}'" exit | sg vyattacfg -c 'vbash -s'); """
    rf"""case $out in *'{_READ_WHOLE}'*) ;; *) echo 'the configuration cannot be read back' >&2; exit 1 ;; esac; """
    r"""esc=$(printf '\033'); found=$(printf '%s\n' "$out" | sed "s/$esc\[[0-9;]*m//g" | grep -E "^set ($1)( |$)" | sort); """
    """[ "$found" = "$(sort)" ] || { echo 'the configuration is not as it was found' >&2; exit 1; }"""
)
"""Script for `sh` with the trees as argument and their lines as standard input; it fails unless VyOS lists exactly these lines."""


async def configured(dut: Host, trees: Sequence[str]) -> list[str]:
    """Return the `set` lines of `trees`. Raises HostError when the DUT does not list them completely."""
    any_of = "|".join(trees)
    return [line for line in await _told(dut, _listing(trees)) if re.match(rf"set (?:{any_of})(?: |$)", line)]


async def saved(dut: Host, trees: Sequence[str]) -> list[str]:
    """Return the `set` lines of `trees` that VyOS loads automatically. Raises HostError when the DUT does not list them completely."""
    any_of = "|".join(trees)
    read = f"{_TEMPLATE}\nvyos-config-to-commands {SAVED} | grep -E '^set ({any_of})( |$)'\necho '{_READ_WHOLE}'\nexit\n"
    return [line for line in await _told(dut, read) if re.match(rf"set (?:{any_of})(?: |$)", line)]


async def holds(dut: Host, tree: str) -> bool:
    """Return whether a tree, whose secrets must not be read, has any line. Raises HostError."""
    count = _reading(f"grep -cE 'set {tree}( |$)'")
    return any(line.strip().isdigit() and int(line) > 0 for line in await _told(dut, count))


async def replace(dut: Host, trees: Sequence[str], lines: Sequence[str]) -> None:
    """Replace `trees` by `lines` in one commit, and read it back. Raises CommandFailed with the message of VyOS, HostError."""
    await dut.run(COMMIT, stdin=script(trees, lines).encode(), timeout_s=COMMIT_S)
    wanted, actual = words(lines), words(await configured(dut, trees))
    if wanted != actual:
        missing, more = sorted(wanted - actual), sorted(actual - wanted)
        first = f"`{' '.join((missing or more)[0])}` is {'missing' if missing else 'still there'}"
        raise HostError(
            f"its configuration is not the one that was committed: {len(missing)} lines missing, {len(more)} too many; {first}",
            host=dut.name,
            remedy="read the log of VyOS (`show log`), then `dutlab undo RUN`",
        )


def back(dut: Host, trees: Sequence[str], lines: Sequence[str], why: str) -> list[UndoStep]:
    """Return steps that restore `lines`, the lines of `trees`, and fail unless VyOS then lists the same lines."""
    same = ("sh", "-c", _SAME, "same", "|".join(trees))
    return [
        UndoStep(dut.name, COMMIT, script(trees, lines), why),
        UndoStep(dut.name, same, "".join(f"{line}\n" for line in lines), "the configuration read back"),
    ]


def script(trees: Sequence[str], lines: Sequence[str]) -> str:
    """Return a script for vbash that replaces `trees` by `lines` in one atomic commit."""
    # A missing tree cannot be deleted, which is not a fault; after a failed `set` nothing must be committed.
    deletes = [f"{_PROGRAM}delete {tree}" for tree in trees]
    sets = [f"{_PROGRAM}{line} || refused=1" for line in lines]
    commit = [
        f'if [ -z "$refused" ] && {_CHANGED}; then {_PROGRAM}commit </dev/null || refused=1; fi',
        f"if [ -z \"$refused\" ] && ! {_CHANGED}; then echo '{_COMMITTED}'; fi",
    ]
    return "\n".join([_TEMPLATE, "configure", _OTHER_BACK_END, *deletes, *sets, *commit, "exit discard", "exit", ""])


def words(lines: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the words of each line, without the quotes that VyOS puts around values."""
    return {tuple(shlex.split(line)) for line in lines}


def _listing(trees: Sequence[str]) -> str:
    return _reading(f"grep -E 'set ({'|'.join(trees)})( |$)'")


def _reading(filter_: str) -> str:
    return f"{_TEMPLATE}\nrun show configuration commands | {filter_}\necho '{_READ_WHOLE}'\nexit\n"


async def _told(dut: Host, read: str) -> list[str]:
    done = await dut.run(_SHELL, stdin=read.encode(), check=False)
    if _READ_WHOLE not in done.text:
        reason = done.complaint or f"`sg` ended with {done.status}"
        raise HostError(
            f"its configuration cannot be read: {reason}",
            host=dut.name,
            remedy="log in as a user of VyOS 1.4 or later that may configure it",
        )
    return plain(done.text).splitlines()
