"""Convergence of real routing daemons, BIRD and FRR: OSPF with BFD, BGP with many routes, and a killed daemon, as the examples start them."""

from __future__ import annotations

from pathlib import Path

import pytest

from capability import have_netns, need, need_program
from run_records import record_in

EXAMPLES = Path(__file__).parents[2] / "examples" / "convergence"
OWN_PORT, NEXT_HOP = "        own-port: {port: dut:out-2}\n", "        next-hop: {port: far:in-2}\n"
FEWER = (("131072", "16384"), ("times: 2", "times: 1"), (OWN_PORT, ""))


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need_program("bird")


def need_frr():
    """Its daemons are in no PATH."""
    need("frr", Path("/usr/lib/frr/bgpd").exists())


def run(dutlab, tmp_path, example, routing, changes):
    """The records by event, of the example with one way of routing and with these changes to its text."""
    text = (EXAMPLES / example).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "e.yaml").write_text(text)
    done = dutlab("run", "e.yaml", "--set", f"factors.routing={routing}")
    assert done.returncode == 0, done.stderr
    records = [record_in(path) for path in tmp_path.glob("runs/*/trials/*/record.json")]
    assert {record["status"] for record in records} == {"measured"}, [record["why"] for record in records]
    assert not list(Path("/run").glob("dutlab-routing-*")), "each daemon was ended with its level, and its folder is gone"
    return {record["cell"]["setting"]["event"]["name"]: record for record in records}


def of_part(record, part):
    """The rows of the flows of this part."""
    return [row for row in record["tables"]["flows"] if row["part"] == part]


def leaves_a_silent_path(dutlab, tmp_path, routing):
    changes = ((OWN_PORT + NEXT_HOP, ""), ("after: 4s", "after: 2s"), ("times: 3", "times: 1"))
    record = run(dutlab, tmp_path, "experiment.yaml", routing, changes)["silent"]
    lost = [row["lost_frames"] > 0 for row in of_part(record, "failure")]
    assert any(lost) and not all(lost), "those of one next hop"
    if not record["notes"]:
        assert record["figures"]["a"]["failure/route_loss_max_ns"] < 3e9, "BFD, not the dead interval of OSPF"


def converges_route_by_route(record):
    assert all(row["lost_frames"] > 0 for row in of_part(record, "failure")), "each route has one next hop"
    if not record["notes"]:
        of = record["figures"]["a"]
        assert of["failure/affected_ratio"] == 1.0 and of["failure/route_loss_min_ns"] <= of["failure/route_loss_max_ns"]


def test_ospf_of_bird_takes_the_flows_off_a_silent_path_once_bfd_has_missed_three_answers(dutlab, tmp_path):
    leaves_a_silent_path(dutlab, tmp_path, "ospf-bird")


def test_ospf_of_frr_takes_the_flows_off_a_silent_path_once_bfd_has_missed_three_answers(dutlab, tmp_path):
    need_frr()
    leaves_a_silent_path(dutlab, tmp_path, "ospf-frr")


def test_many_routes_by_bgp_of_bird_come_back_one_after_another(dutlab, tmp_path):
    text = (EXAMPLES / "full-table.yaml").read_text()
    daemon = text[text.index("        daemon:") : text.index("      times:")]
    changes = (*FEWER, ("after: 15s", "after: 4s"), (daemon, ""))
    converges_route_by_route(run(dutlab, tmp_path, "full-table.yaml", "bird-backup", changes)["next-hop"])


def test_frr_converges_by_bgp_and_a_killed_bgpd_takes_its_routes_along_until_they_are_announced_again(dutlab, tmp_path):
    need_frr()
    records = run(dutlab, tmp_path, "full-table.yaml", "frr-backup", (*FEWER, ("after: 15s", "after: 3s")))
    converges_route_by_route(records["next-hop"])
    killed = records["daemon"]
    assert all(0 < row["lost_frames"] < row["made_frames"] for row in of_part(killed, "failure"))  # zebra removes them
    if not killed["notes"]:
        of = killed["figures"]["a"]
        assert of["failure/full_convergence_ns"] >= of["failure/first_route_ns"] > 0
        assert of["reversion/lossless_ratio"] == 1.0, "it runs again already"
