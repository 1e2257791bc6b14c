"""Levels that change the mode of a Linux DUT instead of the host: they are applied after it, verified with it and undone with it.

So they cross with every mode that can have them. The factors are those of spec/factors.py that are `of_mode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dutlab.dut.linux_flowtable import Flowtable
from dutlab.dut.linux_pppoe import Pppoe
from dutlab.dut.linux_shaper import Shaper
from dutlab.dut.mode import Mode
from dutlab.hosts.host import Host
from dutlab.spec.factors import OFF
from dutlab.spec.testbed import Testbed


class ModeChange(Protocol):
    """What a level does to a mode."""

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """What the DUT's kernel lacks for it, before anything is changed. Raises HostError."""

    def of(self, mode: Mode) -> Mode:
        """The mode with it. Raises InputError for a mode that cannot have it."""


ORDER = ("flowtable", "shaper", "pppoe")
"""In which they are put around a mode: a flowtable is part of its ruleset, and a shaper is of the ports that a PPPoE session gives it."""


def changes_of(levels: Mapping[str, str], hosts: Mapping[str, Host]) -> list[ModeChange]:
    """Of the levels of such factors, those that are not off; `hosts` are those of the testbed."""
    return [_made(name, levels[name], hosts) for name in ORDER if levels.get(name, OFF) != OFF]


def _made(name: str, level: str, hosts: Mapping[str, Host]) -> ModeChange:
    if name == "pppoe":
        return Pppoe(hosts)
    return Shaper.from_level(level) if name == "shaper" else Flowtable(hardware=level == "hardware")
