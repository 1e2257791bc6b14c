"""The testbed file: what is right loads and round-trips; what is wrong is refused where it is, as the page in tests/golden says it."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from dutlab.errors import FaultKind
from dutlab.spec.known import ROLES
from dutlab.spec.links import Link, Port
from dutlab.spec.loader import given_testbed
from dutlab.spec.sensors import CommandSensor, HwmonSensor
from dutlab.spec.testbed import HostSpec, Testbed
from spec_faults import brief, faults_of_testbed, page
from strategies import testbeds

RIGHT = """\
testbed: e302-9d
hosts:
  source: {ssh: root@192.0.2.11, family: freebsd}
  dut:    {ssh: "admin@[2001:db8::1]:2222", family: freebsd-pf}
  sink:   {ssh: sink.example}
links:
  a: {speed: 10G, path: [source:ixl2, dut:ixl2, dut:ixl0, sink:ix0],
      addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}
  six: {path: [source:ixl3, dut:ixl3, dut:ixl1, sink:ix2], mtu: 9000, isolated: true,
      addresses: ["2001:db8:0::2/64", "2001:db8:0::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"]}
"""


def load(text):
    return given_testbed(text.encode(), Path("testbed.yaml"))


def test_a_testbed_file_becomes_a_testbed():
    testbed = load(RIGHT)
    a, six = testbed.links["a"], testbed.links["six"]
    assert (testbed.name, testbed.lab, a.name, a.speed, a.mtu, a.isolated) == ("e302-9d", None, "a", 10e9, 1500, False)
    assert (str(a.source), str(a.dut_in), str(a.dut_out), str(a.sink)) == ("source:ixl2", "dut:ixl2", "dut:ixl0", "sink:ix0")
    assert a.sink_address == ipaddress.ip_interface("172.16.10.2/24")
    assert (six.speed, six.mtu, six.isolated, six.dut_in_address.version) == (None, 9000, True, 6)
    assert (testbed.hosts["sink"].name, testbed.hosts["sink"].family) == ("sink", "linux")


MISTAKES = [
    ("speed: 10G", "speed: 10 Gb", "7:7 links.a.speed unit"),
    ("speed: 10G", "speed: 10", "7:7 links.a.speed unit"),
    ("speed: 10G", "speed: 0G", "7:7 links.a.speed range"),
    ("speed: 10G", "speed: [10G]", "7:7 links.a.speed type"),
    ("speed: 10G", "sped: 10G", "7:7 links.a.sped unknown-key"),
    ("speed: 10G", "name: b", "7:7 links.a.name unknown-key"),
    ("speed: 10G", "delay: 0ms", "7:7 links.a.delay range"),
    ("speed: 10G", "delay: 1ms, jitter: 2ms", "7:19 links.a.jitter conflict"),
    ("speed: 10G", "loss: 100%", "7:7 links.a.loss range"),
    ("speed: 10G", "queue: 5ms", "7:7 links.a.queue conflict"),
    ("source:ixl2", "source", "7:26 links.a.path.0 invalid"),
    ("source:ixl2", "sourc:ixl2", "7:26 links.a.path.0 unknown-name"),
    ("source:ixl2", "sink:ixl2", "7:26 links.a.path.0 conflict"),
    ("source:ixl2", "source:-f", "7:26 links.a.path.0 invalid"),
    ("dut:ixl0", "dut:ixl2", "7:49 links.a.path.2 invalid"),
    (", sink:ix0]", "]", "7:19 links.a.path conflict"),
    ("sink:ix0]", "sink:ix0, sink:ix1]", "7:19 links.a.path conflict"),
    ("dut:ixl3, dut:ixl1", "dut:ixl2, dut:ixl1", "9:29 links.six.path.1 duplicate"),
    ("172.16.0.1/24", "172.16.1.1/24", "8:34 links.a.addresses.1 conflict"),
    ("172.16.0.1/24", "172.16.0.2/24", "8:34 links.a.addresses.1 duplicate"),
    ("172.16.0.1/24", "172.16.0.1", "8:34 links.a.addresses.1 invalid"),
    ("172.16.0.1/24", "172.16.0.1/33", "8:34 links.a.addresses.1 invalid"),
    ("172.16.0.1/24", "172.16.0.0/24", "8:34 links.a.addresses.1 invalid"),
    ("172.16.0.1/24", "172.16.0.255/24", "8:34 links.a.addresses.1 invalid"),
    ("172.16.0.1/24", "127.0.0.1/24", "8:34 links.a.addresses.1 invalid"),
    ("172.16.0.1/24", '"2001:db8::5/64"', "8:7 links.a.addresses conflict"),
    ("mtu: 9000", "mtu: 1000", "9:60 links.six.mtu range"),
    ("mtu: 9000", "mtu: 9217", "9:60 links.six.mtu range"),
    ("mtu: 9000", 'mtu: "9000"', "9:60 links.six.mtu type"),
    ("isolated: true", "isolated: 1", "9:71 links.six.isolated type"),
    ("root@192.0.2.11", "-oProxyCommand=id", "3:12 hosts.source.ssh invalid"),
    ("root@192.0.2.11", "root@-oX", "3:12 hosts.source.ssh invalid"),
    ("root@192.0.2.11", "h:70000", "3:12 hosts.source.ssh invalid"),
    ("ssh: root@192.0.2.11, ", "", "3:3 hosts.source.ssh missing"),
    ("family: freebsd}", "family: frebsd}", "3:34 hosts.source.family unknown-name"),
    ("  sink:   {", "  sunk:   {", "7:59 links.a.path.3 unknown-name"),
    ("  a: {", "  A_1: {", "7:3 links.A_1 invalid"),
    ("testbed: e302-9d", "testbed: ../x", "1:1 testbed invalid"),
    ("testbed: e302-9d", "lab: three-node", "1:1 lab unknown-key"),
]


WITH_SENSORS = (
    RIGHT
    + """\
