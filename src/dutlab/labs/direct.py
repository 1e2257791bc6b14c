"""The rig without the DUT, in a lab that exists: for each link a second cable, from source directly to sink.

The addresses are of the networks that RFC 5737 reserves for documentation. No lab or workload uses these, so the lab itself is not changed;
the networks of RFC 2544's appendix C (198.18.0.0/15) are for labs and traffic. The sink handles frames on the DUT's cores, as in the lab,
where the DUT's NAPI threads deliver each frame to the sink.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface, IPv4Network

from dutlab.ending import closing, ended_by
from dutlab.errors import HostError, LabError
from dutlab.hosts.host import Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs import napi, recipe
from dutlab.labs.lab import Lab
from dutlab.labs.state import StateFolder
from dutlab.spec.lab_files import description
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed

_HERE, _THERE = IPv4Network("192.0.2.0/24"), IPv4Network("203.0.113.0/24")
"""Networks at the source and at the sink (TEST-NET-1 and TEST-NET-3); each link gets a subnet of both."""
_PREFIX = 29


@asynccontextmanager
async def direct_links(lab: Lab) -> AsyncIterator[Testbed]:
    """Yield a testbed with the lab's links without the DUT, under the same names. Raises LabError.

    The paths name the lab's ports of the DUT, but nothing is sent there.
    """
    testbed = direct_testbed(lab.testbed)
    machine, hosts, cabled = LocalHost("lab"), lab.hosts(), _cabled(testbed)
    if apart := [name for name in cabled if name in description(lab.testbed.lab or "").settings.guests]:
        raise LabError(f"lab {lab.label}: {', '.join(apart)} has its own kernel: no cable leads from there past the DUT to the sink")
    async with closing(*hosts.values()), ended_by(lambda: _remove(machine, lab, testbed)):
        try:
            await _remove(machine, lab, testbed)
            await machine.run(["ip", "-batch", "-"], stdin=_cables(testbed, lab.namespaces).encode())
            for name in cabled:
                await hosts[name].run(["sh", "-e"], stdin=_setup(testbed, name).encode())
                await hosts[name].run(["sh"], stdin=recipe.queue_script(testbed, name).encode(), check=False)
            await _threads(lab, testbed, hosts)
            for name in cabled:
                await hosts[name].run(["sh", "-e"], stdin=recipe.carrier_script(testbed, name).encode())
            yield testbed
        except HostError as e:
            raise LabError(f"lab {lab.label}: the rig without the DUT cannot be used: {e}") from e


def direct_testbed(testbed: Testbed) -> Testbed:
    """Return the testbed with every link from source directly to sink, over separate ports and networks."""
    links = {name: _direct(link, number) for number, (name, link) in enumerate(testbed.through_dut().links.items())}
    return testbed.model_copy(update={"links": links})


def _direct(link: Link, number: int) -> Link:
    here, there = (list(whole.subnets(new_prefix=_PREFIX))[number] for whole in (_HERE, _THERE))
    return Link.model_validate({
        "name": link.name,
        "path": [f"{link.source.host}:rig-{link.name}", str(link.dut_in), str(link.dut_out), f"{link.sink.host}:rig-{link.name}-in"],
        "addresses": [str(IPv4Interface((net[host], _PREFIX))) for net, host in ((here, 2), (here, 1), (there, 1), (there, 2))],
        "mtu": link.mtu,
    })  # fmt: skip


def cable_undo(lab: Lab) -> list[tuple[str, tuple[str, ...]]]:
    """Return host and command for each cable of direct_links(); the command removes it if it exists."""
    ports = [link.source for link in direct_testbed(lab.testbed).links.values()]
    command = "! ip link show dev {0} >/dev/null 2>&1 || ip link del dev {0}"
    return [(port.host, ("sh", "-c", command.format(port.interface))) for port in ports]


def _cabled(testbed: Testbed) -> list[str]:
    """Return the hosts with cables."""
    return list(dict.fromkeys(port.host for link in testbed.links.values() for port in (link.source, link.sink)))


def mac(link: int, end: int) -> str:
    """Return the MAC of an end of the `link`th cable: end 1 is at the source, 2 at the sink."""
    return f"02:00:00:01:{link:02x}:{end:02x}"


def _cables(testbed: Testbed, namespaces: Mapping[str, str]) -> str:
    lines = []
    for number, link in enumerate(testbed.links.values()):
        ends = [
            f"name {port.interface} netns {namespaces[port.host]} numrxqueues 1 numtxqueues 1 mtu {link.mtu} address {mac(number, end)}"
            for end, port in enumerate((link.source, link.sink), start=1)
        ]
        lines.append(f"link add {ends[0]} type veth peer {ends[1]}")
    return "\n".join(lines) + "\n"


def _setup(testbed: Testbed, host: str) -> str:
    """Return a script that sets addresses, ports and routes; packets for the gateway go to the other end."""
    lines = []
    for number, link in enumerate(testbed.links.values()):
        if host not in link.ends:
            continue
        here = host == link.source.host
        port, address, gateway = (
            (link.source, link.source_address, link.source_gateway) if here else (link.sink, link.sink_address, link.sink_gateway)
        )
        other = mac(number, 2 if here else 1)
        lines += [
            f"ip addr add {address} dev {port.interface}",
            f"ethtool -K {port.interface} gro on tso off tx-udp-segmentation off",
            f"ip link set dev {port.interface} up",
            f"ip neigh replace {gateway.ip} lladdr {other} dev {port.interface} nud permanent",
            f"ip route replace {(link.sink_address if here else link.source_address).network} via {gateway.ip} dev {port.interface}",
        ]
    return "\n".join(lines) + "\n"


async def _threads(lab: Lab, testbed: Testbed, hosts: Mapping[str, Host]) -> None:
    """Have NAPI threads serve the sinks' ports on the DUT's cores, as they serve the DUT's ports."""
    _, layout = description(lab.testbed.lab or "").layout(lab.layout)
    if (dut := lab.testbed.dut) is None or dut not in layout.napi_threads:
        return
    async with StateFolder().lock():
        for sink in dict.fromkeys(link.sink.host for link in testbed.links.values()):
            before = napi.napi_threads()
            await hosts[sink].run(["sh", "-e"], stdin=recipe.threads_script(testbed, sink).encode())
            threads = napi.threads_of(NAMESPACES / lab.namespaces[sink], before)
            napi.pin(threads, testbed, sink, lab.cpus[dut], lab.nice)


async def _remove(machine: Host, lab: Lab, testbed: Testbed) -> None:
    """Remove cables that a killed process may have left."""
    for link in testbed.links.values():
        await machine.run(["ip", "-n", lab.namespaces[link.source.host], "link", "del", "dev", link.source.interface], check=False)
