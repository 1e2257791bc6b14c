"""A run that watches where the cycles go: real perf, its stacks kept, a flame graph a mode, and their difference."""

from __future__ import annotations

import os
import subprocess

import pytest

from capability import have_netns, need, need_program

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
    assert "Top functions: iperf3, dut" in dutlab("report", str(folder), "--print").stdout
    left = subprocess.run(["pgrep", "-s", str(os.getsid(0)), "-x", "perf"], capture_output=True, check=False)
    assert not left.stdout
