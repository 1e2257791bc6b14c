"""The rig without the DUT, inside a lab that stands: for each link a second cable, from source straight to sink.

The addresses are of the networks that RFC 5737 keeps for examples, which no lab and no workload uses, so nothing of the lab itself is
touched; those of RFC 2544's appendix C (198.18.0.0/15) belong to labs and traffic. What the sink does with a frame happens on the DUT's
cores, as in the lab, where the DUT's NAPI threads carry each frame on into the sink.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface, IPv4Network

from dutlab.errors import HostError, LabError
from dutlab.hosts.host import Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs import napi, recipe
from dutlab.labs.lab import Lab
from dutlab.labs.labfile import description
from dutlab.labs.state import StateFolder
from dutlab.spec.testbed import Link, Testbed

_SOURCE, _SINK = "source", "sink"
_HERE, _THERE = IPv4Network("192.0.2.0/24"), IPv4Network("203.0.113.0/24")
"""TEST-NET-1 and TEST-NET-3: networks at the source and at the sink, of which each link takes a part."""
_PREFIX = 29


@asynccontextmanager
async def direct_links(lab: Lab) -> AsyncIterator[Testbed]:
    """The lab's links without the DUT, under the same names, while the context lasts. Raises LabError.

    The ports of the DUT in the testbed's paths are those of the lab: nothing is sent there.
    """
    testbed = direct_testbed(lab.testbed)
    machine, hosts = LocalHost("lab"), lab.hosts()
    try:
        await _remove(machine, lab, testbed)
        await machine.run(["ip", "-batch", "-"], stdin=_cables(testbed, lab.namespaces).encode())
        for role in (_SOURCE, _SINK):
            await hosts[role].run(["sh", "-e"], stdin=_setup(testbed, role).encode())
            await hosts[role].run(["sh"], stdin=recipe.queue_script(testbed, role).encode(), check=False)
        await _threads(lab, testbed, hosts[_SINK])
        for role in (_SOURCE, _SINK):
            await hosts[role].run(["sh", "-e"], stdin=recipe.carrier_script(testbed, role).encode())
        yield testbed
    except HostError as e:
        raise LabError(f"lab {lab.label}: the rig without the DUT cannot be used: {e}") from e
    finally:
        await _remove(machine, lab, testbed)
        for host in hosts.values():
            await host.close()


def direct_testbed(testbed: Testbed) -> Testbed:
    """The same with every link from source straight to sink, over ports and networks of its own."""
    links = {name: _direct(link, number) for number, (name, link) in enumerate(testbed.links.items())}
    return testbed.model_copy(update={"links": links})


def _direct(link: Link, number: int) -> Link:
    here, there = (list(whole.subnets(new_prefix=_PREFIX))[number] for whole in (_HERE, _THERE))
    return Link.model_validate({
        "name": link.name,
        "path": [f"{_SOURCE}:rig-{link.name}", str(link.dut_in), str(link.dut_out), f"{_SINK}:rig-{link.name}-in"],
        "addresses": [str(IPv4Interface((net[host], _PREFIX))) for net, host in ((here, 2), (here, 1), (there, 1), (there, 2))],
        "mtu": link.mtu,
    })  # fmt: skip


def cable_undo(lab: Lab) -> list[tuple[str, ...]]:
    """Commands for the lab's source that remove the cables of direct_links(); each can be carried out where there is none."""
    ports = [link.source.interface for link in direct_testbed(lab.testbed).links.values()]
    return [("sh", "-c", f"! ip link show dev {port} >/dev/null 2>&1 || ip link del dev {port}") for port in ports]


def mac(link: int, role: str) -> str:
    """Address of a role's end of the `link`th cable."""
    return f"02:00:00:01:{link:02x}:{1 if role == _SOURCE else 2:02x}"


def _cables(testbed: Testbed, namespaces: Mapping[str, str]) -> str:
    lines = []
    for number, link in enumerate(testbed.links.values()):
        ends = [
            f"name {port.interface} netns {namespaces[port.host]} numrxqueues 1 numtxqueues 1"
            f" mtu {link.mtu} address {mac(number, port.host)}"
            for port in (link.source, link.sink)
        ]
        lines.append(f"link add {ends[0]} type veth peer {ends[1]}")
    return "\n".join(lines) + "\n"


def _setup(testbed: Testbed, role: str) -> str:
    """Addressed and up, with a way to the other end's network: the other end answers for the gateway that a frame is sent to."""
    lines = []
    for number, link in enumerate(testbed.links.values()):
        here = role == _SOURCE
        port, address, gateway = (
            (link.source, link.source_address, link.dut_in_address) if here else (link.sink, link.sink_address, link.dut_out_address)
        )
        other = mac(number, _SINK if here else _SOURCE)
        lines += [
            f"ip addr add {address} dev {port.interface}",
            f"ethtool -K {port.interface} gro on tso off tx-udp-segmentation off",
            f"ip link set dev {port.interface} up",
            f"ip neigh replace {gateway.ip} lladdr {other} dev {port.interface} nud permanent",
            f"ip route replace {(link.sink_address if here else link.source_address).network} via {gateway.ip} dev {port.interface}",
        ]
    return "\n".join(lines) + "\n"


async def _threads(lab: Lab, testbed: Testbed, sink: Host) -> None:
    """The sink's ports served as the DUT's are, on the DUT's cores."""
    _, layout = description(lab.testbed.lab or "").layout(lab.layout)
    if "dut" not in layout.napi_threads:
        return
    async with StateFolder().lock():
        before = napi.napi_threads()
        await sink.run(["sh", "-e"], stdin=recipe.threads_script(testbed, _SINK).encode())
        threads = napi.threads_of(NAMESPACES / lab.namespaces[_SINK], before)
        napi.pin(threads, testbed, _SINK, lab.cpus["dut"], lab.nice)


async def _remove(machine: Host, lab: Lab, testbed: Testbed) -> None:
    """Of a process that was killed something may be left; where nothing is, this does nothing."""
    for link in testbed.links.values():
        await machine.run(["ip", "-n", lab.namespaces[_SOURCE], "link", "del", "dev", link.source.interface], check=False)
