"""Other people's generators in the engine's place, as a user runs them: real programs, real frames, three numbers that agree."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from capability import need_program
from run_records import record_in, records_below

ROOT = Path(__file__).parents[2]
HEAD = "testbed: {lab: three-node}\nfactors: {mode: [router]}\nrepeats: 1\norder: as-written\n"


@pytest.fixture
def records(dutlab, tmp_path):
    def run(workloads):
        (tmp_path / "e.yaml").write_text(f"experiment: g\n{HEAD}workloads:\n{workloads}")
        done = dutlab("run", "e.yaml")
        assert done.returncode == 0, done.stdout + done.stderr
        return records_below(tmp_path)

    return run


def flow_of(record):
    (flow,) = record["flows"]
    assert flow["balances"]
    assert flow["intended_frames"] == flow["sent_frames"] + flow["refused_frames"]
    return flow


def kinds(record):
    return {d["kind"] for d in record["doubts"]}


def test_each_generator_keeps_a_rate_or_goes_as_fast_as_it_can_and_its_frames_are_counted(records, dutlab, tmp_path):
    """In one run, for what all have in common: trafgen, iperf3's datagrams either way and by length, and ipgen, a stand-in that says what ipgen would."""
    need_program("trafgen")
    need_program("iperf3")
    cores = sorted(os.sched_getaffinity(0))[:2]
    streams = list(range(1, len(cores) + 1))
    ipgen = f"{{ipgen: {{program: {ROOT / 'tests' / 'stand_ins' / 'ipgen.py'}, cores: {cores}}}}}"
    slow, fast, there, back, lengths, *made = records(
        "  - sweep: {generator: trafgen, frame_sizes: [128], rates: [1kpps, max], duration: 1s, warmup: 0s, links: [[a]]}\n"
        "  - sweep: {generator: iperf3-udp, frame_sizes: [512], rates: [2kpps], duration: 1s, links: [[a]]}\n"
        "  - generators: {generators: [{iperf3-udp: {cores: [0]}}], streams: [2], senders: [sink], frame_sizes: [64], duration: 1s, links: [[a]]}\n"
        "  - datagrams: {lengths: [16, 1472, 1473], rate: 1kpps, duration: 1s, links: [[a]]}\n"
        f"  - generation: {{generator: {ipgen}, frame_sizes: [64, 1518], streams: {streams}, work: [copies], duration: 1s}}\n"
    )
    flow = flow_of(slow)
    assert flow["intended_frames"] == flow["sent_frames"] == flow["received_frames"] == 1000
    assert flow["received_bytes"] == 128_000
    assert {"COUNTED_BY_PORTS", "SENT_IN_BURSTS"} <= kinds(slow)
    assert slow["cell"]["tool"] == "trafgen" and slow["tool_facts"]["trafgen"] == slow["tool_facts"]["trafgen_version"]
    flow = flow_of(fast)
    assert flow["sent_frames"] > 10 * 1000 and 0 < flow["received_frames"] <= flow["sent_frames"]
    assert "SENT_IN_BURSTS" not in kinds(fast) and fast["tool_facts"]["trafgen_path"]
    assert fast["figures"]["a"]["headroom_ratio"] > 0, "the rig was measured with trafgen too"

    flow = flow_of(there)
    assert flow["intended_frames"] == 2000 and 0 < flow["sent_frames"] <= 2010
    assert flow["received_bytes"] == flow["received_frames"] * 512
    assert there["cell"]["tool"] == "iperf3-udp"
    flow = flow_of(back)
    assert flow["link"] == "a.back" and flow["received_frames"] > 0
    figures = back["figures"]["a.back"]
    assert figures["rig_received_pps"] > 0 and figures["headroom_ratio"] > 0
    assert any({"-u", "-P"} <= set(c["argv"]) and c["host"] == "sink" for c in back["commands"])

    rows = lengths["tables"]["lengths"]
    assert [(r["length_bytes"], r["packets_per_datagram"]) for r in rows] == [(16, 1), (1472, 1), (1473, 2)]
    assert all(0 < r["received_pps"] <= r["offered_pps"] == pytest.approx(1000, rel=0.1) for r in rows)
    assert lengths["figures"]["a"]["whole_bytes"] == 1472
    # what the DUT's port counted: two packets for each of the last thousand
    assert lengths["counters"]["dut"]["in-a_rx_packets"] == pytest.approx(4000, rel=0.1)

    found = {(r["cell"]["setting"]["frame_size"], r["cell"]["setting"]["streams"]): r["figures"]["a"]["made_pps"] for r in made}
    assert found == {(size, n): n * pps for size, pps in (("64", 1_000_000), ("1518", 30_666)) for n in streams}
    (run,) = tmp_path.glob("runs/*-g-*")
    assert dutlab("report", str(run), "--format", "md", "--output", str(tmp_path / "out")).returncode == 0
    page = next((tmp_path / "out").glob("*.md")).read_text()
    assert "| frames and copies | 1518 |" in page and all(f"| {n} stream" in page for n in streams), page


