"""What predicts that other work lowered a rate: many trials under five loads, half of them to set thresholds, half to test them.

    scripts/isolated .venv/bin/python tests/bench/disturbed_predictors.py [--trials 400] [--seed 13] [--runs DIR] [--only-table]

Each round has every load once, in an order drawn from the seed: nothing, one loop of 30 % of a core, one and two loops of 100 %, and four
programs that start, work for some milliseconds and rest. The reference is the median of the trials without load. A trial is damaged if it is
more than 10 % from that. Rates are judged at equal speed of the processor: times how long the fixed work took. Trials without load are damaged
too, by what no account of CPU time shows. So of each reading of a trial's `interference` the largest threshold is set on the odd rounds at which
trials below it are undamaged as often as those without load, less 5 %; the even rounds test it. Needs root, iperf3, stress-ng and the built
engine; the machine has to be idle otherwise. Ends with 1 if no reading reaches the aim on the half that tests.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from dutlab.physics.disturbed import disturbed
from dutlab.physics.interference import Interference
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import main_figures

DAMAGED = 0.10
LESS_THAN_IDLE = 0.05
LOADS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "1 × 30 %": ("--cpu", "1", "--cpu-load", "30"),
    "1 × 100 %": ("--cpu", "1"),
    "2 × 100 %": ("--cpu", "2"),
    "4 × 10 %, in slices of 2 ms": ("--cpu", "4", "--cpu-load", "10", "--cpu-load-slice", "2"),
}
EXPERIMENT = """
experiment: disturbed-predictors
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - iperf3: {streams: 4, omit: 0s, duration: 1s, links: [[a]]}
  - sweep: {frame_sizes: [64, 512], duration: 1s, warmup: 200ms, drain: 200ms, links: [[a]]}
