"""Levels that change the mode of a Linux DUT instead of a host: they are applied after it, verified with it and undone with it.

So they can be combined with every mode that supports them. The factors are those of spec/factors.py with `of_mode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dutlab.dut.linux_flowtable import Flowtable
from dutlab.dut.linux_nat64 import Nat64
from dutlab.dut.linux_pppoe import Pppoe
from dutlab.dut.linux_shaper import Shaper
from dutlab.dut.mode import Mode
from dutlab.hosts.host import Host
from dutlab.spec.factors import OFF
from dutlab.spec.testbed import Testbed
from dutlab.spec.translation import prefix_of
from dutlab.spec.wire_form import NAT64


class ModeChange(Protocol):
    """Change that a level makes to a mode."""

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return the features that the DUT's kernel lacks for it; called before any change. Raises HostError."""

    def of(self, mode: Mode) -> Mode:
        """Return the changed mode. Raises InputError for a mode that does not support the change."""


ORDER = ("flowtable", "shaper", "pppoe", NAT64)
"""Order in which the changes wrap a mode: a flowtable is part of its ruleset, and a shaper needs the ports of a PPPoE session.

NAT64 is combined with none of them.
"""


def changes_of(levels: Mapping[str, str], hosts: Mapping[str, Host], cores: Sequence[int] = ()) -> list[ModeChange]:
    """Return the changes of the levels that are not off; `hosts` are those of the testbed, `cores` the DUT's for programs."""
    return [_made(name, levels[name], hosts, cores) for name in ORDER if levels.get(name, OFF) != OFF]


def _made(name: str, level: str, hosts: Mapping[str, Host], cores: Sequence[int]) -> ModeChange:
    if name == "pppoe":
        return Pppoe(hosts)
    if name == NAT64 and (prefix := prefix_of(level)) is not None:
        return Nat64(prefix, hosts, cores)
    return Shaper.from_level(level) if name == "shaper" else Flowtable(hardware=level == "hardware")
