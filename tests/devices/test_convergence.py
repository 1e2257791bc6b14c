"""Convergence of a real routing daemon: BIRD with OSPF and BFD, and with BGP and many routes, as the examples start it."""

from __future__ import annotations

from pathlib import Path

import pytest

from capability import have_netns, need, need_program
from run_records import record_in

EXAMPLES = Path(__file__).parents[2] / "examples" / "convergence"


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need_program("bird")


def run(dutlab, tmp_path, example, routing, **changes):
    """The example with one way of routing, one event and one occurrence of it."""
    text = (EXAMPLES / example).read_text().replace("times: 3", "times: 1").replace("times: 2", "times: 1")
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "e.yaml").write_text(text)
    done = dutlab("run", "e.yaml", "--set", f"factors.routing={routing}")
    assert done.returncode == 0, done.stderr
    (record,) = (record_in(path) for path in tmp_path.glob("runs/*/trials/*/record.json"))
    assert record["status"] == "measured", record["why"]
    assert not list(Path("/run").glob("dutlab-bird-*")), "each daemon was ended with its level, and its folder is gone"
    return record, [row for row in record["tables"]["flows"] if row["part"] == "failure"]


def test_ospf_takes_the_flows_off_a_silent_path_once_bfd_has_missed_three_answers(dutlab, tmp_path):
    ports = "        own-port: {port: dut:out-2}\n        next-hop: {port: far:in-2}\n"
    record, rows = run(dutlab, tmp_path, "experiment.yaml", "ospf", events=(ports, ""), after=("after: 4s", "after: 3s"))
    assert any(row["lost_frames"] for row in rows) and not all(row["lost_frames"] for row in rows), "those of one next hop"
    if not record["notes"]:
        assert record["figures"]["a"]["failure/route_loss_max_ns"] < 3e9, "BFD, not the dead interval of OSPF"


def test_many_routes_by_bgp_come_back_one_after_another(dutlab, tmp_path):
    changes = {
        "routes": ("131072", "16384"),
        "network": ("10.0.0.0/11", "10.0.0.0/14"),
        "events": ("        own-port: {port: dut:out-2}\n", ""),
        "after": ("after: 15s", "after: 4s"),
    }
    record, rows = run(dutlab, tmp_path, "full-table.yaml", "backup", **changes)
    assert all(row["lost_frames"] > 0 for row in rows), "each route has one next hop"
    if not record["notes"]:
        of = record["figures"]["a"]
        assert of["failure/affected_ratio"] == 1.0 and of["failure/route_loss_min_ns"] <= of["failure/route_loss_max_ns"]