sensors:
  wall: {kind: command, command: cat /run/watts, unit: W, every: 500ms}
  heat: {kind: hwmon, host: dut}
"""
)


def test_sensors_are_of_a_kind_and_keep_what_was_written():
    found = load(WITH_SENSORS)
    assert found.sensors["wall"] == CommandSensor(name="wall", command="cat /run/watts", unit="W", every=0.5)
    assert found.sensors["heat"] == HwmonSensor(name="heat", host="dut")
    assert Testbed.model_validate(found.model_dump(mode="json")) == found
    assert load(RIGHT).sensors == {}


SENSOR_MISTAKES = [
    ("kind: command, ", "", "12:3 sensors.wall.kind unknown-name"),
    ("kind: hwmon", "kind: hwmom", "13:10 sensors.heat.kind unknown-name"),
    ("kind: hwmon", "kind: [hwmon]", "13:10 sensors.heat.kind unknown-name"),
    ("{kind: command, command: cat /run/watts, unit: W", "{kind: snmp, oid: 1.3.6, address: 'a b'", "12:34 sensors.wall.address invalid"),
    (", unit: W", "", "12:3 sensors.wall.unit missing"),
    ("unit: W", "unit: w a t t", "12:50 sensors.wall.unit invalid"),
    ("500ms", "1ms", "12:59 sensors.wall.every range"),
    ("host: dut}", "host: dot}", "13:23 sensors.heat.host unknown-name"),
    ("  heat: {kind: hwmon, host: dut}", "  heat: hwmon", "13:3 sensors.heat type"),
    ("  wall:", "  ../wall:", "12:3 sensors.../wall invalid"),
]


def test_a_port_takes_no_more_cores_than_its_host_names():
    named = RIGHT.replace("family: freebsd}", "cpus: [2, 3], cpus_per_port: 2}")
    assert load(named).hosts["source"].cpus_per_port == 2
    (fault,) = faults_of_testbed(named.replace("cpus_per_port: 2", "cpus_per_port: 3"))
    assert (fault.path, fault.kind) == ("hosts.source.cpus_per_port", FaultKind.CONFLICT)


def test_a_host_names_what_else_is_the_device_there() -> None:
    named = RIGHT.replace("family: freebsd}", "account: {processes: [vpp_main], units: [vpp.service], cgroups: [/machine.slice/router/]}}")
    account = load(named).hosts["source"].account
    assert (account.processes, account.units, account.cgroups) == (("vpp_main",), ("vpp.service",), ("/machine.slice/router/",))
    faults = faults_of_testbed(named.replace("vpp.service", "a/b").replace("/machine.slice/router/", "/"))
    assert [(f.path, f.kind) for f in faults] == [(f"hosts.source.account.{key}.0", FaultKind.INVALID) for key in ("units", "cgroups")]


CABLE = """\
testbed: cable
hosts: {source: {local: true}, sink: {ssh: k}}
links: {a: {path: [source:e0, sink:e0], addresses: [10.0.0.2/24, 10.0.0.1/24]}}
"""
SHARING = """\
  b: {path: [source:ixl3, dut:ixl3, dut:ixl0, sink:ix0],
      addresses: [172.16.1.2/24, 172.16.1.1/24, 172.16.10.1/24, 172.16.10.2/24]}
