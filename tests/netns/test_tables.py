"""Routing tables and state tables of the lab's router, loaded, measured, and as they were before."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from capability import need_program, needs
from processes import eventually
from run_records import record_in

ROOT = Path(__file__).parents[2]
ROUTES = """
experiment: routes
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - routes: {counts: [10, 5000], duration: DURATION, warmup: 100ms, drain: 200ms, links: [[a]]}
repeats: 1
order: as-written
"""
PORTS = """
experiment: ports
testbed: {lab: three-node}
factors: {mode: [nat]}
workloads:
  - state: {tests: [concurrent], fill_rate: 5kpps, nat_ports: [2000, 2511], destination_ports: 1, most_flows: 1024, width: 20%, loss: 5%, drain: 200ms, links: [[a]]}
  - state: {tests: [rate, concurrent], trial: 200ms, loss: 5%, width: 20%, drain: 100ms, most_flows: 2000, fill_rate: 2kpps, links: [[a]]}
repeats: 1
order: as-written
"""

_machine = needs("nft")


def records(folder):
    return [record_in(path) for path in sorted(folder.glob("trials/*/record.json"))]


def example(name, **settings):
    """Arguments that run a ready experiment with other settings of its workload."""
    sets = [f"workloads.{name}.{key}={value}" for key, value in settings.items()]
    return ["run", str(ROOT / "examples" / name / "experiment.yaml"), *(word for s in sets for word in ("--set", s))]


def test_the_ready_experiment_loads_routes_uses_them_and_reports(dutlab, tmp_path):
    done = dutlab(*example("routes", counts="10,5000", duration="200ms", warmup="0s"))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    few, many = records(folder)
    for record, count in ((few, 10), (many, 5000)):
        figures = record["figures"]["a"]
        assert (record["status"], figures["routes_loaded"]) == ("measured", count), record["why"]
        assert figures["received_pps"] > 0
        assert figures["routes_hit"] == min(count, record["flows"][0]["sent_frames"])
    journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    changes = [(e["event"], e["application"]) for e in journal if e["event"].startswith("dut-")]
    assert [event for event, change in changes if "routes" in change] == ["dut-changing", "dut-restored"] * 2
    assert "Size of the routing table" in (folder / "report" / "report.md").read_text()


def test_routes_of_a_run_that_was_killed_are_taken_out_by_undo(dutlab, label, start, tmp_path):
    done = dutlab("lab", "up", "three-node", "--label", label)
    assert done.returncode == 0, done.stderr
    try:

        def routes():
            show = ["ip", "-n", f"dutlab-{label}-dut", "route", "show", "proto", "219"]
            return len(subprocess.run(show, capture_output=True, text=True, check=True).stdout.splitlines())

        (tmp_path / "e.yaml").write_text(ROUTES.replace("DURATION", "60s"))
        with start("run", "e.yaml", "--lab", label):
            assert eventually(lambda: routes() == 10)
        assert routes() == 10, "nobody was left to take them out"
        (folder,) = (tmp_path / "runs").iterdir()
        done = dutlab("undo", str(folder))
        assert done.returncode == 0, done.stderr
        assert routes() == 0
    finally:
        dutlab("lab", "down", label)


def test_the_ready_experiment_of_state_runs(dutlab, tmp_path):
    need_program("conntrack")
    done = dutlab(*example("state", tests="[concurrent]", fill_rate="2kpps", most_flows="1024"), "--set", "factors.mode=filter-default")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (record,) = records(folder)
    assert record["tables"]["concurrent_trials"][0]["tracked_flows"] >= 1, record["why"]


def test_the_ports_of_a_translator_end_where_they_were_made_to(dutlab, tmp_path):
    need_program("conntrack")
    (tmp_path / "e.yaml").write_text(PORTS)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    ports, table = records(folder)
    assert (ports["status"], table["status"]) == ("measured", "measured"), (ports["why"], table["why"])
    # 512 ports; a twentieth of the flows may fail, and a busy machine may lose more of them.
    assert 256 <= ports["figures"]["a"]["concurrent_flows"] <= 512 * 1.06, ports["tables"]
    full = ports["tables"]["concurrent_trials"][0]
    assert full["asked_flows"] == 1024
    assert full["set_up_flows"] <= 512
    assert full["insert_failed_count"] + full["drop_count"] > 0
    assert any("not full by its size" in n for n in ports["notes"])
    last = table["tables"]["concurrent_trials"][-1]
    assert last["tracked_flows"] >= last["answered_flows"] > 0, "answers came back to the translated address"
    assert table["tables"]["setup_trials"]
    assert "State table" in (folder / "report" / "report.md").read_text()
