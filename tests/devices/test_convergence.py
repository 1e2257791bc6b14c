"""Convergence of a real routing daemon: BIRD with OSPF and BFD, and with BGP and many routes, as the examples start it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capability import have_netns, need, need_program
from run_records import record_in

EXAMPLES = Path(__file__).parents[2] / "examples" / "convergence"
SHORT = {"times": "1", "after": "3s"}


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need_program("bird")


def run(dutlab, tmp_path, example, settings, *more):
    sets = [word for key, value in settings.items() for word in ("--set", f"workloads.convergence.{key}={value}")]
    done = dutlab("run", str(EXAMPLES / example), *sets, *more)
    assert done.returncode == 0, done.stderr
    records = [record_in(path) for path in tmp_path.glob("runs/*/trials/*/record.json")]
    return {(record["cell"]["factors"]["routing"], record["cell"]["setting"]["event"]["name"]): record for record in records}


def folders():
    return sorted(Path("/run").glob("dutlab-bird-*"))


def test_ospf_takes_the_flows_off_a_path_that_fails_and_ends_with_the_run(dutlab, tmp_path):
    records = run(dutlab, tmp_path, "experiment.yaml", SHORT, "--set", "factors.routing=ospf")
    assert {event for _, event in records} == {"own-port", "next-hop", "silent"}
    for (_, event), record in records.items():
        assert record["status"] == "measured", record["why"]
        failed = [row for row in record["tables"]["flows"] if row["part"] == "failure"]
        assert all(flow["balances"] for flow in record["flows"])
        if event == "silent":
            assert any(row["lost_frames"] for row in failed), "until BFD has missed three answers, flows go where nothing comes through"
            if not record["notes"]:
                of = record["figures"]["a"]
                assert 0 < of["failure/route_loss_min_ns"] <= of["failure/route_loss_max_ns"] < 3e9, "BFD, not the dead interval of OSPF"
    assert not folders()
    assert not subprocess.run(["pgrep", "-x", "bird"], capture_output=True, check=False).stdout


def test_many_routes_by_bgp_come_back_one_after_another(dutlab, tmp_path):
    records = run(
        dutlab,
        tmp_path,
        "full-table.yaml",
        {**SHORT, "after": "8s", "events": "{next-hop: {port: far:in-2}}"},
        "--set",
        "factors.routing=backup",
    )
    (record,) = records.values()
    assert record["status"] == "measured", record["why"]
    rows = [row for row in record["tables"]["flows"] if row["part"] == "failure"]
    assert all(row["lost_frames"] > 0 for row in rows), "each route has one next hop"
    if not record["notes"]:
        of = record["figures"]["a"]
        assert of["failure/affected_ratio"] == 1.0 and of["failure/route_loss_min_ns"] < of["failure/route_loss_max_ns"]
    assert not folders()
