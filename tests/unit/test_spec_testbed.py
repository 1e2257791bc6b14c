"""The testbed file: what is right loads and round-trips; what is wrong is refused with these very lines."""

from __future__ import annotations

import ipaddress
import json

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from dutlab.errors import SpecRefused
from dutlab.spec.known import MDRAID, ROLES
from dutlab.spec.links import Link, Port
from dutlab.spec.loader import load_testbed
from dutlab.spec.sensors import SENSORS, CommandSensor, HwmonSensor
from dutlab.spec.testbed import HostSpec, Testbed
from dutlab.systems import SYSTEMS
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


def faults(tmp_path, text):
    path = tmp_path / "testbed.yaml"
    path.write_text(text)
    with pytest.raises(SpecRefused) as refused:
        load_testbed(path)
    assert refused.value.exit_status == 2
    return [str(f).removeprefix(str(path)) for f in refused.value.faults]


def load(tmp_path, text):
    path = tmp_path / "testbed.yaml"
    path.write_text(text)
    return load_testbed(path)


def test_a_testbed_file_becomes_a_testbed(tmp_path):
    testbed = load(tmp_path, RIGHT)
    a, six = testbed.links["a"], testbed.links["six"]
    assert (testbed.name, testbed.lab, a.name, a.speed, a.mtu, a.isolated) == ("e302-9d", None, "a", 10e9, 1500, False)
    assert (str(a.source), str(a.dut_in), str(a.dut_out), str(a.sink)) == ("source:ixl2", "dut:ixl2", "dut:ixl0", "sink:ix0")
    assert a.sink_address == ipaddress.ip_interface("172.16.10.2/24")
    assert (six.speed, six.mtu, six.isolated, six.dut_in_address.version) == (None, 9000, True, 6)
    assert (testbed.hosts["sink"].name, testbed.hosts["sink"].family) == ("sink", "linux")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("speed: 10G", "speed: 10 Gb", ":7:7: links.a.speed: '10 Gb' is an amount, not a rate: per what time? Write 10 Gbit/s"),
        ("speed: 10G", "speed: 10", ":7:7: links.a.speed: 10 has no unit; write it as in 10G"),
        ("speed: 10G", "speed: 0G", ":7:7: links.a.speed: must be more than 0"),
        ("speed: 10G", "speed: [10G]", ":7:7: links.a.speed: must be a quantity, as in 10G"),
        (
            "speed: 10G",
            "sped: 10G",
            ":7:7: links.a.sped: unknown key (known: addresses, configure, isolated, mtu, path, segment, speed; did you mean speed?)",
        ),
        ("speed: 10G", "name: b", ":7:7: links.a.name: unknown key (known: addresses, configure, isolated, mtu, path, segment, speed)"),
        ("source:ixl2", "source", ":7:26: links.a.path.0: 'source' is not a port; write host:interface, as in source:eth1"),
        (
            "source:ixl2",
            "sourc:ixl2",
            ":7:26: links.a.path.0: sourc:ixl2: there is no host 'sourc' (known: dut, sink, source; did you mean source?)",
        ),
        (
            "source:ixl2",
            "sink:ixl2",
            ":7:26: links.a.path.0: sink:ixl2 where a port of source must be: the order is source → dut → dut → sink",
        ),
        (
            "source:ixl2",
            "source:-f",
            ":7:26: links.a.path.0: '-f' is not an interface name; 1 to 15 of letters, digits, '.', '_' and '-', not beginning with '-' or '.'",
        ),
        ("dut:ixl0", "dut:ixl2", ":7:49: links.a.path.2: dut:ixl2 is also where packets enter it; a machine that forwards needs two ports"),
        (", sink:ix0]", "]", ":7:19: links.a.path: 3 ports; a path has an even number, two a cable: 2 back to back, 4 through one machine"),
        (
            "sink:ix0]",
            "sink:ix0, sink:ix1]",
            ":7:19: links.a.path: 5 ports; a path has an even number, two a cable: 2 back to back, 4 through one machine",
        ),
        (
            "dut:ixl3, dut:ixl1",
            "dut:ixl2, dut:ixl1",
            ":9:29: links.six.path.1: dut:ixl2 is already used by link a; to share its cable, write both of its ports as link a has them, at the source's end alone: source:ixl2 172.16.0.2/24, dut:ixl2 172.16.0.1/24",
        ),
        (
            "172.16.0.1/24",
            "172.16.1.1/24",
            ":8:34: links.a.addresses.1: 172.16.1.1/24 is not in 172.16.0.0/24, but source:ixl2 and dut:ixl2 share a cable",
        ),
        ("172.16.0.1/24", "172.16.0.2/24", ":8:34: links.a.addresses.1: 172.16.0.2/24 is the address of both source:ixl2 and dut:ixl2"),
        ("172.16.0.1/24", "172.16.0.1", ":8:34: links.a.addresses.1: 172.16.0.1 has no prefix length; write it as in 172.16.0.1/24"),
        (
            "172.16.0.1/24",
            "172.16.0.1/33",
            ":8:34: links.a.addresses.1: '172.16.0.1/33' is not an address; write it with its prefix length, as in 172.16.0.2/24",
        ),
        (
            "172.16.0.1/24",
            "172.16.0.0/24",
            ":8:34: links.a.addresses.1: 172.16.0.0/24 is the network itself; a host needs an address inside it",
        ),
        ("172.16.0.1/24", "172.16.0.255/24", ":8:34: links.a.addresses.1: 172.16.0.255/24 is the broadcast address of its network"),
        ("172.16.0.1/24", "127.0.0.1/24", ":8:34: links.a.addresses.1: 127.0.0.1/24 is loopback; a port needs an ordinary address"),
        ("172.16.0.1/24", '"2001:db8::5/64"', ":8:7: links.a.addresses: IPv4 and IPv6 are mixed; give each family a link of its own"),
        ("mtu: 9000", "mtu: 1000", ":9:60: links.six.mtu: 1000 is below 1280, the least that IPv6 can use (RFC 8200)"),
        ("mtu: 9000", "mtu: 9217", ":9:60: links.six.mtu: must be at most 9216"),
        ("mtu: 9000", 'mtu: "9000"', ":9:60: links.six.mtu: must be a whole number"),
        ("isolated: true", "isolated: 1", ":9:71: links.six.isolated: must be true or false"),
        (
            "root@192.0.2.11",
            "-oProxyCommand=id",
            ":3:12: hosts.source.ssh: '-oProxyCommand=id' is not an ssh target; write [user@]host[:port], as in root@192.0.2.11",
        ),
        (
            "root@192.0.2.11",
            "root@-oX",
            ":3:12: hosts.source.ssh: 'root@-oX' is not an ssh target; write [user@]host[:port], as in root@192.0.2.11",
        ),
        (
            "root@192.0.2.11",
            "h:70000",
            ":3:12: hosts.source.ssh: 'h:70000' is not an ssh target; write [user@]host[:port], as in root@192.0.2.11",
        ),
        (
            "ssh: root@192.0.2.11, ",
            "",
            ":3:3: hosts.source.ssh: missing; write how to reach the host, as in root@192.0.2.11, or `local: true` for this machine",
        ),
        (
            "family: freebsd}",
            "family: frebsd}",
            f":3:34: hosts.source.family: 'frebsd' is not a family (known: {', '.join(sorted(SYSTEMS.keys() - {MDRAID}))}; did you mean freebsd?)",
        ),
        (
            "  sink:   {",
            "  sunk:   {",
            ":7:59: links.a.path.3: sink:ix0: there is no host 'sink' (known: dut, source, sunk; did you mean sunk?)",
        ),
        (
            "  a: {",
            "  A_1: {",
            ":7:3: links.A_1: 'A_1' is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names",
        ),
        (
            "testbed: e302-9d",
            "testbed: ../x",
            ":1:1: testbed: '../x' is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names",
        ),
        ("testbed: e302-9d", "lab: three-node", ":1:1: lab: unknown key (known: generator, hosts, links, sensors, testbed)"),
    ],
)
def test_one_mistake_is_refused_where_it_stands(tmp_path, old, new, expected):
    assert old in RIGHT
    assert expected in faults(tmp_path, RIGHT.replace(old, new, 1))


