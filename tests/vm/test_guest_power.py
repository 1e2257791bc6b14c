"""Guests of a lab whose power is switched: by a person, in a phase that is off, and while a run that was cut has it off."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from array_lab import entries
from guests import kernels
from main_job import events, only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

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
      phases: [{name: full, share: 100%, duration: 3s}, {name: off, off: yes, duration: OFF}]
"""


def test_a_guest_is_switched_off_in_a_phase_and_forwards_in_its_mode_again_in_the_next_trial(
    dutlab: Dutlab, uml_router: str, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text(SCHEDULE.replace("OFF", "3s"))
    (tmp_path / "watts").write_text("15.0\n")
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 0, done.stderr
    found = records(only_run(tmp_path))
    assert [r["status"] for r in found] == ["measured"] * 2, done.stderr
    assert all(r["figures"]["a"]["full/received_pps"] > 0 and r["figures"]["a"]["off/watts"] == 15.0 for r in found)
    told = [e["event"] for e in events(only_run(tmp_path)) if e.get("application") == "power"]
    assert told == ["dut-changing", "dut-restored"] * 2
    assert "(simulated)" in (only_run(tmp_path) / "report" / "report.html").read_text()


def test_a_person_switches_a_guest_and_a_run_that_was_killed_with_it_off_switches_it_on(
    dutlab: Dutlab, uml_router: str, tmp_path: Path
) -> None:
    for action, state in (("status", "on"), ("off", "off"), ("off", "off")):
        assert dutlab("power", "dut", action, "--lab", uml_router).stdout == f"dut: {state}\n"
    assert not kernels(uml_router)
    assert dutlab("power", "source", "off", "--lab", uml_router).returncode == 2, "nothing switches it"
    (tmp_path / "e.yaml").write_text(SCHEDULE.replace("OFF", "10min"))
    (tmp_path / "watts").write_text("15.0\n")
    with dutlab.begin("run", "e.yaml", "--lab", uml_router) as run:  # it is off, so the run switches it on before it begins

        def told() -> list[tuple[str, str | None]]:
            return [(e["event"], e.get("application")) for e in entries(tmp_path / "runs")]

        def is_off() -> bool:
            return ("dut-changing", "power") in told() and not kernels(uml_router)

        assert eventually(lambda: is_off() or run.poll() is not None, LIMIT_S) and run.poll() is None, run.said.read_text()
        os.kill(run.pid, signal.SIGKILL)
        run.wait(LIMIT_S)
    assert "host-revived" in {event for event, _ in told()}, "it was switched on"
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert kernels(uml_router) and dutlab("power", "dut", "status", "--lab", uml_router).stdout == "dut: on\n"
