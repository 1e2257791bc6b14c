"""IPv6 extension headers through a Linux router: real frames of each set come through and are accounted for."""

from __future__ import annotations

from capability import needs
from dutlab.dut import nft_rules
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import EXTENSION_SETS, Directions, Traffic
from dutlab.units import Pps, Seconds
from lab_fixtures import engine_in, lab_up

SEEN = """table ip6 seen {
    chain forwarded {
        type filter hook forward priority 0
        exthdr rt exists udp dport 7 counter comment "routing"
        exthdr dst exists udp dport 7 counter comment "destination-options"
        exthdr frag exists udp dport 7 counter comment "fragment"
        exthdr hbh exists udp dport 7 counter comment "hop-by-hop"
    }
}
"""

_machine = needs("nft")


async def test_a_router_with_25_filters_forwards_every_set_of_headers_and_the_tester_takes_them_in(label):
    async with lab_up("three-node-rfc5180", label) as lab, engine_in(lab) as (hosts, engine):
        dut = hosts["dut"]
        await dut.run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"])
        for name in ("chain", "hop-by-hop"):
            headers = EXTENSION_SETS[name]
            await dut.run(["nft", "-f", "-"], stdin=(nft_rules.filters(lab.testbed, 25) + SEEN).encode())
            offer = Offer(
                ("a",), frame_mix(128), Pps(1000), Seconds(0.5), directions=Directions.BOTH, traffic=Traffic(extension_headers=headers)
            )
            outcome = await engine.offer(offer)
            assert [(f.link, f.intended_frames, f.balances) for f in outcome.flows] == [("a", 500, True), ("a.back", 500, True)], name
            assert all(f.received_frames > 400 and not f.corrupted_frames for f in outcome.flows), name
            assert all(f.foreign_frames < 10 for f in outcome.flows), f"{name}: of neighbour discovery there are a few"
            ruleset = (await dut.run(["nft", "list", "ruleset"])).text
            counted = {line.split('"')[1] for line in ruleset.splitlines() if "counter" in line and "packets 0 " not in line}
            assert counted == set(headers), f"{name}: what the router's filter saw of headers, and of UDP behind them"
