"""Levels of factors in a lab: set in each cell, verified, put back when they are left, at the end, and after kill -9."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from capability import needs
from dutlab.runner.journal import pending_undo, read_journal
from main_job import events, only_run, records
from processes import eventually
from slow_links import slow_down

HEAD = """
experiment: levels
testbed: {lab: three-node}
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}
repeats: 1
disturbed: count
"""
CROSSED = (
    HEAD
    + """
factors:
  mode: [router, nat]
  mtu: [1500, 9000]
  sysctl.net.ipv4.tcp_congestion_control: [reno]
  offloads: [gro off]
  rps: ["0"]
  limit: ["none", refuses]
exclude: [{limit: refuses, mtu: 9000}, {limit: refuses, mode: nat}]
levels:
  limit:
    none: {}
    refuses:
      host: sink
      apply: [sysctl -w net.ipv4.tcp_no_metrics_save=0]
      verify: ["echo the sink says no >&2; exit 3"]
      restore: [sysctl -w net.ipv4.tcp_no_metrics_save=1]
"""
)

_machine = needs("iperf3", "nft", "ethtool")


def inside(label, host, command):
    done = subprocess.run(
        ["ip", "netns", "exec", f"dutlab-{label}-{host}", "sh", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def state(label):
    """All that the levels of these experiments set."""
    ports = "for p in /sys/class/net/*; do echo $p $(cat $p/mtu) $(cat $p/queues/rx-*/rps_cpus); done; "
    sysctls = "sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_no_metrics_save net.ipv4.ip_forward"
    offloads = "; for p in in-a out-a in-b out-b; do ethtool -k $p; done"
    return [inside(label, host, ports + sysctls + (offloads if host == "dut" else "")) for host in ("source", "dut", "sink")]


@pytest.fixture
def standing_lab(standing_lab):
    """Its DUT is slow."""
    slow_down(f"dutlab-{standing_lab}-dut", "out-a")
    return standing_lab


def test_levels_are_crossed_with_modes_verified_and_put_back(dutlab, experiment, standing_lab, tmp_path):
    found_at_first = state(standing_lab)
    done = dutlab("run", experiment(CROSSED), "--lab", standing_lab)
    assert done.returncode == 1, done.stderr  # one is refused
    found = {tuple(r["cell"]["factors"][name] for name in ("mode", "mtu", "limit")): r for r in records(only_run(tmp_path))}
    refused = found.pop(("router", "1500", "refuses"))
    assert set(found) == {(mode, mtu, "none") for mode in ("router", "nat") for mtu in ("1500", "9000")}
    assert {r["status"] for r in found.values()} == {"measured"}, [r["why"] for r in found.values()]
    assert refused["status"] == "refused"
    assert refused["why"].endswith(
        "is not in force: limit refuses on sink: `echo the sink says no >&2; exit 3` ends with 0: status 3: the sink says no"
    ), refused["why"]
    for (_, mtu, _), record in found.items():
        checks = {check["what"]: check["found"] for check in record["checks"]}
        assert checks[f"mtu {mtu} on source"] == "read back: MTU of eth-a, MTU of eth-b", checks
        assert "offloads gro off on dut" in checks and "sysctl.net.ipv4.tcp_congestion_control reno on dut" in checks
    assert state(standing_lab) == found_at_first
    assert not pending_undo(read_journal(only_run(tmp_path) / "journal.jsonl"))
    effects = dutlab("effects", str(only_run(tmp_path)), "--figure", "goodput_bps")
    assert effects.returncode == 0, effects.stderr
    assert "mtu 9000 instead of 1500:" in effects.stdout and "mode nat instead of router:" in effects.stdout


def test_the_example_runs_with_a_level_set_on_a_host_beside_the_dut(dutlab, standing_lab, tmp_path):
    file = Path(__file__).parents[2] / "examples" / "firewall-modes" / "levels.yaml"
    less = ["factors.mode=router", "factors.mtu=9000", "factors.offloads=gro off", "exclude=[]", "repeats=1", "disturbed=count"]
    sets = [f"--set={one}" for one in (*less, "workloads.iperf3.duration=1s", "workloads.iperf3.omit=0s")]
    found_at_first = inside(standing_lab, "sink", "sysctl net.ipv4.tcp_sack")
    done = dutlab("run", str(file), "--lab", standing_lab, *sets)
    assert done.returncode == 0, done.stderr
    found = {r["cell"]["factors"]["sack"]: {c["what"]: c["passed"] for c in r["checks"]} for r in records(only_run(tmp_path))}
    assert set(found) == {"on", "off"}
    asked = "sack off on sink: `sysctl -n net.ipv4.tcp_sack | grep -qx 0` ends with 0"
    assert found["off"][asked] and asked not in found["on"]
    assert inside(standing_lab, "sink", "sysctl net.ipv4.tcp_sack") == found_at_first


@pytest.mark.timing
def test_undo_and_resume_put_back_three_knobs_of_a_killed_run(start, dutlab, experiment, standing_lab, tmp_path):
    found_at_first = state(standing_lab)
    text = HEAD + "factors: {mode: [router], mtu: [9000], offloads: [gro off], rps: ['0']}\n"
    running = start("run", experiment(text), "--lab", standing_lab)
    began = eventually(
        lambda: any(e["event"] == "trial-started" for p in (tmp_path / "runs").glob("*/journal.jsonl") for e in events(p.parent))
    )
    os.kill(running.pid, signal.SIGKILL)
    said = running.ended()
    assert began, said
    source, dut, sink = state(standing_lab)
    assert "eth-a 9000" in source and "in-a 9000" in dut and "generic-receive-offload: off" in dut and "eth-a 9000" in sink
    left = [name for name, _ in pending_undo(read_journal(only_run(tmp_path) / "journal.jsonl"))]
    assert left == ["1-router, mtu 9000, offloads gro off, rps 0", "rps=0", "offloads=gro off", "mtu=9000"]
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert state(standing_lab) == found_at_first
    resumed = dutlab("resume", str(only_run(tmp_path)))
    assert resumed.returncode == 0, resumed.stderr
    assert [r["status"] for r in records(only_run(tmp_path))] == ["measured"]
    assert state(standing_lab) == found_at_first


def test_a_level_that_somebody_changes_meanwhile_voids_the_trial(dutlab, experiment, standing_lab, tmp_path):
    """What is changed is on a host beside the DUT, where no mode looks."""
    text = HEAD.replace(
        "iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}", "steps: {run: {sink: ['ip link set dev eth-b mtu 1400']}}"
    )
    done = dutlab("run", experiment(text + "factors: {mode: [router], mtu: [9000]}\n"), "--lab", standing_lab)
    assert done.returncode == 1, done.stderr  # refused
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "refused"
    assert "mtu 9000 on sink: MTU of eth-b is 1400" in record["why"], record["why"]
    assert "eth-b 1500" in inside(standing_lab, "sink", "echo eth-b $(cat /sys/class/net/eth-b/mtu)")


def test_a_knob_that_the_kernel_does_not_have_is_named_before_anything_is_changed(dutlab, experiment, standing_lab, tmp_path):
    found_at_first = state(standing_lab)
    text = HEAD + "factors: {mode: [router], mtu: [9000], sysctl.net.core.no_such: [1], rings: [rx 512]}\n"
    done = dutlab("run", experiment(text), "--lab", standing_lab)
    assert done.returncode == 3, done.stderr
    assert "net.core.no_such" in done.stderr and "rx of in-a" in done.stderr
    assert state(standing_lab) == found_at_first and not records(only_run(tmp_path))
    assert not [e for e in events(only_run(tmp_path)) if e["event"] in ("level-applying", "mode-applying")]
    assert json.loads((only_run(tmp_path) / "resolved.json").read_text())["experiment"]["factors"]["mtu"] == ["9000"]


def test_a_level_that_would_reboot_this_machine_is_named_before_anything_is_changed(dutlab, experiment, standing_lab, tmp_path):
    found_at_first = state(standing_lab)
    text = HEAD + "factors: {mode: [router], mtu: [9000], idle: [off]}\n"
    done = dutlab(
        "run", experiment(text + "levels: {idle: {off: {apply: ['true'], restore: ['true'], reboot: true}}}\n"), "--lab", standing_lab
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be rebooted" in done.stderr
    assert state(standing_lab) == found_at_first and not records(only_run(tmp_path))


def test_a_slower_line_and_a_shaper_before_it_hold_frames_back_and_are_taken_away(dutlab, experiment, tmp_path):
    text = HEAD.replace("{lab: three-node}", "{lab: two-routers, links: {a: {rate: 8Mbit/s, queue: 20ms}}}")
    text = text.replace("iperf3: {streams: 1, omit: 0s, duration: 1s,", "sweep: {frame_sizes: [1000], rates: [1500pps], duration: 500ms,")
    done = dutlab("run", experiment(text + 'factors: {mode: [router], shaper: ["off", fifo 4Mbit/s]}\n'))
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    slow, shaped = sorted(records(run), key=lambda record: record["cell"]["factors"]["shaper"], reverse=True)
    sent, *came = slow["flows"][0]["sent_frames"], *(record["flows"][0]["received_frames"] for record in (slow, shaped))
    assert came[1] < came[0] < sent, (sent, came)
    assert len([check for check in slow["checks"] if "measured by" in check["found"]]) == 2, slow["checks"]
    assert not pending_undo(read_journal(run / "journal.jsonl"))
