"""Common part of systems with pf(4): a router is pf switched off, every other mode a ruleset loaded with `pfctl -F all -f -`.

Read in the sources of FreeBSD 14 (pfctl, sysctl), OpenBSD 7.6 and pfSense 2.7.2, tried against transcripts that follow them; never run on a
machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dutlab.dut import pf_rules
from dutlab.dut.frames import frame_checks
from dutlab.dut.ipsec import MakeEnd, ipsec_modes
from dutlab.dut.ipsec_rules import SUITES, Suite
from dutlab.dut.linux_ipsec import XfrmEnd
from dutlab.dut.mode import Check, Family, OfRecord, Prober, UdpFlow, UndoStep
from dutlab.dut.pf_rules import RuleCounts
from dutlab.dut.pf_saved import enabled, loaded, saved, state_limit
from dutlab.dut.pf_states import has_state
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes

FORWARDING = "net.inet.ip.forwarding"
FORWARDING6 = "net.inet6.ip6.forwarding"
_OFF = "if pfctl -s info | grep -q 'Status: Enabled'; then pfctl -d; fi"
_ON = "if pfctl -s info | grep -q 'Status: Disabled'; then pfctl -e; fi"
OWN = "/etc/pf.conf"
_UNLOAD = "if kldstat -q -m pf; then kldunload pf; fi"


async def as_listed(root: Root, system: PfSystem) -> str:
    """The ruleset to put back, put together from what pfctl lists."""
    return await saved(root, system.sections, system.head, system.own)


async def nothing_more(root: Root) -> list[UndoStep]:
    """The ruleset is all that there is to put back."""
    del root
    return []


@dataclass(frozen=True)
class PfSystem:
    """In what the systems differ."""

    sections: tuple[str, ...]
    """Names of the parts of the ruleset for `pfctl -s`, in the order in which they are written."""
    nat: Callable[[Testbed], str]
    nat_open: Callable[[Testbed], str]
    head: tuple[str, ...] = ()
    """Lines before a ruleset that is put back."""
    is_module: bool = False
    """pf is a kernel module that may not be there yet (kldload(8))."""
    settings: tuple[tuple[str, str], ...] = ((FORWARDING, "1"), (FORWARDING6, "1"))
    """sysctl(8) names and their values while a mode holds, in order; one that the kernel lacks is left out."""
    rivals: tuple[str, ...] = ()
    """sysctl(8) names that are 1 while another firewall filters as well."""
    ruleset_to_restore: Callable[[Root, PfSystem], Awaitable[str]] = as_listed
    own: str = OWN
    """The file with the ruleset that the system loads by itself."""
    afterwards: Callable[[Root], Awaitable[list[UndoStep]]] = nothing_more
    """Returns what is put back after the ruleset, read now."""

    async def present(self, root: Root) -> bool:
        """Return whether the kernel has pf."""
        return not self.is_module or (await root.run(["kldstat", "-q", "-m", "pf"], check=False)).status == 0

    async def values(self, root: Root) -> dict[str, str]:
        """The settings as they are now."""
        value_by_name = {name: await root.value(["sysctl", "-n", name]) for name, _ in self.settings}
        return {name: value for name, value in value_by_name.items() if value is not None}


@dataclass(frozen=True)
class PfMode(OfRecord):
    """One mode: its ruleset (None switches pf off), and what frames must show when it is in force."""

    system: PfSystem
    ruleset: Callable[[Testbed], str] | None
    keeps_own: bool = False
    """The ruleset is the system's own, its options too, and what this mode brings comes behind it."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when the present ruleset could not be restored."""
        del testbed  # what the modes change does not depend on it
        root = await Root.on(dut)
        steps = await self._undo_pf(root)
        values = [f"{name}={value}" for name, value in reversed((await self.system.values(root)).items())]
        return [*steps, root.step("sysctl", *values, why="forwarding and the like as they were found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        root = await Root.on(dut)
        now = await self.system.values(root)
        for name, value in self.system.settings:
            if name in now and now[name] != value:
                await root.run(["sysctl", f"{name}={value}"])
        if self.ruleset is None:
            if await self.system.present(root) and await enabled(root):
                await root.run(["pfctl", "-d"])
            return
        if not await self.system.present(root):
            await root.run(["kldload", "pf"])
        await root.run(["pfctl", "-F", "all", "-f", "-"], stdin=await self._text(root, testbed))
        if not await enabled(root):
            await root.run(["pfctl", "-e"])

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """checks_of_state(), and what frames show."""
        root = await Root.on(dut)

        async def tracked(flow: UdpFlow) -> bool:
            return has_state(await root.value(["pfctl", "-s", "states"]) or "", flow)

        frames = await frame_checks(testbed, prober, self.declared.behaviour, None if self.ruleset is None else tracked)
        return [*await self.checks_of_state(dut, testbed), *frames]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Settings, pf on or off, how many rules it holds, and no other firewall."""
        root = await Root.on(dut)
        now = await self.system.values(root)
        checks = [Check(f"{name} is {value}", now[name] == value, now[name]) for name, value in self.system.settings if name in now]
        for name in self.system.rivals:
            value = await root.value(["sysctl", "-n", name])
            checks.append(Check(f"no other firewall: {name} is not 1", value != "1", value or "not there"))
        present = await self.system.present(root)
        on = present and await enabled(root)
        checks.append(
            Check(f"pf is {'off' if self.ruleset is None else 'on'}", on == (self.ruleset is not None), f"it is {_on_or_off(on)}")
        )
        if self.ruleset is not None:
            expected = await self._expected(root, testbed)
            counts = RuleCounts.of(await loaded(root, self.system.sections)) if present else RuleCounts(0, 0)
            checks.append(Check(f"pf holds {expected}", counts == expected, str(counts)))
            checks += [await self._limit(root)] if present and self.declared.behaviour.tracks else []
        return checks

    async def _text(self, root: Root, testbed: Testbed) -> str:
        """Raises HostError when the system has no ruleset."""
        text = "" if self.ruleset is None else self.ruleset(testbed)
        if not self.keeps_own:
            return text
        try:
            own = (await root.run(["cat", self.system.own])).text
        except CommandFailed as e:
            what = f"it has no ruleset in {self.system.own}: {reason_in(e.stderr_tail)}"
            raise HostError(what, host=root.dut.name, remedy=f"leave mode {self.name} out") from e
        return f"{own.rstrip()}\n{text}"

    async def _expected(self, root: Root, testbed: Testbed) -> RuleCounts:
        """Return the number of rules that pfctl makes of an existing ruleset, with its lists and macros."""
        text = await self._text(root, testbed)
        return RuleCounts.of((await root.run(["pfctl", "-n", "-v", "-f", "-"], stdin=text)).text if self.keeps_own else text)

    async def _limit(self, root: Root) -> Check:
        limit = await state_limit(root)
        text = str(limit or "it does not say")
        if self.keeps_own:
            return Check("pf's limit of states is the system's own", limit is not None, text)
        return Check(f"pf's limit of states is {pf_rules.STATES}", limit == pf_rules.STATES, text)

    async def _undo_pf(self, root: Root) -> list[UndoStep]:
        off = root.step("sh", "-c", _OFF, why="pf off, as it was found")
        if not await self.system.present(root):
            return [root.step("sh", "-c", _UNLOAD, why="no pf in the kernel, as it was found")]
        text = await self.system.ruleset_to_restore(root, self.system)
        back = root.step("pfctl", "-f", "-", stdin=text, why="the pf ruleset as it was found")
        more = await self.system.afterwards(root)
        if not await enabled(root):
            return [off, root.step("pfctl", "-F", "all", why="no rule of the mode"), back, *more]
        port = (await root.dut.run(["sh", "-c", 'echo "${SSH_CONNECTION##* }"'])).text.strip()
        bridge = pf_rules.keeps_login(port) if port.isdigit() else ""
        return [
            root.step("pfctl", "-F", "all", "-f", "-", stdin=bridge, why="no rule of the mode, and a state for the login"),
            root.step("sh", "-c", _ON, why="pf on, as it was found"),
            back,
            *more,
        ]


def pf_family(name: str, system: PfSystem, end: MakeEnd, suites: Sequence[Suite] = SUITES) -> Family:
    """The modes of a system with pf; `end` is how it ends tunnels."""
    router = PfMode(modes.ROUTER, system, None)
    family = (
        router,
        PfMode(modes.FILTER_EMPTY_UNTRACKED, system, pf_rules.filter_empty),
        PfMode(modes.FILTER_1, system, lambda testbed: pf_rules.filters(testbed, 1)),
        PfMode(modes.FILTER_25, system, lambda testbed: pf_rules.filters(testbed, 25)),
        PfMode(modes.FILTER_DEFAULT, system, pf_rules.filter_default),
        PfMode(modes.FILTER_OWN, system, pf_rules.passes, keeps_own=True),
        PfMode(modes.NAT, system, system.nat),
        PfMode(modes.NAT_OPEN, system, system.nat_open),
    )
    return Family(name, {mode.name: mode for mode in family}, beside=lambda hosts: ipsec_modes(router, hosts, end, XfrmEnd, suites))


def _on_or_off(on: bool) -> str:  # noqa: FBT001 a reading, not a choice of behaviour
    return "on" if on else "off"
