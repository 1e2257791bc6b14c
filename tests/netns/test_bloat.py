"""Latency under load in the lab: queues of known length are found, and a box between two ports needs no file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import forked
from capability import needs
from in_process import cheap_rig
from processes import eventually
from run_records import record_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "home" / "bloat" / "experiment.yaml"
SHORT = {"duration": "3s", "ramp": "2s", "idle": "1s", "settle": "1s", "probe": "500pps", "streams": 2}
BOX = ("--gateway", "192.168.1.1", "--gateway", "10.9.0.254")
QUEUES_NS = {"queue-20ms": 20e6, "queue-100ms": 100e6}

_machine = needs("engine", "iperf3", "tc")


@pytest.mark.timing
def test_queues_of_known_length_are_found_where_tcp_fills_them(dutlab, tmp_path):
    words = [word for key, value in SHORT.items() for word in ("--set", f"workloads.bloat.{key}={value}")]
    more = ("--set", "workloads.bloat.loads=[up]", "--set", f"factors.mode=[{','.join(QUEUES_NS)}]", "--set", "disturbed=count")
    done = dutlab("run", str(EXAMPLE), *words, *more)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = {(r := record_in(path))["cell"]["mode"]: r for path in folder.glob("trials/*/record.json")}
    found = {mode: records[mode]["figures"]["a"] for mode in QUEUES_NS}
    for mode, queue_ns in QUEUES_NS.items():
        assert 0.5 * queue_ns < found[mode]["latency_increase_p99_ns"], found
        assert found[mode]["load/rtt_p50_ns"] > found[mode]["idle/latency_p50_ns"]
    assert found["queue-20ms"]["latency_increase_p50_ns"] < found["queue-100ms"]["latency_increase_p50_ns"]
    both = records["queue-100ms"]["figures"]["a+a.back"]
    assert both["round_trips_per_min"] > 0 and 0 < both["goodput_bps"] < 20e6
    report = json.loads((folder / "report" / "report.json").read_text())
    (section,) = (s for s in report["runs"][0]["sections"] if s["workload"] == "bloat")
    assert [len(t["rows"]) for t in section["tables"]] == [2, 4]


def test_a_box_between_two_ports_is_measured_as_people_feel_it_and_the_ports_are_as_before(box, dutlab_in, tmp_path):
    before = state(box)
    done = dutlab_in(box, "test", "--home", "eth-in", "eth-out", "loads=down", *(f"{key}={value}" for key, value in SHORT.items()), *BOX)
    assert done.returncode == 0, done.stderr
    assert state(box) == before
    assert "1500 bytes" in done.stdout and "Under TCP load down" in done.stdout, done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    figures = record_in(folder / "trials" / "0001" / "record.json")["figures"]
    assert figures["a.back"]["goodput_bps"] > 0 and "goodput_bps" not in figures["a"]
    assert figures["a+a.back"]["latency_increase_p95_ns"] > 0


def test_a_port_that_a_killed_command_had_moved_is_back(box, dutlab_in, python_env, tmp_path):
    before = state(box)
    words = ("bloat", "eth-in", "eth-out", *(f"{key}={value}" for key, value in SHORT.items()), *BOX)
    with forked.begin(words, tmp_path, python_env, out=tmp_path / "said", place=forked.in_network(box)):
        assert eventually(lambda: any('"leasing"' in path.read_text() for path in tmp_path.glob("runs/*/journal.jsonl"))), (
            tmp_path / "said"
        ).read_text()
        assert "eth-out" not in state(box)[0]
    assert eventually(lambda: state(box) == before), state(box)
    for run in tmp_path.glob("runs/*"):  # the far end's namespace is gone, and what the run changed there
        assert dutlab_in(box, "undo", str(run)).returncode == 0


def state(namespace):
    return [subprocess.run(["ip", "netns", "exec", namespace, "ip", *words], capture_output=True, text=True, check=True).stdout
            for words in (["-br", "address"], ["route"])]  # fmt: skip


@pytest.fixture
def dutlab_in(python_env, tmp_path):
    """The command to its end, in the network of a namespace."""

    def run(network, *args):
        with cheap_rig():
            return forked.run(args, tmp_path, python_env, place=forked.in_network(network))

    return run
