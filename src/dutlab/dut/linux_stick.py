"""Factor `vlan` of Linux: a mode whose DUT is a router on a stick. Both networks of a link are VLANs (IEEE 802.1Q) on one cable.

The cable is that of the source, whose port sends and receives all frames; the sink's cable carries none. So no switch is needed. The DUT's
inner port gets two ports of VLANs. They have the addresses of the DUT's two ports, so rules and masquerade need only other port names.
Routes to both networks are split into two halves each, so that they precede the existing routes. The source's port is the neighbour in
both VLANs, by fixed entries: its kernel needs no VLAN. All this disappears with the ports.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dutlab.dut.frames import ProbeRecorder
from dutlab.dut.linux_nat64 import Nat64Mode
from dutlab.dut.linux_pppoe import PppoeMode
from dutlab.dut.mode import Check, FormingProber, Mode, Prober, SeenProbe, TellsState, UndoStep
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Host
from dutlab.hosts.neighbours import mac_of_port
from dutlab.spec.fields import Address
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed
from dutlab.spec.wire_form import WireForm

# The program with which the kernel loads modules; in the guest of a lab this is not modprobe.
_LOADED = """m=$(cat /proc/sys/kernel/modprobe 2>/dev/null || true)
"${m:-modprobe}" -a 8021q >/dev/null 2>&1 || true
[ -e /proc/net/vlan/config ]
"""
_OPTION = "CONFIG_VLAN_8021Q (module 8021q)"


@dataclass(frozen=True)
class _Tagged:
    """Port of one VLAN, towards one end of a link."""

    name: str
    below: str
    vlan: int
    own: Address
    """Address of the DUT in this network."""
    end: Address
    """Address of the end."""

    def make(self, mac: str) -> str:
        """Return lines for `sh -e` that make the port; `mac` is the end's."""
        network: IPv4Network | IPv6Network = self.own.network
        routes = "".join(f"ip route replace {half} dev {self.name}\n" for half in network.subnets())
        at_once = "" if self.own.version == 4 else " nodad"  # noqa: PLR2004 - the version number of the protocol itself
        return (
            f"{self.delete}ip link add link {shlex.quote(self.below)} name {self.name} type vlan id {self.vlan}\n"
            f"ip address add {self.own.ip}/{self.own.max_prefixlen} dev {self.name}{at_once}\nip link set dev {self.name} up\n"
            f"ip neighbour replace {self.end.ip} lladdr {mac} dev {self.name} nud permanent\n{routes}"
        )

    @property
    def delete(self) -> str:
        """Line for `sh` that deletes the port, if it exists."""
        return f"ip link del dev {self.name} 2>/dev/null || :\n"


@dataclass(frozen=True)
class Stick:
    """Level of the factor, for any mode that forwards in the kernel."""

    inner: int
    """VLAN of the source's network."""
    outer: int
    """VLAN of the sink's network."""
    hosts: Mapping[str, Host] = field(compare=False)

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return why the DUT cannot have both networks on one port; empty if it can. Raises HostError."""
        faults = list[str]()
        if (await dut.run(["sh"], stdin=_LOADED.encode(), check=False)).status:
            faults.append(f"{dut.name}: its kernel has no ports of VLANs; it needs {_OPTION}")
        for link in testbed.links.values():
            if link.source != link.facing_dut[0]:
                faults.append(f"link {link.name}: a machine is between its source and the DUT; both ends must be on the DUT's own cable")
            elif link.source.host not in self.hosts:
                faults.append(f"{link.source.host}: no command reaches it, so the MAC of its port cannot be read")
        return faults

    def of(self, mode: Mode) -> Mode:
        """Return the mode on a stick. Raises InputError for a mode with a session or a translator, whose ends are on both cables."""
        if isinstance(mode, (PppoeMode, Nat64Mode)):
            words = f"mode {mode.name} has pppoe or nat64 on, and vlan moves the ends that they need"
            raise InputError(words, remedy='leave it out, as in `exclude: [{pppoe: "on", vlan: 10 20}]`')
        return StickMode(mode, self)

    def ports(self, testbed: Testbed) -> Iterator[tuple[Link, _Tagged, _Tagged]]:
        """Yield each link with its two ports of VLANs, towards the source and towards the sink."""
        for number, link in enumerate(testbed.links.values()):
            below = link.dut_in.interface
            yield (
                link,
                _Tagged(f"dutlab-v{number}i", below, self.inner, link.source_gateway, link.source_address),
                _Tagged(f"dutlab-v{number}o", below, self.outer, link.sink_gateway, link.sink_address),
            )

    def through(self, testbed: Testbed) -> Testbed:
        """Return the testbed as the mode sees it: with the ports of VLANs in place of the DUT's ports."""
        links = {}
        for link, *tagged in self.ports(testbed):
            new = {old: Port(host=old.host, interface=of.name) for old, of in zip(link.dut_ports, tagged, strict=True)}
            links[link.name] = link.model_copy(update={"path": tuple(new.get(port, port) for port in link.path)})
        return testbed.model_copy(update={"links": links})


