"""A cable that is pulled in mid-trial, and put back: what was lost meanwhile is nobody's, and the load is offered again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import Forked
from main_job import forwarded, rules, trial_begun
from processes import eventually
from run_records import records_below

pytestmark = pytest.mark.timing

EXPERIMENT = """
experiment: cable
testbed: {lab: three-node}
factors: {mode: [nat]}
workloads:
  - sweep: {frame_sizes: [64], rates: [500pps], duration: 3s, warmup: 0s, links: [[a]]}
repeats: 2
"""
Start = Callable[..., Forked]


def cable(label: str, way: str) -> None:
    """The DUT's port towards the sink; the port at the other end loses its carrier with it."""
    subprocess.run(["ip", "-n", f"dutlab-{label}-dut", "link", "set", "out-a", way], check=True)


def test_a_load_during_which_it_is_out_is_void_and_offered_again_and_the_dut_restored(
    start: Start, standing_lab: str, tmp_path: Path
) -> None:
    before = rules(standing_lab)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    run = start("run", "e.yaml", "--lab", standing_lab)
    assert eventually(lambda: trial_begun(tmp_path))
    before_it = forwarded(standing_lab)
    assert eventually(lambda: forwarded(standing_lab) > before_it + 50), "it is in the middle of it"
    cable(standing_lab, "down")
    time.sleep(0.2)
    cable(standing_lab, "up")
    assert run.wait() == 0
    pulled, after = records_below(tmp_path)
    assert pulled["offers"]["link_lost"] >= 1 and after["offers"]["link_lost"] == 0
    for record in (pulled, after):
        (flow,) = record["flows"]
        assert (record["status"], flow["lost_frames"]) == ("measured", 0), "nothing is charged to the DUT"
        assert flow["received_frames"] > 0
        assert "LINK_WENT_DOWN" not in {d["kind"] for d in record["doubts"]}
    assert rules(standing_lab) == before
