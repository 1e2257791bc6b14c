"""How well the rule of disturbed trials tells slow trials from good ones: many trials of two cells, with other work now and then.

    scripts/isolated .venv/bin/python tests/bench/disturbed_rates.py [--repeats 60] [--seed 13] [--runs DIR]

Beside the run, stress-ng loads no core, one or both, in part or whole, for some seconds each, in an order drawn from the seed. The
reference is the median of the trials that none of it met. A trial is slowed if it is more than 10 % below that and below each of the
trials that none of it met, which shows what the cell does by itself; it is good if it is at most 10 % below the median. The table says how
many of each the rule flagged. Trials are not repeated. Needs root, iperf3, stress-ng and the built engine; run it on a
machine that is idle otherwise. Ends with 1 if fewer than 90 % of the slowed trials are flagged.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from dutlab.store.judged import DISTURBED
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import main_figures

SLOW = 0.10
"""Below the reference: what repeats are aimed at."""
CAUGHT = 0.90
LOADS = ((0, 0), (0, 0), (0, 0), (1, 30), (1, 100), (2, 50), (2, 100))
"""Loops of stress-ng, and how much of a core each wants in percent."""
SECONDS = (4.0, 12.0)
EXPERIMENT = """
experiment: disturbed-rates
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
workloads:
  - iperf3: {{streams: 4, omit: 0s, duration: 2s, links: [[a]]}}
  - sweep: {{frame_sizes: [64], duration: 2s, warmup: 200ms, drain: 200ms, links: [[a]]}}
repeats: {repeats}
repeat_disturbed: 0
watch: [cpu]
"""


@dataclass(frozen=True)
class Spell:
    """A time with one kind of other work."""

    begin: datetime
    end: datetime
    loops: int


class OtherWork(threading.Thread):
    """Spells of other work, one after the other, until it is stopped; no process is left behind."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.spells: list[Spell] = []
        self._stopping, self._random = threading.Event(), random.Random(seed)

    def run(self) -> None:
        while not self._stopping.is_set():
            loops, load = self._random.choice(LOADS)
            seconds, begin = self._random.uniform(*SECONDS), datetime.now(UTC)
            command = ["stress-ng", "--quiet", "--cpu", str(loops), "--cpu-load", str(load), "--timeout", f"{seconds + 60:.0f}"]
            process = subprocess.Popen(command, start_new_session=True) if loops else None
            self._stopping.wait(seconds)
            if process:
                process.terminate()
                process.wait()
            self.spells.append(Spell(begin, datetime.now(UTC), loops))

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def met(self, begin: datetime, end: datetime) -> bool:
        """Whether any of it fell into this time, or into the second before it."""
        return any(s.loops and s.begin < end and begin - timedelta(seconds=1) < s.end for s in self.spells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--runs", type=Path)
    asked = parser.parse_args()
    runs = asked.runs or Path(tempfile.mkdtemp(prefix="disturbed-rates-"))
    work = OtherWork(asked.seed)
    work.start()
    try:
        run = measured(runs, asked.repeats)
    finally:
        work.stop()
    return shown(run, work)


def measured(runs: Path, repeats: int) -> RunFolder:
    experiment = runs / "experiment.yaml"
    experiment.write_text(EXPERIMENT.format(repeats=repeats), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "DUTLAB_DISTURBED"}
    dutlab = Path(sys.executable).with_name("dutlab")
    done = subprocess.run([dutlab, "run", experiment, "--runs", runs], env=environment, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the run ended with {done.returncode}")
    (made,) = (p for p in runs.iterdir() if p.is_dir())
    return RunFolder.open(made)


def shown(run: RunFolder, work: OtherWork) -> int:
    cells: dict[str, list[tuple[float, bool, bool]]] = defaultdict(list)
    for record in run.records():
        if (value := _value(record)) is not None:
            cells[record.cell.workload].append((value, record.status == DISTURBED, work.met(record.started, record.ended)))
    print(
        "\n| workload | trials alone | their median and range | slowed, of them flagged | good, of them flagged | alone, of them flagged |"
    )
    print("|---|---|---|---|---|---|")
    slowed_of_all: list[bool] = []
    for workload, trials in cells.items():
        alone = [value for value, _, met in trials if not met]
        reference = median(alone)
        slowed = [flagged for value, flagged, _ in trials if value < min(reference * (1 - SLOW), *alone)]
        good = [flagged for value, flagged, _ in trials if value >= reference * (1 - SLOW)]
        calm = [flagged for _, flagged, met in trials if not met]
        print(
            f"| {workload} | {len(alone)} of {len(trials)} | {reference:,.0f}, {min(alone):,.0f} to {max(alone):,.0f} | "
            f"{len(slowed)}, {sum(slowed)} | {len(good)}, {sum(good)} | {len(calm)}, {sum(calm)} |"
        )
        slowed_of_all += slowed
    return 0 if not slowed_of_all or sum(slowed_of_all) >= CAUGHT * len(slowed_of_all) else 1


def _value(record: TrialRecord) -> float | None:
    figures = record.figures.get(record.cell.link_label, {})
    names = main_figures(record.cell.workload, figures)
    return figures[names[0]] if names else None


if __name__ == "__main__":
    sys.exit(main())
