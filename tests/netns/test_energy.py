"""The energy example in short form, with the terms that its simulated meter has; and links that a killed run left down."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from capability import need
from dutlab import labs
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs import napi, netdev
from processes import eventually
from run_records import record_in

EXAMPLE = (Path(__file__).parents[2] / "examples" / "energy" / "experiment.yaml").read_text()
SHORT = EXAMPLE.replace("duration: 24s", "duration: 8s").replace("[64, 512, 1518]", "[64, 1518]")
TRUE = {"base": 40.0, "port": 4.0, "frame": 200e-6, "bit": 20e-9}
IMIX_BYTES = (7 * 64 + 4 * 594 + 1518) / 12
LEFT_DOWN = """
experiment: left-down
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - soak-power:
      rate: 1kpps
      frame_sizes: [64]
      phases:
        - {name: dark, down: [b], duration: 60s}
        - {name: full, share: 100%, duration: 3s}
repeats: 1
watch: []
"""


@pytest.mark.timing
def test_the_terms_of_the_simulated_meter_are_found_and_links_are_up_again(dutlab, tmp_path):
    assert SHORT.count("duration: 8s") == 5 and "[64, 1518]" in SHORT
    (tmp_path / "e.yaml").write_text(SHORT)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    records = [record_in(path) for path in run.glob("trials/*/record.json")]
    assert not {doubt["kind"] for record in records for doubt in record["doubts"]} & {"LINK_WENT_DOWN", "LEDGER_OPEN"}
    for record in records:
        rows = {row["phase"]: row for row in record["tables"]["phases"]}
        assert [rows[name]["ports_up"] for name in ("idle", "one-link-idle", "half", "full", "one-link")] == [4, 2, 4, 4, 2]
        assert rows["one-link-idle"]["watts"] < rows["idle"]["watts"] - 4
    told = dutlab("energy", str(run), "--json", "--predict", "ports=4 rate=8kpps size=imix")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    (mode,) = answer["energy"]
    assert mode["simulated"] and len(mode["phases"]) + len(mode["left_out"]) == 10
    if not mode["left_out"]:  # a busy machine loses frames, and such phases do not count
        for term in mode["terms"]:
            assert term["value"] == pytest.approx(TRUE[term["term"]], rel=0.07), term  # 2 % in the full example: fewer readings here
            assert term["interval"]["low"] < term["value"] < term["interval"]["high"]
        (prediction,) = answer["predictions"]
        true = 40.0 + 4 * 4.0 + 8000 * (200e-6 + IMIX_BYTES * 8 * 20e-9)
        assert prediction["kind"] == "PREDICTION" and prediction["watts"] == pytest.approx(true, rel=0.03)
    (page,) = run.glob("report/report.md")
    assert "Energy model (simulated)" in page.read_text()


async def test_the_new_thread_of_a_port_that_was_down_is_pinned_as_the_old_one_and_known():
    lab = await labs.up("three-node", label=(label := labs.new_label()))
    try:
        known, first = set(lab.napi_threads), napi.napi_threads()
        if netdev.napi_pids(NAMESPACES / lab.namespaces["dut"]) is None:
            need("netlink-netdev", False)
        (old,) = (pid for pid in known if first[pid] == "in-b")
        state = os.sched_getaffinity(old), os.getpriority(os.PRIO_PROCESS, old)
        for word in ("down", "up"):
            subprocess.run(["ip", "-n", lab.namespaces["dut"], "link", "set", "dev", "in-b", word], check=True)
        lab.pin_again(known)
        (new,) = known - set(lab.napi_threads)
        assert napi.napi_threads()[new] == "in-b"
        assert (os.sched_getaffinity(new), os.getpriority(os.PRIO_PROCESS, new)) == state
    finally:
        await labs.down(label)


@pytest.mark.timing
def test_a_link_that_was_down_when_the_controller_was_killed_is_up_again_as_it_was(dutlab, start, tmp_path):
    label = dutlab("lab", "up", "three-node").stdout.strip()

    def state():
        inside = ["ip", "-n", f"dutlab-{label}-dut"]
        asked = (["-br", "link", "show", "dev", "in-b"], ["-br", "link", "show", "dev", "out-b"], ["-br", "address", "show"], ["route", "show"],
                 ["-4", "neigh", "show", "nud", "permanent"])  # fmt: skip
        return [sorted(subprocess.run([*inside, *words], capture_output=True, text=True).stdout.splitlines()) for words in asked]

    try:
        before = state()
        (tmp_path / "e.yaml").write_text(LEFT_DOWN)
        with start("run", "e.yaml", "--lab", label) as running:
            assert eventually(lambda: all("DOWN" in of[0] for of in state()[:2]) or running.poll() is not None)
        assert state() != before
        (run,) = (tmp_path / "runs").iterdir()
        assert eventually(lambda: "in use by" not in dutlab("undo", str(run)).stderr)  # what held the lease may not have ended yet
        assert state() == before
    finally:
        assert dutlab("lab", "down", label).returncode == 0
