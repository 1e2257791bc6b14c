"""iperf3 between every two hosts of the lab, from an experiment to its report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from capability import need_program
from processes import LIMIT_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "matrix" / "experiment.yaml"


def test_the_example_measures_every_ordered_pair_once_and_the_report_has_them(tmp_path):
    need_program("iperf3")
    sets = [word for one in ("matrix.duration=1s", "matrix.omit=0s") for word in ("--set", f"workloads.{one}")]
    command = [sys.executable, "-c", "from dutlab.cli.main import main; main()", "run", str(EXAMPLE), *sets]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    records = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json")]
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in records if r["cell"]["setting"]["kind"] == "matrix"}
    assert pairs == {(a, b) for a in ("source", "dut", "sink") for b in ("source", "dut", "sink") if a != b}
    assert all(r["figures"]["a"]["goodput_bps"] > 0 for r in records if r["cell"]["setting"]["kind"] == "matrix")
    (report,) = tmp_path.glob("runs/*/report/report.json")
    sections = {s["workload"]: s for s in json.loads(report.read_text())["runs"][0]["sections"]}
    goodput = sections["matrix"]["tables"][0]
    assert {row["cells"][0] for row in goodput["rows"]} == {"source", "dut", "sink"}
    assert goodput["shaded"] is True
    assert "fastest pair" in sections["matrix"]["words"][0]
    assert "router: link a carries packets of up to 1500 bytes whole, pings with 1472 bytes of payload." in sections["path-mtu"]["words"]
    assert [row["cells"][0] for row in goodput["rows"]] == ["source", "dut", "sink"]  # however the trials were shuffled
    clients = [c["argv"] for r in records if r["cell"]["setting"]["kind"] == "matrix" for c in r["commands"] if "-O" in c["argv"]]
    assert len(clients) >= 6 and all("-Z" in argv for argv in clients)
    html = report.with_name("report.html").read_text()
    assert html.count('style="--share:') == 2 * 6, "each pair in the answer and in its section"


def test_datagrams_between_every_pair_are_told_with_what_was_lost(python, python_env, tmp_path):
    need_program("iperf3")
    command = [
        python,
        "-m",
        "dutlab",
        "matrix",
        "--udp",
        "-b",
        "2kpps",
        "-l",
        "1000",
        "-t",
        "1s",
        "--link",
        "a",
        "--mode",
        "router",
        "--mode",
        "nat",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert "source to sink a #1: 1" in done.stderr
    assert "not tried: mode nat admits no flow from sink to source" in done.stdout
    found = [json.loads(p.read_text())["figures"]["a"] for p in tmp_path.glob("runs/*/trials/*/record.json")]
    assert len(found) == 6 + 5, "NAT admits no flow from sink to source, so that pair is not tried"
    for figures in found:
        assert figures["sent_bps"] == pytest.approx(2000 * 1000 * 8, rel=0.2)
        assert figures["loss_ratio"] == pytest.approx(1 - figures["goodput_bps"] / figures["sent_bps"], abs=1e-6)
    (report,) = tmp_path.glob("runs/*/report/report.json")
    (section,) = (s for s in json.loads(report.read_text())["runs"][0]["sections"] if s["workload"] == "matrix")
    assert section["lead"].startswith(
        "Between every two hosts, in both directions, one pair at a time: UDP, iperf3, at 2.0 kpps a link, 1 s, datagrams"
    )
    assert [g["title"].partition(" from")[0] for g in section["tables"]] == ["Goodput", "Goodput", "Datagrams lost", "Datagrams lost"]
