"""VyOS as the end of ESP tunnels, by its `vpn ipsec site-to-site`.

VyOS sets no keys by hand: its configuration supports only IKE, with a pre-shared secret, RSA or certificates (docs.vyos.io, Site-to-Site
VPN), and settings by `ip xfrm` would not be a configuration of VyOS. So both ends negotiate keys by IKEv2 before anything is measured, and
again each hour, and the source needs strongSwan.

Written from the sources of VyOS 1.4 and tested against transcripts that follow them; never run on a machine with VyOS. The strongSwan
configuration that they generate (peer.j2 of vyos-1x) was tested with a source, on a kernel with ESP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dutlab.dut.ipsec import TunnelEndState, own_ipsec, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite, hidden
from dutlab.dut.linux_ipsec import held
from dutlab.dut.mode import UndoStep, network_pairs
from dutlab.dut.privilege import Root
from dutlab.dut.strongswan import IKE_PROPOSAL, called
from dutlab.dut.vyos_config import COMMIT, COMMIT_S, back, holds, script
from dutlab.errors import CommandFailed
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.testbed import Testbed

_TREES = ("vpn ipsec",)
_GROUP = "dutlab"
_IKE_LIFETIME_S = 86400
"""Longest lifetime that VyOS accepts, in seconds."""
_DH_GROUPS = {"ecp256": 19}
"""Name → number of a group in VyOS (RFC 5903)."""


@dataclass(frozen=True)
class VyosEnd:
    """Tunnel end (dut/ipsec.py) of VyOS."""

    programs: ClassVar[tuple[Program, ...]] = ()
    suite: Suite

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove the tunnels.

        Raises HostError when there is a `vpn ipsec`: its secrets would have to be written down to be restored.
        """
        del testbed
        if await holds(host, _TREES[0]):
            raise own_ipsec(host, "`delete vpn ipsec`")
        refuse_own(host, await self.held(host), "`reset vpn ipsec site-to-site all`")
        return back(host, _TREES, [], "no tunnel, as it was found")

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Commit the tunnels. Raises CommandFailed with the message of VyOS, HostError."""
        done = await host.run(COMMIT, stdin=script(_TREES, words(tunnels, self.suite)).encode(), timeout_s=COMMIT_S, check=False)
        if done.status != 0:
            output = hidden(done.errors, tunnels)
            raise CommandFailed(host=host.name, argv=done.argv, status=done.status, stderr_tail=output)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that its Linux kernel lists."""
        return await held(await Root.on(host))

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: one per direction of each pair of networks, and one for forwarded packets.

        `connection-type respond` sets them before the peer has initiated.
        """
        return 3 * len(list(network_pairs(testbed)))


def words(tunnels: Sequence[LinkTunnel], suite: Suite) -> list[str]:
    """Return the DUT's configuration of the tunnels."""
    return [*_groups(suite), *(line for t in tunnels for line in _peer(t))]


def _groups(suite: Suite) -> Iterator[str]:
    encryption, hash_, group = IKE_PROPOSAL.split("-")
    yield f"set vpn ipsec ike-group {_GROUP} key-exchange ikev2"
    yield f"set vpn ipsec ike-group {_GROUP} lifetime {_IKE_LIFETIME_S}"
    yield f"set vpn ipsec ike-group {_GROUP} proposal 1 dh-group {_DH_GROUPS[group]}"
    yield f"set vpn ipsec ike-group {_GROUP} proposal 1 encryption {encryption}"
    yield f"set vpn ipsec ike-group {_GROUP} proposal 1 hash {hash_}"
    encryption, hash_ = suite.ike
    # The lifetime remains the default of an hour. VyOS gives strongSwan a lifetime without a time to rekey. With a lifetime much longer
    # than strongSwan's own hour, strongSwan rekeys at once, again and again (peer.j2; swanctl.conf(5), rand_time).
    yield f"set vpn ipsec esp-group {_GROUP} mode tunnel"
    yield f"set vpn ipsec esp-group {_GROUP} pfs disable"
    yield f"set vpn ipsec esp-group {_GROUP} proposal 1 encryption {encryption}"
    yield f"set vpn ipsec esp-group {_GROUP} proposal 1 hash {hash_}"


def _peer(t: LinkTunnel) -> Iterator[str]:
    source, dut = t.ends
    secret, peer = f"set vpn ipsec authentication psk {called(t.name)}", f"set vpn ipsec site-to-site peer {called(t.name)}"
    yield f"set vpn ipsec interface {t.link.dut_in.interface}"
    yield f"{secret} id {dut}"
    yield f"{secret} id {source}"
    yield f"{secret} secret {t.secret}"
    yield f"{peer} authentication mode pre-shared-secret"
    yield f"{peer} authentication local-id {dut}"
    yield f"{peer} authentication remote-id {source}"
    yield f"{peer} connection-type respond"
    yield f"{peer} ike-group {_GROUP}"
    yield f"{peer} default-esp-group {_GROUP}"
    yield f"{peer} local-address {dut}"
    yield f"{peer} remote-address {source}"
    yield from (f"{peer} tunnel 1 local prefix {far}" for far in t.far)
    yield f"{peer} tunnel 1 remote prefix {t.near}"
