"""Family `vyos`: VyOS 1.4 and later as router and firewall, through its configuration mode.

A mode replaces the trees `firewall`, `nat` and `nat66` in one commit; undo restores the lines that were read before.

Written from the sources of VyOS 1.4 and 1.5 (vyatta-cfg, vyos-1x) and tested against transcripts that follow them; never run on a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dutlab.dut import linux_state, vyos_rules
from dutlab.dut.frames import frame_checks
from dutlab.dut.ipsec import ipsec_modes
from dutlab.dut.linux_tracking import is_tracked, limit_check
from dutlab.dut.mode import Check, Family, OfFlows, Prober, UdpFlow, UndoStep
from dutlab.dut.privilege import Root
from dutlab.dut.strongswan import StrongswanEnd
from dutlab.dut.vyos_config import SAVED, back, configured, replace, saved, words
from dutlab.dut.vyos_ipsec import VyosEnd
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes

_TREES = ("firewall", "nat", "nat66", "system ip disable-forwarding", "system ipv6 disable-forwarding")
"""Trees of the configuration that a mode replaces. Others may contain secrets, so they are not read."""


@dataclass(frozen=True)
class VyosMode(OfFlows):
    """Mode of VyOS: its configuration, and the behaviour that frames must show."""

    lines: Callable[[Testbed], list[str]]
    keeps_own: bool = False
    """True if the mode adds its rules after those of the saved configuration."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that restore the trees as they were found. Raises HostError when the DUT is not VyOS."""
        del testbed
        return back(dut, _TREES, await configured(dut, _TREES), "firewall and NAT as they were found")

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Replace the trees. Raises CommandFailed with the message of VyOS, HostError when it then lists another configuration."""
        await replace(dut, _TREES, await self._lines(dut, testbed))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check as checks_of_state() does, with frames, and connection tracking."""
        root = await Root.on(dut)

        async def tracked(flow: UdpFlow) -> bool | None:
            return await is_tracked(root, flow)

        return [*await self.checks_of_state(dut, testbed), *await frame_checks(testbed, prober, self.declared.behaviour, tracked)]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check forwarding, and every line of the configuration."""
        on = await linux_state.forwards(dut)
        wanted, actual = words(await self._lines(dut, testbed)), words(await configured(dut, _TREES))
        missing, more = len(wanted - actual), len(actual - wanted)
        return [
            Check("the DUT forwards IPv4", on, f"net.ipv4.ip_forward is {int(on)}"),
            Check("firewall and NAT are those of the mode", wanted == actual, f"{missing} lines missing, {more} more than there should be"),
            *([await limit_check(dut, self.flows)] if self.declared.behaviour.tracks else []),
        ]

    async def _lines(self, dut: Host, testbed: Testbed) -> list[str]:
        """Return the lines of the mode. Raises HostError when the DUT has no firewall to keep."""
        if not self.keeps_own:
            return self.lines(testbed)
        own = await saved(dut, _TREES)
        if not any(line.startswith("set firewall ") for line in own):
            raise HostError(f"it has no firewall in {SAVED}", host=dut.name, remedy=f"leave mode {self.name} out")
        return [*own, *vyos_rules.passes(testbed, own)]


_MODES = (
    VyosMode(modes.ROUTER, vyos_rules.nothing),
    VyosMode(modes.FILTER_EMPTY, vyos_rules.filter_empty),
    VyosMode(modes.FILTER_1, lambda testbed: vyos_rules.filters(testbed, 1)),
    VyosMode(modes.FILTER_25, lambda testbed: vyos_rules.filters(testbed, 25)),
    VyosMode(modes.FILTER_DEFAULT, vyos_rules.filter_default),
    VyosMode(modes.FILTER_OWN, vyos_rules.nothing, keeps_own=True),
    VyosMode(modes.NAT, vyos_rules.nat),
    VyosMode(modes.NAT_OPEN, vyos_rules.nat_open),
)

FAMILY = Family(
    "vyos", {mode.name: mode for mode in _MODES}, more_modes=lambda hosts: ipsec_modes(_MODES[0], hosts, VyosEnd, StrongswanEnd)
)
