"""Family `vpp`: a VPP router with its addresses and routes set, filtering by acl-plugin and translating by nat44-ed, through vppctl(1).

VPP forwards between ports that are up and have addresses, so `router` only removes filters and translation. Access lists cost nothing until
they are applied to a port, and their tag identifies them. So undo applies the earlier lists again, in their order.

VPP 26.10 was driven through all modes on host interfaces in a network namespace; older ones, and cards, were not. vppctl(1) always ends
with 0, and `set acl-plugin acl` stops silently at a word that it does not know: it makes a list that permits everything. So each list is
read back before it is applied.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut import vpp_rules
from dutlab.dut.frames import frame_checks
from dutlab.dut.ipsec import ipsec_modes
from dutlab.dut.linux_ipsec import XfrmEnd
from dutlab.dut.mode import Check, Family, OfFlows, Prober, UdpFlow, UndoStep
from dutlab.dut.privilege import Root
from dutlab.dut.vpp_ipsec import VppEnd
from dutlab.dut.vpp_rules import INPUT, OUTPUT, TAG, AccessList, Place
from dutlab.dut.vpp_state import VppState, access_lists, change, read, session_limit, sessions
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import VPPCTL, Program
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes

LEAST_LISTED = 500_000
"""Limit of acl-plugin's sessions for all threads in recent sources; 1,000,000 in older ones (fa_node.h). `set acl-plugin session table
max-entries` would change it, but VPP does not report the earlier value, and the pools of sessions keep their initial size."""
LEAST_SESSIONS = 63 * 1024
"""Default limit of nat44's sessions per thread (nat44_ed.c)."""
_OURS = rf"vppctl show acl-plugin acl | sed -n 's/^acl-index \([0-9]*\) .*tag {{{TAG}.*/\1/p'"


@dataclass(frozen=True)
class VppMode(OfFlows):
    """Mode of VPP: its access lists, translation, and the behaviour that frames must show."""

    lists: Callable[[Testbed], list[AccessList]]

    @property
    def sessions(self) -> int:
        """Sessions of nat44 per thread: one thread may have all flows, and those of the previous trial may remain."""
        return max(LEAST_SESSIONS, 2 * self.flows)

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that the DUT needs."""
        return {"dut": (VPPCTL,)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove translation and restore access lists.

        Raises HostError when nat44 is enabled already: its addresses and mappings could not all be restored.
        """
        root = await Root.on(dut)
        state = await read(root)
        if state.translates or state.nat_enabled:
            raise HostError(
                f"its nat44 is enabled already, on {', '.join(state.translates) or 'no port'}, and that could not be restored",
                host=dut.name,
                remedy="disable nat44 on it (`vppctl nat44 plugin disable`)",
            )  # fmt: skip
        places = _places(testbed)
        earlier_lists = [(place, number) for place in places for number in state.applied.get(place, ())]
        lines = [f"for n in $({_OURS}); do"]
        lines += [f"{_apply(place, '$n')} del;" for place in places]
        lines += ["vppctl delete acl-plugin acl index $n; done;"]
        lines += [f"{_apply(place, str(number))} del;" for place, number in earlier_lists]  # they may still be applied
        lines += [f"{_apply(place, str(number))};" for place, number in earlier_lists]
        return [
            root.step("vppctl", "nat44", "plugin", "disable", why="no translation, as it was found"),
            root.step("sh", "-c", " ".join(lines), why="access lists as they were found"),
        ]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Apply the mode's access lists and translation. Raises CommandFailed with VPP's message, HostError."""
        root = await Root.on(dut)
        await _clear(root, await read(root), testbed)
        lists = self.lists(testbed)
        for number, access in zip(await _made(root, lists), lists, strict=True):
            for interface, direction in access.places:
                await change(root, "set", "acl-plugin", "interface", interface, direction, "acl", number)
        if self.declared.behaviour.translates:
            await change(root, "nat44", "plugin", "enable", "sessions", str(self.sessions))
            for link in _of_ipv4(testbed):
                await change(root, "set", "interface", "nat44", "in", link.dut_in.interface, "out", link.dut_out.interface)
                await change(root, "nat44", "add", "interface", "address", link.dut_out.interface)
        await change(root, "clear", "acl-plugin", "sessions")

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check as checks_of_state() does, and with frames."""
        root = await Root.on(dut)
        where = ("nat44", "summary") if self.declared.behaviour.translates else ("acl-plugin", "sessions")

        before = await sessions(root, *where) if self.declared.behaviour.tracks else None

        async def tracked(flow: UdpFlow) -> bool | None:
            nonlocal before
            del flow  # VPP counts sessions but lists none on one line: a new flow adds one session
            earlier, before = before, await sessions(root, *where)
            return None if earlier is None or before is None else before > earlier

        frames = await frame_checks(testbed, prober, self.declared.behaviour, tracked if self.declared.behaviour.tracks else None)
        return [*await self.checks_of_state(dut, testbed), *frames]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check that ports are up, and that access lists and translation are those of the mode."""
        root = await Root.on(dut)
        state = await read(root)
        down = [interface for interface, direction in _places(testbed) if direction == INPUT and not state.up.get(interface)]
        wanted, actual = _wanted(self.lists(testbed)), _found(state, testbed)
        translating = {
            p: direction for link in _of_ipv4(testbed) for p, direction in ((link.dut_in.interface, "in"), (link.dut_out.interface, "out"))
        }
        expected = translating if self.declared.behaviour.translates else {}
        limits = []
        if self.declared.behaviour.translates:
            limit = await session_limit(root)
            limits = [Check(f"nat44 takes {self.sessions} sessions a thread", limit == self.sessions, f"{limit or 'not stated'}")]
        elif self.declared.behaviour.tracks:
            fit = "" if self.flows <= LEAST_LISTED else f", fewer than the {self.flows} flows of the experiment"
            note = f"vppctl does not show it: {LEAST_LISTED} in recent sources{fit}"
            limits = [Check("acl-plugin takes as many sessions as VPP was started with", passed=True, found=note)]
        return [
            Check("the DUT's ports are up", not down, f"down: {', '.join(down) or 'none'}"),
            Check(
                "access lists are those of the mode", wanted == actual, f"{len(wanted - actual)} missing, {len(actual - wanted)} too many"
            ),
            Check("translation is that of the mode", state.translates == expected, f"nat44 on {', '.join(state.translates) or 'no port'}"),
            *limits,
        ]


async def _made(root: Root, lists: Sequence[AccessList]) -> list[str]:
    """Make access lists; return their numbers. Raises CommandFailed, and HostError if VPP made other ones, which are deleted."""
    numbers = [(await change(root, "set", "acl-plugin", "acl", *access.words.split())).partition(":")[2].strip() for access in lists]
    if not lists:
        return numbers
    there = await access_lists(root)
    if other := [access.tag for number, access in zip(numbers, lists, strict=True) if there.get(int(number)) != (access.tag, access.rules)]:
        for number in numbers:
            await change(root, "delete", "acl-plugin", "acl", "index", number)
        remedy = "use a VPP whose `set acl-plugin acl` takes rules as `permit+reflect src NET dst NET`"
        raise HostError(f"its access lists differ from the requested ones: {', '.join(other)}", host=root.dut.name, remedy=remedy)
    return numbers


async def _clear(root: Root, state: VppState, testbed: Testbed) -> None:
    """Remove all lists from the test ports, delete our lists, and disable translation."""
    if state.nat_enabled:
        await change(root, "nat44", "plugin", "disable")
    for interface, direction in _places(testbed):
        for number in state.applied.get((interface, direction), ()):
            await change(root, "set", "acl-plugin", "interface", interface, direction, "acl", str(number), "del")
    for number, tag in state.tags.items():
        if tag.startswith(TAG):
            await change(root, "delete", "acl-plugin", "acl", "index", str(number))


def _places(testbed: Testbed) -> list[Place]:
    """Return the places where a list can be applied to test traffic."""
    ports = [port.interface for link in testbed.links.values() for port in (link.dut_in, link.dut_out)]
    return [(port, direction) for port in ports for direction in (INPUT, OUTPUT)]


def _of_ipv4(testbed: Testbed) -> list[Link]:
    return [link for link in testbed.links.values() if link.source_address.version == 4]  # noqa: PLR2004 - the protocol's own number


def _wanted(lists: Sequence[AccessList]) -> set[tuple[Place, str, tuple[str, ...]]]:
    return {(place, access.tag, access.rules) for access in lists for place in access.places}


def _found(state: VppState, testbed: Testbed) -> set[tuple[Place, str, tuple[str, ...]]]:
    return {
        (place, state.tags.get(number, "?"), state.rules.get(number, ()))
        for place in _places(testbed)
        for number in state.applied.get(place, ())
    }


def _apply(place: Place, number: str) -> str:
    return f"vppctl set acl-plugin interface {shlex.quote(place[0])} {place[1]} acl {number}"


_MODES = (
    VppMode(modes.ROUTER, vpp_rules.no_lists),
    VppMode(modes.FILTER_EMPTY, vpp_rules.filter_empty),
    VppMode(modes.FILTER_1, lambda testbed: vpp_rules.filters(testbed, 1)),
    VppMode(modes.FILTER_25, lambda testbed: vpp_rules.filters(testbed, 25)),
    VppMode(modes.FILTER_DEFAULT, vpp_rules.filter_default),
    VppMode(modes.NAT, vpp_rules.filter_default),
)

FAMILY = Family("vpp", {mode.name: mode for mode in _MODES}, more_modes=lambda hosts: ipsec_modes(_MODES[0], hosts, VppEnd, XfrmEnd))
