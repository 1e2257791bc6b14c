"""The experiment that tests of the main job run, and what its run leaves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dutlab.by_path import named
from dutlab.store.run_folder import RunFolder
from dutlab.tools.raw_figures import KeptTrial, Recomputed
from dutlab.workloads import plug_of
from processes import command_lines
from run_records import record_in

EXPERIMENT = """
experiment: cut-me
testbed: {lab: three-node}
factors:
  mode: [router, nat]
workloads:
  - sweep: {frame_sizes: [64, imix], rates: [2kpps], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 2
seed: 7
"""
TRIALS = 2 * 2 * 2
ONCE = EXPERIMENT.replace("repeats: 2", "repeats: 1").replace("[router, nat]", "[nat]").replace("[2kpps]", "[1kpps, 2kpps]")
"""Half as many trials, in one mode."""
IPERF3 = "  - iperf3: {streams: 2, omit: 0s, duration: 1s, links: [[a]]}\n"
SWEEPS = ONCE.replace("[nat]", "[router]").replace("[64, imix]", "[64]").replace("[1kpps, 2kpps]", "[2kpps]")
BOTH_TOOLS = SWEEPS.replace("workloads:\n", f"workloads:\n{IPERF3}")
"""A trial of each tool in one mode: where it matters neither how many there are nor which."""


def dut_state(label: str) -> tuple[str, str]:
    """What modes change: forwarding, other sysctls of the modes, and the ruleset."""
    inside = ["ip", "netns", "exec", f"dutlab-{label}-dut"]
    sysctls = subprocess.run(
        [*inside, "sysctl", "-a", "-r", r"^net\.ipv[46]\.(ip_forward|conf\.all\.forwarding)"], capture_output=True, text=True, check=True
    )
    return sysctls.stdout, rules(label)


def processes_in(label: str) -> dict[int, bytes]:
    """Command lines of those that run in a lab's namespaces."""
    return {pid: line for host in ("source", "dut", "sink") for pid, line in command_lines(f"dutlab-{label}-{host}").items()}


def forwarded(label: str) -> int:
    """Frames that a lab's DUT has sent on to the sink of link a."""
    counter = ["cat", "/sys/class/net/out-a/statistics/tx_packets"]
    said = subprocess.run(["ip", "netns", "exec", f"dutlab-{label}-dut", *counter], capture_output=True, text=True, check=True)
    return int(said.stdout)


def rules(label: str) -> str:
    """The ruleset of a lab's DUT."""
    inside = ["ip", "netns", "exec", f"dutlab-{label}-dut"]
    return subprocess.run([*inside, "nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


def trial_begun(tmp_path: Path) -> bool:
    """Whether the first trial is under way."""
    journal = next(tmp_path.glob("runs/*/journal.jsonl"), None)
    return journal is not None and "trial-started" in journal.read_text()


def ports_of_source(label: str) -> list[str]:
    show = ["ip", "-n", f"dutlab-{label}-source", "-br", "link"]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()[::4]


def only_run(tmp_path: Path) -> Path:
    (run,) = (tmp_path / "runs").iterdir()
    return run


def records(run: Path) -> list[dict[str, Any]]:
    return [record_in(p) for p in sorted(run.glob("trials/[0-9][0-9][0-9][0-9]/record.json"))]


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def recomputed(run: Path, record: dict[str, Any]) -> Recomputed:
    """The figures of a trial by its raw files alone, as `verify-claim` has them."""
    folder, of = run / "trials" / f"{record['trial']:04d}", RunFolder.open(run).record(record["trial"])
    raw = {name.removeprefix("raw/"): (folder / name).read_bytes() for name in of.raw}
    again: Callable[[KeptTrial], Recomputed] = named(plug_of(of.cell.workload).again)
    return again(KeptTrial(of.cell, raw, of.tool_facts, {}))
