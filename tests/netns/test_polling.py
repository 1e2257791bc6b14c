"""A device that polls keeps a core busy at no load. A run finds that out in each mode that its file makes, and says nothing by it."""

from __future__ import annotations

from capability import needs
from main_job import only_run, records

EXPERIMENT = """
experiment: polls
testbed: {lab: three-node}
factors: {mode: [polls, waits]}
modes:
  waits: {apply: [sysctl -qw net.ipv4.ip_forward=1], restore: [sysctl -qw net.ipv4.ip_forward=0]}
  polls:
    apply:
      - sysctl -qw net.ipv4.ip_forward=1
      - "setsid nice -n 19 sh -c 'echo $$ >$0; while :; do :; done' FOLDER/pid >/dev/null 2>&1 & until [ -s FOLDER/pid ]; do sleep 0.05; done"
    restore: ["kill $(cat FOLDER/pid)", sysctl -qw net.ipv4.ip_forward=0]
workloads:
  - sweep: {frame_sizes: [64], rates: [2kpps], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 1
"""

_machine = needs("engine")


def test_a_program_of_a_mode_that_is_always_busy_is_known_for_one_that_polls(dutlab, experiment, tmp_path):
    done = dutlab("run", experiment(EXPERIMENT.replace("FOLDER", str(tmp_path))))
    assert done.returncode == 0, done.stderr
    found = {of["cell"]["mode"]: of for of in records(only_run(tmp_path))}
    assert found["polls"]["polling"] and not found["waits"]["polling"]
    per_cpu = {mode: "forwarded_frames_per_cpu_s" in of["figures"]["a"] for mode, of in found.items()}
    assert per_cpu == {"polls": False, "waits": True}, "of one that polls processor time is no cost of a frame"
