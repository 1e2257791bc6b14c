"""Levels that a kernel takes only when it boots: a guest is booted anew for them, and once more when they are left."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from dutlab.labs.state import StateFolder
from dutlab.runner.journal import pending_undo, read_journal
from guests import in_guest, kill
from main_job import only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

AT_BOOT = "$(findmnt -rn -t hostfs -o TARGET | grep -vx /)/ports-dut"
"""What the guest does when it boots, on its lab's own folder."""
TEXT = f"""
experiment: booted
testbed: {{lab: uml-router}}
factors:
  mode: [router]
  sysctl.net.ipv4.tcp_ecn: [1]
  ttl: [found, "99"]
expensive_to_change: [sysctl.net.ipv4.tcp_ecn]
levels:
  ttl:
    found: {{}}
    "99":
      apply: ['echo sysctl -qw net.ipv4.ip_default_ttl=99 >>{AT_BOOT}']
      reboot: true
      back_within: 2min
      verify: [sysctl -n net.ipv4.ip_default_ttl | grep -qx 99]
      restore: ['sed -i /ip_default_ttl/d {AT_BOOT}']
repeats: 1
disturbed: count
workloads:
  - sweep: {{frame_sizes: [64], rates: [1kpps], duration: 500ms, links: [[a]]}}
"""


def test_a_level_boots_the_guest_anew_and_those_below_it_are_set_again(dutlab: Dutlab, uml_router: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(TEXT)
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    found = {r["cell"]["factors"]["ttl"]: r for r in records(run)}
    assert {level: r["status"] for level, r in found.items()} == {"found": "measured", "99": "measured"}, done.stderr
    checks = {check["what"]: check["passed"] for check in found["99"]["checks"]}
    assert checks["sysctl.net.ipv4.tcp_ecn 1 on dut"], checks
    assert checks["ttl 99 on dut: `sysctl -n net.ipv4.ip_default_ttl | grep -qx 99` ends with 0"], checks
    assert not pending_undo(read_journal(run / "journal.jsonl"))


def test_a_guest_that_does_not_come_back_ends_the_run_with_what_to_do(dutlab: Dutlab, uml_router: str, tmp_path: Path) -> None:
    hangs = TEXT.replace("sysctl -qw net.ipv4.ip_default_ttl=99 >>", "sleep 1000 >>").replace("2min", "2s")
    (tmp_path / "e.yaml").write_text(hangs.replace("duration: 500ms", "duration: 200ms") + "order: as-written\n")
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 3, done.stderr
    assert "not back after 2 s" in done.stderr and "dutlab resume" in done.stderr, done.stderr
    assert [r["status"] for r in records(only_run(tmp_path))] == ["measured"]
    at_boot = StateFolder().ssh_folder(uml_router) / "ports-dut"
    assert "sleep 1000" in at_boot.read_text()
    at_boot.write_text(re.sub("sleep 1000\n", "", at_boot.read_text()))
    kill(uml_router)


def told(run: Path, event: str) -> bool:
    return any(e["event"] == event and e.get("application", "ttl=99") == "ttl=99" for e in read_journal(run / "journal.jsonl"))


@pytest.mark.timing
@pytest.mark.parametrize("event", ["level-applying", "trial-started"], ids=["while-it-is-set", "in-the-trial-after-its-boot"])
def test_all_levels_of_a_killed_run_are_put_back_with_the_reboot_that_one_of_them_takes(
    dutlab: Dutlab, uml_router: str, tmp_path: Path, event: str
) -> None:
    def seen() -> list[str]:
        asked = f"sysctl net.ipv4.ip_default_ttl net.ipv4.tcp_ecn net.ipv4.tcp_sack; grep -c ip_default_ttl {AT_BOOT}"
        return in_guest(uml_router, "dut", asked).split("\n")

    three = TEXT.replace('[found, "99"]', '["99"]').replace("tcp_ecn: [1]\n", "tcp_ecn: [1]\n  sysctl.net.ipv4.tcp_sack: [0]\n")
    (tmp_path / "e.yaml").write_text(three.replace("duration: 500ms", "duration: 5s"))
    before = seen()
    with dutlab.begin("run", "e.yaml", "--lab", uml_router) as running:
        reached = eventually(lambda: ((tmp_path / "runs").exists() and told(only_run(tmp_path), event)) or running.poll() is not None)
        assert reached and running.poll() is None, running.said.read_text()
        os.kill(running.pid, signal.SIGKILL)
        running.wait(LIMIT_S)
    run = only_run(tmp_path)
    left = [name for name, _ in pending_undo(read_journal(run / "journal.jsonl"))]
    assert "ttl=99" in left, left
    if event == "trial-started":
        assert {"sysctl.net.ipv4.tcp_ecn=1", "sysctl.net.ipv4.tcp_sack=0", "ttl=99"} < set(left), left
        assert seen() != before
    undone = list[str]()

    def is_undone() -> bool:
        done = dutlab("undo", str(run))  # of a host that boots it says so, and is told again
        undone.append(done.stderr)
        return done.returncode == 0

    assert eventually(is_undone), undone
    assert not pending_undo(read_journal(run / "journal.jsonl"))
    assert seen() == before
    assert "Unknown child process" not in "".join(undone)
    if event == "trial-started":
        resumed = dutlab("resume", str(run))
        assert resumed.returncode == 0, resumed.stderr
        assert [r["status"] for r in records(run)] == ["measured"]
        assert seen() == before
