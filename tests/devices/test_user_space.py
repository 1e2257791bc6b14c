"""Devices that are programs: started with their mode, verified by frames and by their own counts, ended with it, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from capability import have_engine, have_netns, need, need_program
from dutlab.systems.sample_names import CYCLES, CYCLES_WITH_FRAMES, DEVICE_FRAMES
from main_job import dut_state, events, only_run, processes_in, records
from processes import eventually

EXAMPLES = Path(__file__).parents[2] / "examples" / "user-space"
EXPERIMENT = """
experiment: programs
testbed: {lab: three-node}
factors: {mode: [MODES]}
workloads:
  - sweep: {frame_sizes: [64], rates: [2kpps], duration: 500ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 1
disturbed: count
"""
OWN = """
modes:
  own:
    start: ["echo begins; touch here; exec sleep MARKER", "PROGRAM"]
    ready: [test -e here, test -s number]
    apply: [sysctl -qw net.ipv4.ip_forward=1]
    verify: [test -e here]
    restore: [sysctl -qw net.ipv4.ip_forward=0]
"""
LIVES = "echo $$ >number; exec sleep MARKER"
ENDS = (  # once, in the middle of a trial: the frames that verify the mode are fewer
    "echo $$ >number; [ -e ONCE ] || { touch ONCE; until [ $(cat /sys/class/net/out-a/statistics/tx_packets) -gt 300 ]; do sleep 0.02; done;"
    " echo the last words; exit 3; }; exec sleep MARKER"
)


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need("engine", have_engine())


def folders(run):
    """Those of its devices, as the journal names them."""
    undo = [step for of in events(run) if of["event"] == "mode-applying" for step in of["undo"]]
    found = [Path(word) for step in undo for word in step["argv"] if word.startswith("/var/tmp/dutlab-")]
    assert found
    return found


def promiscuous(label):
    said = subprocess.run(["ip", "-n", f"dutlab-{label}-dut", "link"], capture_output=True, text=True, check=True).stdout
    return "PROMISC" in said


@pytest.fixture
def own(experiment, tmp_path, marker):
    """The experiment of a mode of the file's own, whose second program is this."""

    def of(program):
        text = (EXPERIMENT.replace("MODES", "own") + OWN).replace("PROGRAM", program)
        return experiment(text.replace("ONCE", str(tmp_path / "once")).replace("MARKER", marker))

    return of


@pytest.mark.smoke
def test_a_program_that_ends_in_mid_trial_voids_it_and_is_named_with_its_last_lines(own, dutlab, tmp_path):
    done = dutlab("run", own(ENDS))
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    (aside,) = [of for of in events(only_run(tmp_path)) if of["event"] == "attempt-set-aside"]
    assert (record["status"], record["attempt"], aside["reason"]) == ("measured", 2, "mode-lost")
    assert "ended with 3" in aside["why"] and "the last words" in aside["why"]
    assert all(check["passed"] for check in record["checks"]) and len(record["checks"]) == 5
    assert not any(folder.exists() for folder in folders(only_run(tmp_path)))


def test_what_ends_before_it_is_ready_is_named_and_nothing_is_measured(own, dutlab, tmp_path):
    done = dutlab("run", own("echo no memory; exit 7"))
    (record,) = records(only_run(tmp_path))
    assert done.returncode != 0 and record["status"] == "refused"
    assert "ended with 7" in record["why"] and "no memory" in record["why"]


def test_after_a_kill_nothing_of_the_device_is_left_once_the_run_is_undone(own, start, dutlab, standing_lab, marker, tmp_path):
    before = dut_state(standing_lab)
    running = start("run", own(LIVES).replace("duration: 500ms", "duration: 60s"), "--lab", standing_lab)
    assert eventually(lambda: any(marker.encode() in line for line in processes_in(standing_lab).values()))
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    undone = dutlab("undo", str(only_run(tmp_path)))
    assert undone.returncode == 0, undone.stderr
    assert eventually(lambda: not processes_in(standing_lab))
    assert dut_state(standing_lab) == before and not any(folder.exists() for folder in folders(only_run(tmp_path)))


def test_open_vswitch_and_testpmd_forward_are_counted_and_leave_the_dut_as_it_was(experiment, dutlab, standing_lab, tmp_path):
    need_program("ovs-vswitchd")
    need_program("dpdk-testpmd")
    before, modes = dut_state(standing_lab), ["ovs-switch", "ovs-router", "ovs-filter", "testpmd-io", "testpmd-mac"]
    done = dutlab("run", experiment(EXPERIMENT.replace("MODES", ", ".join(modes))), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    found = {of["cell"]["mode"]: of for of in records(only_run(tmp_path))}
    assert {mode: of["status"] for mode, of in found.items()} == dict.fromkeys(modes, "measured")
    for mode, of in found.items():
        assert of["counters"]["dut"][DEVICE_FRAMES] >= 1000, mode
        threads = of["interference"]["this-machine"]["threads"]
        assert {"ovs-vswitchd", "dpdk-testpmd"} & set(threads), "its processor time is the device's"
        assert "forwarded_frames_per_cpu_s" in of["figures"]["a"], mode
    polls = {mode for mode, of in found.items() if of["polling"]}
    assert polls == {"testpmd-io", "testpmd-mac"}
    cycles = found["testpmd-mac"]["counters"]["dut"]
    assert 0 < cycles[f"testpmd{CYCLES_WITH_FRAMES}"] < cycles[f"testpmd{CYCLES}"]
    assert dut_state(standing_lab) == before and not promiscuous(standing_lab) and not processes_in(standing_lab)