@dataclass(frozen=True)
class StickMode:
    """Mode with both networks of each link on one port."""

    mode: Mode
    by: Stick

    @property
    def name(self) -> str:
        """Name of the mode."""
        return self.mode.name

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps of the mode, and one that deletes the ports of VLANs. Raises HostError if one exists already."""
        ports = [of for _, *tagged in self.by.ports(testbed) for of in tagged]
        for of in ports:
            if (await dut.run(["ip", "link", "show", "dev", of.name], check=False)).status == 0:
                raise HostError(f"it has a port {of.name} already", host=dut.name, remedy=f"`ip link del {of.name}`")
        step = UndoStep(dut.name, ("sh",), "".join(of.delete for of in ports), "no port of a VLAN, as it was found")
        return [*await self.mode.undo(dut, self.by.through(testbed)), step]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Make the ports and apply the mode. Raises CommandFailed, HostError."""
        for link, *tagged in self.by.ports(testbed):
            mac = await mac_of_port(self.by.hosts[link.source.host], link.source)
            await dut.run(["sh", "-e"], stdin="".join(of.make(mac) for of in tagged).encode())
        await self.mode.apply(dut, self.by.through(testbed))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the mode with tagged frames, and that the ports of both VLANs carried them. Raises HostError."""
        if not isinstance(prober, FormingProber):
            raise HostError("the mode cannot be verified without the engine's frames", host=dut.name)
        recorder, before = ProbeRecorder(prober.through(WireForm(vlans=(self.by.inner, self.by.outer)))), await self._carried(dut, testbed)
        checks = list(await self.mode.verify(dut, self.by.through(testbed), recorder))
        now = await self._carried(dut, testbed)
        for link, inner, outer in self.by.ports(testbed):
            grown = {way: now[way] - before[way] for way in now}
            past = grown[link.dut_out.interface, "tx"]
            there, back = (_arrived_at(end.ip, recorder.seen) for end in (link.sink_address, link.source_address))
            # Ports also count packets of the DUT itself, such as those with which IPv6 looks for routers.
            passed = 0 < there <= min(grown[inner.name, "rx"], grown[outer.name, "tx"]) and past < there
            answered = back <= min(grown[outer.name, "rx"], grown[inner.name, "tx"])
            words = ", ".join(f"{grown[of.name, 'rx']} came in and {grown[of.name, 'tx']} left VLAN {of.vlan}" for of in (inner, outer))
            words = f"{words}, {past} left {link.dut_out.interface}, for {there} frames that arrived there and {back} back"
            checks.append(Check(f"link {link.name}: its frames pass both VLANs of {inner.below}", passed and answered, words))
        return [*await self._there(dut, testbed), *checks]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check the ports of VLANs, and the mode."""
        of_mode = await self.mode.checks_of_state(dut, self.by.through(testbed)) if isinstance(self.mode, TellsState) else ()
        return [*await self._there(dut, testbed), *of_mode]

    async def _there(self, dut: Host, testbed: Testbed) -> list[Check]:
        checks = []
        for _, *tagged in self.by.ports(testbed):
            for of in tagged:
                done = await dut.run(["ip", "-d", "link", "show", "dev", of.name, "up"], check=False)
                found = f"protocol 802.1Q id {of.vlan} "
                holds = f"{of.name}@{of.below}:" in done.text and found in done.text
                checks.append(Check(f"{of.name}: VLAN {of.vlan} of {of.below}", holds, found.strip() if holds else "it is not there"))
        return checks

    async def _carried(self, dut: Host, testbed: Testbed) -> Mapping[tuple[str, str], int]:
        """Return (port, rx or tx) → packets of the ports of VLANs, and of the outer ports. Raises HostError."""
        ports = [name for link, inner, outer in self.by.ports(testbed) for name in (inner.name, outer.name, link.dut_out.interface)]
        ways = [(name, way) for name in dict.fromkeys(ports) for way in ("rx", "tx")]
        text = (await dut.run(["cat", *(f"/sys/class/net/{name}/statistics/{way}_packets" for name, way in ways)])).text
        return dict(zip(ways, map(int, text.split()), strict=True))


def _arrived_at(end: IPv4Address | IPv6Address, seen: Iterable[SeenProbe]) -> int:
    """Return the number of frames that were sent to an end of a link and arrived."""
    return sum(of.received for of in seen if of.flow is not None and of.flow.destination == end)
