"""Devices that are programs: started with their mode, verified by frames and by their own counts, ended with it, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from capability import have_engine, have_netns, need, need_program
from dutlab.dut import family
from dutlab.runner.undo import carry_out
from dutlab.systems.sample_names import DEVICE_FRAMES, poll_cycle_shares
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
def _machine(no_leak, cheap_rig):
    need("netns", have_netns())
    need("engine", have_engine())


def folders(run):
    """Those of its devices, as the journal names them."""
    undo = [step for of in events(run) if of["event"] == "mode-applying" for step in of["undo"]]
    found = [Path(word) for step in undo for word in step["argv"] if word.startswith("/var/tmp/dutlab-")]
    assert found
    return found


def taken_ports(label):
    """Whether a program has made ports promiscuous, attached XDP to them, or left bridges."""
    said = subprocess.run(["ip", "-n", f"dutlab-{label}-dut", "link"], capture_output=True, text=True, check=True).stdout
    return "PROMISC" in said or "xdp" in said or "dutlab0" in said


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
    assert all(check["passed"] for check in record["checks"]) and len(record["checks"]) == 4
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


@pytest.fixture(scope="module")
def l3fwd(tmp_path_factory):
    """The folder of DPDK's l3fwd, built as the example builds it."""
    need("dpdk-doc", Path("/usr/share/dpdk/examples/l3fwd").is_dir())
    for program in ("make", "cc", "pkg-config"):
        need_program(program)
    folder = tmp_path_factory.mktemp("bin")
    built = subprocess.run(["sh", EXAMPLES / "l3fwd.sh", folder], capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("name", ["ovs-switch", "ovs-router-polling", "ovs-filter", "testpmd-mac", "l3fwd-lpm", "l3fwd-fib", "l3fwd-xdp"])
async def test_a_program_forwards_as_its_mode_says_and_leaves_the_dut_as_it_was(lab, hosts, engine, request, monkeypatch, name):
    need_program("ovs-vswitchd")
    need_program("dpdk-testpmd")
    if "l3fwd" in name:
        monkeypatch.setenv("PATH", f"{request.getfixturevalue('l3fwd')}:{os.environ['PATH']}")
    dut, mode = hosts["dut"], family("linux").modes_among({})[name].on_cores(lab.cpus["dut"])
    before = dut_state(lab.label), taken_ports(lab.label)
    undo = await mode.undo(dut, lab.testbed)
    await mode.apply(dut, lab.testbed)
    checks = await mode.verify(dut, lab.testbed, engine)
    assert {c.statement: c.found for c in checks if not c.passed} == {}
    tracks, programs = mode.declared.behaviour.tracks, len(mode.programs.running)
    assert len(checks) == programs + 2 + len(lab.testbed.links) * (3 + tracks)
    assert set(mode.program_names) == ({"ovsdb-server", "ovs-vswitchd"} if programs > 1 else {f"dpdk-{name.partition('-')[0]}"})
    if "polling" in name or "testpmd" in name:
        (share,) = poll_cycle_shares(await mode.device_counters(dut))
        assert 0 < share < 1
    for pid in [pid for pid, line in processes_in(lab.label).items() if b"ovs-vswitchd" in line and "polling" in name]:
        os.kill(pid, signal.SIGKILL)  # it leaves its XDP programs, its bridges and promiscuous ports
    await carry_out(undo, {"dut": dut})
    assert not Path(mode.programs.folder).exists() and not any(c.passed for c in mode.programs.checks())
    assert (dut_state(lab.label), taken_ports(lab.label)) == before


def test_what_a_polling_program_costs_a_frame_is_the_time_in_which_it_had_frames(experiment, dutlab, tmp_path):
    need_program("dpdk-testpmd")
    done = dutlab("run", experiment(EXPERIMENT.replace("MODES", "testpmd-io")))
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    found, threads = record["figures"]["a"], record["interference"]["this-machine"]["threads"]
    assert record["status"] == "measured" and record["polling"]
    assert record["counters"]["dut"][DEVICE_FRAMES] >= 1000 and "ip_forwarded_datagrams" not in record["counters"]["dut"]
    assert found["forwarded_frames_per_cpu_s"] > 1000 / threads["dpdk-testpmd"]["run_s"]
