"""The quick demo alone and beside other work: both tables, how many trials were disturbed and repeated, and whether the order of modes is the same.

    scripts/isolated .venv/bin/python tests/bench/busy_demo.py [--runs DIR] [--cpu 1] [--load 100] [--seed 13] [--only idle|busy] [--whole]

`--cpu N --load P` is the other work: stress-ng with N busy loops of P % each (one of 100 % loads a machine with two cores half). Cell by cell
the order of modes beside other work is compared with that of the machine alone; two modes whose ranges are not 10 % apart have no order. The demo may
also say that it cannot tell: a cell without a figure is counted, not compared. Needs root, stress-ng and the built engine, as `make bench`
installs them. Ends with 1 when an order is reversed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import median

from dutlab.report.sections.cpu_cost import cpu_cost
from dutlab.report.sections.disturbed import reason_without_rates
from dutlab.store.cell_figures import counts
from dutlab.store.judged import DISTURBED
from dutlab.store.run_folder import RunFolder
from dutlab.units import si
from dutlab.workloads import main_figures

LONGEST_S = 2 * 3600
APART = 0.1
"""The quick demo has one repeat: modes that are nearer to one another have no order."""

Cell = tuple[str, str, str]
"""Workload, frame size, links."""
Table = dict[Cell, dict[str, list[float]]]
"""Cell → mode → its values."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--load", type=int, default=100)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--only", choices=["idle", "busy"])
    parser.add_argument("--whole", dest="quick", action="store_false", help="the demo as `make demo` runs it, not the quick one")
    asked = parser.parse_args()
    runs = asked.runs or Path(tempfile.mkdtemp(prefix="busy-demo-"))
    tables: dict[str, tuple[Table, tuple[str, ...]]] = {}
    if asked.only != "busy":
        tables["alone"] = shown("alone", demo(runs / "idle", quick=asked.quick))
    if asked.only != "idle":
        with other_work(asked.cpu, asked.load, asked.seed):
            tables["beside"] = shown(f"beside stress-ng --cpu {asked.cpu} --cpu-load {asked.load}", demo(runs / "busy", quick=asked.quick))
    costs = {name: cost for name, (_, cost) in tables.items()}
    if len(tables) == 2:
        print(f"\norder by processor time per frame: {'the same' if costs['alone'] == costs['beside'] else 'another'}")
    return compared(tables["alone"][0], tables["beside"][0]) if len(tables) == 2 else 0


@contextlib.contextmanager
def other_work(cpu: int, load: int, seed: int) -> Iterator[None]:
    command = ["stress-ng", "--quiet", "--seed", str(seed), "--cpu", str(cpu), "--cpu-load", str(load), "--timeout", str(LONGEST_S)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def demo(runs: Path, *, quick: bool) -> RunFolder:
    """A run of the demo in `runs`; it may end with 1, since trials may have no result."""
    dutlab = Path(sys.executable).with_name("dutlab")
    runs.mkdir(parents=True, exist_ok=True)
    before = set(runs.iterdir())
    environment = {name: value for name, value in os.environ.items() if name != "DUTLAB_DISTURBED"}
    began = time.monotonic()
    done = subprocess.run([dutlab, "demo", *(["--quick"] if quick else []), "--runs", runs], env=environment, check=False)
    print(f"ended with {done.returncode} after {time.monotonic() - began:.0f} s")
    if done.returncode not in (0, 1):
        raise SystemExit(f"the demo ended with {done.returncode}")
    (made,) = {p for p in set(runs.iterdir()) - before if p.is_dir()}
    return RunFolder.open(made)


def shown(title: str, run: RunFolder) -> tuple[Table, tuple[str, ...]]:
    """Prints what a run found, and how many trials were disturbed. Returns its table, and its modes by processor time per frame."""
    records = list(run.records())
    table: Table = defaultdict(lambda: defaultdict(list))
    for record in records:
        cell = (record.cell.workload, str(record.cell.params.get("frame_size") or ""), record.cell.link_label)
        values = table[cell][record.cell.mode]
        figures = record.figures.get(record.cell.link_label, {})
        if counts(record) and (names := main_figures(record.cell.workload, figures)):
            values.append(figures[names[0]])
    modes = list(dict.fromkeys(r.cell.mode for r in sorted(records, key=lambda r: r.cell.mode)))
    aside = [a for a in run.attempts() if a.reason.value == DISTURBED]
    left = sum(r.status == DISTURBED for r in records)
    print(f"\n## {title}\n")
    print(f"{len(records)} trials; {len(aside)} attempts were disturbed and repeated; {left} trials without an undisturbed attempt")
    busy = reason_without_rates(records, [record for _, record in run.set_aside_records()])
    print(f"the run says: {busy or 'nothing of a machine that is too busy'}\n")
    print(f"| cell | {' | '.join(modes)} |\n|---|{'---|' * len(modes)}")
    for cell, of_mode in table.items():
        print(f"| {' '.join(filter(None, cell))} | {' | '.join(_text(of_mode.get(mode, [])) for mode in modes)} |")
    spreads = [max(v) / min(v) - 1 for of_mode in table.values() for v in of_mode.values() if len(v) > 1 and min(v) > 0]
    if spreads:
        print(f"\nrange of repeats: median {median(spreads):.1%}, {sum(s <= 0.1 for s in spreads)} of {len(spreads)} cells within 10 %")
    cost = cpu_cost(records, [record for _, record in run.set_aside_records()], modes)
    print(f"\n{cost.words if cost else 'no order by processor time per frame'}")
    return table, tuple(mode.mode for mode in cost.modes) if cost else ()


def _text(values: list[float]) -> str:
    return f"{si(median(values), '')} ({si(min(values), '')}–{si(max(values), '')})" if values else "no figure"


def compared(alone: Table, beside: Table) -> int:
    """Prints for how many pairs of modes of a cell the order is the same, not to be told, or reversed; 1 where any is reversed."""
    same = near = without = 0
    reversed_: list[str] = []
    for cell, of_mode in alone.items():
        for one, other in combinations(sorted(of_mode), 2):
            pairs = [(of[one], of[other]) for of in (of_mode, beside[cell])]
            order, there = (_order(*pair) for pair in pairs)
            if not all(values for pair in pairs for values in pair):
                without += 1
            elif order == 0 or there == 0:
                near += 1
            elif order == there:
                same += 1
            else:
                reversed_.append(f"{' '.join(filter(None, cell))}: {one} and {other}")
    print(
        f"\norder of modes: {same} pairs the same, {near} nearer than {APART:.0%} in one of the runs, {len(reversed_)} reversed; "
        f"of {without} pairs one of the runs has no figure, and says so"
    )
    for what in reversed_:
        print(f"- reversed: {what}")
    return 1 if reversed_ else 0


def _order(one: list[float], other: list[float]) -> int:
    """1 or -1 where the ranges are apart by more than APART, else 0."""
    if not one or not other:
        return 0
    return 1 if min(one) > max(other) * (1 + APART) else -1 if max(one) * (1 + APART) < min(other) else 0


if __name__ == "__main__":
    sys.exit(main())
