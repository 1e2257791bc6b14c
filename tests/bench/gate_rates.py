"""How often `gate` and `bisect` are wrong, and how often they find what is there, by time, over simulated boxes whose truth is known.

    python tests/bench/gate_rates.py [--pairs 1000] [--searches 200] [--round-s 10] [--otava PYTHON] [--noise NAME]

Noise is that of verdict_rates.py: rounds of both versions, drawn by chance, on one line of time. `--round-s` is what a round takes, so 900 s are
90 rounds. What others say of the same series is printed too: benchstat's test (Mann-Whitney, p < 0.05, by SciPy, of the first ten and of all rounds,
not benchstat itself), and Apache Otava's (its module `otava` in another Python, with its defaults), to which a pair is one series, the older version
first. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from math import log

import numpy as np
from scipy.stats import mannwhitneyu
from verdict_rates import SEED, Noise, correlated, drift, one_line, spells, white

from dutlab.analysis.bisection import Bisection, VersionSide, changed_by, is_precise, most_steps, side_of_rounds
from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.gate import TIME_ALLOWED, CellName, gate_rounds, overall
from dutlab.analysis.verdict import CheckKind
from dutlab.cli.bisect_runs import ASKS, BLOCKS

BUDGET_S = 900.0
CELLS = 2
SMALLEST = 10
"""Repeats that benchstat's page asks for."""
KINDS = (
    *(Noise(f"white, {sd * 100:g} %", lambda d, n, _, sd=sd: white(d, n, sd)) for sd in (0.01, 0.02, 0.032, 0.05)),
    Noise("drift of 5 %", drift),
    Noise("autocorrelated, 0.8", correlated),
    Noise("slow spells", spells),
)
_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    found, _ = compute_change_points(json.loads(line))
    print(len(found), flush=True)
"""


class Box:
    """Rounds of two versions, as they come; all of them are drawn before the first is measured."""

    def __init__(self, dice: np.random.Generator, noise: Noise, change: float, rounds: int) -> None:
        self.values = [run.values for run in one_line(dice, noise, 2, rounds, CELLS, in_turn=True)]
        self.values[1] = self.values[1] * (1 + change)
        self.most, self.used = rounds, 0

    def __call__(self, names: Collection[CellName], enough: Callable[[Sequence[Pair]], bool]) -> Sequence[Pair]:
        """As the gate asks for them."""
        cells = [int(label) for label, _ in names] or list(range(CELLS))
        begin, pairs = self.used, list[Pair]()
        while self.used < self.most:
            self.used += 1
            at = tuple(range(self.used - begin))
            sides = [[tuple(map(float, of[cell, begin : self.used])) for cell in cells] for of in self.values]
            pairs = [Pair(str(cell), "received_pps", a, b, RunOrder.ROUNDS, at, at) for cell, a, b in zip(cells, *sides, strict=True)]
            if enough(pairs):
                break
        return pairs


def benchstat(box: Box, rounds: int) -> bool:
    """Whether any cell is called slower."""
    return any(
        mannwhitneyu(box.values[0][cell, :rounds], box.values[1][cell, :rounds]).pvalue < 0.05
        and np.median(box.values[1][cell, :rounds]) < np.median(box.values[0][cell, :rounds])
        for cell in range(CELLS)
    )


class Otava:
    """Its change points, asked in a process of another Python; None without one."""

    def __init__(self, python: str | None) -> None:
        self._process = (
            None if python is None else subprocess.Popen([python, "-c", _OTAVA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )

    def says(self, box: Box, rounds: int) -> bool | None:
        """Whether there is a change point in any cell."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return None
        found = False
        for cell in range(CELLS):
            series = [*box.values[0][cell, :rounds], *box.values[1][cell, :rounds]]
            self._process.stdin.write(json.dumps(series) + "\n")
            self._process.stdin.flush()
            found |= int(self._process.stdout.readline()) > 0
        return found


