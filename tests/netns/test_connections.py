"""TCP connections of real kernels through the lab's router: counted at both ends, translated, refused, and reset by whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capability import have_engine, have_netns, need, need_program
from dutlab.methods.connection_ports import ConnectionLoad
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.connections import FIRST_PORT, EngineConnections
from dutlab.units import Seconds

EXAMPLE = Path(__file__).parents[2] / "examples" / "connections" / "experiment.yaml"
LOAD = ConnectionLoad("a", 200.0, 100, 1, 200, 1024, Seconds(10.0))


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need("engine", have_engine())
    need_program("nft")


@pytest.fixture
async def connections(lab):
    hosts = lab.hosts()
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    return EngineConnections(hosts, lab.testbed, {}, dict.fromkeys(hosts, str(find_engine())))


async def on_dut(lab, ruleset):
    await lab.hosts()["dut"].run(["nft", "-f", "-"], stdin=ruleset.encode())


def test_the_ready_experiment_measures_connections_through_filter_and_nat(dutlab, tmp_path):
    sets = {"trial": "1s", "highest": 400, "most": 1000, "fill_rate": 500, "requests": 3, "timeout": "20s", "failed": "1%"}
    words = [word for key, value in sets.items() for word in ("--set", f"workloads.connections.{key}={value}")]
    done = dutlab("run", str(EXAMPLE), *words, "--set", "factors.mode=[nat]", "--set", "disturbed=count")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (record,) = [json.loads(path.read_text()) for path in folder.glob("trials/*/record.json")]
    figures = record["figures"]["a"]
    assert figures["connections_lower_per_s"] > 0
    assert figures["first_byte_p50_ns"] > figures["handshake_p50_ns"] > 0
    assert figures["concurrent_connections"] == 1000
    held = record["tables"]["concurrent_trials"][-1]
    assert (held["open_max_connections"], held["completed_connections"]) == (1000, 1000)
    assert held["tracked_flows"] >= 1000
    said = dutlab("report", str(folder), "--print").stdout
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
    load = ConnectionLoad("a", 200.0, 50, 1, 200, 1024, Seconds(0.5))
    dropped = await connections.carry_out(load)
    assert (dropped.established, dropped.failed["no_handshake"], dropped.reset_by_path) == (0, dropped.begun, 0)


async def test_connections_that_are_held_are_spread_over_processes_and_the_dut_knows_them_all(lab, connections, monkeypatch):
    monkeypatch.setattr("dutlab.tools.engine.connections.MOST_EACH", 150)
    held = await connections.carry_out(ConnectionLoad("a", 300.0, 400, 1, 200, 1024, Seconds(20.0), hold=True))
    assert held.completed == held.begun == held.open_max == 400
    assert held.transactions == 800
    assert len(json.loads(held.raw["connections.json"])["clients"]) == 3
