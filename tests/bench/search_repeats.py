"""How well a search repeats in the embedded lab: the same search several times, and how far its limits lie apart.

    python tests/bench/search_repeats.py [--searches 5] [--preset csit] [--size 64] [--mode router]

Needs root, network namespaces, and nothing else at work on the machine. Prints each search's bounds and the spread as Markdown. Exits 1
when the lower bounds of a goal lie further apart than 3 % of their median, or when a search has no DUT limit with both bounds; the report
of the run, whose folder is printed, then says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dutlab.report.sections.search_words import REPEATS_WITHIN
from dutlab.stats.summary import summarise
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder


def searched(arguments: argparse.Namespace) -> RunFolder:
    """The run of all searches."""
    runs = Path(tempfile.mkdtemp(prefix="dutlab-search-repeats-"))
    options = ["--preset", arguments.preset, "--size", arguments.size, "--link", "a", "--mode", arguments.mode]
    argv = [sys.executable, "-m", "dutlab", "search", *options, "--repeats", str(arguments.searches), "--runs", str(runs)]
    subprocess.run(argv, check=True)
    (folder,) = runs.iterdir()
    return RunFolder.open(folder)


def judged(name: str, records: Sequence[TrialRecord]) -> str:
    """Prints the searches of one goal; returns what is wrong with them, or nothing."""
    rows = [row for r in records for row in r.tables["goals"] if row["name"] == name]
    print(f"\n| {name} | lower, kpps | upper, kpps | irregular | trials |\n|-|-|-|-|-|")
    for record, row in zip(records, rows, strict=True):
        low, high = ("-" if (rate := row[key]) is None else f"{float(rate) / 1e3:.1f}" for key in ("lower_pps", "upper_pps"))
        print(f"| {record.trial} | {low} | {high} | {row['irregular']} | {len(record.tables['trials'])} |")
    lower = [float(row["lower_pps"]) for row in rows if row["lower_pps"] is not None]
    if len(lower) < len(rows) or any(row["irregular"] for row in rows):
        return f"{name}: not every search has both bounds"
    found = summarise(lower)
    print(f"\n{name}: median {found.median / 1e3:.1f} kpps, {found.relative_range:.2%} apart over {found.n} searches")
    return f"{name}: {found.relative_range:.2%} apart" if found.relative_range > REPEATS_WITHIN else ""


def main() -> int:
    """Prints, and says whether the searches repeat."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--searches", type=int, default=5)
    arguments.add_argument("--preset", default="csit")
    arguments.add_argument("--size", default="64")
    arguments.add_argument("--mode", default="router")
    run = searched(arguments.parse_args())
    records = [r for r in run.records() if r.status == "measured"]
    names = list(dict.fromkeys(str(row["name"]) for r in records for row in r.tables["goals"]))
    faults = [fault for name in names if (fault := judged(name, records))]
    print(f"\nrun: {run.path}")
    for fault in faults:
        print(fault)
    return 1 if faults or not records else 0


if __name__ == "__main__":
    sys.exit(main())
