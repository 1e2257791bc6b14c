"""Factor `pppoe` of Linux: a mode whose DUT reaches the networks behind it by a PPPoE session (RFC 2516), as a home router does.

pppd(8) on the DUT connects to pppoe-server(8) on the next router of the path; both use the kernel's PPPoE. The session has the addresses of
the cable below it, so rules and masquerade need only another port name. Routes to the networks at the link's ends are split into two halves
each, so that they precede existing routes; they disappear with the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from dutlab.dut.mode import Check, Mode, Prober, TellsState, UndoStep
from dutlab.errors import InputError
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.factors import PPPOE_MTU
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed

_DIALS_S = 120.0
_NEEDED = "CONFIG_PPPOE (modules ppp_generic, pppoe), and the packages ppp and pppoe"
_QUIET = f"noauth noccp noipv6 lcp-echo-interval 0 mtu {PPPOE_MTU} mru {PPPOE_MTU}"
# The program with which the kernel loads modules; in the guest of a lab this is not modprobe.
_LOADED = """m=$(cat /proc/sys/kernel/modprobe 2>/dev/null || true)
"${m:-modprobe}" -a pppoe >/dev/null 2>&1 || true
[ -e /dev/ppp ] && [ -e /proc/net/pppoe ] || { echo its kernel has no PPPoE >&2; exit 1; }
"""
_THERE = "for p in {programs}; do command -v $p >/dev/null || {{ echo it has no $p >&2; exit 1; }}; done\n"
_SERVE = """echo {quiet} ifname {name} linkname {name} >/run/{name}-options
pppoe-server -k -g rp-pppoe.so -I {port} -L {own} -R {other} -N 1 -O /run/{name}-options -X /run/{name}-server.pid
"""
_DIAL = "pppd plugin rp-pppoe.so {port} {own}:{other} {quiet} nodefaultroute linkname {name} ifname {name} maxfail 1 updetach >&2\n"
_END = """p=/run/{pid}
if [ -e $p ]; then kill $(head -n 1 $p) 2>/dev/null || true; fi
i=0
while ip link show dev {port} >/dev/null 2>&1 && [ $i -lt 50 ]; do i=$((i+1)); sleep 0.2; done
rm -f $p /run/{port}-options
"""


@dataclass(frozen=True)
class PppoeSession:
    """PPPoE session of one link."""

    name: str
    """Name of the DUT's new port."""
    link: Link
    below: Port
    """Outer port of the DUT."""
    far: Port
    """Port at the other end of its cable."""

    @property
    def far_name(self) -> str:
        """Name of the new port at the other end."""
        return f"{self.name}s"

    @property
    def addresses(self) -> tuple[str, str]:
        """Address of the DUT, and of the other end."""
        return str(self.link.dut_out_address.ip), str(self.link.dut_out_peer.ip)

    def make(self) -> tuple[str, str]:
        """Return scripts for `sh -e`: one that starts a server for one session at the other end, and one that starts the session."""
        own, other = self.addresses
        serve = _SERVE.format(quiet=_QUIET, name=self.far_name, port=self.far.interface, own=other, other=own)
        dial = _DIAL.format(quiet=_QUIET, name=self.name, port=self.below.interface, own=own, other=other)
        return _LOADED + serve, _LOADED + dial

    def end(self) -> tuple[str, str]:
        """Return scripts for `sh` on the DUT and at the other end that hang up and wait until the port is gone, if it exists."""
        hang_up = _END.format(port=self.name, pid=f"ppp-{self.name}.pid")
        return hang_up, _END.format(port=self.far_name, pid=f"{self.far_name}-server.pid")