"""


def test_a_distance_takes_a_machine_that_forwards_and_is_the_same_for_links_that_share_its_ports() -> None:
    far = load(RIGHT.replace("speed: 10G", "delay: 20ms, loss: 0.1%, rate: 100M, queue: 5ms")).links["a"]
    assert (far.delay, far.jitter, far.loss, far.rate, far.queue) == (0.02, None, 0.001, 100e6, 0.005)
    assert Link.model_validate({**far.model_dump(mode="json"), "name": "a"}) == far and far.is_distant
    assert far.distance_words.split(", ") == ["delay 20 ms", "queue 5 ms", "loss 0.1 %", "rate 100 Mbit/s"]
    (fault,) = faults_of_testbed(CABLE.replace("addresses", "delay: 1ms, addresses"))
    assert (fault.path, fault.kind) == ("links.a.delay", FaultKind.CONFLICT)
    text = RIGHT[: RIGHT.index("  six:")] + SHARING
    assert load(text).links["b"].sink == load(text).links["a"].sink
    (fault,) = faults_of_testbed(text.replace("speed: 10G", "delay: 1ms"))
    assert (fault.path, fault.kind) == ("links.b", FaultKind.CONFLICT)


def test_every_fault_is_reported_at_once():
    text = """\
testbed: bad
hosts:
  source: {ssh: -v, famly: linux}
  dut: {ssh: dut}
links:
  a:
    speed: 10 Gb
    path: [source:eth0, dut:in-a, dut:out-a, sink:eth0]
    addresses: [10.0.0.2/24, 10.0.1.1/24, 10.0.2.1/24, 10.0.2.2/24]
  b:
    path: [source:eth0, dut:in-b, dut:out-b, nosuch:eth0]
    addresses: [10.0.3.2/24, 10.0.3.1/24, 10.0.4.1/24, 10.0.4.2/24]
