"""Frames that are not as the testbed describes the link: sent as IPv6 and received as IPv4."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Network, ip_address
from pathlib import Path

import pytest

from dutlab.dut import family
from dutlab.dut.mode import SeenProbe, UdpFlow
from dutlab.dut.mode_changes import changes_of
from dutlab.errors import CommandFailed, HostError, InputError, MeasurementError
from dutlab.hosts.host import Done
from dutlab.labs import description
from dutlab.spec.loader import experiment_of
from dutlab.spec.translation import embedded, prefix_fault
from dutlab.spec.wire_form import PLAIN, WireForm
from dutlab.systems.linux import LINUX
from dutlab.tools.engine.directions import direction_of
from dutlab.tools.ping import Ping, ProbesByEnds
from spec_faults import brief, faults_of_experiment

LAB = description("three-node").testbed
BED = LAB.model_copy(update={"links": {"a": LAB.links["a"]}}).through_dut()
PREFIX = "2001:db8:64::/96"
SOURCE_6, SINK_6 = "2001:db8:64::ac10:2", "2001:db8:64::ac10:a02"
SENT = UdpFlow(ip_address(SOURCE_6), ip_address(SINK_6), 4321, 7)
BACK = UdpFlow(ip_address("172.16.10.2"), ip_address("172.16.0.2"), 4322, 7)
EXPERIMENT = """\
experiment: home
testbed: {lab: LAB}
factors:
  mode: [router]
  FACTOR
workloads:
  - WORKLOAD
