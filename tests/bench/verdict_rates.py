"""How often each verdict is false, and how often it finds what is there, over simulated boxes whose truth is known.

    python tests/bench/verdict_rates.py [--rounds 300]

Kinds of noise, each on one line of time from the first trial to the last: white (1 % from repeat to repeat); drift (5 % from first to last, and
0.5 % white); autocorrelated (0.8 from one repeat of a cell to its next, 1.5 %); slow spells (a fifth of the time 8 % slower, for about six
repeats of a cell in a row); set-ups (each run a level of its own, standard deviation 0.2, 0.5 or 1 %, half of it common to all cells,
and 0.5 % white). A plan has 32 cells (4 modes of 8 sizes) in shuffled blocks. A false verdict is one or more false words over all 32 cells and
all of them together. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import exp, log, sqrt

import numpy as np

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.factors import FactorCell, analyse
from dutlab.analysis.history import HistoryPoint, history
from dutlab.analysis.together import together
from dutlab.analysis.verdict import Verdict
from dutlab.stats.power import provable
from dutlab.stats.ratio import ratio_of
from dutlab.stats.repeats import RepeatRule, decide
from dutlab.stats.summary import median

SEED = 20261122
CELLS, REPEATS = 32, 6
MARGIN = 0.02
_FALSE = {Verdict.BETTER, Verdict.WORSE}


@dataclass(frozen=True)
class Noise:
    """What a box does beside the truth, as a logarithm."""

    name: str
    line: Callable[[np.random.Generator, int, int], np.ndarray]
    """(dice, trials, trials from one repeat of a cell to its next) → one value a trial, in the order of time."""
    setup: float = 0.0
    """Standard deviation between runs."""


def white(dice: np.random.Generator, trials: int, sd: float) -> np.ndarray:
    """Independent from trial to trial."""
    return dice.normal(0, sd, trials)


def drift(dice: np.random.Generator, trials: int, _: int) -> np.ndarray:
    """5 % from the first trial to the last, down."""
    return white(dice, trials, 0.005) + np.linspace(0, log(0.95), trials)


def correlated(dice: np.random.Generator, trials: int, block: int, *, phi: float = 0.8, sd: float = 0.015) -> np.ndarray:
    """An autoregression of the first order."""
    each = phi ** (1 / block)
    steps = dice.normal(0, sd * sqrt(1 - each**2), trials)
    out = np.empty(trials)
    value = dice.normal(0, sd)
    for n in range(trials):
        value = each * value + steps[n]
        out[n] = value
    return out


def spells(dice: np.random.Generator, trials: int, block: int) -> np.ndarray:
    """A fifth of the time 8 % slower, in stretches of about six blocks."""
    ends, begins = 1 / (6 * block), 1 / (24 * block)
    out, slow = np.empty(trials), dice.random() < 0.2
    for n in range(trials):
        slow = (dice.random() >= ends) if slow else (dice.random() < begins)
        out[n] = log(0.92) if slow else 0.0
    return out + white(dice, trials, 0.005)


KINDS = (
    Noise("white, 1 %", lambda d, n, _: white(d, n, 0.01)),
    Noise("drift of 5 %", drift),
    Noise("autocorrelated, 0.8", correlated),
    Noise("slow spells", spells),
    *(Noise(f"set-ups, {sd * 100:g} %", lambda d, n, _: white(d, n, 0.005), sd) for sd in (0.002, 0.005, 0.01)),
)


@dataclass
class Run:
    """cell → repeat → value, of which the truth is 1."""

    values: np.ndarray


def one_line(dice: np.random.Generator, noise: Noise, runs: int, repeats: int, cells: int, *, in_turn: bool = False) -> list[Run]:
    """Runs one after the other, or their blocks in turn, on one line of time."""
    line = noise.line(dice, runs * repeats * cells, cells * (runs if in_turn else 1))
    common = dice.normal(0, noise.setup / sqrt(2), (runs, 1)) + dice.normal(0, noise.setup / sqrt(2), (runs, cells))
    out = [Run(np.empty((cells, repeats))) for _ in range(runs)]
    blocks = [(r, k) for k in range(repeats) for r in dice.permutation(runs)] if in_turn else list(product(range(runs), range(repeats)))
    for place, (run, repeat) in enumerate(blocks):
        for n, cell in enumerate(dice.permutation(cells)):
            out[run].values[cell, repeat] = exp(line[place * cells + n] + common[run, cell])
    return out


def modes(dice: np.random.Generator, noise: Noise, repeats: int) -> list[Run]:
    """Two modes of one run, 16 cells each: every block has both, a mode is applied once a block; the set-up is one."""
    line = noise.line(dice, 2 * 16 * repeats, 32)
    out = [Run(np.empty((16, repeats))) for _ in range(2)]
    place = 0
    for repeat in range(repeats):
        for mode in dice.permutation(2):
            for cell in dice.permutation(16):
                out[mode].values[cell, repeat] = exp(line[place])
                place += 1
    return out


@dataclass(frozen=True)
class Judged:
    """What was said of 32 cells."""

    differ: bool
    """A cell, or all together, are called better or worse."""
    worse: bool
    """`check` fails."""
    equivalent: bool
    """A cell is called equivalent."""


def judged(first: list[Run], second: list[Run], design: RunOrder, *, change: float = 1.0, margin: float | None = None) -> Judged:
    """The verdicts of `compare` where the truth of the second side is `change` times that of the first."""
    pairs = []
    for cell in range(len(first[0].values)):
        if design is RunOrder.RUNS:
            before, after = (tuple(float(median(list(r.values[cell]))) for r in side) for side in (first, second))
            at = tuple(range(len(first))), tuple(range(len(first), len(first) + len(second)))
        else:
            before, after = (tuple(map(float, side[0].values[cell])) for side in (first, second))
            at = tuple(range(len(before))), tuple(range(len(after)))
        pairs.append(Pair(f"cell {cell}", "received_pps", before, tuple(v * change for v in after), design, *at))
    found = compare(pairs, margin=margin)
    overall = together(found)
    verdicts = {c.verdict for c in found}
    with_all = verdicts | ({overall.verdict} if overall else set())
    return Judged(bool(with_all & _FALSE), Verdict.WORSE in with_all, Verdict.EQUIVALENT in verdicts)


Made = Callable[[np.random.Generator, Noise], tuple[list[Run], list[Run]]]


def _split(runs: list[Run], first: int) -> tuple[list[Run], list[Run]]:
    return runs[:first], runs[first:]


DESIGNS: tuple[tuple[str, RunOrder, Made, float], ...] = (
    ("modes of a run, 6 blocks", RunOrder.IN_TURN, lambda d, k: _split(modes(d, k, REPEATS), 1), 0.95),
    ("modes of a run, 3 blocks", RunOrder.IN_TURN, lambda d, k: _split(modes(d, k, 3), 1), 0.9),
    ("2 runs, interleaved, 6 blocks", RunOrder.INTERLEAVED, lambda d, k: _split(one_line(d, k, 2, REPEATS, CELLS, in_turn=True), 1), 0.92),
    ("the same, by `--interleave`", RunOrder.ROUNDS, lambda d, k: _split(one_line(d, k, 2, REPEATS, CELLS, in_turn=True), 1), 0.92),
    ("2 runs, one after the other", RunOrder.ONE_AFTER_THE_OTHER, lambda d, k: _split(one_line(d, k, 2, REPEATS, CELLS), 1), 0.8),
    ("the same with 3 repeats", RunOrder.ONE_AFTER_THE_OTHER, lambda d, k: _split(one_line(d, k, 2, 3, CELLS), 1), 0.8),
    ("1 run against 5 before it", RunOrder.RUNS, lambda d, k: _split(one_line(d, k, 6, 3, CELLS), 5), 0.8),
    ("1 run against 10 before it", RunOrder.RUNS, lambda d, k: _split(one_line(d, k, 11, 3, CELLS), 10), 0.95),
    ("2 runs against 5 before them", RunOrder.RUNS, lambda d, k: _split(one_line(d, k, 7, 3, CELLS), 5), 0.95),
    ("4 runs against 4 before them", RunOrder.RUNS, lambda d, k: _split(one_line(d, k, 8, 3, CELLS), 4), 0.95),
)


def comparisons(rounds: int) -> Iterator[str]:
    """False and true verdicts of compare and check."""
    yield f"### Comparisons ({rounds} rounds each; 32 cells, of modes 16)\n"
    yield "| both sides | noise | false faster or slower | check fails for nothing | false equivalent within 2 % | finds |"
    yield "|---|---|---|---|---|---|"
    for (name, design, make, change), noise in product(DESIGNS, KINDS):
        if design is RunOrder.IN_TURN and noise.setup:
            continue  # one run has one set-up
        dice = np.random.default_rng(SEED)
        false, fails, equivalent, true = 0, 0, 0, 0
        for n in range(rounds):
            first, second = make(dice, noise)
            nothing = judged(first, second, design)
            false, fails = false + nothing.differ, fails + nothing.worse
            equivalent += judged(first, second, design, change=1 / (1 + MARGIN) / 1.001, margin=MARGIN).equivalent
            true += n < rounds // 3 and judged(first, second, design, change=change).worse
        yield (
            f"| {name} | {noise.name} | {_percent(false, rounds)} | {_percent(fails, rounds)} | {_percent(equivalent, rounds)} | "
            f"{change - 1:+.0%}: {_percent(true, rounds // 3)} |"
        )


def intervals(rounds: int) -> Iterator[str]:
    """Coverage of the interval of the ratio."""
    yield "\n### The interval of a ratio: how often it holds the truth\n"
    yield "| spread | 4 a side | 6 | 8 | 12 | 20 |"
    yield "|---|---|---|---|---|---|"
    kinds: dict[str, Callable[[random.Random], float]] = {
        "normal, 2 %": lambda d: d.gauss(1, 0.02),
        "skewed (exponential)": lambda d: 1 + d.expovariate(20),
        "two heaps, 25 % apart": lambda d: (1.0 if d.random() < 0.5 else 1.25) * d.gauss(1, 0.01),
        "one in five 8 % slower": lambda d: (0.92 if d.random() < 0.2 else 1.0) * d.gauss(1, 0.01),
    }
    for name, draw in kinds.items():
        cells = []
        for n in (4, 6, 8, 12, 20):
            dice, held = random.Random(SEED), 0
            for _ in range(4 * rounds):
                interval = ratio_of([draw(dice) for _ in range(n)], [draw(dice) for _ in range(n)]).interval
                held += interval is not None and interval.low <= 1 <= interval.high
            cells.append(f"{held / (4 * rounds):.1%}")
        yield f"| {name} | {' | '.join(cells)} |"


def histories(rounds: int) -> Iterator[str]:
    """False changes a year, and how soon 3 % are found."""
    yield "\n### History: nights of one box, standard deviation 1 %\n"
    yield "| autocorrelation | false changes in a year of 365 nights | histories of 60 nights with one | 3 % less, after 60: found within 5 |"
    yield "|---|---|---|---|"
    for phi in (0.0, 0.3, 0.5, 0.8, 0.9):
        dice, years, found = np.random.default_rng(SEED), max(rounds // 6, 10), 0
        changes = sum(len(history(_points(nights(dice, 365, phi))).changes) for _ in range(years))
        for _ in range(rounds):
            line = nights(dice, 65, phi)
            line[60:] += log(0.97)
            found += any(c.after in {"58", "59", "60", "61", "62"} for c in history(_points(line)).changes)
        false = sum(bool(history(_points(nights(dice, 60, phi))).changes) for _ in range(rounds))
        yield f"| {phi:g} | {changes / years:.2f} | {_percent(false, rounds)} | {_percent(found, rounds)} |"


def nights(dice: np.random.Generator, count: int, phi: float) -> np.ndarray:
    """Levels of one box, standard deviation 1 %."""
    return correlated(dice, count, 1, phi=phi, sd=0.01) if phi else white(dice, count, 0.01)


def _points(line: np.ndarray) -> list[HistoryPoint]:
    return [HistoryPoint(str(n), (100 * exp(v),)) for n, v in enumerate(line)]


def effects(rounds: int) -> Iterator[str]:
    """False sentences about interactions, and coverage of the intervals of effects."""
    yield "\n### Effects: 4 modes of 4 sizes, nothing depends on anything\n"
    yield "| noise | repeats | runs with a false interaction | intervals that hold the truth | have none |"
    yield "|---|---|---|---|---|"
    for noise, repeats in product(KINDS[:4], (1, 4, 6)):
        dice, said, held, total, none = np.random.default_rng(SEED), 0, 0, 0, 0
        for _ in range(rounds // 2):
            line = noise.line(dice, 16 * repeats, 16)
            values: dict[tuple[int, int], list[float]] = {(m, s): [] for m in range(4) for s in range(4)}
            place = 0
            for _ in range(repeats):
                for m in dice.permutation(4):
                    for s in dice.permutation(4):
                        values[int(m), int(s)].append(exp(line[place]) * 0.8**m * 1.1**s)
                        place += 1
            found = analyse([FactorCell({"mode": "abcd"[m], "size": str(64 * 2**s)}, tuple(v)) for (m, s), v in values.items()])
            said += any(i.sure.proven for i in found.interactions)
            for e in found.effects:
                truth = 1.1 if e.factors == ("size",) else 0.8 ** "abcd".index(e.after[0])
                none += e.sure.interval is None
                held += e.sure.interval is not None and e.sure.interval.low <= truth <= e.sure.interval.high
                total += 1
        yield f"| {noise.name} | {repeats} | {_percent(said, rounds // 2)} | {_percent(held, total - none)} | {none} of {total} |"


def stopping(rounds: int) -> Iterator[str]:
    """The rule for repeats."""
    yield "\n### Repeats until ±2 %, at most 12: promises that do not hold\n"
    yield "| spread | says reached | reached, and the median is further off | repeats, mean |"
    yield "|---|---|---|---|"
    rule = RepeatRule(0.02, 12)
    for sd in (0.005, 0.01, 0.02, 0.03, 0.05):
        dice, reached, broken, done = random.Random(SEED), 0, 0, 0
        for _ in range(20 * rounds):
            values: list[float] = []
            while not (found := decide(values, rule)).stop:
                values.append(dice.gauss(100, 100 * sd))
            reached += found.reached
            done += len(values)
            broken += found.reached and abs(median(values) / 100 - 1) > rule.half_width
        yield f"| {sd * 100:g} % | {_percent(reached, 20 * rounds)} | {_percent(broken, 20 * rounds, 2)} | {done / (20 * rounds):.1f} |"


def plans() -> Iterator[str]:
    """What a plan can prove."""
    yield "\n### The smallest difference between two modes that a plan proves four times in five, at a spread of 1 %\n"
    yield "| repeats | of 1 comparison | of 12 | of 33 |"
    yield "|---|---|---|---|"
    for n in (3, 4, 6, 8, 10, 12):
        cells = (provable(n, n, sd=0.01, comparisons=k, least=RunOrder.IN_TURN.least) for k in (1, 12, 33))
        yield f"| {n} | {' | '.join('none' if v is None else f'{v:.1%}' for v in cells)} |"


def _percent(part: int, whole: int, digits: int = 1) -> str:
    return f"{part / max(whole, 1):.{digits}%}".replace("%", " %")


def main() -> None:
    """Prints every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    for part in (intervals(rounds), stopping(rounds // 3), histories(rounds // 3), effects(rounds), plans(), comparisons(rounds // 3)):
        for line in part:
            print(line, flush=True)


if __name__ == "__main__":
    main()