colour: red
"""
    assert brief(faults_of_testbed(text)) == [
        "3:12 hosts.source.ssh invalid",
        "3:21 hosts.source.famly unknown-key",
        "7:5 links.a.speed unit",
        "11:46 links.b.path.3 unknown-name",
        "13:1 colour unknown-key",
    ]


def test_links_need_networks_of_their_own():
    text = RIGHT.replace(
        '"2001:db8:0::2/64", "2001:db8:0::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"',
        "172.16.0.3/24, 172.16.0.4/24, 10.0.0.1/24, 10.0.0.2/24",
    )
    assert brief(faults_of_testbed(text)) == ["10:19 links.six.addresses.0 conflict"]


def test_a_path_of_which_the_ends_alone_have_addresses_is_one_network():
    text = RIGHT.replace("172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24", "172.16.0.2/24, 172.16.0.3/24")
    a = load(text).links["a"]
    assert a.is_transparent and not load(RIGHT).links["a"].is_transparent
    assert [(str(port), str(address)) for port, address in a.addressed] == [("source:ixl2", "172.16.0.2/24"), ("sink:ix0", "172.16.0.3/24")]
    assert [str(address.ip) for address in a.between("sink", "source")] == ["172.16.0.3", "172.16.0.2"]
    with pytest.raises(KeyError):
        a.between("source", "dut")
    for wrong, at in (("172.16.1.3/24", "1 conflict"), ("172.16.0.2/24", "1 duplicate")):
        (said,) = brief(faults_of_testbed(text.replace("172.16.0.3/24", wrong)))
        assert said.endswith(f"links.a.addresses.{at}")
    (said,) = faults_of_testbed(RIGHT.replace("172.16.10.1/24, 172.16.10.2/24", "172.16.0.8/24, 172.16.0.9/24"))
    assert (said.kind, said.path) == (FaultKind.CONFLICT, "links.a.addresses.2")


FAN_IN = """
testbed: fan-in
hosts:
  s1: {ssh: root@192.0.2.1, family: linux}
  s2: {ssh: root@192.0.2.2, family: linux}
  dut: {ssh: root@192.0.2.3, family: linux}
  t1: {ssh: root@192.0.2.4, family: linux}
links:
  a: {path: [s1:eth0, dut:in-a, dut:out, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.9.1/24, 10.0.9.2/24]}
  b: {path: [s2:eth0, dut:in-b, dut:out, t1:eth0], addresses: [10.0.1.2/24, 10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24]}
"""


def test_links_may_share_the_cable_of_one_end():
    testbed = load(FAN_IN)
    assert (testbed.ports_of("dut"), testbed.ports_of("t1")) == (["in-a", "out", "in-b"], ["eth0"])


@pytest.mark.parametrize(
    ("written", "instead", "at"),
    [
        # another address on the same port: then it is no longer the same cable
        ("10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24", "10.0.1.1/24, 10.0.8.1/24, 10.0.8.2/24", "10:33 links.b.path.2"),
        # both ends: the same path twice
        ("s2:eth0, dut:in-b, dut:out, t1:eth0], addresses: [10.0.1.2/24, 10.0.1.1/24", "s1:eth0, dut:in-a, dut:out, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24", "10:14 links.b.path.0"),
        # the cable of the other end
        ("[s2:eth0, dut:in-b, dut:out, t1:eth0], addresses: [10.0.1.2/24, 10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24]", "[t1:eth0, dut:out, dut:in-b, s2:eth0], addresses: [10.0.9.2/24, 10.0.9.1/24, 10.0.1.1/24, 10.0.1.2/24]", "10:14 links.b.path.0"),
        ("dut:out, t1:eth0], addresses: [10.0.1.2", "dut:x, t1:eth0], addresses: [10.0.1.2", "10:40 links.b.path.3"),
    ],
)  # fmt: skip
def test_what_is_not_one_whole_cable_at_the_same_end_is_not_shared(written, instead, at):
    assert written in FAN_IN
    assert f"{at} duplicate" in brief(faults_of_testbed(FAN_IN.replace(written, instead)))


def test_links_of_both_versions_of_ip_may_share_a_whole_path():
    both = FAN_IN.replace(
        "b: {path: [s2:eth0, dut:in-b, dut:out, t1:eth0], addresses: [10.0.1.2/24, 10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24]}",
        'b: {path: [s1:eth0, dut:in-a, dut:out, t1:eth0], addresses: ["fd00:1::2/64", "fd00:1::1/64", "fd00:2::1/64", "fd00:2::2/64"]}',
    )
    assert load(both).ports_of("dut") == ["in-a", "out"]


def test_a_black_box_has_no_way_in_and_is_the_dut_alone():
    box = RIGHT.replace('{ssh: "admin@[2001:db8::1]:2222", family: freebsd-pf}', "{family: black-box}")
    assert load(box).hosts["dut"].ssh is None
    assert brief(faults_of_testbed(RIGHT.replace("family: freebsd-pf", "family: black-box"))) == ["4:45 hosts.dut.family conflict"]
    assert brief(faults_of_testbed(box.replace("{ssh: sink.example}", "{family: black-box}"))) == ["5:12 hosts.sink.family conflict"]


def test_a_testbed_may_have_no_link_but_not_no_host():
    head = RIGHT.split("links:", maxsplit=1)[0]
    assert load(head).links == load(head + "links: {}\n").links == {}
    assert brief(faults_of_testbed("testbed: none\nhosts: {}\n")) == ["2:1 hosts missing"]


FOUR = """\
testbed: four
hosts:
  s1: {ssh: s1}
  s2: {ssh: s2, family: windows}
  fw: {ssh: fw, family: pfsense}
  t1: {ssh: t1}
