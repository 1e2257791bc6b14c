"""Modes `bridge…` of Linux: the two test ports of each link joined below IP, by ip-link(8) and nftables of family bridge.

Two things prove the mode: frames to the MAC address of the sink pass, which only a bridge forwards, and each bridge has learnt addresses at
both of its ports. Where the kernel has br_netfilter, it also passes bridged packets to the rules for IP; these modes turn that off.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.dut import linux_state as state
from dutlab.dut import nft_rules
from dutlab.dut.frames import frame_checks
from dutlab.dut.linux_tracking import is_tracked
from dutlab.dut.linux_xdp import link_ports
from dutlab.dut.mode import Check, Mode, OfRecord, Prober, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import IP, NFT, SYSCTL, Program
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import BRIDGE, BRIDGE_FILTER_25

_BRIDGE = Program("bridge", "iproute2")
_HANDED_OVER = tuple(f"net/bridge/bridge-nf-call-{family}tables" for family in ("ip", "ip6", "arp"))
_READ_HANDED_OVER = f"cd /proc/sys && for f in {' '.join(_HANDED_OVER)}; do [ -r $f ] && echo $f=$(cat $f); done; true"


@dataclass(frozen=True)
class BridgeMode(OfRecord):
    """Mode with one bridge per link, and the rules in it."""

    ruleset: Callable[[Testbed], str]

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that the DUT needs."""
        return {"dut": (IP, _BRIDGE, NFT, SYSCTL)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove the bridges. Raises HostError when the present ruleset could not be restored."""
        there = {str(port["ifname"]): port for port in json.loads((await dut.run(["ip", "-j", "link"])).text)}
        new = [name for name, _ in named_bridges(testbed) if name not in there]
        script = "".join(f"ip link del {name} 2>/dev/null || true\n" for name in new)
        for port in (there[name] for name in link_ports(testbed) if name in there):
            name, master = port["ifname"], port.get("master", "")
            script += f"ip link set dev {name} {f'master {master}' if master else 'nomaster'}\n"
            script += "" if "UP" in port["flags"] else f"ip link set dev {name} down\n"
        steps = [UndoStep(dut.name, ("sh",), script, "no bridge, as it was found"), *await state.read_undo(dut)]
        if keys := (await dut.run(["sh", "-c", _READ_HANDED_OVER])).text.split():
            steps.append(UndoStep(dut.name, ("sysctl", "-q", "-e", "-w", *keys), "", "rules for bridged packets as they were found"))
        return steps

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Load the ruleset and make the bridges. Raises CommandFailed."""
        await dut.run(["nft", "-f", "-"], stdin=self.ruleset(testbed).encode())
        await dut.run(["sh", "-e"], stdin="".join(f"{line}\n" for line in _words(testbed)).encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check both directions of every link without tracking, and the addresses that the bridges learnt."""
        frames = await frame_checks(testbed, prober, self.declared.behaviour, lambda flow: is_tracked(dut, flow))
        learnt = await _learnt(dut)
        bridge_checks = [
            Check(f"link {name}: the bridge learnt addresses at both ports", all(ports.values()), _counts(ports))
            for name, link in testbed.links.items()
            for ports in ({port.interface: learnt[port.interface] for port in (link.dut_in, link.dut_out)},)
        ]
        return [*await self.checks_of_state(dut, testbed), *frames, *bridge_checks]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check that the two ports of each link are in one bridge and forward."""
        ports = {str(port["ifname"]): port for port in json.loads((await dut.run(["bridge", "-j", "link"])).text)}
        return [_joined(name, link, ports) for name, link in testbed.links.items()]


def named_bridges(testbed: Testbed) -> Iterator[tuple[str, Link]]:
    """Return the name of the bridge of each link, and the link."""
    return ((f"dutlab-b{number}", link) for number, link in enumerate(testbed.links.values()))


def _words(testbed: Testbed) -> Iterator[str]:
    """Yield lines for `sh -e`. Bridges of another bridge mode are kept."""
    yield f"cd /proc/sys; for f in {' '.join(_HANDED_OVER)}; do [ ! -e $f ] || echo 0 >$f; done"
    for name, link in named_bridges(testbed):
        yield f"ip link show dev {name} >/dev/null 2>&1 || ip link add name {name} type bridge stp_state 0 mcast_snooping 0"
        yield f"ip link set dev {name} addrgenmode none 2>/dev/null || true"  # no IPv6 packets from the bridge itself
        for port in (link.dut_in, link.dut_out):
            yield f"ip link set dev {port.interface} master {name}"
            yield f"ip link set dev {port.interface} up"
        yield f"ip link set dev {name} up"


def _joined(name: str, link: Link, ports: Mapping[str, Mapping[str, Any]]) -> Check:
    ours = [ports.get(port.interface, {}) for port in (link.dut_in, link.dut_out)]
    masters, states = [str(port.get("master", "none")) for port in ours], [str(port.get("state", "none")) for port in ours]
    one = masters[0] == masters[1] != "none" and set(states) == {"forwarding"}
    return Check(f"link {name}: its two ports are in one bridge", one, f"bridges {', '.join(masters)}; {', '.join(states)}")


async def _learnt(dut: Host) -> Counter[str]:
    """Return port → number of addresses (MAC) that a bridge has learnt there. Raises CommandFailed, HostError."""
    try:
        entries = json.loads((await dut.run(["bridge", "-j", "fdb", "show"])).text or "[]")
        return Counter(
            str(entry["ifname"]) for entry in entries if "master" in entry and entry.get("state", "") not in {"permanent", "static"}
        )
    except (ValueError, TypeError, KeyError) as e:
        raise HostError("`bridge -j fdb` printed unreadable output", host=dut.name, remedy="install a newer iproute2") from e


def _counts(ports: Mapping[str, int]) -> str:
    return ", ".join(f"{port}: {count}" for port, count in ports.items())


def bridge_modes() -> dict[str, Mode]:
    """Return the bridge modes: without rules, and with those of RFC 2544 section 11.4."""
    rules = {BRIDGE: lambda _: nft_rules.no_ruleset(), BRIDGE_FILTER_25: lambda testbed: nft_rules.bridge_filters(testbed, 25)}
    return {mode.name: BridgeMode(mode, ruleset) for mode, ruleset in rules.items()}
