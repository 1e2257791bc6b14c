"""Family `manual`: a DUT that a person sets; the person is asked before each mode, and the journal keeps the answer.

The runner asks, as for every factor without commands. Frames verify the mode as on any other DUT. The DUT's own view of its rules and flows
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.dut.frames import frame_checks
from dutlab.dut.mode import Check, Family, OfRecord, Prober, Unset
from dutlab.hosts.host import Host
from dutlab.spec.known import MANUAL as NAME
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes


@dataclass(frozen=True)
class ManualMode(Unset, OfRecord):
    """Mode with a description for the person at the DUT."""

    means: str

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check both directions of every link, and the source address at the sink."""
        del dut
        return await frame_checks(testbed, prober, self.declared.behaviour, None)


_MODES = (
    ManualMode(modes.ROUTER, "it forwards between its test ports, its firewall off"),
    ManualMode(modes.FILTER_EMPTY_UNTRACKED, "its firewall on, without a rule: everything passes, in both directions"),
    ManualMode(
        modes.FILTER_1,
        "its firewall on, without states: one address filter permits the test networks in both directions, the rest is dropped",
    ),
    ManualMode(modes.FILTER_25, "as filter-1, behind 24 address filters that match no test frame (RFC 2544 section 11.4)"),
    ManualMode(
        modes.FILTER_DEFAULT,
        "its firewall on: new flows pass from each inner network to each outer one, one stateful rule a pair; all else is dropped",
    ),
    ManualMode(
        modes.FILTER_OWN,
        "its firewall on with its own ruleset, and behind it a stateful pass for each pair of networks in each direction",
    ),
    ManualMode(modes.NAT, "as filter-default, and flows leave with the address of the outer port"),
    ManualMode(modes.NAT_OPEN, "flows leave with the address of the outer port, and everything passes in both directions"),
)

FAMILY = Family(NAME, {mode.name: mode for mode in _MODES})


def question(name: str, level: str) -> str:
    """Return the question to a person about a factor and its level, with the description of a mode of this family."""
    mode = FAMILY.modes.get(level) if name == "mode" else None
    return f"set {name} to {level}" + (f" ({mode.means})" if isinstance(mode, ManualMode) else "")
