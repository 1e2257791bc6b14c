"""Family `linux`: a Linux machine or namespace as router, firewall and tunnel end, by forwarding, nftables, conntrack and XFRM.

`dut/nft_rules.py` has the rulesets of the modes; this module applies, verifies and undoes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dutlab.dut import linux_state as state
from dutlab.dut import nft_rules
from dutlab.dut.frames import frame_checks
from dutlab.dut.ipsec import ipsec_modes
from dutlab.dut.ipsec_rules import IKE_BETWEEN_HOSTS, IKE_SUITES, REQUIRED, XFRM_SUITES
from dutlab.dut.l3fwd import L3fwd
from dutlab.dut.linux_bridge import bridge_modes
from dutlab.dut.linux_ike import IkeEnd
from dutlab.dut.linux_ipsec import RequiringEnd, XfrmEnd
from dutlab.dut.linux_openvpn import openvpn_modes
from dutlab.dut.linux_reset import RESETS
from dutlab.dut.linux_tracking import ASKS_KERNEL, forget_flows, is_tracked, limit_check
from dutlab.dut.linux_tunnels import tunnel_modes
from dutlab.dut.linux_wireguard import wireguard_modes
from dutlab.dut.linux_xdp import detach_ours, xdp_modes
from dutlab.dut.mode import Check, Family, Mode, OfFlows, Prober, UndoStep
from dutlab.dut.ovs import OpenVswitch
from dutlab.dut.testpmd import Testpmd
from dutlab.dut.user_space import ForwardingProgram, modes_of_programs
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import NFT, SYSCTL, Program
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes


@dataclass(frozen=True)
class LinuxMode(OfFlows):
    """Mode of nftables: its ruleset, and the behaviour that frames must show."""

    ruleset: Callable[[Testbed], str]
    keeps_own: bool = False
    """True if the mode adds its rules after those of the system's own ruleset."""

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that the DUT needs."""
        return {"dut": (NFT, SYSCTL, *([ASKS_KERNEL] if self.declared.behaviour.tracks else []))}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that put ruleset and forwarding back. Raises HostError when the present ruleset could not be restored."""
        del testbed  # the modes change the same settings on every testbed
        return await state.read_undo(dut)

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set forwarding and ruleset. Raises CommandFailed, HostError."""
        if self.keeps_own:
            await _insist_on_own(dut, self.name)
        await state.forward_and_filter(dut, self.ruleset(testbed))
        await detach_ours(dut, testbed)
        if self.keeps_own:
            chains = (await dut.run(["nft", "list", "chains"])).text
            await dut.run(["nft", "-f", "-"], stdin=nft_rules.passes(testbed, nft_rules.forward_chains(chains)).encode())
        if self.declared.behaviour.tracks:  # a tracked flow would keep the verdict of the earlier rules
            await forget_flows(dut)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check forwarding, both directions of every link, the source address at the sink, and connection tracking."""
        frames = await frame_checks(testbed, prober, self.declared.behaviour, lambda flow: is_tracked(dut, flow))
        return [*await self.checks_of_state(dut, testbed), *frames]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check forwarding, that only nftables filters, and the limit of connection tracking in modes that track."""
        del testbed
        on = await state.forwards(dut)
        tables = await state.legacy_tables(dut)
        return [
            Check("the DUT forwards IPv4", on, f"net.ipv4.ip_forward is {int(on)}"),
            Check("no rules outside nftables", not tables, f"iptables-legacy tables: {' '.join(tables) or 'none'}"),
            *([await limit_check(dut, self.flows)] if self.declared.behaviour.tracks else []),
        ]


async def _insist_on_own(dut: Host, mode: str) -> None:
    """Check that the system has a ruleset file. Raises HostError."""
    if (await dut.run(["test", "-r", nft_rules.OWN], check=False)).status:
        raise HostError(f"it has no ruleset in {nft_rules.OWN}", host=dut.name, remedy=f"leave mode {mode} out")


_MODES = (
    LinuxMode(modes.ROUTER, lambda _: nft_rules.no_ruleset()),
    LinuxMode(modes.FILTER_EMPTY, lambda _: nft_rules.filter_empty()),
    LinuxMode(modes.FILTER_1, lambda testbed: nft_rules.filters(testbed, 1)),
    LinuxMode(modes.FILTER_25, lambda testbed: nft_rules.filters(testbed, 25)),
    LinuxMode(modes.FILTER_DEFAULT, nft_rules.filter_default),
    LinuxMode(modes.FILTER_OWN, lambda _: nft_rules.own(), keeps_own=True),
    LinuxMode(modes.NAT, nft_rules.nat),
    LinuxMode(modes.NAT_OPEN, nft_rules.nat_open),
)


_PROGRAMS: Mapping[modes.DeclaredMode, ForwardingProgram] = {
    modes.OVS_SWITCH: OpenVswitch("switch"),
    modes.OVS_ROUTER: OpenVswitch("route"),
    modes.OVS_ROUTER_POLLING: OpenVswitch("route", polls=True),
    modes.OVS_FILTER: OpenVswitch("filter"),
    modes.TESTPMD_IO: Testpmd("io"),
    modes.TESTPMD_MAC: Testpmd("mac"),
    modes.L3FWD_LPM: L3fwd("lpm"),
    modes.L3FWD_FIB: L3fwd("fib"),
    modes.L3FWD_XDP: L3fwd("lpm", "xdp"),
}


def ruleset_of(mode: str, testbed: Testbed) -> str:
    """Return the ruleset of a mode of nftables."""
    return next(of.ruleset(testbed) for of in _MODES if of.name == mode)


def _other_modes(hosts: Mapping[str, Host]) -> Mapping[str, Mode]:
    """Return modes that depend on the run: tunnels, whose other end is another host, bridges, XDP, and forwarding programs."""
    encrypted = ipsec_modes(_MODES[0], hosts, lambda suite: XfrmEnd(suite, "router"), XfrmEnd, XFRM_SUITES)
    agreed = ipsec_modes(_MODES[0], hosts, lambda suite: IkeEnd(suite, "dut"), IkeEnd, IKE_SUITES)
    required = ipsec_modes(_MODES[0], hosts, RequiringEnd, XfrmEnd, (REQUIRED,))
    dut, source = (partial(IkeEnd, is_=is_) for is_ in ("dut", "source"))
    host_to_host = ipsec_modes(_MODES[0], hosts, dut, source, (IKE_BETWEEN_HOSTS,))
    mode_by_name = encrypted | agreed | required | host_to_host
    for make in (tunnel_modes, wireguard_modes, openvpn_modes):
        mode_by_name |= make(_MODES[0], hosts)
    return mode_by_name | modes_of_programs(_PROGRAMS) | bridge_modes() | xdp_modes(_MODES[0])


FAMILY = Family("linux", {mode.name: mode for mode in _MODES}, RESETS, _other_modes)
