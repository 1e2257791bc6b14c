"""Family `linux`: a Linux machine or namespace as router and firewall, by forwarding, nftables and connection tracking.

What a mode is stands in `dut/nft_rules.py`; here is how it gets there, what proves that it is there, and the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut import linux_state as state
from dutlab.dut import nft_rules
from dutlab.dut.linux_reset import RESETS
from dutlab.dut.mode import Check, Mode, Prober, Reset, SeenProbe, UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Link, Testbed


@dataclass(frozen=True)
class LinuxMode:
    """One mode: its ruleset, and what frames must show when it is in force."""

    name: str
    ruleset: Callable[[Testbed], str]
    tracks: bool
    """Connection tracking sees the flows."""
    admits_unsolicited: bool
    """A new flow from the sink's side passes."""
    translates: bool = False
    """The sink sees the DUT's outer address instead of the source's."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises ToolMissing without nft, HostError when the present ruleset could not be restored."""
        del testbed  # what the modes change does not depend on it
        await state.need_nft(dut)
        return await state.read_undo(dut)

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises ToolMissing without nft, CommandFailed."""
        await state.need_nft(dut)
        await state.forward_and_filter(dut, self.ruleset(testbed))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Forwarding, both directions of every link, the address that the sink sees, and what connection tracking holds."""
        on = await state.forwards(dut)
        tables = await state.legacy_tables(dut)
        checks = [
            Check("the DUT forwards IPv4", on, f"net.ipv4.ip_forward is {int(on)}"),
            Check("no rules outside nftables", not tables, f"iptables-legacy tables: {' '.join(tables) or 'none'}"),
        ]
        for name, link in testbed.links.items():
            checks += await self._permitted(dut, name, link, prober)
            checks.append(await self._unsolicited(name, prober))
        return checks

    async def _permitted(self, dut: Host, name: str, link: Link, prober: Prober) -> list[Check]:
        seen = await passed(prober, name)
        expected = str((link.dut_out_address if self.translates else link.source_address).ip)
        tracked = await state.tracked_flows(dut, link.source_address.ip, link.sink_address.ip)
        how = f"translated to {expected}" if self.translates else f"untranslated from {expected}"
        return [
            Check(f"link {name}: a permitted flow passes", everything_came(seen), _words(seen)),
            Check(f"link {name}: it arrives {how}", seen.source_seen == expected, f"the sink saw {seen.source_seen or 'nothing'}"),
            Check(
                f"link {name}: the flow is {'' if self.tracks else 'not '}tracked",
                tracked is not None and (tracked > 0) == self.tracks,
                "connection tracking cannot be read" if tracked is None else f"{tracked} tracked flows from source to sink",
            ),
        ]

    async def _unsolicited(self, name: str, prober: Prober) -> Check:
        if self.admits_unsolicited:
            seen = await passed(prober, name, reverse=True)
            return Check(f"link {name}: a new flow from outside passes", everything_came(seen), _words(seen))
        seen = await prober.probe(name, reverse=True)
        return Check(f"link {name}: a new flow from outside is dropped", seen.sent > 0 and seen.received == 0, _words(seen))


async def passed(prober: Prober, link: str, *, reverse: bool = False) -> SeenProbe:
    """A probe that should pass, asked for once more when frames are missing: the first may have waited for a neighbour to answer."""
    seen = await prober.probe(link, reverse=reverse)
    return seen if everything_came(seen) else await prober.probe(link, reverse=reverse)


def everything_came(seen: SeenProbe) -> bool:
    """All frames arrived, and there were some."""
    return seen.sent > 0 and seen.received == seen.sent


def _words(seen: SeenProbe) -> str:
    return f"{seen.received} of {seen.sent} probe frames arrived"


_MODES = (
    LinuxMode("router", lambda _: nft_rules.no_ruleset(), tracks=False, admits_unsolicited=True),
    LinuxMode("filter-empty", lambda _: nft_rules.filter_empty(), tracks=True, admits_unsolicited=True),
    LinuxMode("filter-1", lambda testbed: nft_rules.filters(testbed, 1), tracks=False, admits_unsolicited=True),
    LinuxMode("filter-25", lambda testbed: nft_rules.filters(testbed, 25), tracks=False, admits_unsolicited=True),
    LinuxMode("filter-default", nft_rules.filter_default, tracks=True, admits_unsolicited=False),
    LinuxMode("nat", nft_rules.nat, tracks=True, admits_unsolicited=False, translates=True),
)


@dataclass(frozen=True)
class LinuxFamily:
    """Linux as DUT."""

    name: str
    modes: Mapping[str, Mode]
    resets: Mapping[str, Reset]


LINUX = LinuxFamily("linux", {mode.name: mode for mode in _MODES}, RESETS)