KINDS = ", ".join(sorted(SENSORS))
WITH_SENSORS = (
    RIGHT
    + """\
sensors:
  wall: {kind: command, command: cat /run/watts, unit: W, every: 500ms}
  heat: {kind: hwmon, host: dut}
"""
)


def test_sensors_are_of_a_kind_and_keep_what_was_written(tmp_path):
    found = load(tmp_path, WITH_SENSORS)
    assert found.sensors["wall"] == CommandSensor(name="wall", command="cat /run/watts", unit="W", every=0.5)
    assert found.sensors["heat"] == HwmonSensor(name="heat", host="dut")
    assert Testbed.model_validate(found.model_dump(mode="json")) == found
    assert load(tmp_path, RIGHT).sensors == {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kind: command, ", "", f":12:3: sensors.wall.kind: missing (known: {KINDS})"),
        ("kind: hwmon", "kind: hwmom", f":13:10: sensors.heat.kind: unknown kind of sensor 'hwmom' (known: {KINDS}; did you mean hwmon?)"),
        ("kind: hwmon", "kind: [hwmon]", ":13:10: sensors.heat.kind: unknown kind of sensor \"['hwmon']\""),
        ("{kind: command, command: cat /run/watts, unit: W", "{kind: snmp, oid: 1.3.6, address: 'a b'", "'a b' is not an address, as 192.0.2.40"),
        (", unit: W", "", ":12:3: sensors.wall.unit: missing"),
        ("unit: W", "unit: w a t t", ":12:50: sensors.wall.unit: 'w a t t' is not a unit"),
        ("500ms", "1ms", ":12:59: sensors.wall.every: must be from 100ms to 1h"),
        ("host: dut}", "host: dot}", ":13:23: sensors.heat.host: there is no host 'dot' (known: dut, sink, source; did you mean dut?)"),
        ("  heat: {kind: hwmon, host: dut}", "  heat: hwmon", ":13:3: sensors.heat: must be a mapping"),
        ("  wall:", "  ../wall:", "sensors.../wall"),
    ],
)  # fmt: skip
def test_a_sensor_that_cannot_be_is_refused_where_it_stands(tmp_path, old, new, expected):
    assert old in WITH_SENSORS
    assert expected in faults(tmp_path, WITH_SENSORS.replace(old, new, 1))[0]


