"""Two runs that take turns: block by block, each a run of its own, cut and resumed together or alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capability import needs
from dutlab.plan.trials import Turns
from dutlab.store.run_folder import RunFolder
from forked import Forked
from main_job import dut_state, events, processes_in, records
from processes import eventually

Dutlab = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Forked]

EXPERIMENT = """
experiment: turns
testbed: {lab: three-node}
factors: {mode: [nat]}
workloads:
  - sweep: {frame_sizes: [64], rates: [1000pps], duration: 200ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 2
seed: 11
disturbed: count
watch: []
"""
TRIALS, BLOCK = 2, 1

_machine = needs("nft")


def runs_in(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("[!.]*-turns-*"))


def turns_taken(runs: list[Path]) -> list[tuple[int, int]]:
    """(place of the run, round) of every turn, in the order of time."""
    begun = [(e["at"], place, e["round"]) for place, run in enumerate(runs) for e in events(run) if e["event"] == "turn-began"]
    return [(place, number) for _, place, number in sorted(begun)]


def begun(folder: Path) -> int:
    """How many turns, while somebody writes."""
    return sum(journal.read_text().count('"turn-began"') for journal in folder.glob("runs/[!.]*/journal.jsonl"))


def is_whole(run: Path) -> bool:
    """Whether the run is closed, and its files are as its manifest says."""
    folder = RunFolder.open(run)
    return folder.is_closed and folder.verify_manifest().none and [r["trial"] for r in records(run)] == list(range(1, TRIALS + 1))


def test_two_runs_of_one_box_take_turns_are_cut_and_go_on_together_or_alone(
    start: Start, dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    found_at_first = dut_state(standing_lab)
    file = experiment(EXPERIMENT)
    running = start("run", file, file, "--interleave", "--lab", standing_lab, "--budget", "1h")
    assert eventually(lambda: begun(tmp_path) > 2)
    os.kill(running.pid, signal.SIGINT)
    said = running.ended()
    assert running.returncode == 130, said
    runs = runs_in(tmp_path)
    assert len(runs) == said.count("`dutlab resume ") == 2, said
    done = [len(records(run)) for run in runs]
    assert min(done) >= BLOCK  # the first round is whole, and both are kept
    assert max(done) < TRIALS
    assert dut_state(standing_lab) == found_at_first
    assert not processes_in(standing_lab)

    shutil.copytree(tmp_path / "runs", tmp_path / "as they were cut")
    resumed = dutlab("resume", *map(str, reversed(runs)))
    assert resumed.returncode == 0, resumed.stderr
    assert all(is_whole(run) for run in runs)
    assert dut_state(standing_lab) == found_at_first
    turns = Turns.of(RunFolder.open(runs[0]).resolved)
    assert turns is not None
    assert turns.runs == tuple(run.name for run in runs)
    taken = list(dict.fromkeys(turns_taken(runs)))  # the turn that was cut was begun twice
    assert taken == [(place, number) for number in (1, 2) for place in turns.order(number)]

    compared: dict[str, Any] = json.loads(dutlab("compare", *map(str, runs), "--json").stdout)["compared"][0]
    assert compared["design"] == "rounds of interleaved runs"
    assert compared["differences"] == [] or not any("turns" in d["path"] for d in compared["differences"])

    first, second = (tmp_path / "as they were cut" / run.name for run in runs)
    kept = {p: p.read_bytes() for p in second.rglob("*") if p.is_file()}
    alone = dutlab("resume", str(first))
    assert alone.returncode == 0, alone.stderr
    assert second.name in alone.stderr, "that it leaves the rounds that it shared"
    assert is_whole(first)
    assert {p: p.read_bytes() for p in second.rglob("*") if p.is_file()} == kept
    for budget in ("0.3s", "10min"):  # less than one of its trials takes, and more
        again = dutlab("resume", str(first), str(second), "--budget", budget)
        assert RunFolder.open(second).is_closed == (budget == "10min"), again.stderr
    assert again.returncode == 0, again.stderr
    assert is_whole(second)
