"""Linux source with tunnels whose keys are negotiated by IKEv2, through strongSwan's swanctl(8): for a DUT without static keys.

The ends authenticate with a secret that is new for each application. swanctl reads it only from a file (it treats a pipe as empty), which
is deleted with the command. Words: swanctl.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dutlab.dut.ipsec import TunnelEndState, fed, own_ipsec, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite
from dutlab.dut.linux_ipsec import held, need_esp
from dutlab.dut.mode import UndoStep, network_pairs
from dutlab.errors import CommandFailed, ToolMissing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import IP, SWANCTL, UNSHARE, Program
from dutlab.spec.testbed import Testbed

IKE_PROPOSAL = "aes128-sha256-ecp256"
"""Protection of the key exchange itself, which is not measured."""
_CONNECTION = re.compile(r"^\S+: IKEv", re.MULTILINE)
_INITIATE_S = 20


@dataclass(frozen=True)
class StrongswanEnd:
    """Tunnel end (dut/ipsec.py) of a Linux source, by the system's strongSwan."""

    programs: ClassVar[tuple[Program, ...]] = (SWANCTL, IP, UNSHARE)
    suite: Suite

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that removes the tunnels.

        Raises HostError when there are connections or tunnels, or the kernel cannot encrypt; ToolMissing when no strongSwan answers.
        """
        listed = await host.run(["swanctl", "--list-conns"], check=False)
        if listed.status != 0:
            raise ToolMissing(
                "strongSwan does not answer, and the DUT takes no fixed keys", tool="swanctl", host=host.name,
                remedy="install and start it there (Debian: apt install strongswan-swanctl charon-systemd)",
            )  # fmt: skip
        if _CONNECTION.search(listed.text):
            raise own_ipsec(host, "`swanctl --load-conns --file /dev/null`")
        refuse_own(host, await self.held(host), "`swanctl --terminate …`, `ip xfrm policy flush; ip xfrm state flush`")
        await self.insist(host, testbed)
        return [self.away(host, testbed)]

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Check that the kernel can encrypt so. Raises HostError with its message, ToolMissing without unshare(1)."""
        await need_esp(host, testbed, self.suite)

    def away(self, host: Host, testbed: Testbed) -> UndoStep:
        """Return the step that removes our connections and secrets; strongSwan then reads the secrets in its files again."""
        # A connection that is not up cannot be terminated, which is not a fault.
        ends = [f"swanctl --terminate --ike {called(name)} --force --timeout 5" for name in testbed.links]
        script = "; ".join([*ends, "swanctl --load-conns --file /dev/null && swanctl --load-creds --clear"])
        return UndoStep(host.name, ("sh", "-c", script), "", "no tunnel, as it was found")

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Load the configuration and initiate. Raises CommandFailed with strongSwan's message, HostError."""
        text = configuration(tunnels, self.suite)
        await host.run(["sh", "-c", fed('swanctl --load-all --noprompt --file "$f"')], stdin=text.encode())
        await initiate(host, tunnels)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that the kernel lists."""
        return await held(host)

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: one per direction of each pair of networks, and one for forwarded packets."""
        return 3 * len(list(network_pairs(testbed)))


def called(link: str) -> str:
    """Return the name of a link's connection at both ends."""
    return f"dutlab-{link}"


async def initiate(host: Host, tunnels: Sequence[LinkTunnel], *, daemon: Sequence[str] = ()) -> None:
    """Have the source's daemon initiate; `daemon` is the prefix for commands to it. Raises CommandFailed with strongSwan's message."""
    for t in tunnels:
        argv = [*daemon, "swanctl", "--initiate", "--child", called(t.name), "--timeout", str(_INITIATE_S)]
        done = await host.run(argv, timeout_s=_INITIATE_S + 10.0, check=False)
        if done.status != 0:
            notified = [line for line in done.text.splitlines() if " notify" in line]  # answer of the other end (RFC 7296 section 3.10)
            message = notified[-1] if notified else done.errors + done.text
            raise CommandFailed(host=host.name, argv=argv, status=done.status, stderr_tail=message)


def configuration(tunnels: Sequence[LinkTunnel], suite: Suite, side: Literal["source", "dut"] = "source") -> str:
    """Return the configuration of one side, for `swanctl --load-all`: tunnel mode between networks, transport mode between hosts."""
    connections = "".join(_connection(t, suite, side, "tunnel" if suite.between == "networks" else "transport") for t in tunnels)
    return f"connections {{\n{connections}}}\nsecrets {{\n{''.join(map(_secret, tunnels))}}}\n"


def _connection(t: LinkTunnel, suite: Suite, side: str, mode: str) -> str:
    source, dut = (t.ends[0], t.near), (t.ends[1], ",".join(t.far))
    (own, inside), (other, outside) = (source, dut) if side == "source" else (dut, source)
    return f"""  {called(t.name)} {{
    version = 2
    local_addrs = {own}
    remote_addrs = {other}
    proposals = {IKE_PROPOSAL}
    rekey_time = 0
    mobike = no
    local {{
      auth = psk
      id = {own}
    }}
    remote {{
      auth = psk
      id = {other}
    }}
    children {{
      {called(t.name)} {{
        mode = {mode}
        local_ts = {inside}
        remote_ts = {outside}
        esp_proposals = {"-".join(filter(None, suite.ike))}
        rekey_time = 0
      }}
    }}
  }}
"""


def _secret(t: LinkTunnel) -> str:
    source, dut = t.ends
    return f"""  ike-{called(t.name)} {{
    id-source = {source}
    id-dut = {dut}
    secret = {t.secret}
  }}
"""
