"""Section 12 with real frames: they leave a router for each of 256 networks, and its routes are gone afterwards."""

from __future__ import annotations

import json

from capability import needs
from cells import setting_of
from dutlab.dut import family
from dutlab.methods.carrying import TrafficWrapper
from dutlab.methods.ports import Bench, Offer
from dutlab.methods.rfc2544.networks import networks_of
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import pending_undo, read_journal
from dutlab.spec.traffic import Directions, Traffic
from dutlab.tools.linux_dut.routes import LinuxRoutes
from dutlab.units import Pps, Seconds
from lab_fixtures import engine_in, lab_up

SEEN = """table inet seen {
    set to { type ipv4_addr . ifname; flags dynamic; size 4096; }
    chain forwarded {
        type filter hook forward priority 0
        add @to { ip daddr & 255.255.255.128 . oifname }
    }
}
"""

_machine = needs("nft")


async def test_frames_go_both_ways_over_256_networks_and_the_routes_to_them_are_taken_back(label, journal, tmp_path):
    asked = setting_of("rfc2544", frame_size=128, tests=(), directions=Directions.BOTH, networks=256)
    linux = family("linux")
    async with lab_up("three-node-rfc2544", label) as lab, engine_in(lab) as (hosts, engine):
        dut = hosts["dut"]
        await dut.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        await dut.run(["nft", "-f", "-"], stdin=SEEN.encode())
        before = (await dut.run(["ip", "route"])).text
        device = JournaledDevice(dut, lab.testbed, linux.modes, linux.resets, prober=None, journal=journal)
        addresses = {link.name: (link.source_address.ip, link.sink_address.ip) for link in lab.testbed.links.values()}
        bench = Bench(engine, addresses=addresses, routes=LinuxRoutes(dut, lab.testbed, device.announce))
        networks = await networks_of(bench, ("a",), asked)
        assert [(row["direction"], row["routes_loaded"], row["routes_checked"]) for row in networks.rows] == [
            ("a", 256, 256),
            ("a.back", 256, 256),
        ]
        offer = Offer(("a",), asked.frame_size, Pps(2560), Seconds(1.0), directions=Directions.BOTH)
        outcome = await TrafficWrapper(engine, Traffic(), networks.traffic_of).offer(offer)
        assert [(flow.link, flow.intended_frames, flow.balances) for flow in outcome.flows] == [("a", 2560, True), ("a.back", 2560, True)]
        assert all(flow.received_frames > 2000 for flow in outcome.flows), "the tester takes them all in, whatever their destination"
        listed = json.loads((await dut.run(["nft", "-j", "list", "set", "inet", "seen", "to"])).text)
        (seen,) = [entry["set"]["elem"] for entry in listed["nftables"] if "set" in entry]
        hit = {(element["concat"][1], element["concat"][0]) for element in seen}
        expected = {(port, f"198.{net}.{128 + n // 2}.{n % 2 * 128}") for port, net in (("out-a", 19), ("in-a", 18)) for n in range(256)}
        assert hit == expected
        assert await device.put_back()
        assert (await dut.run(["ip", "route"])).text == before
        assert not pending_undo(read_journal(tmp_path / "journal.jsonl"))
