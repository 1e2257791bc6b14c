"""The examples of latency and soak, cut short: real frames, their records, and their place in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from capability import needs
from run_records import records_below

EXAMPLES = Path(__file__).parents[2] / "examples"

_machine = needs("nft")


@pytest.fixture
def run(dutlab, tmp_path):
    """Runs an example with some keys changed; returns its records and its page."""

    def of(example, *settings):
        done = dutlab("run", str(EXAMPLES / example / "experiment.yaml"), *(w for s in settings for w in ("--set", s)))
        assert done.returncode == 0, done.stderr
        (page,) = tmp_path.glob("runs/*/report/report.md")
        return records_below(tmp_path), page.read_text()

    return of


def test_latency_is_measured_at_each_share_of_a_rate(run):
    short = (
        "frame_sizes=[64]",
        "rate=2kpps",
        "shares=[0%, 50%, 100%]",
        "duration=300ms",
        "warmup=0s",
        "drain=200ms",
        "traffic={vary: {ttl: [64, 128]}, burst: 2}",
    )
    settings = ["factors.mode=router", "repeats=1", *(f"workloads.latency.{s}" for s in short)]
    (record,), page = run("latency", *settings)
    rows = record["tables"]["points"]
    assert [row["load_percent"] for row in rows] == [0, 50, 100]
    figures = record["figures"]["a"]
    assert figures["reference_pps"] == 2000
    made = [row for row in rows if f"{row['load_percent']:g}%/tl_ns" in figures]
    assert made, rows
    for row in rows:
        at = f"{row['load_percent']:g}%"
        if row in made:
            assert 0 < figures[f"{at}/tl_ns"] <= figures[f"{at}/wcl_ns"] < 10e9
        else:
            assert row["offered_pps"] < row["intended_pps"], "only a share that the generator did not make beside other work has no figures"
    assert "Latency" in page and "ttl 64, 128 in turn, bursts of 2 frames" in page
    (flow, *_) = record["flows"]
    assert sum(flow["arrivals_timed_by"].values()) >= flow["received_frames"] > 0
    times = f"Times of latencies: the {flow['sent_timed_by']}'s when sent, the kernel's when received."
    assert times in page


def test_a_soak_holds_its_rate_and_finds_a_critical_rate(run):
    held = ("rate=2kpps", "duration=3s", "warmup=0s", "frame_sizes=[64]")
    sought = ("rate=20kpps", "duration=3s", "warmup=0s", "target=1%")
    settings = [*(f"workloads.0.soak.{s}" for s in held), *(f"workloads.1.soak.{s}" for s in sought), "factors.mode=router"]
    (steady, search), page = run("soak", *settings)
    assert steady["figures"]["a"]["intended_pps"] == pytest.approx(1800)
    assert 1 <= len(steady["tables"]["course"]) <= 4 and all(flow["balances"] for flow in steady["flows"])
    figures = search["figures"]["a"]
    assert 0 <= figures["critical_low_pps"] <= figures["critical_pps"] <= figures["critical_high_pps"]
    assert [row["intended_pps"] for row in search["tables"]["critical"]][:2] == [10_000, 20_000]
    assert "Critical rate of each link" in page and "The whole time" in page
