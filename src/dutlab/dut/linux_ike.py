"""Linux as the end of ESP tunnels with keys negotiated by IKEv2, by a separate strongSwan at each end: modes `ikev2…`.

Each end starts a daemon (charon-systemd) with the mode and ends it with the mode. Its configuration, socket and output are in a folder
named after its network namespace, which only root can read. So the system's own strongSwan, its secrets, its logs and daemons of other
namespaces are not touched. The daemon writes no log. Words: strongswan.conf(5), swanctl.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dutlab.dut.ipsec import TunnelEndState, fed, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite
from dutlab.dut.linux_ipsec import held, need_esp
from dutlab.dut.mode import Check, UndoStep, network_pairs
from dutlab.dut.strongswan import configuration, initiate
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import CHARON, IP, SWANCTL, UNSHARE, Program
from dutlab.spec.testbed import Testbed

_OURS = "d=/run/dutlab-ike-$(stat -L -c %i /proc/self/ns/net); export STRONGSWAN_CONF=$d/strongswan.conf\n"
_DAEMON = ("sh", "-c", f'{_OURS}exec "$@"', "ike")
"""Prefix that runs a strongSwan program for our daemon."""
# The daemon's own routes would bypass those of the mode, and a policy for the local network would bypass the tunnel.
_CONFIGURE = """umask 077
mkdir "$d" && cat >"$d/strongswan.conf" <<END
charon-systemd {
  install_routes = no
  journal { default = -1 }
  plugins {
    bypass-lan { load = no }
    vici { socket = unix://$d/vici }
  }
}
swanctl { socket = unix://$d/vici }
END
"""
_CHARON = """sh -c 'echo $$ >"$0/pid"; exec charon-systemd' "$d" </dev/null >"$d/said" 2>&1"""
_AWAIT = """
tries=300
until swanctl --stats >/dev/null 2>&1; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || { tail -n 3 "$d/said" >&2; exit 1; }
  sleep 0.1
done
"""
# A daemon that ends on request deletes its associations and informs the other end; one that hangs is killed.
_STOP = """p=$(cat "$d/pid" 2>/dev/null) && is() { [ "$(cat /proc/$p/comm 2>/dev/null)" = charon-systemd ]; } && is && kill $p
tries=50
while [ -n "$p" ] && is; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || kill -9 $p
  sleep 0.1
done
rm -rf "$d"
"""
_AWAY = "ip xfrm policy flush && ip xfrm state flush\n"
# A daemon in a new session outlives the command; the one that is only asked ends with it, even when the command is killed.
_START = f"{_CONFIGURE}setsid -f {_CHARON}{_AWAIT}"
_TRY = f"""d=$(mktemp -d)/ike; export STRONGSWAN_CONF=$d/strongswan.conf
trap '{{ {_STOP}rmdir "${{d%/ike}}"
}}' EXIT
{_CONFIGURE}{_CHARON} &{_AWAIT}"""
_STARTS_S = 60.0
_AGREED = re.compile(r"\bESP:(\S+)")
_PORT_500 = re.compile(r"^\s*\d+: [0-9A-F]+:01F4 ", re.MULTILINE)
"""Line of /proc/net/udp for a socket at the port of IKE (RFC 7296 section 2)."""


@dataclass(frozen=True)
class IkeEnd:
    """Tunnel end (dut/ipsec.py) by strongSwan: the source that initiates, or the router that answers."""

    programs: ClassVar[tuple[Program, ...]] = (CHARON, SWANCTL, IP, UNSHARE)
    suite: Suite
    is_: Literal["source", "dut"] = "source"

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that ends daemon and tunnels. Raises HostError for other tunnels, daemons or a refused cipher; ToolMissing."""
        refuse_own(host, await self.held(host), "`ip xfrm policy flush; ip xfrm state flush`")
        if _PORT_500.search((await host.run(["cat", "/proc/net/udp", "/proc/net/udp6"], check=False)).text):
            raise HostError("another program has UDP port 500, as IKE daemons do", host=host.name, remedy="`systemctl stop strongswan`")
        await self.insist(host, testbed)
        return [UndoStep(host.name, ("sh",), f"{_OURS}{_STOP}{_AWAY}", "no IKE daemon and no tunnel, as it was found")]

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Check that kernel and daemon support the mode. Raises HostError with their message, ToolMissing."""
        await need_esp(host, testbed, self.suite)
        await self.ask_daemon(host, testbed)

    async def ask_daemon(self, host: Host, testbed: Testbed) -> None:
        """Check in a temporary network namespace that a daemon accepts the mode's connections. Raises HostError."""
        asked = configuration(LinkTunnel.all_of(testbed, self.suite), self.suite, self.is_)
        script = f'{_TRY}cat >"$d/asked" && swanctl --load-conns --file "$d/asked"'
        done = await host.run(["unshare", "--net", "sh", "-c", script], stdin=asked.encode(), timeout_s=_STARTS_S, check=False)
        if done.status != 0:
            complaints = [line for line in (done.text + done.errors).strip().splitlines() if "plugin" not in line]
            raise HostError(
                f"its strongSwan refuses mode {self.suite.mode.name}: {'; '.join(complaints)[-300:] or f'status {done.status}'}",
                host=host.name,
                remedy="install one that has the cipher, or leave the mode out",
            )

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Start the daemon; the source also initiates. Raises CommandFailed with strongSwan's message, HostError."""
        await host.run(["sh", "-c", f"{_OURS}{_STOP}{_AWAY}{_START}"], timeout_s=_STARTS_S)
        text = configuration(tunnels, self.suite, self.is_)
        await host.run([*_DAEMON, "sh", "-c", fed('swanctl --load-all --noprompt --file "$f"')], stdin=text.encode())
        if self.is_ == "source":
            await initiate(host, tunnels, daemon=_DAEMON)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that the kernel lists."""
        return await held(host)

    async def agreed(self, host: Host, testbed: Testbed) -> Check:
        """Check the negotiated cipher of every link, as the daemon lists it."""
        ciphers = _AGREED.findall((await host.run([*_DAEMON, "swanctl", "--list-sas"])).text)
        right = ciphers == [self.suite.agreed] * len(testbed.links)
        return Check(f"{host.name}: both ends agreed on {self.suite.agreed}", right, ", ".join(ciphers) or "nothing")

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: three per pair of networks (in, out, forwarded), or two per link between hosts."""
        return 3 * len(list(network_pairs(testbed))) if self.suite.between == "networks" else 2 * len(testbed.links)
