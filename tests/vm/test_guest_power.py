"""Guests of a lab whose power is switched: by a person, in a phase that is off, and while a run that was cut has it off."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from capability import have_netns, need, need_engine
from dutlab.labs.uml import MODULES
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually

SCHEDULE = """
experiment: hour
testbed:
  lab: uml-router
  sensors: {wall: {kind: command, command: "cat watts", unit: W, simulated: yes}}
factors: {mode: [router]}
disturbed: count
repeats: 2
workloads:
  - soak-power:
      rate: 500pps
      frame_sizes: [64]
      links: [[a]]
      phases: [{name: full, share: 100%, duration: 4s}, {name: off, off: yes, duration: OFF}]
"""


@pytest.fixture(autouse=True)
def parts() -> None:
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())
    need_engine()


def test_a_guest_is_switched_off_in_a_phase_and_forwards_in_its_mode_again_in_the_next_trial(dutlab, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(SCHEDULE.replace("OFF", "4s"))
    (tmp_path / "watts").write_text("15.0\n")
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    found = records(only_run(tmp_path))
    assert [r["status"] for r in found] == ["measured"] * 2, done.stderr
    assert all(r["figures"]["a"]["full_received_pps"] > 0 and r["figures"]["a"]["off_w"] == 15.0 for r in found)
    events = [json.loads(line) for line in (only_run(tmp_path) / "journal.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events if e.get("application") == "power"] == ["dut-changing", "dut-restored"] * 2
    assert "(simulated)" in (only_run(tmp_path) / "report" / "report.html").read_text()


def test_a_person_switches_a_guest_and_a_run_that_was_killed_with_it_off_switches_it_on(dutlab, python, python_env, tmp_path: Path) -> None:
    label = f"t{os.getpid()}-power"
    power = ("power", "dut", "--lab", label)
    done = dutlab("lab", "up", "uml-router", "--label", label)
    try:
        assert done.returncode == 0, done.stderr
        for action, state in (("status", "on"), ("off", "off"), ("off", "off")):
            assert dutlab("power", "dut", action, *power[2:]).stdout == f"dut: {state}\n"
        assert not kernels(label)
        done = dutlab("power", "source", "off", *power[2:])
        assert (done.returncode, "does not say what switches source" in done.stderr) == (2, True), done.stderr
        (tmp_path / "e.yaml").write_text(SCHEDULE.replace("OFF", "10min"))
        (tmp_path / "watts").write_text("15.0\n")
        with (tmp_path / "said").open("wb") as said:  # it is off, so the run switches it on before it begins
            argv = [python, "-m", "dutlab", "run", "e.yaml", "--lab", label]
            run = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)
            try:
                journal = lambda: "".join(path.read_text() for path in tmp_path.glob("runs/*/journal.jsonl"))  # noqa: E731
                assert eventually(lambda: '"power"' in journal() and not kernels(label), 3 * LIMIT_S), (tmp_path / "said").read_text()
            finally:
                run.send_signal(signal.SIGKILL)
                run.wait()
        assert "dut did not answer, and its power was switched on" in (tmp_path / "said").read_text()
        done = dutlab("undo", str(only_run(tmp_path)))
        assert done.returncode == 0, done.stderr
        assert kernels(label) and dutlab("power", "dut", "status", *power[2:]).stdout == "dut: on\n"
    finally:
        done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not kernels(label)
