"""Flowtables, shapers and distances: what proves them, and what of a kernel or of a port refuses them, told by a host with set answers."""

from __future__ import annotations

import json

import pytest

from dutlab.dut import family
from dutlab.dut.distance import DistanceLevel, distance_level
from dutlab.dut.linux_exact import in_words
from dutlab.dut.mode import SeenProbe, UdpFlow
from dutlab.dut.mode_changes import changes_of
from dutlab.errors import CommandFailed, HostError, InputError
from dutlab.hosts.host import Done
from dutlab.labs import description
from dutlab.spec.distance import Distance
from dutlab.systems.linux import LINUX

LAB = description("two-routers").testbed
LINK = LAB.links["a"]
FLOW = UdpFlow(LINK.source_address.ip, LINK.sink_address.ip, 4321, 7)
LISTED = "ipv4 2 udp 17 {mark}src=172.16.0.2 dst=172.16.10.2 sport=4321 dport=7 src=172.16.10.2 dst=172.16.0.2 sport=7 dport=4321\n"
NO_SUCH = "Error: Specified qdisc kind is unknown."


class AnsweringHost:
    """Answers by the first key that a command or its input has: a text, several in turn, or a status and what it complains of."""

    name, system = "dut", LINUX

    def __init__(self, answers):
        self.answers = {key: list(said) if isinstance(said, list) else said for key, said in answers.items()}

    async def run(self, argv, *, stdin=b"", timeout_s=30.0, check=True):
        command = " ".join(argv) + stdin.decode()
        said = next((of for key, of in self.answers.items() if key in command), "")
        said = said.pop(0) if isinstance(said, list) else said
        status, text = said if isinstance(said, tuple) else (0, said)
        if status and check:
            raise CommandFailed(host=self.name, argv=argv, status=status, stderr_tail=text)
        return Done(self.name, tuple(argv), status, text.encode(), text.encode() if status else b"", 0.0, 0.0)


class Passing:
    """All frames arrive, on a flow whose packets the sink sees as they were sent."""

    async def probe(self, links, *, reverse=False):
        return [SeenProbe(10, 10, str(LINK.sink_address.ip if reverse else LINK.source_address.ip), FLOW) for _ in links]


def queue(kind, packets=0, handle="1:", **options):
    return json.dumps([{"kind": kind, "handle": handle, "root": True, "packets": packets, "drops": 0, "options": options}])


def htb_of(packets):
    inner = {"kind": "fq_codel", "handle": "11:", "packets": packets, "drops": 0}
    return json.dumps([*json.loads(queue("htb", packets)), inner])


def chain(packets):
    return f"\t\tcounter packets {packets} bytes 1 flow add @fast\n"


@pytest.mark.parametrize(
    ("level", "mark", "slow", "holds"),
    [
        ("software", "[OFFLOAD] ", (0, 2), True), ("hardware", "[HW_OFFLOAD] ", (5, 6), True), ("software", "30 ", (0, 2), False),
        ("hardware", "[OFFLOAD] ", (0, 2), False), ("software", "[OFFLOAD] ", (0, 10), False),
    ],
)  # fmt: skip
async def test_a_flow_takes_the_fast_path_if_tracking_marks_it_and_its_frames_pass_no_chain(level, mark, slow, holds):
    (change,) = changes_of({"flowtable": level, "shaper": "off"}, {})
    host = AnsweringHost({
        "nf_conntrack_max": "9\n", "cat /proc/net/nf_conntrack": LISTED.format(mark=mark), "ip_forward": "1", "list chain": [chain(n) for n in slow] * 3,
    })  # fmt: skip
    checks = await change.of(family("linux").modes["router"]).verify(host, LAB.through_dut(), Passing())
    assert all(check.passed for check in checks) is holds, checks


@pytest.mark.parametrize(
    ("level", "queues", "rate", "holds"),
    [
        ("cake 8Mbit/s", [queue("cake", n, bandwidth=1_000_000) for n in (0, 20)], "", True),
        ("cake 8Mbit/s", [queue("cake", 20, bandwidth=1_000_000)] * 2, "", False),
        ("cake 8Mbit/s", [queue("cake", n, bandwidth=999) for n in (0, 20)], "", False),
        ("fifo 8M", [queue("noqueue", 20, "0:")] * 2, "", False),
        ("fq_codel 8M", [htb_of(n) for n in (0, 20)], "8Mbit", True),
    ],
)  # fmt: skip
async def test_a_shaper_is_in_force_at_its_rate_if_its_queue_counts_the_frames(level, queues, rate, holds):
    (change,) = changes_of({"shaper": level}, {})
    classes = f"class htb 1:1 root leaf 11: prio 0 rate {rate} ceil {rate} burst 3036b cburst 3036b \n"
    host = AnsweringHost(
        {"ip_forward": "1", "class show": classes, "qdisc show dev in-a": queues[-1], "qdisc show dev out-a": [*queues, queues[-1]]}
    )
    checks = await change.of(family("linux").modes["router"]).verify(host, LAB.through_dut(), Passing())
    assert all(check.passed for check in checks) is holds, checks


