"""Factor `flowtable` of Linux: a firewall mode whose flows take the kernel's fast path (Documentation/networking/nf_flowtable.rst).

After its first packets a flow goes from port to port without the chains and without a route lookup. Connection tracking marks it [OFFLOAD],
or [HW_OFFLOAD] where the card forwards it (net/netfilter/nf_conntrack_standalone.c). The mark alone proves nothing: frames that reach the
port in another way, such as over an IFB, still pass the chains. So frames are also counted in the chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dutlab.dut import nft_rules
from dutlab.dut.frames import words_of
from dutlab.dut.linux import LinuxMode
from dutlab.dut.linux_tracking import listed
from dutlab.dut.mode import Check, Mode, Prober, UndoStep
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.testbed import Testbed

_TRIES = 3
"""Attempts to see the fast path: frames of one batch may all pass before the first has added the flow to the table."""
_MARK = {False: "[OFFLOAD]", True: "[HW_OFFLOAD]"}
# A flow in the table cannot be deleted on request (ctnetlink_flush_iterate()); it leaves shortly after the table is removed.
_EMPTIED = """for i in 1 2 3 4 5 6 7 8 9 10; do
{ cat /proc/net/nf_conntrack 2>/dev/null || conntrack -L 2>/dev/null; } | grep -q OFFLOAD] || exit 0
sleep 0.5
done"""


@dataclass(frozen=True)
class Flowtable:
    """Level of the factor, for any mode."""

    hardware: bool

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return why the kernel refuses a flowtable on the test ports; empty if it accepts one."""
        text = nft_rules.fast_path(testbed.ports_of(dut.name), "", hardware=self.hardware)
        done = await dut.run(["nft", "-c", "-f", "-"], stdin=text.encode(), check=False)
        if done.status == 0:
            return []
        lack = (
            "no card here forwards flows itself" if self.hardware else "its kernel needs CONFIG_NFT_FLOW_OFFLOAD, CONFIG_NF_FLOW_TABLE_INET"
        )
        return [f"{dut.name}: no flowtable on its ports: {reason_in(done.errors)}; {lack}"]

    def of(self, mode: Mode) -> Mode:
        """Return the mode with a flowtable. Raises InputError for a mode without a ruleset of dutlab."""
        if not isinstance(mode, LinuxMode) or mode.keeps_own:
            raise InputError(
                f"mode {mode.name} has no flowtable", remedy=f"leave it out: `exclude: [{{mode: {mode.name}, flowtable: software}}]`"
            )
        behaviour = replace(mode.declared.behaviour, tracks=True)
        return FlowtableMode(replace(mode, declared=replace(mode.declared, behaviour=behaviour)), self.hardware)


@dataclass(frozen=True)
class FlowtableMode:
    """Mode with a flowtable. Flows in the table are tracked with any rules of the mode."""

    mode: LinuxMode
    hardware: bool

    @property
    def name(self) -> str:
        """Name of the mode."""
        return self.mode.name

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps of the mode, which remove the table too, and one that waits for its flows to leave. Raises HostError."""
        return [*await self.mode.undo(dut, testbed), UndoStep(dut.name, ("sh", "-c", _EMPTIED), why="no flow takes the fast path any more")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Apply the mode and add the flowtable. Raises CommandFailed, HostError."""
        await self.mode.apply(dut, testbed)
        text = nft_rules.fast_path(testbed.ports_of(dut.name), self.mode.ruleset(testbed), hardware=self.hardware)
        await dut.run(["nft", "-f", "-"], stdin=text.encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the mode, that each link's flow is in the table, and that frames pass without the chain."""
        checks = list(await self.mode.verify(dut, testbed, prober))
        if not all(check.passed for check in checks):
            return checks
        for _ in range(_TRIES):
            of_table = await self._seen(dut, testbed, prober)
            if all(check.passed for check in of_table):
                break
        return [*checks, *of_table]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check the mode, and that the flowtable exists."""
        there = await _slow_frames(dut)
        table = Check("the flowtable exists", there is not None, f"{'none' if there is None else there} frames passed the chain so far")
        return [*await self.mode.checks_of_state(dut, testbed), table]

    async def _seen(self, dut: Host, testbed: Testbed, prober: Prober) -> list[Check]:
        before = await _slow_frames(dut)
        probes = dict(zip(testbed.links, await prober.probe(list(testbed.links)), strict=True))
        after = await _slow_frames(dut)
        checks = []
        for name, of in probes.items():
            entry = "" if of.flow is None else await listed(dut, of.flow)
            if entry is None:
                raise HostError("its tracked flows cannot be listed", host=dut.name, remedy="install conntrack on it")
            what = f"link {name}: the flow is in the flowtable"
            checks.append(Check(what, _MARK[self.hardware] in entry, f"connection tracking lists {entry or 'nothing'}; {words_of(of)}"))
        slow = None if before is None or after is None else after - before
        sent = sum(of.received for of in probes.values())
        text = "the chain has no such rule" if slow is None else f"{slow} of {sent} frames passed the chain"
        return [*checks, Check("frames take the fast path", slow is not None and slow < sent, text)]


async def _slow_frames(dut: Host) -> int | None:
    """Return the number of frames that met the rule for the flowtable; None without the rule."""
    output = (await dut.run(["nft", "list", "chain", "inet", nft_rules.TABLE, "forward"], check=False)).text
    match = re.search(r"counter packets (\d+) bytes \d+ flow (?:add|offload) @fast", output)
    return int(match[1]) if match else None
