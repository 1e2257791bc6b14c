"""`dutlab test` on ports of a real namespace with a real box between: found, measured, refused, put back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import forked
from dutlab import labs
from dutlab.errors import PortRefused
from dutlab.hosts.netns import NetnsHost
from dutlab.runner.two_ports import TwoPortRequest, find
from dutlab.spec.loader import load_experiment, load_testbed
from in_process import carried_out, cheap_rig
from lab_fixtures import lab_up
from processes import eventually
from run_records import record_in

PORTS = ("eth-in", "eth-out")
BOX = ("--gateway", "192.168.1.1", "--gateway", "10.9.0.254")
OURS = ("--address", "192.168.1.2/24", "--address", "10.9.0.2/24")
BOX6 = ("--gateway", "2001:db8:1::1", "--gateway", "2001:db8:2::1")
OURS6 = ("--address", "2001:db8:1::2/64", "--address", "2001:db8:2::2/64")
SHORT = ("--scale", "0.05", "--size", "512")


@pytest.fixture
def dutlab(python_env, tmp_path):
    """The command to its end, in the network of a namespace where one is named."""

    def run(*args, network=None):
        with cheap_rig():
            return forked.run(args, tmp_path, python_env, place=None if network is None else forked.in_network(network))

    return run


@pytest.fixture
async def box6(label):
    async with lab_up("two-port-ipv6", label) as lab:
        yield lab.namespaces["source"]


def in_it(namespace, *argv):
    return subprocess.run(["ip", "netns", "exec", namespace, *argv], capture_output=True, text=True, check=True).stdout


def state(namespace):
    return in_it(namespace, "ip", "-br", "address"), in_it(namespace, "ip", "neigh")


def test_a_box_is_found_measured_and_reported_with_no_file(dutlab, tmp_path):
    done = dutlab("test", "--lab", "--write", "kept", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "512-byte frames: NDR " in done.stdout and "Not known: the speed of the wire" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    assert f"dutlab rfc2544 --testbed {run}/testbed.yaml --mode as-found" in done.stdout
    record = record_in(run / "trials" / "0001" / "record.json")
    figures = record["figures"]["a"]
    doubts = {d["kind"] for d in record["doubts"]}
    if "half/load_pps" in figures:
        assert 0 < figures["half/load_pps"] == figures["ndr/lower_pps"] / 2
        assert figures["half/latency_p50_ns"] > 0
    else:
        assert "TX_STARVED" in doubts, "only a load that a busy machine did not make has no figures"
    assert {flow["balances"] for flow in record["flows"]} == {True}
    assert "VIRTUAL_PORTS" in doubts
    assert record["checks"][1] == {
        "what": "link a: the source address at the sink", "passed": True, "found": "as it was sent: 192.168.1.2", "by_ping": False,
    }  # fmt: skip
    page = (run / "report" / "report.md").read_text()
    assert "every duration is 0.05" in page
    testbed = load_testbed(tmp_path / "kept" / "testbed.yaml")
    assert [str(a.ip) for a in testbed.links["a"].addresses] == ["192.168.1.2", "192.168.1.1", "10.9.0.254", "10.9.0.2"]
    assert load_experiment(tmp_path / "kept" / "experiment.yaml").workloads[0].kind == "quick-test"


def test_what_a_killed_test_changed_is_undone(dutlab, python_env, box, tmp_path):
    for port in PORTS:
        in_it(box, "ip", "address", "flush", "dev", port)
    in_it(box, "ip", "link", "set", "dev", "eth-out", "down")
    before = state(box)
    words = ("test", *PORTS, *BOX, *OURS, *SHORT)
    with forked.begin(words, tmp_path, python_env, out=tmp_path / "said", place=forked.in_network(box)):
        assert eventually(lambda: {"192.168.1.2/24", "10.9.0.2/24"} <= set(state(box)[0].split()))
    (run,) = (tmp_path / "runs").iterdir()
    undone = dutlab("undo", str(run), network=box)
    assert undone.stdout.split(";")[0] in {"1 change undone", "2 changes undone"}, "the ports, and the mode if it was begun"
    assert undone.returncode == 0, undone.stderr
    assert state(box) == before
    assert not list(Path("/var/tmp").glob("dutlab-engine-*")), "its engine went with it"


async def test_a_port_that_is_none_of_a_test_link_is_refused_with_every_reason_unless_it_is_forced(box):
    host = NetnsHost("here", box)
    found = await find(host, TwoPortRequest(PORTS))
    assert found.testbed["links"]["a"]["addresses"] == ["192.168.1.2/24", "192.168.1.1/24", "10.9.0.254/24", "10.9.0.2/24"]
    assert "isolated" not in found.testbed["links"]["a"]
    assert "lladdr" not in in_it(box, "ip", "neigh"), "who was asked for is forgotten again"
    in_it(box, "ip", "link", "add", "link", "eth-in", "name", "eth-in.9", "type", "macvlan")
    in_it(box, "ip", "route", "add", "default", "via", "192.168.1.1")
    in_it(box, "ip", "address", "change", "10.9.0.2/24", "dev", "eth-out", "valid_lft", "3600", "preferred_lft", "3600")
    with pytest.raises(PortRefused) as refused:
        await find(host, TwoPortRequest(PORTS))
    for words in ("eth-in carries the default route", "eth-in carries eth-in.9", "eth-out has 10.9.0.2/24 by DHCP or from a router"):
        assert words in str(refused.value)
    assert "--force-port eth-in --force-port eth-out" in str(refused.value)
    forced = await find(host, TwoPortRequest(PORTS, forced=frozenset(PORTS), repeats=6))
    assert forced.testbed["links"]["a"]["isolated"] is True
    assert any("the in-use check was skipped" in what for what in forced.unknown)
    once = [["measured once" in what for what in ports.unknown].count(True) for ports in (found, forced)]
    assert once == [1, 0], "what is repeated shows its spread"


def test_over_ipv6_a_box_is_measured_from_ports_that_had_no_address_and_have_none_after_it(dutlab, box6, tmp_path):
    for port in PORTS:
        in_it(box6, "ip", "address", "flush", "dev", port)
    before = state(box6)
    done = dutlab("test", *PORTS, *BOX6, *OURS6, *SHORT, network=box6)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    record = record_in(run / "trials" / "0001" / "record.json")
    figures = record["figures"]["a"]
    assert 0 < figures["half/load_pps"] == figures["ndr/lower_pps"] / 2
    assert figures["half/latency_p50_ns"] > 0
    assert {flow["balances"] for flow in record["flows"]} == {True}
    assert "as it was sent: 2001:db8:1::2" in [check["found"] for check in record["checks"]]
    assert "--size rfc5180" in done.stdout, "the suite's own shortest frame holds no probe over IPv6"
    assert state(box6) == before


async def test_of_ports_with_addresses_of_both_kinds_that_kind_is_taken_which_was_asked_for(box6):
    for port, address in zip(PORTS, OURS[1::2], strict=True):
        in_it(box6, "ip", "address", "add", address, "dev", port)
    host = NetnsHost("here", box6)
    with pytest.raises(PortRefused, match=r"no host answers in 192\.168\.1\.0/24"):
        await find(host, TwoPortRequest(PORTS))
    found = await find(host, TwoPortRequest(PORTS, version=6))
    assert found.testbed["links"]["a"]["addresses"] == ["2001:db8:1::2/64", "2001:db8:1::1/64", "2001:db8:2::1/64", "2001:db8:2::2/64"]
    mix = {"name": "imix-over-ipv6", "parts": {84: 7, 594: 4, 1518: 1}}
    assert found.sizes == [84, mix, 1518]
    assert "2001:db8:1::1 " not in in_it(box6, "ip", "neigh"), "who was asked for is forgotten again"


async def test_a_bridge_between_two_ports_of_one_network_is_measured_where_it_is_called_one(dutlab, label, tmp_path):
    lab = await labs.up("two-port-bridge", label=label)
    host = NetnsHost("here", lab.namespaces["source"])
    with pytest.raises(
        PortRefused, match="are in one network; a router joins two networks; if the box is a bridge or a switch, add --bridge"
    ):
        await find(host, TwoPortRequest(PORTS))
    found = await find(host, TwoPortRequest(PORTS, bridged=True))
    assert found.testbed["links"]["a"]["addresses"] == ["192.168.1.2/24", "192.168.1.3/24"]
    with pytest.raises(PortRefused, match="are not two hosts of one network"):
        await find(host, TwoPortRequest(PORTS, bridged=True, addresses=(OURS[1], OURS[3])))
    await labs.down(label)
    done = dutlab("test", "--lab", "--bridge", *SHORT)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    record = record_in(run / "trials" / "0001" / "record.json")
    assert record["figures"]["a"]["half/load_pps"] > 0
    assert {flow["balances"] for flow in record["flows"]} == {True}
    assert all(check["passed"] for check in record["checks"])


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("lo", "lo"), 2, "duplicate port lo"),
        (("lo", "none-such"), 2, "there is no port none-such"),
        (("eth1",), 2, "name two ports"),
        (("lo", "none-such", "--gateway", "x"), 2, "--gateway is given 1 times"),
        (("lo", "none-such", "--bridge", "--gateway", "::1", "--gateway", "::2"), 2, "--gateway: a bridge has none"),
        (("a", "b", "--force-port", "c"), 2, "--force-port c: not one of the two ports"),
    ],
)
def test_what_can_be_no_test_is_refused_before_anything_is_written(python_env, tmp_path, options, status, words):
    done = carried_out(["test", *options], cwd=tmp_path, env=python_env)
    assert done.returncode == status and words in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()