def test_xdp_trafficgen_sends_in_the_rig_or_says_why_this_kernel_does_not_take_it(dutlab):
    need_program("xdp-trafficgen")
    done = dutlab("calibrate", "--generator", "xdp-trafficgen", "--sizes", "68", "--json")
    if done.returncode == 3:
        assert "xdp-trafficgen" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (point,) = [p for p in json.loads(done.stdout)["points"] if p["generator"] == "xdp-trafficgen"]
    assert point["intended_pps"] is None and 0 < point["received_pps"] <= point["offered_pps"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--generator", "trafgn"], "did you mean trafgen"),
        (["--generator", "trafgen", "--sizes", "imix"], "frames of several sizes"),
        (["--generator", "xdp-trafficgen", "--sizes", "64"], "shortest frame has 68 bytes"),
    ],
)
def test_a_calibration_that_no_generator_can_make_is_refused_before_a_lab_is_built(dutlab, options, words):
    done = dutlab("calibrate", *options)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_a_ramp_by_trafgen_is_made_of_seconds_and_says_so(dutlab, tmp_path):
    need_program("trafgen")
    ramp = ["-p", "64b", "-wm", "100pps", "-wd", "1", "-rt", "0.1", "-rd", "3", "-hd", "1", "--line-rate", "1G", "--unidirectional"]
    done = dutlab("loadtest", "-s", "trafgen", *ramp)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("runs/*/trials/*/record.json")
    record = record_in(path)
    assert record["cell"]["tool"] == "trafgen" and "STEPPED" in kinds(record)
    # 0.1 % of 1 Gbit/s of frames of 84 bytes on the wire: 1488 frames in the last second, and the ramp's seconds before it
    assert flow_of(record)["sent_frames"] == pytest.approx(100 + 248 + 744 + 1240 + 1488, abs=5)
    assert len(record["tables"]["seconds"]) == 5


def test_the_example_compares_generators_with_and_without_the_router(dutlab, tmp_path):
    need_program("trafgen")
    short = ["generators=[engine, trafgen]", "frame_sizes=[64]", "duration=1s", "warmup=0s"]
    sets = [word for s in short for word in ("--set", f"workloads.0.generators.{s}")]
    sets += ["--set", "workloads.1.generators.frame_sizes=[64]", "--set", "workloads.1.generators.duration=1s"]
    done = dutlab("run", str(ROOT / "examples" / "generators" / "experiment.yaml"), *sets)
    assert done.returncode == 0, done.stdout + done.stderr
    records = records_below(tmp_path)
    assert sorted((r["cell"]["tool"], r["cell"]["setting"]["streams"]) for r in records) == [
        ("engine", 1),
        ("iperf3-udp", 2),
        ("trafgen", 1),
    ]
    for record in records:
        flow_of(record)
        assert record["figures"]["a"]["rig_received_pps"] > 0 and record["figures"]["a"]["received_pps"] > 0
    page = next(tmp_path.glob("runs/*/report/report.html")).read_text()
    assert "What each generator delivers" in page and "iperf3-udp ×2" in page
