"""Factor `nat64` of Linux: a mode whose sources reach the sinks from IPv6, through a stateless translator (RFC 7915) on the DUT.

The translator is the process tayga(8) on a TUN. Each IPv4 address of a link has one IPv6 address, after the prefix (RFC 6052). The DUT
routes the prefix, and the IPv4 network of each source, into the TUN. So a packet passes the rules twice: as IPv6 from the inner port to the
TUN, and as IPv4 from the TUN to the outer port. A mode with masquerade keeps the state of a stateful NAT64, in the kernel's IPv4.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network, IPv6Network

from dutlab.dut import tunnel_processes
from dutlab.dut.linux import LinuxMode
from dutlab.dut.mode import Check, FormingProber, Mode, Prober, SeenProbe, UndoStep
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import IP, STDBUF, SYSCTL, TASKSET, TAYGA, missing_on
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed
from dutlab.spec.translation import embedded_interface, embedded_network
from dutlab.spec.wire_form import WireForm

PORT = "dutlab-nat64"
"""Name of the TUN."""
_START_S = 40.0
_OWN_IPV4 = "192.0.0.8"
"""Source of the translator's own ICMP errors: the IPv4 dummy address (RFC 7600 section 4.8)."""
_OWN_IPV6 = "fd64:ff9b::8"
_LINK_LOCAL = IPv6Network("fe80::/64")
_IPV6_OFF = "net/ipv6/conf/{}/disable_ipv6"
_LACKS = "[ -c /dev/net/tun ] || echo it has no /dev/net/tun\n[ -e /proc/sys/net/ipv6 ] || echo its kernel has no IPv6\n"