repeats: 2
repeat_disturbed: 0
disturbed: count
watch: []
"""
A_ROUND = 6 * len(LOADS)

Reading = Callable[[Interference], float | None]
READINGS: Mapping[str, Reading] = {
    "taken of the CPU time": lambda i: i.taken_share,
    "others used, of the time of all cores": lambda i: None if i.others_cpu_s is None else i.others_cpu_s / (i.seconds * i.cores),
    "others used, of what our threads ran": lambda i: None if i.others_cpu_s is None or not i.run_s else i.others_cpu_s / i.run_s,
    "our threads waited, of their time": lambda i: i.wait_share,
    "longest wait of a forwarding thread in 1/4 s, ms": lambda i: i.forwarding and i.forwarding.longest_wait_s * 1e3,
    "forwarding threads waited, of their time": lambda i: (
        i.forwarding and i.forwarding.wait_s / ((i.forwarding.run_s + i.forwarding.wait_s) or 1)
    ),
    "forwarding threads got a CPU, times a second": lambda i: i.forwarding and i.forwarding.switches / i.seconds,
    "fixed work on the CPUs that forward, µs": lambda i: i.forwarding and i.forwarding.fixed_work_s and i.forwarding.fixed_work_s * 1e6,
    "quarters of a second with waits, of all": lambda i: i.forwarding and i.forwarding.with_waits / (i.forwarding.readings or 1),
    "pressure, of the time": lambda i: None if i.pressure_s is None else i.pressure_s / i.seconds,
    "steal, of the time of all cores": lambda i: i.steal_s / (i.seconds * i.cores),
}


@dataclass(frozen=True)
class Seen:
    """A trial under a load that is known."""

    load: str
    round: int
    cell: str
    value: float
    interference: Interference


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--only-table", action="store_true", help="of the runs that are in DIR")
    asked = parser.parse_args()
    runs = asked.runs or Path(tempfile.mkdtemp(prefix="disturbed-predictors-"))
    runs.mkdir(parents=True, exist_ok=True)
    if not asked.only_table:
        order = random.Random(asked.seed)
        for round_ in range(-(-asked.trials // A_ROUND)):
            for n in order.sample(range(len(LOADS)), len(LOADS)):
                with other_work(tuple(LOADS.values())[n]):
                    measured(runs / f"{round_:03d}-{n}")
    trials = list(seen(runs))
    reached = [
        shown(f"{kind}, {words}", [t for t in of if t.cell.startswith(kind)])
        for words, of in (("as measured", trials), ("at equal speed", list(at_equal_speed(trials))))
        for kind in ("iperf3", "sweep")
    ]
    return 0 if all(reached[2:]) else 1


def at_equal_speed(trials: Sequence[Seen]) -> Iterator[Seen]:
    """The trials whose speed was read, as if the fixed work had always taken a microsecond."""
    for t in trials:
        if t.interference.forwarding and (work_s := t.interference.forwarding.fixed_work_s):
            yield replace(t, value=t.value * work_s * 1e6)


@contextmanager
def other_work(words: Sequence[str]) -> Iterator[None]:
    if not words:
        yield
        return
    process = subprocess.Popen(["stress-ng", "--quiet", *words, "--timeout", "600"], start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def measured(runs: Path) -> None:
    runs.mkdir()
    experiment = runs / "experiment.yaml"
    experiment.write_text(EXPERIMENT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "DUTLAB_DISTURBED"}
    dutlab = Path(sys.executable).with_name("dutlab")
    done = subprocess.run([dutlab, "run", experiment, "--runs", runs], env=environment, check=False, capture_output=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the run ended with {done.returncode}: {done.stderr.decode()[-300:]}")


def seen(runs: Path) -> Iterator[Seen]:
    names = list(LOADS)
    for folder in sorted(runs.glob("[0-9]*-[0-9]")):
        round_, _, n = folder.name.partition("-")
        for path in (p for p in folder.iterdir() if p.is_dir()):
            for record in RunFolder.open(path).records():
                if (value := _value(record)) is not None and len(record.interference) == 1:
                    cell = f"{record.cell.workload} {record.cell.setting.size}".strip()
                    yield Seen(names[int(n)], int(round_), cell, value, next(iter(record.interference.values())))


def _value(record: TrialRecord) -> float | None:
    figures = record.figures.get(record.cell.link_label, {})
    names = main_figures(record.cell.workload, figures)
    return figures[names[0]] if names else None


def shown(title: str, trials: Sequence[Seen]) -> bool:
    idle: dict[str, list[float]] = defaultdict(list)
    for t in trials:
        if t.load == "none":
            idle[t.cell].append(t.value)
    trials = [t for t in trials if t.cell in idle]
    reference = {cell: median(values) for cell, values in idle.items()}

    def damaged(t: Seen) -> bool:
        return abs(t.value / reference[t.cell] - 1) > DAMAGED

    of_idle = [not damaged(t) for t in trials if t.load == "none"]
    aim = sum(of_idle) / len(of_idle) - LESS_THAN_IDLE
    print(f"\n{title}: {len(trials)} trials, {sum(map(damaged, trials))} damaged; load average now {os.getloadavg()[0]:.1f}\n")
    print("| load | trials | of idle, median | damaged | called undisturbed by the rule | of them undamaged |\n|---|---|---|---|---|---|")
    for load in LOADS:
        of = [t for t in trials if t.load == load]
        calm = [t for t in of if disturbed([{"this-machine": t.interference}]) == ("",)]
        if of:
            print(
                f"| {load} | {len(of)} | {median(t.value / reference[t.cell] for t in of):.2f} | {sum(map(damaged, of))} | {len(calm)} | "
                f"{_share(sum(not damaged(t) for t in calm), len(calm))} |"
            )
    print("\n| reading | largest threshold that holds (odd rounds) | below it (even rounds) | of them undamaged | undamaged trials kept |")
    print("|---|---|---|---|---|")
    reached = False
    for name, reading in READINGS.items():
        known = [(value, damaged(t), t.round) for t in trials if (value := reading(t.interference)) is not None]
        threshold = largest([(value, bad) for value, bad, round_ in known if round_ % 2], aim)
        tested = [(value, bad) for value, bad, round_ in known if not round_ % 2]
        if threshold is None or not tested:
            print(f"| {name} | none | – | – | – |")
            continue
        kept = [bad for value, bad in tested if value <= threshold]
        good, all_good = sum(not bad for bad in kept), sum(not bad for _, bad in tested)
        reached |= bool(kept) and good >= aim * len(kept)
        print(f"| {name} | {threshold:.3g} | {len(kept)} of {len(tested)} | {_share(good, len(kept))} | {_share(good, all_good)} |")
    return reached


def largest(known: Sequence[tuple[float, bool]], aim: float) -> float | None:
    """The largest value at or below which this share is undamaged; None where there is none."""
    best, bad = None, 0
    ordered = sorted(known)
    for n, (value, is_bad) in enumerate(ordered, 1):
        bad += is_bad
        last_of_its_value = n == len(ordered) or ordered[n][0] > value
        if last_of_its_value and n - bad >= aim * n:
            best = value
    return best


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


if __name__ == "__main__":
    sys.exit(main())