def test_a_port_takes_no_more_cores_than_its_host_names(tmp_path):
    named = RIGHT.replace("family: freebsd}", "cpus: [2, 3], cpus_per_port: 2}")
    assert load(tmp_path, named).hosts["source"].cpus_per_port == 2
    (fault,) = faults(tmp_path, named.replace("cpus_per_port: 2", "cpus_per_port: 3"))
    assert fault.endswith("hosts.source.cpus_per_port: is 3, and cpus names 2; name as many cores, or leave it out")


def test_every_fault_is_reported_at_once(tmp_path):
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
    assert faults(tmp_path, text) == [
        ":3:12: hosts.source.ssh: '-v' is not an ssh target; write [user@]host[:port], as in root@192.0.2.11",
        ":3:21: hosts.source.famly: unknown key (known: array, cpus, cpus_per_port, drives, family, local, power, ssh; did you mean family?)",
        ":7:5: links.a.speed: '10 Gb' is an amount, not a rate: per what time? Write 10 Gbit/s",
        ":11:46: links.b.path.3: nosuch:eth0: there is no host 'nosuch' (known: dut, source)",
        ":13:1: colour: unknown key (known: generator, hosts, links, sensors, testbed)",
    ]


def test_links_need_networks_of_their_own(tmp_path):
    text = RIGHT.replace(
        '"2001:db8:0::2/64", "2001:db8:0::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"',
        "172.16.0.3/24, 172.16.0.4/24, 10.0.0.1/24, 10.0.0.2/24",
    )
    assert faults(tmp_path, text) == [
        ":10:19: links.six.addresses.0: 172.16.0.0/24 overlaps 172.16.0.0/24 of link a; each cable needs a network of its own"
    ]


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


def test_links_may_share_the_cable_of_one_end(tmp_path):
    (tmp_path / "t.yaml").write_text(FAN_IN)
    testbed = load_testbed(tmp_path / "t.yaml")
    assert (testbed.ports_of("dut"), testbed.ports_of("t1")) == (["in-a", "out", "in-b"], ["eth0"])


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        # another address on the same port: then it is no longer the same cable
        ("10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24", "10.0.1.1/24, 10.0.8.1/24, 10.0.8.2/24",
         "by link a; to share its cable, write both of its ports as link a has them, at the sink's end alone: dut:out 10.0.9.1/24, t1:eth0 10.0.9.2/24"),
        # both ends: the same path twice
        ("s2:eth0, dut:in-b, dut:out, t1:eth0], addresses: [10.0.1.2/24, 10.0.1.1/24", "s1:eth0, dut:in-a, dut:out, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24",
         "links.b.path.0: s1:eth0 is already used by link a; these two are one path: links share the cable at one end alone"),
        # the cable of the other end
        ("[s2:eth0, dut:in-b, dut:out, t1:eth0]", "[t1:eth0, dut:out, dut:in-b, s2:eth0]", "links.b.path.0: t1:eth0 is already used by link a"),
        ("dut:out, t1:eth0], addresses: [10.0.1.2", "dut:x, t1:eth0], addresses: [10.0.1.2", "links.b.path.3: t1:eth0 is already used by link a"),
    ],
)  # fmt: skip
def test_what_is_not_one_whole_cable_at_the_same_end_is_not_shared(tmp_path, written, instead, said):
    text = FAN_IN.replace(written, instead)
    if "[t1:eth0" in instead:
        text = text.replace("10.0.1.2/24, 10.0.1.1/24, 10.0.9.1/24, 10.0.9.2/24", "10.0.9.2/24, 10.0.9.1/24, 10.0.1.1/24, 10.0.1.2/24")
    assert text != FAN_IN
    assert any(said in fault for fault in faults(tmp_path, text)), faults(tmp_path, text)


