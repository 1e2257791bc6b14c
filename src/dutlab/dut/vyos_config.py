"""VyOS's configuration mode: trees of it read as `set` lines, and replaced in one commit, which is atomic and never saved.

A DUT that lost its way comes back with a reboot. `commit-confirm` asks a question on the standard input that the script itself comes by, so
it is not used.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.plain import plain

_TEMPLATE = "source /opt/vyatta/etc/functions/script-template"
_READ_WHOLE = "dutlab: read"
_COMMITTED = "dutlab: committed"
# Configuration commands need the group vyattacfg (docs.vyos.io, Command Scripting). vbash ends with 0 whatever they said, so a script says
# at its end that it came through.
_SHELL = ("sg", "vyattacfg", "-c", "vbash -s")
COMMIT = (
    "sh",
    "-c",
    f"""said=$(sg vyattacfg -c 'vbash -s' 2>&1); echo "$said" >&2; case $said in *'{_COMMITTED}'*) ;; *) exit 1 ;; esac""",
)
"""The command that takes a script()."""
COMMIT_S = 120.0
"""How long it may take."""


async def configured(dut: Host, trees: Sequence[str]) -> list[str]:
    """The `set` lines of `trees`. Raises HostError when the DUT does not tell them all."""
    any_of = "|".join(trees)
    return [line for line in await _told(dut, f"grep -E 'set ({any_of})( |$)'") if re.match(rf"set (?:{any_of})(?: |$)", line)]


async def holds(dut: Host, tree: str) -> bool:
    """Whether there is anything of a tree whose secrets must not be read. Raises HostError."""
    return any(line.strip().isdigit() and int(line) > 0 for line in await _told(dut, f"grep -cE 'set {tree}( |$)'"))


async def _told(dut: Host, filter_: str) -> list[str]:
    read = f"{_TEMPLATE}\nrun show configuration commands | {filter_}\necho '{_READ_WHOLE}'\nexit\n"
    done = await dut.run(_SHELL, stdin=read.encode(), check=False)
    if _READ_WHOLE not in done.text:
        said = done.complaint or f"`sg` ended with {done.status}"
        raise HostError(
            f"its configuration cannot be read: {said}", host=dut.name, remedy="log in as a user of VyOS 1.4 or later that may configure it"
        )
    return plain(done.text).splitlines()


def script(trees: Sequence[str], lines: Sequence[str]) -> str:
    """For vbash: `trees` away, `lines` in, all of it in one commit or none of it."""
    # What is deleted may not be there, which is no fault; a `set` that failed must not be committed without.
    deletes = [f"delete {tree}" for tree in trees]
    sets = [f"{line} || refused=1" for line in lines]
    end = [f"[ -z \"$refused\" ] && commit && echo '{_COMMITTED}'", "exit discard", "exit"]
    return "\n".join([_TEMPLATE, "configure", *deletes, *sets, *end, ""])


def words(lines: Sequence[str]) -> set[tuple[str, ...]]:
    """Lines without the quotes that VyOS puts around values."""
    return {tuple(shlex.split(line)) for line in lines}
