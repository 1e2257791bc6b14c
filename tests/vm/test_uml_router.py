"""The lab `uml-router`: a DUT with a kernel of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from capability import have_netns, need, need_engine
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs.state import StateFolder
from dutlab.labs.uml import MODULES
from dutlab.runner.journal import pending_undo, read_journal
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually


@pytest.fixture(autouse=True)
def parts() -> None:
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())
    need_engine()


def test_its_own_kernel_forwards_and_delays_what_passes_and_nothing_is_left(dutlab, tmp_path: Path) -> None:
    before = set(NAMESPACES.glob("dutlab-*"))
    done = dutlab("demo", "--lab", "uml-router")
    assert done.returncode in (0, 1), done.stderr
    run = only_run(tmp_path)
    measured = [r for r in records(run) if r["status"] == "measured"]  # other work may have disturbed some in every attempt
    of_mode = {mode: [r for r in measured if r["cell"]["mode"] == mode] for mode in ("router", "far-away", "lossy")}
    latency = {
        mode: min(f["latency_p50_ns"] for r in of for f in r["figures"].values() if "latency_p50_ns" in f) for mode, of in of_mode.items()
    }
    assert 20e6 < latency["far-away"] < 20e6 + latency["router"] + 10e6, latency
    lost = {mode: sum(f.get("loss_ratio", 0.0) for r in of for f in r["figures"].values()) for mode, of in of_mode.items()}
    assert lost["router"] < lost["lossy"], lost
    assert (run / "report" / "report.html").exists()
    assert set(NAMESPACES.glob("dutlab-*")) == before


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
    dutlab, tmp_path: Path, python: str, python_env
) -> None:
    label = f"t{os.getpid()}-uml"
    (tmp_path / "e.yaml").write_text(FRAGILE)
    done = dutlab("lab", "up", "uml-router", "--label", label)
    try:
        assert done.returncode == 0, done.stderr
        done = dutlab("run", "e.yaml", "--lab", label)
        assert done.returncode == 3, done.stderr
        assert "dut was lost: the kernel of its guest has ended: Kernel panic" in done.stderr, done.stderr
        assert "the cell of trial 1 has lost guests 3 times; read the consoles in" in done.stderr, done.stderr
        assert len(list(only_run(tmp_path).glob("trials/0001.host-lost-*/raw/console-dut.txt"))) == 3
        assert not records(only_run(tmp_path))
        assert not pending_undo(read_journal(only_run(tmp_path) / "journal.jsonl"))
        assert dutlab("lab", "shell", label, "dut", "sysctl", "-n", "net.ipv4.ip_forward").stdout == "0\n", (
            "it was started the last time too"
        )
        argv = [python, "-m", "dutlab", "lab", "shell", label, "dut", "sh", "-c", "echo here; sleep 1000"]
        with subprocess.Popen(argv, env=python_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shell:
            assert shell.stdout is not None
            assert shell.stdout.readline() == "here\n"
            for pid in kernels(label):
                os.kill(pid, signal.SIGKILL)
            _, said = shell.communicate(timeout=LIMIT_S)
        assert (shell.returncode, "dut: the kernel of its guest has ended" in said) == (3, True), said
        assert eventually(lambda: not kernels(label), LIMIT_S)
        done = dutlab("measure", "sweep", "frame_sizes=64", "--lab", label)
        assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
    finally:
        done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not StateFolder().ssh_folder(label).exists()


def test_where_no_tap_can_be_made_the_lab_says_what_it_lacks_and_leaves_nothing(python, python_env, tmp_path: Path) -> None:
    before = set(NAMESPACES.glob("dutlab-*"))
    hidden = 'mount --bind /dev/null /dev/net/tun && exec "$0" -m dutlab lab up uml-router'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hidden, python], cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 3, done.stderr
    assert "the guest dut cannot have a tap: " in done.stderr and "see that this user may open /dev/net/tun" in done.stderr
    assert set(NAMESPACES.glob("dutlab-*")) == before
