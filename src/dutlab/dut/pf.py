"""Common part of systems with pf(4): a router has pf off; every other mode is a ruleset loaded with `pfctl -F all -f -`.

Written from the sources of FreeBSD 14 (pfctl, sysctl), OpenBSD 7.6 and pfSense 2.7.2, and tested against transcripts that follow them;
never run on a machine.
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
    """Return the ruleset to restore, composed of the output of pfctl."""
    return await saved(root, system.sections, system.head, system.own)


async def nothing_more(root: Root) -> list[UndoStep]:
    """Return no further steps: there is only the ruleset to restore."""
    del root
    return []


@dataclass(frozen=True)
class PfSystem:
    """Differences between the systems."""

    sections: tuple[str, ...]
    """Parts of the ruleset for `pfctl -s`, in the order in which they are written."""
    nat: Callable[[Testbed], str]
    nat_open: Callable[[Testbed], str]
    head: tuple[str, ...] = ()
    """Lines before a restored ruleset."""
    is_module: bool = False
    """True if pf is a kernel module that may not be loaded yet (kldload(8))."""
    settings: tuple[tuple[str, str], ...] = ((FORWARDING, "1"), (FORWARDING6, "1"))
    """Names of sysctl(8) and their values in every mode, in order; those that the kernel lacks are skipped."""
    rivals: tuple[str, ...] = ()
    """Names of sysctl(8) that are 1 while another firewall filters too."""
    ruleset_to_restore: Callable[[Root, PfSystem], Awaitable[str]] = as_listed
    own: str = OWN
    """File with the ruleset that the system loads automatically."""
    afterwards: Callable[[Root], Awaitable[list[UndoStep]]] = nothing_more
    """Function that returns the steps after the ruleset, read from the present state."""

    async def present(self, root: Root) -> bool:
        """Return whether the kernel has pf."""
        return not self.is_module or (await root.run(["kldstat", "-q", "-m", "pf"], check=False)).status == 0

    async def values(self, root: Root) -> dict[str, str]:
        """Return the present values of the settings."""
        value_by_name = {name: await root.value(["sysctl", "-n", name]) for name, _ in self.settings}
        return {name: value for name, value in value_by_name.items() if value is not None}


@dataclass(frozen=True)
class PfMode(OfRecord):
    """Mode of pf: its ruleset (None switches pf off), and the behaviour that frames must show."""

    system: PfSystem
    ruleset: Callable[[Testbed], str] | None
    keeps_own: bool = False
    """True if the mode adds its rules after the system's own ruleset and options."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that restore pf and settings. Raises HostError when the present ruleset could not be restored."""
        del testbed  # the modes change the same settings on every testbed
        root = await Root.on(dut)
        steps = await self._undo_pf(root)
        values = [f"{name}={value}" for name, value in reversed((await self.system.values(root)).items())]
        return [*steps, root.step("sysctl", *values, why="forwarding and the like as they were found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set forwarding and load the ruleset. Raises CommandFailed, HostError."""
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
        """Check as checks_of_state() does, and with frames."""
        root = await Root.on(dut)

        async def tracked(flow: UdpFlow) -> bool:
            return has_state(await root.value(["pfctl", "-s", "states"]) or "", flow)

        frames = await frame_checks(testbed, prober, self.declared.behaviour, None if self.ruleset is None else tracked)
        return [*await self.checks_of_state(dut, testbed), *frames]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check settings, pf on or off, the number of its rules, and that no other firewall filters."""
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
        """Return the text of the ruleset. Raises HostError when the system has no saved ruleset."""
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
        """Return the numbers of rules; for a kept ruleset pfctl counts them, because it expands lists and macros."""
        text = await self._text(root, testbed)
        return RuleCounts.of((await root.run(["pfctl", "-n", "-v", "-f", "-"], stdin=text)).text if self.keeps_own else text)

    async def _limit(self, root: Root) -> Check:
        limit = await state_limit(root)
        text = str(limit or "not stated")
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
    """Return the family of a system with pf; `end` makes its end of tunnels."""
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
    return Family(name, {mode.name: mode for mode in family}, more_modes=lambda hosts: ipsec_modes(router, hosts, end, XfrmEnd, suites))


def _on_or_off(on: bool) -> str:  # noqa: FBT001 a reading, not a choice of behaviour
    return "on" if on else "off"
