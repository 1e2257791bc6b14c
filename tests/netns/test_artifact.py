"""A run in the lab becomes a file, and a stranger with only that file repeats it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "artifact" / "experiment.yaml"


def test_a_stranger_repeats_a_run_from_the_file_alone(dutlab, tmp_path):
    quick = ("repeats=3", "workloads.sweep.duration=200ms", "workloads.sweep.frame_sizes=[64]", "workloads.sweep.rates=[2000pps]")
    done = dutlab("run", str(EXAMPLE), *(word for of in quick for word in ("--set", of)), "--unattended")
    assert done.returncode == 0, done.stderr
    (old,) = (tmp_path / "runs").iterdir()
    packed = dutlab("artifact", str(old), "-o", str(tmp_path / "steady.zip"), "--licence", "CC0-1.0")
    assert packed.returncode == 0, packed.stderr
    old.rename(tmp_path / "kept")

    stranger = {"XDG_STATE_HOME": str(tmp_path / "other")}
    refused = dutlab("artifact", "check", str(tmp_path / "steady.zip"), env=stranger)
    assert refused.returncode == 2 and "experiment workloads.0.sweep" in refused.stderr and list((tmp_path / "runs").iterdir()) == []
    checked = dutlab("artifact", "check", str(tmp_path / "steady.zip"), "--trust", "--json", env=stranger)
    found = json.loads(checked.stdout)
    (run,) = found["runs"]
    rates = [f for claim in run["claims"] for f in claim["figures"] if f["figure"] == "received_pps" and not f["ratio"]]
    assert len(rates) == 2
    for rate in rates:  # a paced rate far below what a lab can do is the same again, wherever it runs
        assert rate["state"] == "repeated" and rate["low"] < rate["here"] < rate["high"] and rate["repeats"] == 3
        assert rate["here"] == pytest.approx(2000, rel=0.02)
    assert run["same_processors"] is True and checked.returncode == {"repeated": 0, "differs": 1, "cannot tell": 4}[found["state"]]
    (new,) = (tmp_path / "runs").iterdir()
    assert json.loads((new / "resolved.json").read_text())["repeated_run"] == old.name
    assert json.loads((new / "plan.json").read_text()) == json.loads((tmp_path / "kept" / "plan.json").read_text())
    again = dutlab("artifact", "check", str(tmp_path / "steady.zip"), "--repeated", str(new), "--json", env=stranger)
    assert again.returncode == checked.returncode and json.loads(again.stdout)["runs"][0]["claims"] == run["claims"]


def test_a_stranger_repeats_latencies_of_a_drive_from_the_file_alone(dutlab, tmp_path):
    quick = ("workloads.storage-latency.rates=[500]", "workloads.storage-latency.ramp=0s", "workloads.storage-latency.duration=2500ms")
    made = dutlab(
        "run", str(EXAMPLES / "storage" / "latency.yaml"), *(word for of in quick for word in ("--set", of)), "--unattended",
        env={"DUTLAB_DISTURBED": "count"},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (old,) = (tmp_path / "runs").iterdir()
    packed = dutlab("artifact", str(old), "-o", str(tmp_path / "drive.zip"), "--licence", "CC0-1.0")
    assert packed.returncode == 0, packed.stderr
    old.rename(tmp_path / "kept")

    stranger = {"XDG_STATE_HOME": str(tmp_path / "other"), "DUTLAB_DISTURBED": "count"}
    checked = dutlab("artifact", "check", str(tmp_path / "drive.zip"), "--trust", "--json", env=stranger)
    found = json.loads(checked.stdout)
    (run,) = found["runs"]
    (figure,) = [figure for claim in run["claims"] for figure in claim["figures"]]
    assert figure["figure"] == "500iops/lat_p99_ns" and figure["repeats"] == 3
    assert figure["here"] > 0 and figure["then"] > 0
    inside = figure["low"] is not None and figure["low"] <= figure["here"] <= figure["high"]
    assert inside if figure["state"] == "repeated" else figure["reason"] or not inside, figure
    assert checked.returncode == {"repeated": 0, "differs": 1, "cannot tell": 4}[found["state"]]
    (new,) = (tmp_path / "runs").iterdir()
    assert json.loads((new / "resolved.json").read_text())["repeated_run"] == old.name
