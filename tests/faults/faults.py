"""All faults, for as long as one likes: `python tests/faults/faults.py --minutes 60 [--seed N] [--only KIND]`. Ends by the clock; exit 1 for a fault.

The seed is printed; with it the same attempts are made in the same order. What is left of time is shared evenly between the kinds.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb  # noqa: F401 - imported here once, so that a forked command need not
import killing
import mutated_imports
import numpy as np  # noqa: F401 - as above
import statements
import tampering
from doors import DoorsFolder
from outcome import BOUNDARY, Outcome, carried_out

import dutlab.cli.claims
import dutlab.cli.compare
import dutlab.cli.effects
import dutlab.cli.history
import dutlab.cli.import_files
import dutlab.cli.report
import dutlab.cli.rescore
import dutlab.cli.run
import dutlab.cli.runs  # noqa: F401 - as above
from capability import have_netns

_COMMANDS_EACH = 4


@dataclass
class Tally:
    """Counts of one kind, and the faults, each once."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)

    def attempt(self, what: str, faults: list[str]) -> None:
        """One attempt was made."""
        self.counts["attempts"] += 1
        for fault in faults:
            self.counts["faults"] += 1
            if fault not in self.faults:
                self.faults[fault] = what
                print(f"  FAULT: {what}: {fault}", flush=True)

    def command(self, what: str, done: Outcome, more: list[str] | None = None) -> None:
        """One command was carried out."""
        self.counts[f"status {done.status}"] += 1
        self.counts["found by the boundary alone"] += BOUNDARY in done.err + done.out
        self.attempt(f"{what}; dutlab {' '.join(done.argv)}"[:400], [*done.faults(), *(more or [])])


Kind = Callable[[Path, random.Random, Tally], Iterator[None]]
"""Makes attempts for as long as it is asked for the next."""


def tamperings(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Changed run folders, read by every command."""
    first, other = tampering.made_runs(folder)
    while True:
        runs = folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        shutil.copytree(first.parent, runs, symlinks=True)
        run = runs / first.name
        what = tampering.tamper(run, dice)
        for words in dice.sample(tampering.COMMANDS, _COMMANDS_EACH):
            argv = [w.format(run=run, other=runs / other.name, runs=runs) for w in words]
            tally.command(what, carried_out(argv, folder))
            yield


def imports(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Mutated files of other tools."""
    while True:
        for name in ("in", "runs"):
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "in").mkdir()
        kind, path = mutated_imports.write(folder / "in", dice)
        done = carried_out(["import", kind, str(path), "--runs", "runs"], folder)
        beside = sorted(p.name for p in folder.iterdir() if p.name not in ("in", "runs"))
        half = [p.name for p in folder.glob("runs/*") if not (p / "MANIFEST.sha256").is_file()]
        tally.command(
            f"import {kind}", done, [f"written beside the runs: {beside}"] * bool(beside) + [f"half of a run: {half}"] * bool(half)
        )
        yield


def sql(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Questions, and statements that would do more than ask."""
    runs = tampering.made_runs(folder)[0].parent
    carried_out(["runs", "--runs", str(runs)], folder)
    secret, target = "unlikely-to-be-printed", folder / "secret.csv"
    target.write_text(f"a,b\n{secret},1\n")
    before = _contents(folder)
    while True:
        text = statements.statement(dice, file=str(target), folder=str(folder))
        done = carried_out(["query", text, "--runs", str(runs)], folder)
        changed = sorted(set(_contents(folder).items()) ^ set(before.items()))
        tally.command(
            "query",
            done,
            [f"files changed: {changed[:3]}"] * bool(changed) + ["read a file of the machine"] * (secret in done.out + done.err),
        )
        yield


def doors(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Files and builds of others that are endless, too large, never written or of another kind."""
    run, site = tampering.made_runs(folder)[0], folder / "site"
    carried_out(["publish", str(run), str(site)], folder)
    place = DoorsFolder(folder, run, site)
    while True:
        with place.attempt(dice) as (what, argv, at):
            tally.command(what, carried_out(argv, at))
        yield


def calls(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Kills at each system call that changes a file, in an order that is drawn."""
    for name in ("counting", "one"):
        (folder / name).mkdir()
    number = killing.points(folder / "counting")
    tally.counts["calls of a whole run"] = number
    while True:
        for n in dice.sample(range(1, number + 1), number):
            shutil.rmtree(folder / "one" / "runs", ignore_errors=True)
            found = killing.killed_at_call(folder / "one", n)
            tally.counts["kills"] += found.kills
            tally.attempt(found.words, found.faults)
            yield
        tally.counts["times all calls"] += 1


def instants(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Kills at random instants, in every workload and lab."""
    workloads = killing.usable_workloads(folder)
    print(f"  workloads: {', '.join(workloads)}; labs: {', '.join(killing.LABS_OF_RUNS)}", flush=True)
    while True:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        found = killing.killed_at_instants(folder, workloads, dice)
        tally.counts["kills"] += found.kills
        tally.attempt(found.words, found.faults)
        yield


def stops(folder: Path, dice: random.Random, tally: Tally) -> Iterator[None]:
    """Controllers that are stopped for up to half a minute, in every workload and lab."""
    workloads = killing.usable_workloads(folder)
    while True:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        found = killing.stopped_at_an_instant(folder, workloads, dice)
        tally.attempt(found.words, found.faults)
        yield


KINDS: dict[str, Kind] = {
    "tamperings": tamperings, "imports": imports, "sql": sql, "doors": doors, "calls": calls, "instants": instants, "stops": stops,
}  # fmt: skip
NEED_NAMESPACES = ("calls", "instants", "stops")


def _contents(folder: Path) -> dict[str, int]:
    """Size of every file but the index, which a question may bring up to date."""
    return {str(p): p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".index.sqlite")}


def carry_out(kind: str, seconds: float, seed: int) -> Tally:
    """Attempts of one kind for so long; at least one."""
    tally, end = Tally(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        for _ in KINDS[kind](Path(name), random.Random(f"{seed} {kind}"), tally):
            if time.monotonic() >= end:
                break
    return tally


def main() -> None:
    """Exit 1 for any fault."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=1.0)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments.add_argument("--only", choices=KINDS, action="append")
    given = arguments.parse_args()
    kinds = given.only or [k for k in KINDS if k not in NEED_NAMESPACES or have_netns()]
    print(f"seed {given.seed}; {', '.join(kinds)}", flush=True)
    if set(kinds) & set(NEED_NAMESPACES):
        killing.private_tmp()
    began, faults = time.monotonic(), 0
    for place, kind in enumerate(kinds):
        left = given.minutes * 60 - (time.monotonic() - began)
        print(f"{kind}:", flush=True)
        tally = carry_out(kind, max(left, 0) / (len(kinds) - place), given.seed)
        faults += len(tally.faults)
        print(f"  {', '.join(f'{count} {what}' for what, count in sorted(tally.counts.items()))}", flush=True)
    print(f"{faults} different faults in {(time.monotonic() - began) / 60:.1f} minutes; seed {given.seed}", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