def gates(pairs: int, rounds: int, otava: Otava, kinds: Sequence[Noise]) -> Iterator[str]:
    """False alarms of equal versions, and −3 % found."""
    yield f"### gate by time: {pairs} pairs, {CELLS} cells, at most {rounds} rounds, {TIME_ALLOWED:.0%} allowed\n"
    heads = (
        "noise",
        "truth",
        "worse",
        "passes",
        "cannot tell",
        "rounds, median",
        f"benchstat's test, {SMALLEST} and all",
        f"Otava, {SMALLEST} and all",
    )
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for noise in kinds:
        for change in (0.0, -0.03):
            dice = np.random.default_rng(SEED)
            said, used, others = list[CheckKind](), list[int](), list[tuple[bool, bool, bool | None, bool | None]]()
            for _ in range(pairs if change == 0 else pairs // 2):
                box = Box(dice, noise, change, rounds)
                said.append(overall(gate_rounds(box, TIME_ALLOWED)))
                used.append(box.used)
                others.append((benchstat(box, SMALLEST), benchstat(box, rounds), otava.says(box, SMALLEST), otava.says(box, rounds)))
            shares = [f"{100 * said.count(kind) / len(said):.1f} %" for kind in (CheckKind.FAIL, CheckKind.PASS, CheckKind.CANNOT_TELL)]
            theirs = ["–" if of[0] is None else f"{100 * sum(map(bool, of)) / len(of):.1f} %" for of in zip(*others, strict=True)]
            yield (
                f"| {noise.name} | {change:+.0%} | {' | '.join(shares)} | {np.median(used):.0f} | {theirs[0]}, {theirs[1]} | "
                f"{theirs[2]}, {theirs[3]} |"
            )


def searches(count: int, kinds: Sequence[Noise], versions: int = 64, change: float = -0.03) -> Iterator[str]:
    """Culprits found among versions of which one is slower."""
    yield f"\n### bisect by time: {count} searches among {versions} versions, one of them {change:+.0%}\n"
    yield "| noise | right | wrong | cannot tell | versions asked, most | blocks, median |"
    yield "|---|---|---|---|---|---|"
    for noise in kinds:
        dice, right, wrong, asked, blocks = np.random.default_rng(SEED), 0, 0, list[int](), list[int]()
        for _ in range(count):
            culprit = int(dice.integers(1, versions))
            found, steps, used = search(dice, noise, versions, culprit, change)
            right += found == culprit
            wrong += found is not None and found != culprit
            asked.append(steps)
            blocks.append(used)
        unknown = count - right - wrong
        yield (
            f"| {noise.name} | {100 * right / count:.1f} % | {100 * wrong / count:.1f} % | {100 * unknown / count:.1f} % | {max(asked)} | "
            f"{np.median(blocks):.0f} |"
        )


def search(dice: np.random.Generator, noise: Noise, versions: int, culprit: int, change: float) -> tuple[int | None, int, int]:
    """The culprit that is named, how many versions were asked, and blocks."""
    steps, used, asked = most_steps(versions), 0, 0

    def told(first: int, second: int, enough: Callable[[Sequence[float]], bool]) -> list[float]:
        nonlocal used, asked
        asked += 1
        truth = [log(1 + change) if at >= culprit else 0.0 for at in (first, second)]
        found = list[float]()
        for _ in range(ASKS):
            older, newer = (run.values[0] for run in one_line(dice, noise, 2, BLOCKS, 1, in_turn=True))
            found += [log(b / a) + truth[1] - truth[0] for a, b in zip(older, newer, strict=True)]
            used += BLOCKS
            if enough(found):
                break
        return found

    whole = changed_by(told(0, versions - 1, lambda of: is_precise(of, 1)), 1)
    if whole is None:
        return None, asked, used
    known = {0: VersionSide.FIRST, versions - 1: VersionSide.LAST}
    while (at := Bisection(versions, known).next) is not None:
        known[at] = side_of_rounds(told(0, at, lambda of: side_of_rounds(of, whole, steps) is not VersionSide.UNKNOWN), whole, steps)
    low, high = Bisection(versions, known).bounds
    if high - low != 1:
        return None, asked, used
    own = side_of_rounds(told(low, high, lambda of: side_of_rounds(of, whole, steps) is not VersionSide.UNKNOWN), whole, steps)
    return high if own is VersionSide.LAST else None, asked, used


def by_counts(count: int, versions: int = 64) -> str:
    """The same by counts, which have no error."""
    dice, right, most = random.Random(SEED), 0, 0
    for _ in range(count):
        culprit = dice.randrange(1, versions)
        known = {0: VersionSide.FIRST, versions - 1: VersionSide.LAST}
        while (at := Bisection(versions, known).next) is not None:
            known[at] = VersionSide.LAST if at >= culprit else VersionSide.FIRST
        right += list(Bisection(versions, known).culprits) == [culprit]
        most = max(most, len(known))
    return f"\nBy instructions: {right} of {count} right, at most {most} versions measured.\n"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--round-s", type=float, default=10.0)
    parser.add_argument("--otava", help="a Python that has apache-otava")
    parser.add_argument("--noise", default="", help="only kinds whose name has this")
    given = parser.parse_args()
    kinds = [noise for noise in KINDS if given.noise in noise.name]
    for line in gates(given.pairs, int(BUDGET_S / given.round_s), Otava(given.otava), kinds):
        print(line, flush=True)
    for line in searches(given.searches, kinds):
        print(line, flush=True)
    print(by_counts(given.searches))


if __name__ == "__main__":
    main()
