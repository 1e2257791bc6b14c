"""A run in the lab becomes a file, and a stranger with only that file repeats it."""

from __future__ import annotations

import json

import pytest


def test_a_stranger_repeats_a_run_from_the_file_alone(dutlab, tmp_path):
    settings = ("frame_sizes=64", "rates=2000pps", "duration=200ms", "warmup=0s", "drain=100ms")
    done = dutlab("measure", "sweep", *settings, "--link", "a", "--mode", "router", "--repeats", "3", "--name", "steady")
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
    (claim,) = run["claims"]
    figures = {f["figure"]: f for f in claim["figures"]}
    # A paced rate far below what the lab can do is the same again, wherever it runs.
    rate = figures["received_pps"]
    assert rate["state"] == "repeated" and rate["low"] < rate["here"] < rate["high"] and rate["repeats"] == 3
    assert rate["here"] == pytest.approx(2000, rel=0.02)
    assert run["same_processors"] is True and checked.returncode == {"repeated": 0, "differs": 1, "cannot tell": 4}[found["state"]]
    (new,) = (tmp_path / "runs").iterdir()
    assert json.loads((new / "resolved.json").read_text())["repeated_run"] == old.name
    assert json.loads((new / "plan.json").read_text()) == json.loads((tmp_path / "kept" / "plan.json").read_text())
    again = dutlab("artifact", "check", str(tmp_path / "steady.zip"), "--repeated", str(new), "--json", env=stranger)
    assert again.returncode == checked.returncode and json.loads(again.stdout)["runs"][0]["claims"] == run["claims"]