@dataclass(frozen=True)
class _End:
    """One end of a source's cable: its port, with the address that it gets."""

    host: str
    port: str
    addresses: tuple[str, str]
    """Address after the prefix, and a link-local one: without it, Linux does not ask for the neighbour of a forwarded packet."""

    def on(self) -> str:
        """Return lines for `sh -e` that give the port its addresses."""
        port = shlex.quote(self.port)
        lines = [f"sysctl -q -w {_off(self.port)}=0", *(f"ip -6 address replace {of} dev {port} nodad" for of in self.addresses)]
        return "".join(f"{line}\n" for line in lines)

    def off(self, *, disabled: bool) -> str:
        """Return lines for `sh` that remove the addresses, and disable IPv6 if it was `disabled` before."""
        port = shlex.quote(self.port)
        lines = [f"ip -6 address del {of} dev {port} 2>/dev/null || :" for of in self.addresses]
        lines += [f"sysctl -q -e -w {_off(self.port)}=1"] if disabled else []
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Nat64:
    """Level of the factor, for modes with a ruleset of dutlab."""

    prefix: IPv6Network
    hosts: Mapping[str, Host] = field(compare=False)
    cores: Sequence[int] = field(default=(), compare=False)
    """Cores of the DUT's programs; empty: the kernel chooses."""

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return why the DUT cannot translate for the sources; empty if it can. Raises HostError."""
        faults = [str(absent) for absent in await missing_on(dut, [TAYGA, IP, SYSCTL, STDBUF, *([TASKSET] if self.cores else [])])]
        faults += [f"{dut.name}: {line}" for line in (await dut.run(["sh"], stdin=_LACKS.encode())).text.splitlines()]
        for link in testbed.links.values():
            if not isinstance(link.source_address, IPv4Interface):
                faults.append(f"link {link.name} is of IPv6; nat64 needs IPv4 addresses")
            elif link.source != link.facing_dut[0]:
                faults.append(f"link {link.name}: a router is between its source and the DUT, and would need routes to {self.prefix}")
            elif link.source.host not in self.hosts:
                faults.append(f"{link.source.host}: no command reaches it, so it gets no IPv6 address")
        return faults

    def of(self, mode: Mode) -> Mode:
        """Return the mode with a translator. Raises InputError for a mode without a ruleset of dutlab."""
        if not isinstance(mode, LinuxMode) or mode.keeps_own:
            words = f"mode {mode.name}, or a mode with a flowtable, a shaper or PPPoE, has no nat64"
            raise InputError(words, remedy='leave it out, as in `exclude: [{mode: ipsec, nat64: "2001:db8:64::/96"}]`')
        return Nat64Mode(mode, self)

    def rules_of(self, testbed: Testbed) -> Testbed:
        """Return the testbed as the rules of a mode see it: each link as IPv6 into the TUN, and as IPv4 from it."""
        links = dict[str, Link]()
        for name, link in testbed.links.items():
            inner = tuple(embedded_interface(self.prefix, of) for of in link.addresses if isinstance(of, IPv4Interface))
            tun = Port(host=link.dut_in.host, interface=PORT)
            links[f"{name}-ipv6"] = link.model_copy(update={"addresses": inner})  # nothing goes out there, so no masquerade is lost
            links[f"{name}-ipv4"] = link.model_copy(update={"path": tuple(tun if port == link.dut_in else port for port in link.path)})
        return testbed.model_copy(update={"links": links})

    def ends(self, testbed: Testbed) -> list[_End]:
        """Return the ends of each source's cable, the DUT's first."""
        return [
            _End(port.host, port.interface, (str(embedded_interface(self.prefix, address)), f"{_LINK_LOCAL[int(address.ip)]}/64"))
            for link in testbed.links.values()
            for port, address in ((link.dut_in, link.source_gateway), (link.source, link.source_address))
            if isinstance(address, IPv4Interface)
        ]


@dataclass(frozen=True)
class Nat64Mode:
    """Mode with a translator."""

    mode: LinuxMode
    by: Nat64

    @property
    def name(self) -> str:
        """Name of the mode."""
        return self.mode.name

    @property
    def program_names(self) -> Sequence[str]:
        """Name of the DUT's program, as `ps -o comm` prints it."""
        return (TAYGA.name,)

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that end the translator, remove addresses and routes, and undo the mode.

        Raises HostError if a port of the translator's name exists already, or the prefix has a route.
        """
        if (await dut.run(["ip", "link", "show", "dev", PORT], check=False)).status == 0:
            raise HostError(f"it has a port {PORT} already", host=dut.name, remedy=f"end its program, then `ip link del {PORT}`")
        hosts = {name: dut if name == dut.name else self.by.hosts[name] for name in {end.host for end in self.by.ends(testbed)}}
        for host in hosts.values():
            if route := (await host.run(["ip", "-6", "route", "show", "root", str(self.by.prefix)])).text.strip():
                what = f"it has a route to {self.by.prefix} already: {route.splitlines()[0]}"
                raise HostError(what, host=host.name, remedy="write another prefix, or delete the route")
        steps = [UndoStep(dut.name, ("sh",), tunnel_processes.end(TAYGA.name), "no translator, as it was found")]
        why = "no IPv6 address of nat64, as it was found"
        for host in hosts.values():
            ends = list(dict.fromkeys(end for end in self.by.ends(testbed) if end.host == host.name))
            were_off = [await _is_off(host, end.port) for end in ends]
            script = f"ip -6 route flush root {self.by.prefix} 2>/dev/null || :\n"
            script += "".join(end.off(disabled=was) for end, was in zip(ends, were_off, strict=True))
            steps.append(UndoStep(host.name, ("sh",), script, why))
        return [*steps, *await self.mode.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Apply the mode with rules for both sides of the translator, and start it. Raises CommandFailed, HostError."""
        await self.mode.apply(dut, self.by.rules_of(testbed))
        ends = list(dict.fromkeys(self.by.ends(testbed)))
        script = "".join(end.on() for end in ends if end.host == dut.name) + self._start(testbed)
        await dut.run(["sh", "-e"], stdin=script.encode(), timeout_s=_START_S)
        for name in dict.fromkeys(link.source.host for link in testbed.links.values()):
            lines = [end.on() for end in ends if end.host == name and name != dut.name]
            lines += [self._route(link) for link in testbed.links.values() if link.source.host == name]
            await self.by.hosts[name].run(["sh", "-e"], stdin="".join(lines).encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the mode, the version of IP at both ends of the links, and that the TUN carried the frames. Raises HostError."""
        if not isinstance(prober, FormingProber):
            raise HostError("the mode cannot be verified without the engine's frames", host=dut.name)
        recorder, before = _Recorder(prober.through(WireForm(nat64=self.by.prefix))), await _carried(dut)
        checks = list(await self.mode.verify(dut, testbed, recorder))
        checks += await self._running(dut)
        after = await _carried(dut)
        into, out_of = (now - then for now, then in zip(after, before, strict=True))
        came = sum(of.received for of in recorder.seen)
        what = f"{into} packets went into {PORT} and {out_of} came out, for {came} frames that arrived"
        versions = {(of.flow.source.version, 6 if ":" in of.source_seen else 4) for of in recorder.seen if of.flow and of.source_seen}
        words = ", ".join(f"sent as IPv{sent}, received as IPv{seen}" for sent, seen in sorted(versions)) or "no frame arrived"
        return [
            *checks,
            Check("frames leave as one version of IP and arrive as the other", versions in ({(6, 4)}, {(4, 6), (6, 4)}), words),
            Check("the translator carried the frames", 0 < came <= min(into, out_of), what),
        ]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check the mode, and that the translator runs."""
        return [*await self.mode.checks_of_state(dut, testbed), *await self._running(dut)]

    async def _running(self, dut: Host) -> list[Check]:
        script = f'{tunnel_processes.folder(TAYGA.name)}kill -0 "$(cat "$d/{PORT}.pid")" && head -n 1 "$d/{PORT}.said"'
        done = await dut.run(["sh"], stdin=script.encode(), check=False)
        return [Check("the translator runs", done.status == 0, done.text.strip() or "it has ended")]

    def _start(self, testbed: Testbed) -> str:
        """Return lines for `sh -e` that start the translator and route to it."""
        config = f"tun-device {PORT}\nipv4-addr {_OWN_IPV4}\nipv6-addr {_OWN_IPV6}\nprefix {self.by.prefix}\n"
        pinned = f"{TASKSET.name} -c {','.join(map(str, self.by.cores))} " if self.by.cores else ""
        program = f"{pinned}{STDBUF.name} -oL"  # by lines, so that a check can read the version
        routes = [f"ip -6 route add {self.by.prefix} dev {PORT}"]
        for network in dict.fromkeys(link.source_address.network for link in testbed.links.values()):
            if isinstance(network, IPv4Network):  # both halves, so that they precede the route of the port
                routes += [f"ip route add {half} dev {PORT}" for half in network.subnets()]
        return (
            f"{tunnel_processes.end(TAYGA.name)}{tunnel_processes.folder(TAYGA.name)}"
            f'mkdir -m 700 "$d"\ncat >"$d/tayga.conf" <<end\n{config}end\n'
            + tunnel_processes.start(PORT, program, f'{TAYGA.name} -d -c "$d/tayga.conf"')
            + tunnel_processes.until(PORT, f"ip link set dev {PORT} up 2>/dev/null")
            + f"sysctl -q -w {_off(PORT)}=0 net/ipv6/conf/{PORT}/forwarding=1 net/ipv4/conf/{PORT}/rp_filter=0\n"
            + "".join(f"{line}\n" for line in routes)
        )

    def _route(self, link: Link) -> str:
        """Return a line for `sh -e` that routes the sink's network, as IPv6, from the source to the DUT."""
        gateway, sink = link.source_gateway, link.sink_address.network
        if not isinstance(gateway, IPv4Interface) or not isinstance(sink, IPv4Network):
            return ""  # faults() refuses such a link
        to, via = embedded_network(self.by.prefix, sink), embedded_interface(self.by.prefix, gateway).ip
        return f"ip -6 route replace {to} via {via} dev {shlex.quote(link.source.interface)}\n"


@dataclass
class _Recorder:
    """Prober that keeps the probes that arrived."""

    prober: Prober
    seen: list[SeenProbe] = field(default_factory=list)

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Probe, and keep the results."""
        probes = await self.prober.probe(links, reverse=reverse)
        self.seen += probes
        return probes


def _off(port: str) -> str:
    """Return the key of sysctl(8) that disables IPv6 on a port, quoted for the shell."""
    return shlex.quote(_IPV6_OFF.format(port))


async def _is_off(host: Host, port: str) -> bool:
    return (await host.run(["cat", f"/proc/sys/{_IPV6_OFF.format(port)}"], check=False)).text.strip() == "1"


async def _carried(dut: Host) -> tuple[int, int]:
    """Return the packets that the kernel gave to the translator, and those that it took from it; 0 if it has ended. Raises HostError."""
    counters = [f"/sys/class/net/{PORT}/statistics/{way}_packets" for way in ("tx", "rx")]
    done = await dut.run(["cat", *counters], check=False)
    into, out_of = done.text.split() if done.status == 0 else ("0", "0")
    return int(into), int(out_of)
