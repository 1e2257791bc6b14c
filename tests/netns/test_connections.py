"""TCP connections of real kernels through the lab's router: counted at both ends, translated, refused, and reset by whom."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from capability import needs
from dutlab.dut import family
from dutlab.errors import ToolFailed
from dutlab.methods.connection_ports import ConnectionLoad
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import Journal
from dutlab.spec.address_blocks import block_of
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.connections import FIRST_PORT, EngineConnections
from dutlab.units import Seconds
from processes import eventually
from run_records import record_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "connections" / "experiment.yaml"
LOAD = ConnectionLoad("a", 200.0, 100, 1, 200, "1024", Seconds(10.0))

_machine = needs("engine", "nft")


@pytest.fixture
async def connections(lab):
    hosts = lab.hosts()
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    return EngineConnections(hosts, lab.testbed, {}, dict.fromkeys(hosts, str(find_engine())), lambda *_: None)


async def on_dut(lab, ruleset):
    await lab.hosts()["dut"].run(["nft", "-f", "-"], stdin=ruleset.encode())


def test_the_ready_experiment_measures_connections_through_filter_and_nat(dutlab, tmp_path):
    sets = {"trial": "1s", "highest": 400, "most": 1000, "fill_rate": 500, "requests": 3, "timeout": "20s", "failed": "1%"}
    words = [word for key, value in sets.items() for word in ("--set", f"workloads.connections.{key}={value}")]
    done = dutlab("run", str(EXAMPLE), *words, "--set", "factors.mode=[nat]", "--set", "disturbed=count")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (record,) = [record_in(path) for path in folder.glob("trials/*/record.json")]
    figures = record["figures"]["a"]
    assert figures["connections_lower_per_s"] > 0
    assert figures["first_byte_p50_ns"] > figures["handshake_p50_ns"] > 0
    assert figures["concurrent_connections"] == 1000
    held = record["tables"]["concurrent_trials"][-1]
    assert (held["open_max_connections"], held["completed_connections"]) == (1000, 1000)
    assert held["tracked_flows"] >= 1000
    said = dutlab("report", str(folder), "--print", "--verbose").stdout
    assert "Connections through the DUT" in said, said


async def test_who_refuses_is_told_by_the_sinks_own_counter(lab, connections):
    whole = await connections.carry_out(LOAD)
    assert (whole.completed, whole.reset_by_path, whole.reset_by_sink) == (whole.begun, 0, 0)
    rule = f"tcp dport {FIRST_PORT}-{FIRST_PORT + 15} reject with tcp reset"
    await on_dut(lab, f"table inet refusing {{ chain forward {{ type filter hook forward priority 0; {rule}; }}; }}")
    refused = await connections.carry_out(LOAD)
    assert (refused.established, refused.failed["refused"]) == (0, refused.begun)
    assert (refused.reset_by_path, refused.reset_by_sink) == (refused.begun, 0)


async def test_where_a_filter_drops_no_handshake_is_answered(lab, connections):
    rule = f"tcp dport {FIRST_PORT}-{FIRST_PORT + 15} drop"
    await on_dut(lab, f"table inet dropping {{ chain forward {{ type filter hook forward priority 0; {rule}; }}; }}")
    load = ConnectionLoad("a", 200.0, 50, 1, 200, "1024", Seconds(0.5))
    dropped = await connections.carry_out(load)
    assert (dropped.established, dropped.failed["no_handshake"], dropped.reset_by_path) == (0, dropped.begun, 0)


async def test_connections_that_are_held_are_spread_over_processes_and_the_dut_knows_them_all(lab, connections, monkeypatch):
    monkeypatch.setattr("dutlab.tools.engine.connections.MOST_EACH", 150)
    held = await connections.carry_out(ConnectionLoad("a", 300.0, 400, 1, 200, "1024", Seconds(20.0), hold=True))
    assert held.completed == held.begun == held.open_max == 400
    assert held.transactions == 800
    assert len(json.loads(held.raw["connections.json"])["clients"]) == 3


@pytest.fixture
def device(lab, tmp_path):
    linux, journal, hosts = family("linux"), Journal(tmp_path / "journal.jsonl"), lab.hosts()
    yield JournaledDevice(hosts["dut"], lab.testbed, linux.modes, linux.resets, prober=None, journal=journal, hosts=hosts)
    journal.close()


async def test_connections_come_from_all_addresses_in_turn_and_who_refuses_is_still_told(lab, device):
    hosts = lab.hosts()
    source, before = hosts["source"], (await hosts["source"].run(["ip", "-o", "address"])).text
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    several = EngineConnections(hosts, lab.testbed, {}, dict.fromkeys(hosts, str(find_engine())), device.announce)
    rule = f"tcp dport {FIRST_PORT}-{FIRST_PORT + 15} add @seen {{ ip saddr }}"
    chain = "type filter hook forward priority 0;"
    await on_dut(lab, f"table ip t {{ set seen {{ type ipv4_addr; flags dynamic; }}; chain c {{ {chain} {rule}; }}; }}")
    whole = await several.carry_out(replace(LOAD, sources=8))
    assert (whole.completed, whole.begun) == (100, 100)
    said = json.loads((await hosts["dut"].run(["nft", "-j", "list", "set", "ip", "t", "seen"])).text)
    (seen,) = [of["set"]["elem"] for of in said["nftables"] if "set" in of]
    own = lab.testbed.links["a"].source_address
    assert len(seen) == 8 and str(own.ip) in seen and all(ip_address(ip) in own.network for ip in seen)
    await on_dut(lab, f"table ip refusing {{ chain c {{ {chain} tcp dport {FIRST_PORT}-{FIRST_PORT + 15} reject with tcp reset; }}; }}")
    refused = await several.carry_out(replace(LOAD, sources=8))
    assert (refused.failed["refused"], refused.reset_by_path, refused.reset_by_sink) == (refused.begun, refused.begun, 0)
    assert await device.put_back()
    assert (await source.run(["ip", "-o", "address"])).text == before


async def test_addresses_of_somebody_else_in_the_block_are_refused_and_stay(lab, device):
    hosts, own = lab.hosts(), lab.testbed.links["a"].source_address
    theirs = str(block_of(own, 7, [address.ip for address in lab.testbed.links["a"].addresses])[3])
    await hosts["source"].run(["ip", "address", "add", f"{theirs}/32", "dev", lab.testbed.links["a"].source.interface])
    several = EngineConnections(hosts, lab.testbed, {}, dict.fromkeys(hosts, str(find_engine())), device.announce)
    with pytest.raises(ToolFailed, match=r"has addresses in .* already"):
        await several.carry_out(replace(LOAD, sources=8))
    assert not await device.put_back()
    assert theirs in (await hosts["source"].run(["ip", "-o", "address"])).text


@pytest.mark.timing
def test_addresses_that_a_killed_run_left_are_taken_away_by_undo(start, dutlab, standing_lab, tmp_path):
    sets = ("tests=[rate]", "trial=30s", "highest=100", "sources=8")
    words = [word for of in sets for word in ("--set", f"workloads.connections.{of}")]
    before = _addresses(standing_lab)
    running = start("run", str(EXAMPLE), *words, "--set", "factors.mode=[nat]", "--set", "disturbed=count", "--lab", standing_lab)
    there = eventually(lambda: len(_addresses(standing_lab).splitlines()) == len(before.splitlines()) + 7)
    os.kill(running.pid, signal.SIGKILL)
    said = running.ended()
    assert there, said
    (folder,) = (tmp_path / "runs").iterdir()
    done = dutlab("undo", str(folder))
    assert done.returncode == 0, done.stderr
    assert _addresses(standing_lab) == before


def _addresses(label):
    done = subprocess.run(["ip", "-n", f"dutlab-{label}-source", "-o", "address"], capture_output=True, text=True, check=True)
    return done.stdout