def test_a_black_box_has_no_way_in_and_is_the_dut_alone(tmp_path):
    box = RIGHT.replace('{ssh: "admin@[2001:db8::1]:2222", family: freebsd-pf}', "{family: black-box}")
    (tmp_path / "box.yaml").write_text(box)
    assert load_testbed(tmp_path / "box.yaml").hosts["dut"].ssh is None
    assert faults(tmp_path, RIGHT.replace("family: freebsd-pf", "family: black-box")) == [
        ":4:45: hosts.dut.family: black-box cannot be combined with a way in; leave ssh and local out, or name the family"
    ]
    assert faults(tmp_path, box.replace("{ssh: sink.example}", "{family: black-box}")) == [
        ":5:12: hosts.sink.family: only the DUT may be black-box: the others are given commands"
    ]


def test_a_testbed_may_have_no_link_but_not_no_host(tmp_path):
    head = RIGHT.split("links:", maxsplit=1)[0]
    for text in (head, head + "links: {}\n"):
        (tmp_path / "testbed.yaml").write_text(text)
        assert load_testbed(tmp_path / "testbed.yaml").links == {}
    assert faults(tmp_path, "testbed: none\nhosts: {}\n") == [":2:1: hosts: empty; a testbed needs a host"]


FOUR = """\
testbed: four
hosts:
  s1: {ssh: s1}
  s2: {ssh: s2}
  fw: {ssh: fw, family: pfsense}
  t1: {ssh: t1}
links:
  a: {path: [s1:eth0, fw:in-a, fw:out-a, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}
  b: {path: [s2:eth0, t1:eth1], addresses: [10.0.2.2/24, 10.0.2.1/24]}
  lan: {segment: [s1:eth2, s2:eth2, t1:eth2], addresses: [10.0.3.1/24, 10.0.3.2/24, 10.0.3.3/24]}
"""


def test_hosts_have_any_names_and_links_two_or_more_ports(tmp_path):
    bed = load(tmp_path, FOUR)
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


