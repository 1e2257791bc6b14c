"""A run that watches where the cycles go: real perf, its stacks kept, a flame graph a mode, and their difference."""

from __future__ import annotations

import os
import subprocess

import pytest

from capability import have_netns, need, need_program
from run_records import record_in

EXPERIMENT = """
experiment: profile
testbed: {lab: three-node}
factors: {mode: [router, nat]}
watch: [cpu, perf]
disturbed: count
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}
repeats: 1
order: as-written
"""


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    for program in ("nft", "iperf3", "perf"):
        need_program(program)


def test_cycles_are_told_by_function_for_each_mode_and_for_their_difference(dutlab, tmp_path):
    (tmp_path / "profile.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "profile.yaml")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    stacks = sorted(folder.glob("trials/*/raw/profile-dut.folded"))
    assert len(stacks) == 2
    assert "ksys_write" in stacks[0].read_text() or "tcp_sendmsg" in stacks[0].read_text()
    page = (folder / "report" / "report.html").read_text()
    assert "Where the cycles went: router" in page and "nat against router" in page
    assert "Top functions: iperf3, dut" in dutlab("report", str(folder), "--print", "--verbose").stdout
    left = subprocess.run(["pgrep", "-s", str(os.getsid(0)), "-x", "perf"], capture_output=True, check=False)
    assert not left.stdout


AT_LIMIT = """
experiment: profile-at-limit
testbed: {lab: three-node}
factors: {mode: [router]}
profile: yes
watch: [cpu]
disturbed: count
workloads:
  - search: {goals: [{name: half, loss: 50%, exceed: 0%, initial: 300ms, final: 300ms, sum: 300ms, width: 60%}], frame_sizes: [64], links: [[a]], lowest: 1kpps, highest: 4kpps}
repeats: 2
order: as-written
"""


def test_a_limit_is_profiled_after_it_was_found_beside_a_control_trial_that_is_not(dutlab, tmp_path):
    (tmp_path / "limit.yaml").write_text(AT_LIMIT)
    done = dutlab("run", "limit.yaml")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = [record_in(file) for file in sorted(folder.glob("trials/*/record.json"))]
    assert [[row["trial"] for row in record["tables"]["at_limit"]] for record in records] == [
        ["control", "profiled"],
        ["profiled", "control"],
    ]
    for record in records:
        limit = record["figures"]["a"]["half/lower_pps"]
        assert all(row["offered_pps"] == pytest.approx(limit, rel=0.01) for row in record["tables"]["at_limit"])
        assert [name for name in record["raw"] if name.startswith("raw/profile-")] == ["raw/profile-dut+at_limit.folded"]
        assert len({row["number"] for row in record["tables"]["trials"]}) == record["figures"]["a"]["search_trials"]
    (stacks,) = folder.glob("trials/0001/raw/profile-dut+at_limit.folded")
    assert len(stacks.read_text().splitlines()) > 10
    page = (folder / "report" / "report.html").read_text()
    assert "Where the cycles went: router, search, dut, at the limit" in page
    assert "What profiling costs: search" in page and "not proven, 2 pairs" in page
    left = subprocess.run(["pgrep", "-s", str(os.getsid(0)), "-x", "perf"], capture_output=True, check=False)
    assert not left.stdout
