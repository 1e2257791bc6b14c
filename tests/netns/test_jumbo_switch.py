"""The switch of an embedded lab carries whatever its hosts send, as a switch does that passes jumbo frames."""

from __future__ import annotations

from lab_fixtures import lab_up


async def test_hosts_on_a_segment_may_raise_their_mtu(label: str) -> None:
    async with lab_up("flat", label) as flat:
        hosts, (link,) = flat.hosts(), flat.testbed.links.values()
        near, far = link.segment[0], link.addresses[1].ip
        ping = ["ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", str(9000 - 28), str(far)]
        assert (await hosts[near.host].run(ping, check=False)).status != 0  # its own port has 1500
        for port in link.segment:
            await hosts[port.host].run(["ip", "link", "set", "dev", port.interface, "mtu", "9000"])
        assert (await hosts[near.host].run(ping, check=False)).status == 0
