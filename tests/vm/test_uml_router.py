"""The lab `uml-router`: a DUT with a kernel of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dutlab.hosts.netns import NAMESPACES
from dutlab.runner.journal import pending_undo, read_journal
from guests import in_guest, kernels, kill
from main_job import events, only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab, need_uml

DEMO = Path(__file__).parents[2] / "examples" / "guest" / "demo.yaml"
"""What `dutlab demo --lab uml-router` carries out."""


def test_its_own_kernel_forwards_and_delays_what_passes(dutlab: Dutlab, uml_router: str, tmp_path: Path) -> None:
    shorter = (
        DEMO.read_text().replace("omit: 1s, duration: 2s", "omit: 0s, duration: 1s").replace("repeats: 2", "repeats: 1\ndisturbed: count")
    )
    assert shorter.count("repeats: 1\n") == shorter.count("omit: 0s, duration: 1s") == 1
    (tmp_path / "e.yaml").write_text(shorter)
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    found = records(run)
    assert {r["status"] for r in found} == {"measured"}
    of_mode = {mode: [r for r in found if r["cell"]["mode"] == mode] for mode in ("router", "far-away", "lossy")}
    latency = {
        mode: min(f["latency_p50_ns"] for r in of for f in r["figures"].values() if "latency_p50_ns" in f) for mode, of in of_mode.items()
    }
    assert latency["far-away"] > 20e6, "nothing arrives before its time"
    lost = [flow["lost_frames"] for r in of_mode["lossy"] for flow in r["flows"]]
    assert sum(lost) > 0, lost
    assert (run / "report" / "report.html").exists()


FRAGILE = """
experiment: fragile
testbed: {lab: uml-router}
modes:
  fragile:
    apply:
      - sysctl -qw net.ipv4.ip_forward=1
      - >-
        setsid --wait sh -c '(until [ $(cat /sys/class/net/in-a/statistics/rx_packets) -gt 1000 ]; do sleep 0.2; done;
        echo c >/proc/sysrq-trigger) </dev/null >/dev/null 2>&1 &'
    restore: [sysctl -qw net.ipv4.ip_forward=0]
factors: {mode: [fragile]}
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [64], rates: [500pps], duration: 10min, links: [[a]]}
"""


def test_a_cell_that_loses_its_guest_again_and_again_ends_the_run_and_a_shell_on_a_killed_guest_ends_too(
    dutlab: Dutlab, uml_router: str, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text(FRAGILE)
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 3, done.stderr
    run = only_run(tmp_path)
    lost = [event["why"] for event in events(run) if event["event"] == "host-lost"]
    assert len(lost) == 3 and all("Kernel panic" in why for why in lost), lost
    assert len(list(run.glob("trials/0001.host-lost-*/raw/console-dut.txt"))) == 3
    assert not records(run)
    assert not pending_undo(read_journal(run / "journal.jsonl"))
    assert in_guest(uml_router, "dut", "sysctl -n net.ipv4.ip_forward") == "0\n", "it was started the last time too"
    with dutlab.begin("lab", "shell", uml_router, "dut", "sh", "-c", "echo here; sleep 1000") as shell:
        assert eventually(lambda: "here\n" in shell.said.read_text())
        kill(uml_router)
        assert shell.wait(LIMIT_S) == 3
        assert "dut: the kernel of its guest has ended" in shell.said.read_text()
    done = dutlab("measure", "sweep", "frame_sizes=64", "--lab", uml_router)
    assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
    assert not kernels(uml_router)


def test_where_no_tap_can_be_made_the_lab_says_what_it_lacks_and_leaves_nothing(python, python_env, tmp_path: Path) -> None:
    need_uml()
    before = set(NAMESPACES.glob("dutlab-*"))
    hidden = 'mount --bind /dev/null /dev/net/tun && exec "$0" -m dutlab lab up uml-router'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hidden, python], cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 3, done.stderr
    assert "the guest dut cannot have a tap: " in done.stderr and "check that this user may open /dev/net/tun" in done.stderr
    assert set(NAMESPACES.glob("dutlab-*")) == before
