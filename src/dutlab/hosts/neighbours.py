"""MAC addresses of next hops, which frames need to enter the DUT."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address

from dutlab.errors import HostError, ToolFailed
from dutlab.hosts.host import Host
from dutlab.spec.links import Port

NextHop = Callable[[Host, str, IPv4Address | IPv6Address], Awaitable[str]]
"""Function from host, interface and address of a next hop to the MAC of the next hop, like next_hop_mac()."""
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)


async def next_hop_mac(host: Host, interface: str, address: IPv4Address | IPv6Address) -> str:
    """Return the MAC of `address` that `host` knows on `interface`. If it knows none, a ping makes it resolve the address.

    Raises ToolFailed when there is no answer, HostError.
    """
    if mac := await _known(host, interface, address):
        return mac
    # The ping needs no answer: to send it the kernel has to resolve the MAC.
    await host.run(["ping", "-c", "1", "-W", "1", "-I", interface, str(address)], check=False, timeout_s=10)
    if mac := await _known(host, interface, address):
        return mac
    raise ToolFailed(
        f"no host on {interface} answers for {address}",
        tool="ip neigh",
        host=host.name,
        remedy="check that the DUT's port is up and has that address",
    )


async def _known(host: Host, interface: str, address: IPv4Address | IPv6Address) -> str | None:
    done = await host.run(["ip", "-j", "neigh", "show", "to", str(address), "dev", interface])
    try:
        entries = json.loads(done.text or "[]")
        macs = [str(e["lladdr"]) for e in entries if "lladdr" in e and not {"FAILED", "INCOMPLETE"} & set(e.get("state", []))]
    except (ValueError, TypeError, KeyError) as e:
        raise HostError(
            f"`ip -j neigh` printed unreadable output: {done.text[:80]!r}", host=host.name, remedy="install a newer iproute2"
        ) from e
    return next((mac for mac in macs if _MAC.fullmatch(mac)), None)


async def mac_of_port(host: Host, port: Port) -> str:
    """Return the MAC of a port of a Linux host. Raises HostError."""
    done = await host.run(["cat", f"/sys/class/net/{port.interface}/address"], check=False)
    if done.status != 0:
        raise HostError(f"there is no port {port.interface}", host=host.name, remedy="correct the testbed file")
    return done.text.strip()