"""


class AnsweringHost:
    """Answers by the first key that a command or its input has: a text, several in turn, or a status and what it complains of."""

    system = LINUX

    def __init__(self, answers, name="dut"):
        self.answers, self.name, self.inputs = {key: list(of) if isinstance(of, list) else of for key, of in answers.items()}, name, []

    async def run(self, argv, *, stdin=b"", timeout_s=30.0, check=True):
        command = " ".join(argv) + stdin.decode()
        self.inputs.append(stdin.decode())
        said = next((of for key, of in self.answers.items() if key in command), "")
        said = said.pop(0) if isinstance(said, list) else said
        status, text = said if isinstance(said, tuple) else (0, said)
        if status and check:
            raise CommandFailed(host=self.name, argv=argv, status=status, stderr_tail=text)
        return Done(self.name, tuple(argv), status, text.encode(), text.encode() if status else b"", 0.0, 0.0)


class FormedFrames:
    """All frames of this form arrive; `source_seen` is what the sink sees."""

    def __init__(self, source_seen="172.16.0.2", form=PLAIN, flow=SENT):
        self.source_seen, self.form, self.flow = source_seen, form, flow

    def through(self, form):
        return FormedFrames(self.source_seen, form, self.flow)

    async def probe(self, links, *, reverse=False):
        seen = SINK_6 if self.form.nat64 else "172.16.10.2"
        return [SeenProbe(10, 10, seen, BACK) if reverse else SeenProbe(10, 10, self.source_seen, self.flow) for _ in links]


@pytest.mark.parametrize(
    ("prefix", "address", "expected"),
    [  # RFC 6052 section 2.4, table 2
        ("2001:db8:122:344::/96", "192.0.2.33", "2001:db8:122:344::192.0.2.33"),
        ("64:ff9b::/96", "192.0.2.33", "64:ff9b::192.0.2.33"),
    ],
)
def test_an_ipv4_address_stands_at_the_end_of_its_ipv6_address(prefix, address, expected):
    assert embedded(IPv6Network(prefix), IPv4Address(address)) == ip_address(expected)


@pytest.mark.parametrize(
    ("level", "is_prefix"),
    [
        ("off", True), (PREFIX, True), ("64:ff9b::/96", True), ("2001:db8::/64", False), ("2001:db8:0:0:100::/96", False),
        ("2001:db8::1/96", False), ("ff02::/96", False), ("fe80::/96", False), ("10.0.0.0/8", False), ("::/96", False),
    ],
)  # fmt: skip
def test_a_prefix_has_96_bits_of_which_eight_are_zero(level, is_prefix):
    assert (prefix_fault(level) == "") is is_prefix


@pytest.mark.parametrize(
    ("lab", "factor", "workload", "expected"),
    [
        ("three-node", f'nat64: ["off", "{PREFIX}"]', "sweep: {frame_sizes: [84, 1498], links: [[a]]}", []),
        ("three-node", f'nat64: ["{PREFIX}"]', "iperf3: {links: [[a]]}", []),
        ("three-node", f'nat64: ["{PREFIX}"]', "sweep: {frame_sizes: [83], links: [[a]]}", ["7:27 workloads.0.sweep.frame_sizes.0 unfit"] * 2),
        ("three-node", f'nat64: ["{PREFIX}"]', "sweep: {frame_sizes: [1499], links: [[a]]}", ["7:27 workloads.0.sweep.frame_sizes.0 unfit"]),
        ("three-node", f'nat64: ["{PREFIX}"]', "path-mtu: {links: [[a]]}", ["7:5 workloads.0.path-mtu unfit"]),
        ("three-node", f'nat64: ["{PREFIX}"]', "iperf3: {links: [[a]], server: dut}", ["7:5 workloads.0.iperf3 unfit"]),
        ("three-node", f'nat64: ["{PREFIX}"]', "sweep: {frame_sizes: [84], links: [[a]], generator: trafgen}", ["7:5 workloads.0.sweep unfit"]),
        (
            "three-node", f'nat64: ["{PREFIX}"]',
            "sweep: {frame_sizes: [84], links: [[a]], traffic: {flows: {count: 2, sources: 10.0.0.0/8, source_addresses: 2}}}",
            ["7:5 workloads.0.sweep unfit"],
        ),
        ("three-node", 'nat64: ["64:ff9b::/96"]', "sweep: {frame_sizes: [84], links: [[a]]}", ["5:3 factors.nat64 unfit"] * 2),
        ("two-port-ipv6", f'nat64: ["{PREFIX}"]', "sweep: {frame_sizes: [84]}", ["5:3 factors.nat64 unfit"]),
        ("three-node", 'nat64: ["2001:db8::/64"]', "sweep: {frame_sizes: [84]}", ["5:11 factors.nat64.0 invalid"]),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_in_a_form_is_refused_at_its_place(lab, factor, workload, expected):
    text = EXPERIMENT.replace("LAB", lab).replace("FACTOR", factor).replace("WORKLOAD", workload)
    if expected:
        assert brief(faults_of_experiment(text)) == expected
    else:
        assert experiment_of(text.encode(), Path("e.yaml"))


async def test_only_the_source_sends_ipv6():
    asked = []

    async def next_hop(host, interface, address):
        asked.append((interface, str(address)))
        return "02:00:00:00:00:02"

    hosts = dict.fromkeys(("source", "sink"))

    async def way(form, *, reverse):
        of = await direction_of(hosts, LAB, "a", next_hop=next_hop, form=form, reverse=reverse)
        return str(of.sends_on), str(of.receives_on), of.source, of.destination

    translated = WireForm(nat64=IPv6Network(PREFIX))
    assert await way(translated, reverse=False) == ("source:eth-a", "sink:eth-a", SOURCE_6, SINK_6)
    assert await way(translated, reverse=True) == ("sink:eth-a", "source:eth-a", "172.16.10.2", "172.16.0.2")
    assert asked == [("eth-a", "2001:db8:64::ac10:1"), ("eth-a", "172.16.10.1")]


def nat64(mode="router"):
    (change,) = changes_of({"nat64": PREFIX}, {"source": AnsweringHost({}, "source")})
    return change, change.of(family("linux").modes[mode])


@pytest.mark.parametrize(
    ("carried", "source_seen", "flow", "holds"),
    [
        (("5\n5\n", "25\n25\n"), "172.16.0.2", SENT, True),
        (("5\n5\n", "25\n24\n"), "172.16.0.2", SENT, False),
        (("5\n5\n", "5\n5\n"), "172.16.0.2", SENT, False),
        (("5\n5\n", "25\n25\n"), "172.16.10.1", SENT, False),
        (
            ("5\n5\n", "25\n25\n"),
            "172.16.0.2",
            replace(SENT, source=ip_address("172.16.0.2"), destination=ip_address("172.16.10.2")),
            False,
        ),
    ],
)
async def test_a_translator_is_in_force_if_its_tun_counts_the_frames_and_the_version_of_ip_changes(carried, source_seen, flow, holds):
    _, mode = nat64()
    dut = AnsweringHost({"ip_forward": "1", "statistics": list(carried), "kill -0": "starting TAYGA\n"})
    checks = await mode.verify(dut, BED, FormedFrames(source_seen, flow=flow))
    failed = [check.statement for check in checks if not check.passed]
    assert (not failed) is holds, failed


async def test_the_rules_of_a_mode_see_ipv6_before_the_translator_and_ipv4_behind_it():
    change, mode = nat64("nat")
    dut = AnsweringHost({})
    await mode.apply(dut, BED)
    rules = next(text for text in dut.inputs if "table inet" in text)
    assert f'iifname "in-a" ip6 saddr {SOURCE_6[:-1]}0/120 ip6 daddr 2001:db8:64::ac10:a00/120 ct state new accept' in rules
    assert 'iifname "dutlab-nat64" ip saddr 172.16.0.0/24 ip daddr 172.16.10.0/24 ct state new accept' in rules
    assert 'oifname { "out-a" } masquerade' in rules
    started = next(text for text in dut.inputs if "tun-device" in text)
    assert f"prefix {PREFIX}\n" in started and "ip route add 172.16.0.128/25 dev dutlab-nat64" in started
    assert "via 2001:db8:64::ac10:1 dev eth-a" in change.hosts["source"].inputs[0]


async def test_the_undo_of_a_translator_restores_what_it_found_and_a_prefix_in_use_is_refused():
    change, mode = nat64()
    there = {"link show": (1, ""), "disable_ipv6": "1"}
    change.hosts["source"].answers = {"disable_ipv6": "0"}
    steps = await mode.undo(AnsweringHost(there), BED)
    of = {(step.host, "disable_ipv6=1" in step.stdin) for step in steps if "address del" in step.stdin}
    assert of == {("dut", True), ("source", False)}
    for answers in ({}, {**there, "route show root": f"{PREFIX} via fe80::1 dev eth0"}):
        with pytest.raises(HostError):
            await mode.undo(AnsweringHost(answers), BED)


def test_a_translator_is_combined_with_rules_but_with_no_other_change_of_a_mode():
    (translator,) = changes_of({"nat64": PREFIX}, {})
    modes = family("linux").modes
    assert translator.of(modes["filter-default"]).name == "filter-default"
    others = [changes_of({name: level}, {})[0] for name, level in (("pppoe", "on"), ("shaper", "cake 1M"), ("flowtable", "software"))]
    for mode in (modes["filter-own"], *(other.of(modes["router"]) for other in others)):
        with pytest.raises(InputError):
            translator.of(mode)


async def test_what_a_host_lacks_for_a_translator_is_named_before_anything_is_changed():
    lacking = AnsweringHost({"command -v": "tayga\n", "/dev/net/tun": "it has no /dev/net/tun\n"})
    (translator,) = changes_of({"nat64": PREFIX}, {})
    assert len(await translator.faults(lacking, BED)) == 3  # the program, the device, and a source that no command reaches


async def test_pings_do_not_prove_a_form():
    prober = ProbesByEnds(FormedFrames(), Ping({}, LAB), LAB, frozenset()).through(WireForm(nat64=IPv6Network(PREFIX)))
    with pytest.raises(MeasurementError):
        await prober.probe(["a"])
