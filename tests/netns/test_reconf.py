"""Changes of mode under load, on a real kernel: one that is known to take its time, the example, and a controller killed in the middle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capability import needs
from processes import eventually
from run_records import records_below

ROOT = Path(__file__).parents[2]
OUT_S = 0.4
EXPERIMENT = f"""
experiment: reconf
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
modes:
  slow:
    apply: [sysctl -qw net.ipv4.ip_forward=0, sleep {OUT_S}, sysctl -qw net.ipv4.ip_forward=1, nft add table inet slow]
    restore: ["nft delete table inet slow || true"]
workloads:
  - reconf: {{rate: 1kpps, to: [slow], changes: 1, before: 1s, after: 2s, warmup: 0s, drain: 200ms, links: [[a]]}}
repeats: 1
watch: []
"""

_machine = needs("nft")


def test_a_change_that_stops_forwarding_for_a_known_time_takes_that_time(dutlab, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    (record,) = records_below(tmp_path)
    into, back = record["tables"]["changes"]
    assert (into["direction"], into["to"], back["to"]) == ("into", "slow", "router")
    if not record["notes"]:  # on a busy machine a load may end before the change does, and says so
        assert into["lost_frames"] / into["made_frames"] * 3 >= OUT_S * 0.98, "nothing passed meanwhile"
        assert back["lost_frames"] < into["lost_frames"]
        assert OUT_S * 0.98e9 <= record["figures"]["a"]["into/outage_ns"] <= into["command_ns"] + 1e9
    assert into["command_ns"] >= OUT_S * 1e9
    (page,) = tmp_path.glob("runs/*/report/report.md")
    assert "Changes of mode under load" in page.read_text()


def test_the_example_runs_with_its_times_cut_short(dutlab, tmp_path):
    short = {"changes": 1, "before": "1s", "after": "1s", "warmup": "0s", "rate": "2kpps", "to": "[nat]"}
    sets = [word for key, value in short.items() for word in ("--set", f"workloads.reconf.{key}={value}")]
    done = dutlab("run", str(ROOT / "examples" / "reconf" / "experiment.yaml"), "--set", "factors.mode=router", *sets)
    assert done.returncode == 0, done.stderr
    (record,) = records_below(tmp_path)
    assert [row["direction"] for row in record["tables"]["changes"]] == ["into", "back"]
    assert all(flow["balances"] for flow in record["flows"])


@pytest.mark.timing
def test_a_change_whose_controller_was_killed_is_undone_from_the_journal(dutlab, start, tmp_path):
    label = dutlab("lab", "up", "three-node").stdout.strip()

    def rules():
        inside = ["ip", "netns", "exec", f"dutlab-{label}-dut"]
        return [
            subprocess.run([*inside, *w], capture_output=True, text=True).stdout for w in (["nft", "list", "ruleset"], ["sysctl", "-a"])
        ]

    def settled():
        nft, sysctl = rules()
        return nft, [line for line in sysctl.splitlines() if "forward" in line]

    try:
        before = settled()
        (tmp_path / "e.yaml").write_text(EXPERIMENT)
        with start("run", "e.yaml", "--lab", label) as running:
            assert eventually(lambda: "table inet slow" in rules()[0] or running.poll() is not None)
        assert settled() != before
        (run,) = (tmp_path / "runs").iterdir()
        undone = []

        def is_undone():
            undone.append(dutlab("undo", str(run)))
            return "in use by" not in undone[-1].stderr  # what held the lease may not have ended yet

        assert eventually(is_undone)
        assert (undone[-1].stdout, undone[-1].returncode) == ("2 changes undone; freed: dut, sink, source\n", 0), undone[-1].stderr
        assert settled() == before
    finally:
        assert dutlab("lab", "down", label).returncode == 0
