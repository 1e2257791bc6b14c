"""The two phases of RFC 9693 with real frames: through the lab's router that translates, and a translator of known size."""

from __future__ import annotations

import json
from pathlib import Path

from ruamel.yaml import YAML

from capability import needs
from dutlab import labs
from dutlab.methods.known.translated import translator
from dutlab.runner.verify import verify
from dutlab.spec.workloads.stateful_nat import NatTest
from dutlab.tools.engine.binary import find_engine
from run_records import record_in

EXPERIMENT = """
experiment: nat
testbed: {lab: three-node}
modes: MODES
factors: {mode: [nat-110]}
workloads:
  - stateful-nat:
      {tests: [establishment, throughput, tear-down, capacity], connections: [100], fill_rate: 4kpps, highest: 4kpps, width: 50%, scale: 0.005,
       beta: 50%, gamma: 90%, capacity_from: 105, most_connections: 116, drain: 100ms, links: [[a]]}
repeats: 1
disturbed: count
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "nat" / "table.yaml"

_machine = needs("nft")


def test_connections_through_a_translator_are_learned_answered_loaded_from_both_sides_deleted_and_counted(dutlab, tmp_path):
    modes = json.dumps(YAML(typ="safe").load(EXAMPLE)["modes"]).replace("4096", "110")
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("MODES", modes))
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (record,) = [record_in(path) for path in folder.glob("trials/*/record.json")]
    figures, tables = record["figures"]["a"], record["tables"]
    assert record["status"] == "measured", record["why"]
    established = [row for row in tables["establishment_trials"] if row["passed"] == "yes"]
    assert established, tables
    assert {row["different_connections"] for row in established} == {100}
    assert {"establishment_lower_per_s", "throughput_pps", "tear_down_per_s"} <= figures.keys(), record["notes"]
    assert (figures["capacity_connections"], figures["capacity_upper_connections"]) == (110, 111)
    (torn,) = tables["tear_down"]
    assert torn["tracked_flows"] >= 100
    assert torn["left_connections"] == 0
    report = (folder / "report" / "report.md").read_text()
    assert all(f"section 4.{n}" in report for n in (5, 7, 8, 9))


async def test_a_table_of_known_size_is_found_to_the_connection(label):
    lab = await labs.up("three-node", label=label)
    try:
        case = translator(most=283, per_s=4000, depth=40, connections=250, tests=(NatTest.CAPACITY,))
        for _ in range(3):  # where other work holds up the sender, what it makes good at once overflows the translator
            (capacity,) = await verify(lab, [case], str(find_engine()), lambda _: None)
            if capacity.holds:
                break
    finally:
        await labs.down(label)
    assert capacity.holds, capacity