def test_a_testbed_in_which_nothing_forwards_has_no_dut(tmp_path):
    bed = load(
        tmp_path,
        "testbed: pair\nhosts: {x: {ssh: x}, y: {ssh: y}}\nlinks:\n  a: {path: [x:e, y:e], addresses: [10.0.0.1/24, 10.0.0.2/24]}\n",
    )
    assert (bed.dut, bed.dut_family, bed.through_dut().links) == (None, "black-box", {})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  s1: {ssh: s1}", "  -rf: {ssh: s1}", "hosts.-rf: '-rf' is not a name; use a-z"),
        ("  s1: {ssh: s1}", "  ../s1: {ssh: s1}", "hosts.../s1: '../s1' is not a name; use a-z"),
        ("  s1: {ssh: s1}", "  s/1: {ssh: s1}", "hosts.s/1: 's/1' is not a name; use a-z"),
        ("fw:out-a, t1:eth0]", "fw:out-a, s1:eth9]", "links.a.path.3: the path returns to s1, where it has been at s1:eth0"),
        ("fw:out-a, t1:eth0]", "t1:eth8, t1:eth0]", "links.a.path.2: t1:eth8 and fw:in-a are of two hosts; ports 2 and 3 are of one machine, and so on"),
        ("10.0.1.1/24, 10.0.1.2/24", "10.0.0.3/24, 10.0.0.4/24", "links.a.addresses.2: 10.0.0.0/24 overlaps 10.0.0.0/24 on another cable of the path, so nothing would be routed"),
        ("[10.0.2.2/24, 10.0.2.1/24]", "[10.0.2.2/24]", "links.b.addresses: 1 for 2 ports; write one a port, in the same order"),
        ("10.0.3.2/24", "10.0.4.2/24", "links.lan.addresses.1: 10.0.4.2/24 is not in 10.0.3.0/24, the network of s1:eth2; a segment is one network"),
        ("10.0.3.2/24", "10.0.3.1/24", "links.lan.addresses.1: 10.0.3.1/24 is the address of another port too"),
        ("s2:eth2, t1:eth2", "s2:eth2, s1:eth3", "links.lan.segment.2: s1 is on it twice; a host has one port on a segment"),
        ("s2:eth2, t1:eth2", "s2:eth2, x:eth3", "links.lan.segment.2: x:eth3: there is no host 'x' (known: fw, s1, s2, t1"),
        ("s2:eth2, t1:eth2", "s2:eth2, t1:eth1", "links.lan.segment.2: t1:eth1 is already used by link b"),
        ("10.0.3.1/24, 10.0.3.2/24, 10.0.3.3/24", "10.0.2.11/24, 10.0.2.12/24, 10.0.2.13/24", "links.lan.addresses.0: 10.0.2.0/24 overlaps 10.0.2.0/24 of link b"),
        ("{path: [s2:eth0, t1:eth1], ", "{path: [s2:eth0, t1:eth1], segment: [s2:eth0, t1:eth1], ", "links.b.path: cannot be combined with segment"),
        ("{path: [s2:eth0, t1:eth1], ", "{configure: true, path: [s2:eth0, t1:eth1], ", "links.b.configure: s2 is a Windows; a run configures ports of Linux only: set the port's address there and leave configure out"),
        ("{path: [s2:eth0, t1:eth1], ", "{", "links.b.path: missing; write the ports of the link, as in [source:eth1, sink:eth1]"),
        ("path: [s2:eth0, t1:eth1]", "path: [s2:eth0, s1:eth8, s1:eth9, t1:eth1]", "links.b.path: goes through s1, but the measured host is fw; every path goes through it, or call the measured host dut"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_hosts_and_links_of_other_shapes_is_said_at_its_place(tmp_path, old, new, expected):
    assert old in FOUR
    text = FOUR.replace(old, new, 1)
    if "configure" in new:
        text = text.replace("s2: {ssh: s2}", "s2: {ssh: s2, family: windows}")
    if "s1:eth8" in new:
        text = text.replace("[10.0.2.2/24, 10.0.2.1/24]", "[10.0.2.2/24, 10.0.2.1/24, 10.0.5.1/24, 10.0.5.2/24]")
    said = faults(tmp_path, text)
    assert any(expected in line for line in said), said


def test_names_of_programs_are_names_of_hosts_too(tmp_path):
    assert "rm" in load(tmp_path, FOUR.replace("s1:", "rm:").replace("  s1", "  rm")).hosts


def test_a_lab_builds_the_same_models_without_ssh_or_speed():
    path = (
        Port(host="source", interface="eth-a"),
        Port(host="dut", interface="in-a"),
        Port(host="dut", interface="out-a"),
        Port(host="sink", interface="eth-a"),
    )
    addresses = tuple(ipaddress.ip_interface(a) for a in ("172.16.0.2/24", "172.16.0.1/24", "172.16.10.1/24", "172.16.10.2/24"))
    hosts = {role: HostSpec(name=role, family="linux") for role in ROLES}
    lab = Testbed(name="three-node", lab="three-node", hosts=hosts, links={"a": Link(name="a", path=path, addresses=addresses)})
    assert lab.links["a"].dut_out == path[2]
    with pytest.raises(ValidationError, match="how to reach the host"):
        Testbed(name="three-node", hosts=hosts, links=lab.links)
    with pytest.raises(ValidationError, match="frozen"):
        lab.name = "other"


@settings(max_examples=25)
@given(testbeds)
def test_a_testbed_survives_json(testbed):
    assert Testbed.model_validate_json(testbed.model_dump_json()) == testbed
    assert Testbed.model_validate(json.loads(testbed.model_dump_json(by_alias=True))) == testbed


@pytest.mark.parametrize("name", ["--help", "-y", "../x", "/etc/passwd", ".", "a b", "h\u00f6st", "x" * 49, "$(id)", "a:b", ""])
def test_a_host_named_like_an_option_a_path_or_a_command_line_is_refused_where_it_stands(tmp_path, name):
    text = f"testbed: t\nhosts:\n  {json.dumps(name)}: {{local: true}}\n"
    assert any(said.startswith(":3:3: ") and "is not a name" in said for said in faults(tmp_path, text)), faults(tmp_path, text)


@pytest.mark.parametrize("name", ["run", "lab", "sh", "con", "all", "none", "true"])
def test_a_host_named_like_a_command_is_a_host(tmp_path, name):
    path = tmp_path / "bed.yaml"
    path.write_text(f"testbed: t\nhosts:\n  {json.dumps(name)}: {{local: true}}\n")
    assert list(load_testbed(path).hosts) == [name]
