"""The rig of a machine of one's own: two ports of a namespace, cabled to one another or to a box."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime

import pytest

import forked
from dutlab.store.calibration import Calibration, keep
from in_process import cheap_rig
from run_records import record_in

TESTBED = """\
testbed: mine
hosts:
  source: {local: true}
  dut: {family: black-box}
  sink: {local: true}
links:
  a: {configure: true, path: ["source:eth-in", "dut:near", "dut:far", "sink:eth-out"],
      addresses: [192.168.1.2/24, 192.168.1.1/24, 10.9.0.254/24, 10.9.0.2/24]}
"""
EXPERIMENT = """\
experiment: glance
testbed: testbed.yaml
factors: {mode: [as-found]}
workloads: [{sweep: {frame_sizes: [512], rates: [1kpps], duration: 200ms, warmup: 0s, drain: 200ms}}]
repeats: 1
watch: []
"""


@pytest.fixture
def dutlab(python_env, tmp_path):
    (tmp_path / "testbed.yaml").write_text(TESTBED)
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)

    def run(namespace, *args):
        env = {**python_env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        with cheap_rig():
            return forked.run(args, tmp_path, env, place=forked.in_network(namespace))

    return run


@pytest.fixture
def loop(namespace):
    pair = ["ip", "-n", namespace, "link", "add", "name", "eth-in", "type", "veth", "peer", "name", "eth-out"]
    subprocess.run(pair, check=True)
    for port in ("eth-in", "eth-out"):
        subprocess.run(["ip", "netns", "exec", namespace, "ethtool", "-K", port, "gro", "on"], check=True)
        subprocess.run(["ip", "-n", namespace, "link", "set", "dev", port, "up"], check=True)
    return namespace


def test_a_loop_is_measured_and_kept_beside_what_was_measured_before(dutlab, loop):
    command = ("calibrate", "--testbed", "testbed.yaml", "--loop", "--duration", "100ms", "--json", "--sizes")
    done = dutlab(loop, *command, "512")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    assert first["facts"]["rig"] == "looped"
    assert [p["intended_pps"] is None for p in first["points"]] == [True, False, False, False]
    assert all(0 < p["received_pps"] <= p["offered_pps"] and p["failed_ratio"] is not None for p in first["points"])
    second = json.loads(dutlab(loop, *command, "1024").stdout)
    assert second["file"] == first["file"] and {p["mix"] for p in second["points"]} == {"512", "1024"}


def test_ports_that_are_not_looped_are_found_out(dutlab, box):
    done = dutlab(box, "calibrate", "--testbed", "testbed.yaml", "--loop", "--sizes", "512")
    assert done.returncode == 3 and "link a: of 10 frames from source:eth-in 0 arrived at sink:eth-out" in done.stderr, done.stderr
    unasked = dutlab(box, "calibrate", "--testbed", "testbed.yaml")
    assert unasked.returncode == 2 and "no terminal to ask for the loop cable" in unasked.stderr


def test_without_a_loop_a_run_measures_its_generator_alone_and_says_so(dutlab, box, tmp_path):
    before = {"testbed": "mine", "rig": "looped", "links": {"a": ["source:eth-in", "sink:eth-out"]}}
    long_ago = Calibration(measured=datetime(2026, 1, 2, tzinfo=UTC), facts=before, points=[])
    assert keep(long_ago, tmp_path / "cache" / "dutlab" / "calibrations")
    done = dutlab(box, "run", "experiment.yaml")
    assert done.returncode == 0, done.stderr
    said = "headroom is that of the generator alone: the loop was measured on 2026-01-02, and cpus, engine, sink, source changed since; `dutlab"
    assert said in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    calibration = json.loads((run / "calibration.json").read_text())
    assert calibration["facts"]["rig"] == "generator-alone"
    assert {p["received_pps"] for p in calibration["points"]} == {None}
    record = record_in(run / "trials" / "0001" / "record.json")
    figures = record["figures"]["a"]
    assert figures["headroom_ratio"] == pytest.approx(max(p["offered_pps"] for p in calibration["points"]) / figures["received_pps"])
