"""A cable that is pulled in mid-trial, and put back: the trial says so, those after it are measured, the DUT is restored."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from main_job import forwarded
from processes import LIMIT_S, eventually
from run_records import record_in

pytestmark = pytest.mark.timing

EXPERIMENT = """
experiment: cable
testbed: {lab: three-node}
factors: {mode: [nat]}
workloads:
  - sweep: {frame_sizes: [64], rates: [500pps], duration: 3s, warmup: 0s, links: [[a]]}
repeats: 2
"""
Start = Callable[..., "subprocess.Popen[str]"]


def rules(label: str) -> str:
    inside = ["ip", "netns", "exec", f"dutlab-{label}-dut"]
    return subprocess.run([*inside, "nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


def cable(label: str, way: str) -> None:
    """The DUT's port towards the sink; the port at the other end loses its carrier with it."""
    subprocess.run(["ip", "-n", f"dutlab-{label}-dut", "link", "set", "out-a", way], check=True)


def records(tmp_path: Path) -> list[dict[str, Any]]:
    return [record_in(p) for p in sorted(tmp_path.glob("runs/*/trials/*/record.json"))]


def trial_begun(tmp_path: Path) -> bool:
    journal = next(tmp_path.glob("runs/*/journal.jsonl"), None)
    return journal is not None and "trial-started" in journal.read_text()


def test_the_trial_says_so_the_next_is_measured_and_the_dut_restored(start: Start, standing_lab: str, tmp_path: Path) -> None:
    before = rules(standing_lab)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    run = start("run", "e.yaml", "--lab", standing_lab)
    assert eventually(lambda: trial_begun(tmp_path))
    before_it = forwarded(standing_lab)
    assert eventually(lambda: forwarded(standing_lab) > before_it + 50), "it is in the middle of it"
    cable(standing_lab, "down")
    assert eventually(lambda: records(tmp_path) != [])
    cable(standing_lab, "up")
    assert run.wait(LIMIT_S) == 0
    pulled, after = records(tmp_path)
    (doubt,) = (d for d in pulled["doubts"] if d["kind"] == "LINK_WENT_DOWN")
    assert (doubt["about"], doubt["detail"], doubt["grade"]) == ("a", "dut:out-a, sink:eth-a", "severe")
    assert after["figures"]["a"]["received_pps"] > 0
    assert rules(standing_lab) == before