links:
  a: {path: [s1:eth0, fw:in-a, fw:out-a, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}
  b: {path: [s2:eth0, t1:eth1], addresses: [10.0.2.2/24, 10.0.2.1/24]}
  lan: {segment: [s1:eth2, s2:eth2, t1:eth2], addresses: [10.0.3.1/24, 10.0.3.2/24, 10.0.3.3/24]}
"""


def test_hosts_have_any_names_and_links_two_or_more_ports():
    bed = load(FOUR)
    assert (bed.dut, bed.dut_family, bed.ends) == ("fw", "pfsense", ("s1", "t1", "s2"))
    assert list(bed.through_dut().links) == ["a"]
    a, b, lan = bed.links.values()
    assert (a.source.host, str(a.dut_in), str(a.dut_out), a.sink.host) == ("s1", "fw:in-a", "fw:out-a", "t1")
    assert (a.ends, b.ends, lan.ends) == (("s1", "t1"), ("s2", "t1"), ("s1", "s2", "t1"))
    assert (a.source_gateway, a.sink_gateway) == (a.dut_in_address, a.dut_out_address)
    assert (b.source_gateway, b.sink_gateway) == (b.sink_address, b.source_address)
    assert [str(x.ip) for x in a.between("t1", "fw")] == ["10.0.1.2", "10.0.1.1"]
    assert [str(x.ip) for x in a.between("fw", "s1")] == ["10.0.0.1", "10.0.0.2"]
    assert [str(x.ip) for x in lan.between("t1", "s1")] == ["10.0.3.3", "10.0.3.1"]


def test_a_testbed_in_which_nothing_forwards_has_no_dut():
    bed = load("testbed: pair\nhosts: {x: {ssh: x}, y: {ssh: y}}\nlinks: {a: {path: [x:e, y:e], addresses: [10.0.0.1/24, 10.0.0.2/24]}}\n")
    assert (bed.dut, bed.dut_family, bed.through_dut().links) == (None, "black-box", {})


FOUR_MISTAKES = [
    ("  s1: {ssh: s1}", "  -rf: {ssh: s1}", "3:3 hosts.-rf invalid"),
    ("  s1: {ssh: s1}", "  ../s1: {ssh: s1}", "3:3 hosts.../s1 invalid"),
    ("  s1: {ssh: s1}", "  s/1: {ssh: s1}", "3:3 hosts.s/1 invalid"),
    ("fw:out-a, t1:eth0]", "fw:out-a, s1:eth9]", "8:42 links.a.path.3 conflict"),
    ("fw:out-a, t1:eth0]", "t1:eth8, t1:eth0]", "8:32 links.a.path.2 conflict"),
    ("10.0.1.1/24, 10.0.1.2/24", "10.0.0.3/24, 10.0.0.4/24", "8:90 links.a.addresses.2 conflict"),
    ("[10.0.2.2/24, 10.0.2.1/24]", "[10.0.2.2/24]", "9:33 links.b.addresses conflict"),
    ("10.0.3.2/24", "10.0.4.2/24", "10:72 links.lan.addresses.1 conflict"),
    ("10.0.3.2/24", "10.0.3.1/24", "10:72 links.lan.addresses.1 duplicate"),
    ("s2:eth2, t1:eth2", "s2:eth2, s1:eth3", "10:37 links.lan.segment.2 duplicate"),
    ("s2:eth2, t1:eth2", "s2:eth2, x:eth3", "10:37 links.lan.segment.2 unknown-name"),
    ("s2:eth2, t1:eth2", "s2:eth2, t1:eth1", "10:37 links.lan.segment.2 duplicate"),
    ("10.0.3.1/24, 10.0.3.2/24, 10.0.3.3/24", "10.0.2.11/24, 10.0.2.12/24, 10.0.2.13/24", "10:59 links.lan.addresses.0 conflict"),
    ("{path: [s2:eth0, t1:eth1], ", "{path: [s2:eth0, t1:eth1], segment: [s2:eth0, t1:eth1], ", "9:7 links.b.path conflict"),
    ("{path: [s2:eth0, t1:eth1], ", "{configure: true, path: [s2:eth0, t1:eth1], ", "9:7 links.b.configure conflict"),
    ("{path: [s2:eth0, t1:eth1], ", "{", "9:3 links.b.path missing"),
    (
        "path: [s2:eth0, t1:eth1], addresses: [10.0.2.2/24, 10.0.2.1/24]",
        "path: [s2:eth0, s1:eth8, s1:eth9, t1:eth1], addresses: [10.0.2.2/24, 10.0.2.1/24, 10.0.5.1/24, 10.0.5.2/24]",
        "9:7 links.b.path conflict",
    ),
]


EVERY = ((MISTAKES, RIGHT), (SENSOR_MISTAKES, WITH_SENSORS), (FOUR_MISTAKES, FOUR))


@pytest.mark.parametrize(("text", "old", "new", "expected"), [(text, *mistake) for mistakes, text in EVERY for mistake in mistakes])
def test_one_mistake_is_refused_where_it_is(text, old, new, expected):
    assert old in text
    assert expected in brief(faults_of_testbed(text.replace(old, new, 1)))


def test_what_is_said_of_each(golden):
    golden.check("refusals-testbed.txt", "\n".join(page(mistakes, text, faults_of_testbed) for mistakes, text in EVERY))


def test_a_lab_builds_the_same_models_without_ssh_or_speed():
    ports = (("source", "eth-a"), ("dut", "in-a"), ("dut", "out-a"), ("sink", "eth-a"))
    path = tuple(Port(host=host, interface=interface) for host, interface in ports)
    addresses = tuple(ipaddress.ip_interface(a) for a in ("172.16.0.2/24", "172.16.0.1/24", "172.16.10.1/24", "172.16.10.2/24"))
    hosts = {role: HostSpec(name=role, family="linux") for role in ROLES}
    lab = Testbed(name="three-node", lab="three-node", hosts=hosts, links={"a": Link(name="a", path=path, addresses=addresses)})
    assert lab.links["a"].dut_out == path[2]
    with pytest.raises(ValidationError, match="reach the host"):
        Testbed(name="three-node", hosts=hosts, links=lab.links)
    with pytest.raises(ValidationError, match="frozen"):
        lab.name = "other"


@settings(max_examples=25)
@given(testbeds)
def test_a_testbed_survives_json(testbed):
    assert Testbed.model_validate_json(testbed.model_dump_json()) == testbed
    assert Testbed.model_validate(json.loads(testbed.model_dump_json(by_alias=True))) == testbed


@pytest.mark.parametrize("name", ["--help", "-y", "../x", "/etc/passwd", ".", "a b", "h\u00f6st", "x" * 49, "$(id)", "a:b", ""])
def test_a_host_named_like_an_option_a_path_or_a_command_line_is_refused_where_it_is(name):
    faults = faults_of_testbed(f"testbed: t\nhosts:\n  {json.dumps(name)}: {{local: true}}\n")
    assert any((fault.line, fault.column, fault.kind) == (3, 3, FaultKind.INVALID) for fault in faults), faults


@pytest.mark.parametrize("name", ["run", "lab", "sh", "rm", "con", "all", "none", "true"])
def test_a_host_named_like_a_command_is_a_host(name):
    assert list(load(f"testbed: t\nhosts:\n  {json.dumps(name)}: {{local: true}}\n").hosts) == [name]
