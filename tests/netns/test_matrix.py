"""iperf3 between every two hosts of the lab, from an experiment to its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capability import need_program
from run_records import records_below

EXAMPLE = Path(__file__).parents[2] / "examples" / "matrix" / "experiment.yaml"


def sections(tmp_path):
    """The sections by slug."""
    (report,) = tmp_path.glob("runs/*/report/report.json")
    return {s["slug"]: s for s in json.loads(report.read_text())["runs"][0]["sections"]}


def test_the_example_measures_every_ordered_pair_once_and_the_report_has_them(dutlab, tmp_path):
    need_program("iperf3")
    done = dutlab("run", str(EXAMPLE), "--set", "workloads.matrix.duration=1s", "--set", "workloads.matrix.omit=0s")
    assert done.returncode == 0, done.stderr
    of_pairs = [r for r in records_below(tmp_path) if r["cell"]["setting"]["kind"] == "matrix"]
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in of_pairs}
    assert pairs == {(a, b) for a in ("source", "dut", "sink") for b in ("source", "dut", "sink") if a != b}
    assert all(r["figures"]["a"]["goodput_bps"] > 0 for r in of_pairs)
    clients = [c["argv"] for r in of_pairs for c in r["commands"] if "-O" in c["argv"]]
    assert len(clients) >= 6 and all("-Z" in argv for argv in clients)
    goodput = sections(tmp_path)["matrix"]["tables"][0]
    assert [row["cells"][0] for row in goodput["rows"]] == ["source", "dut", "sink"], "however the trials were shuffled"
    assert goodput["shaded"] is True and {"path-mtu", "pairs"} <= sections(tmp_path).keys()
    (html,) = tmp_path.glob("runs/*/report/report.html")
    assert html.read_text().count('style="--share:') == 6, "each pair once, in the answer"


def test_datagrams_between_every_pair_are_told_with_what_was_lost(dutlab, tmp_path):
    need_program("iperf3")
    done = dutlab("matrix", "--udp", "-b", "2kpps", "-l", "1000", "-t", "1s", "--link", "a", "--mode", "nat")
    assert done.returncode == 0, done.stderr
    found = records_below(tmp_path)
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in found}
    assert len(found) == len(pairs) == 5 and ("sink", "source") not in pairs, "NAT admits no flow from there, so that pair is not tried"
    for figures in (r["figures"]["a"] for r in found):
        assert figures["sent_bps"] == pytest.approx(2000 * 1000 * 8, rel=0.2)
        assert figures["loss_ratio"] == pytest.approx(1 - figures["goodput_bps"] / figures["sent_bps"], abs=1e-6)
    assert [g["title"].partition(" from")[0] for g in sections(tmp_path)["matrix"]["tables"]] == ["Goodput", "Datagrams lost"]
