"""Family `vyos`: VyOS 1.4 and later as router and firewall, by its own configuration mode.

A mode replaces the trees `firewall`, `nat` and `nat66` in one commit, which is atomic, and is never saved: a DUT that lost its way comes
back with a reboot. `commit-confirm` asks a question on the standard input that the script itself comes by, so it is not used; what puts the
DUT back are the lines that were read before the change.

Tried against transcripts of documented outputs only, never on a machine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dutlab.dut import linux_state, vyos_rules
from dutlab.dut.frames import GUARDS, ROUTES, TRACKS, TRANSLATES, Behaviour, frame_checks
from dutlab.dut.mode import Check, Family, Prober, UndoStep
from dutlab.dut.privilege import Root
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.plain import plain
from dutlab.spec.testbed import Link, Testbed

_TREES = ("firewall", "nat", "nat66", "system ip disable-forwarding", "system ipv6 disable-forwarding")
"""What a mode replaces. The configuration holds secrets elsewhere, so nothing else is read."""
_TEMPLATE = "source /opt/vyatta/etc/functions/script-template"
_OF_TREES = re.compile(rf"set (?:{'|'.join(_TREES)})(?: |$)")
_READ_WHOLE = "dutlab: read"
_COMMITTED = "dutlab: committed"
_READ = f"""{_TEMPLATE}
run show configuration commands | grep -E 'set ({"|".join(_TREES)})( |$)'
echo '{_READ_WHOLE}'
exit
"""
# Configuration commands need the group vyattacfg (docs.vyos.io, Command Scripting). vbash ends with 0 whatever they said, so a script says
# at its end that it came through.
_SHELL = ("sg", "vyattacfg", "-c", "vbash -s")
_COMMIT = (
    "sh",
    "-c",
    f"""said=$(sg vyattacfg -c 'vbash -s' 2>&1); echo "$said" >&2; case $said in *'{_COMMITTED}'*) ;; *) exit 1 ;; esac""",
)


@dataclass(frozen=True)
class VyosMode:
    """One mode: its configuration, and what frames must show when it is in force."""

    name: str
    lines: Callable[[Testbed], list[str]]
    behaviour: Behaviour

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """The trees as they were found. Raises HostError when the DUT is no VyOS."""
        del testbed
        return [UndoStep(dut.name, _COMMIT, _script(await _configured(dut)), "firewall and NAT as they were found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed with what VyOS said."""
        await dut.run(_COMMIT, stdin=_script(self.lines(testbed)).encode(), timeout_s=120.0)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Forwarding, the configuration line for line, what frames show, and what connection tracking holds."""
        root = await Root.on(dut)
        on = await linux_state.forwards(dut)
        wanted, found = _words(self.lines(testbed)), _words(await _configured(dut))
        missing, more = len(wanted - found), len(found - wanted)

        async def tracked(link: Link) -> int | None:
            return await linux_state.tracked_flows(root, link.source_address.ip, link.sink_address.ip)

        return [
            Check("the DUT forwards IPv4", on, f"net.ipv4.ip_forward is {int(on)}"),
            Check("firewall and NAT are those of the mode", wanted == found, f"{missing} lines missing, {more} more than there should be"),
            *await frame_checks(testbed, prober, self.behaviour, tracked),
        ]


async def _configured(dut: Host) -> list[str]:
    """The `set` lines of the trees. Raises HostError when the DUT does not tell them all."""
    done = await dut.run(_SHELL, stdin=_READ.encode(), check=False)
    if _READ_WHOLE not in done.text:
        said = done.stderr.decode("utf-8", "replace").strip()[-200:] or f"`sg` ended with {done.status}"
        raise HostError(
            f"its configuration cannot be read: {said}", host=dut.name, remedy="log in as a user of VyOS 1.4 or later that may configure it"
        )
    return [line for line in plain(done.text).splitlines() if _OF_TREES.match(line)]


def _script(lines: Sequence[str]) -> str:
    """For vbash: the trees away, `lines` in, all of it in one commit or none of it."""
    # What is deleted may not be there, which is no fault; a `set` that failed must not be committed without.
    deletes = [f"delete {tree}" for tree in _TREES]
    sets = [f"{line} || refused=1" for line in lines]
    end = [f"[ -z \"$refused\" ] && commit && echo '{_COMMITTED}'", "exit discard", "exit"]
    return "\n".join([_TEMPLATE, "configure", *deletes, *sets, *end, ""])


def _words(lines: Sequence[str]) -> set[tuple[str, ...]]:
    """Lines without the quotes that VyOS puts around values."""
    return {tuple(shlex.split(line)) for line in lines}


_MODES = (
    VyosMode("router", vyos_rules.nothing, ROUTES),
    VyosMode("filter-empty", vyos_rules.filter_empty, TRACKS),
    VyosMode("filter-default", vyos_rules.filter_default, GUARDS),
    VyosMode("nat", vyos_rules.nat, TRANSLATES),
)

VYOS = Family("vyos", {mode.name: mode for mode in _MODES})