async def test_a_flowtable_is_inside_a_shaper_whatever_the_order_and_only_a_ruleset_of_ours_has_one():
    flowtable, shaper = changes_of({"shaper": "cake 1M", "flowtable": "software"}, {})
    shaped = shaper.of(flowtable.of(family("linux").modes["nat"]))
    assert shaped.name == "nat"
    for mode in (family("linux").modes["filter-own"], shaped):
        with pytest.raises(InputError):
            flowtable.of(mode)


def test_the_guest_of_exact_has_the_same_table_beside_the_rules_of_the_mode():
    *_, rules = in_words("nat-flowtable", None).commands
    assert "masquerade" in rules and 'devices = { "v1", "v2" }' in rules and "flow add @fast" in rules


def far(**keys) -> DistanceLevel:
    level = distance_level(LAB.at_distances({"a": Distance.model_validate(keys)}))
    assert level is not None
    return level


async def test_what_a_kernel_or_a_port_lacks_is_a_fault_before_anything_is_changed():
    lacking = AnsweringHost({"unshare": (2, NO_SUCH), "nft -c": (1, "Error: Could not process rule: No such file or directory")})
    taken = AnsweringHost({"unshare": "", "qdisc show": queue("tbf")})
    changes = changes_of({"flowtable": "software", "shaper": "fq_codel 1M"}, {})
    assert [len(await change.faults(lacking, LAB.through_dut())) for change in changes] == [1, 1]
    assert len(await changes[1].faults(taken, LAB.through_dut())) == 2  # a port each
    near = description("three-node").testbed.at_distances({"a": Distance.model_validate({"delay": 0.02})})
    assert ["distance of link a" in fault for fault in await changes[1].faults(AnsweringHost({}), near)] == [True]
    (pppoe,) = changes_of({"pppoe": "on"}, {})
    for bed, word in ((near, "no router behind"), (LAB.through_dut(), "router: no command reaches it")):
        (fault,) = await pppoe.faults(AnsweringHost({}), bed)
        assert word in fault
    (dialled,) = changes_of({"pppoe": "on"}, {"router": lacking})
    assert len(await dialled.faults(AnsweringHost({"modprobe": (1, "its kernel has no PPPoE")}), LAB.through_dut())) == 1
    level = far(delay=0.02)
    for hosts, words in (({"router": lacking}, "CONFIG_NET_SCH_NETEM"), ({}, "no command reaches router"), ({"router": taken}, "tbf")):
        faults = await level.faults(hosts)
        assert faults and all(words in fault for fault in faults), faults
    assert await level.faults({"router": AnsweringHost({"unshare": "", "qdisc show": queue("noqueue", handle="0:")})}) == []


def test_a_distance_is_made_by_the_router_behind_the_dut_in_each_direction_by_one_queue_after_the_other():
    level = far(delay=0.02, jitter=0.002, loss=0.001, rate=100e6)
    assert [(str(of.port), of.neighbour) for of in level.ports] == [("router:in-a", "172.16.5.1"), ("router:out-a", "172.16.10.2")]
    (first, second) = level.ports[0].lines()
    assert first == "qdisc add dev {port} root handle 1: netem delay 20000us 2000us loss 0.1% limit 100000"
    assert second == "qdisc add dev {port} parent 1:1 handle 10: tbf rate 100000000bit burst 12500 latency 100000us"
    assert [str(port) for port in description("three-node").testbed.links["a"].distance_ports] == ["dut:in-a", "dut:out-a"]


def pings(ms, lost=0, sent=20):
    return "".join(f"64 bytes from 172.16.5.1: icmp_seq={n} ttl=64 time={ms} ms\n" for n in range(sent - lost))


@pytest.mark.parametrize(
    ("keys", "without", "with_it", "holds"),
    [
        ({"delay": 0.02}, pings(0.1), pings(20.3), True), ({"delay": 0.02}, pings(0.1), pings(0.1), False),
        ({"delay": 0.02}, pings(0.1), pings(40), False), ({"delay": 0.02, "jitter": 0.01}, pings(0.1), pings(29), True),
        ({"delay": 0.02}, pings(0.1), pings(20, lost=1), False), ({"loss": 0.1}, pings(0.1), pings(0.1, lost=9, sent=100), True),
        ({"loss": 0.1}, pings(0.1), "", False), ({"rate": 1e6}, pings(0.1), pings(0.9), True), ({"delay": 0.02}, "", pings(20), False),
    ],
)  # fmt: skip
async def test_a_distance_is_measured_before_anything_else_and_refused_where_it_is_another(keys, without, with_it, holds):
    level = far(**keys)
    shown = queue("netem", handle="1:")
    host = AnsweringHost({"ping": [without, with_it] * 6, "qdisc show": shown})
    if not holds:
        with pytest.raises(HostError, match="link a"):
            await level.apply({"router": host})
        return
    await level.apply({"router": host})
    assert all(check.passed and "measured by" in check.found for check in await level.verify({"router": host}))
    other = AnsweringHost({"qdisc show": queue("noqueue", handle="0:")})
    assert not any(check.passed for check in await level.verify({"router": other}))