@dataclass(frozen=True)
class Pppoe:
    """Level of the factor, for any mode."""

    hosts: Mapping[str, Host] = field(compare=False)

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return why an end cannot have a session; empty if both can."""
        try:
            others = {session.far.host for session in self.sessions(testbed)}
        except InputError as error:
            return [str(error)]
        faults = [f"{name}: no command reaches it, so it has no PPPoE session" for name in sorted(others - self.hosts.keys())]
        for host, programs in ((dut, "pppd"), *((self.hosts[name], "pppd pppoe-server") for name in sorted(others & self.hosts.keys()))):
            script = _LOADED + _THERE.format(programs=programs)
            done = await host.run(["sh"], stdin=script.encode(), check=False)
            if done.status:
                faults.append(f"{host.name}: no PPPoE session: {reason_in(done.errors)}; it needs {_NEEDED}")
        return faults

    def of(self, mode: Mode) -> Mode:
        """Return the mode with PPPoE sessions; any mode can have them."""
        return PppoeMode(mode, self)

    def sessions(self, testbed: Testbed) -> Iterator[PppoeSession]:
        """Yield the session of each link. Raises InputError for a path without a router behind the DUT."""
        for number, link in enumerate(testbed.links.values()):
            far = link.path[link.path.index(link.dut_out) + 1]
            if far.host not in link.forwarders:
                what = f"link {link.name} has no router behind the DUT that could be the other end of its PPPoE session"
                raise InputError(what, remedy="use lab uml-home, or a path of six ports")
            yield PppoeSession(f"dutlab-p{number}", link, link.dut_out, far)

    def through(self, testbed: Testbed) -> Testbed:
        """Return the testbed as the mode sees it: with the new ports in place of those below them."""
        links = {}
        for session in self.sessions(testbed):
            at = session.link.path.index(session.below)
            new = Port(host=session.below.host, interface=session.name), Port(host=session.far.host, interface=session.far_name)
            links[session.link.name] = session.link.model_copy(
                update={"path": (*session.link.path[:at], *new, *session.link.path[at + 2 :])}
            )
        return testbed.model_copy(update={"links": links})


@dataclass(frozen=True)
class PppoeMode:
    """Mode with PPPoE sessions."""

    mode: Mode
    by: Pppoe

    @property
    def name(self) -> str:
        """Name of the mode."""
        return self.mode.name

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps of the mode, and those that end the sessions. Raises HostError."""
        steps = list(await self.mode.undo(dut, self.by.through(testbed)))
        for session in self.by.sessions(testbed):
            hosts, why = (dut.name, session.far.host), "no PPPoE session, as it was found"
            steps += [UndoStep(host, ("sh",), end, why) for host, end in zip(hosts, session.end(), strict=True)]
        return steps

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Start the sessions and apply the mode. Raises CommandFailed, HostError."""
        for session in self.by.sessions(testbed):
            (end, end_far), (make_far, make) = session.end(), session.make()
            other, (own_address, other_address) = self.by.hosts[session.far.host], session.addresses
            await other.run(["sh", "-e"], stdin=f"{end_far}{make_far}".encode())
            beyond = _routes(session.link.sink_address.network, other_address, session.name)
            await dut.run(["sh", "-e"], stdin=f"{end}{make}{beyond}".encode(), timeout_s=_DIALS_S)
            await other.run(["sh", "-e"], stdin=_routes(session.link.source_address.network, own_address, session.far_name).encode())
        await self.mode.apply(dut, self.by.through(testbed))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the mode, and that the new ports sent its frames."""
        before = await _sent(dut)
        checks = list(await self.mode.verify(dut, self.by.through(testbed), prober))
        now = await _sent(dut)
        for session in self.by.sessions(testbed):
            sent = now.get(session.name, 0) - before.get(session.name, 0)
            what = f"link {session.link.name}: frames pass its PPPoE session"
            checks.append(Check(what, session.name in before and sent > 0, f"{session.name} sent {sent} packets"))
        return [*await self._there(dut, testbed), *checks]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check the sessions and the mode."""
        of_mode = await self.mode.checks_of_state(dut, self.by.through(testbed)) if isinstance(self.mode, TellsState) else ()
        return [*await self._there(dut, testbed), *of_mode]

    async def _there(self, dut: Host, testbed: Testbed) -> list[Check]:
        up = await _sent(dut)
        return [
            Check(f"link {of.link.name}: its PPPoE session is up", of.name in up, of.name if of.name in up else "there is none")
            for of in self.by.sessions(testbed)
        ]


def _routes(network: IPv4Network | IPv6Network, via: str, port: str) -> str:
    """Return lines for `sh -e` that route both halves of a network; they retry, because the port gets its address after it is up."""
    words = " && ".join(f"ip route replace {half} via {via} dev {port}" for half in network.subnets())
    return f"i=0\nuntil {{ {words}; }} 2>/dev/null || [ $i -ge 50 ]; do i=$((i+1)); sleep 0.2; done\n{words}\n"


async def _sent(dut: Host) -> dict[str, int]:
    """Return the ports that are up → packets that each has sent. Raises HostError."""
    ports = json.loads((await dut.run(["ip", "-j", "-s", "link"])).text)
    return {port["ifname"]: int(port["stats64"]["tx"]["packets"]) for port in ports if "UP" in port["flags"]}
