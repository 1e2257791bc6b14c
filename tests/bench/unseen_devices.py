"""How often a verdict is false of devices that no threshold was set with: bench of the table in docs/method/statistics.md.

    python tests/bench/unseen_devices.py [--rounds 400] [--seed 20261126] [PART…]

Every device here breaks an assumption that is easily made: each run gives each mode a level of its own, one repeat in ten is 30 % low, blocks
resemble one another, nights drift, a few nights are lost, or half of the set-ups start in another state. Thresholds were set on these kinds of
devices with other seeds (1 to 9); the part `others` has devices that were first looked at when everything was set. Nothing changes in any row unless
it says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from math import exp, log, sqrt

import numpy as np

from dutlab.analysis.answers import Contest, ContestResult, Entrant, decide
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.factors import FactorCell, analyse
from dutlab.analysis.history import HistoryPoint, history
from dutlab.analysis.together import together
from dutlab.analysis.verdict import Verdict

SEED = 20261126
NIGHTS = 90
Dice = np.random.Generator
Line = np.ndarray
"""Logarithms of nights."""


def orders(rounds: int, seed: int) -> Iterator[str]:
    """`compare RUN… --order` of equal modes."""
    yield "| order: modes, runs | level of each run and mode | a false order |"
    yield "|---|---|---|"
    for modes, runs in ((4, 3), (9, 3), (4, 5), (4, 8)):
        for spread in (0.01, 0.02, 0.03):
            dice, false = np.random.default_rng(seed), 0
            for _ in range(rounds):
                false += bool(order(dice, [spread] * modes, runs).proven)
            yield f"| {modes}, {runs} | {spread:.0%} | {percent(false, rounds)} |"
    for modes, runs, spreads in ((4, 3, [0.002, 0.002, 0.002, 0.04]), (4, 5, [0.002, 0.002, 0.002, 0.04])):
        dice = np.random.default_rng(seed)
        false = sum(bool(order(dice, spreads, runs).proven) for _ in range(rounds))
        yield f"| {modes}, {runs} | 0.2 %, of one mode 4 % | {percent(false, rounds)} |"
    for runs in (3, 5, 8):
        for step in (0.95, 0.9, 0.8):
            dice, found = np.random.default_rng(seed), 0
            for _ in range(rounds // 2):
                found += len(order(dice, [0.01] * 4, runs, steps=(1, 1, 1, step)).proven) / 3
            yield f"| 4, {runs} | 1 %, one mode {step - 1:+.0%} | found: {found / (rounds // 2):.0%} of its pairs |"


def order(dice: Dice, spreads: Sequence[float], runs: int, *, steps: Sequence[float] = ()) -> ContestResult:
    """The standing of modes that are equal, but for `steps`; 6 repeats of 0.5 % in each run, of which each has a level too."""
    common = dice.normal(0, 0.02, runs)
    entrants = []
    for n, spread in enumerate(spreads):
        levels = common + dice.normal(0, spread, runs) + log((steps or [1] * len(spreads))[n])
        entrants.append(Entrant(f"mode {n}", tuple(tuple(map(float, np.exp(dice.normal(level, 0.005, 6)))) for level in levels)))
    return decide([Contest("c", "received_pps", tuple(entrants))])[0]


def checks(rounds: int, seed: int) -> Iterator[str]:
    """`check`, one run against ten."""
    yield "| `check`, 1 run against 10: cells, repeats | device | a false FAIL | finds −10 % in one cell |"
    yield "|---|---|---|---|"
    for cells, repeats in ((8, 6), (32, 6), (32, 3), (8, 3), (4, 3), (1, 3)):
        for name, low, depth in (("one repeat in ten 30 % low", 0.1, 0.3), ("one in twenty 15 % low", 0.05, 0.15), ("white, 1 %", 0, 0)):
            dice, false, found = np.random.default_rng(seed), 0, 0
            for n in range(rounds):
                runs = np.exp(dice.normal(0, 0.01, (11, cells, repeats)) + (dice.random((11, cells, repeats)) < low) * log(1 - depth))
                middle = np.median(runs, axis=2)
                false += fails(middle)
                middle[10, 0] *= 0.9
                found += n < rounds // 3 and fails(middle)
            yield f"| {cells}, {repeats} | {name} | {percent(false, rounds)} | {percent(found, rounds // 3)} |"


def fails(medians: np.ndarray) -> bool:
    found = of_runs(medians[:10], medians[10:])
    whole = together(found)
    return any(c.verdict is Verdict.WORSE for c in found) or (whole is not None and whole.verdict is Verdict.WORSE)


def of_runs(first: np.ndarray, second: np.ndarray) -> tuple[Comparison, ...]:
    """Run × cell → median, of both sides."""
    at = tuple(range(len(first))), tuple(range(len(first), len(first) + len(second)))
    sides = [(tuple(map(float, first[:, n])), tuple(map(float, second[:, n]))) for n in range(first.shape[1])]
    return compare([Pair(f"cell {n}", "received_pps", a, b, RunOrder.RUNS, *at) for n, (a, b) in enumerate(sides)])


def effects(rounds: int, seed: int) -> Iterator[str]:
    """Intervals of effects, 4 modes of 4 sizes."""
    yield "| effects: blocks | noise | intervals that hold the truth | a false interaction |"
    yield "|---|---|---|---|"
    noises: dict[str, Callable[[Dice, int], np.ndarray]] = {
        "white, 1 %": lambda d, n: d.normal(0, 0.01, (n, 16)),
        "blocks correlated by 0.8, 3 %": lambda d, n: correlated(d, n, 0.8)[:, None] * 0.03 + d.normal(0, 0.01, (n, 16)),
        "trials correlated by 0.8 from block to block, 3 %": lambda d, n: 0.03 * correlated(d, 16 * n, 0.8 ** (1 / 16)).reshape(n, 16),
        "drift of 10 %": lambda d, n: np.linspace(0, log(0.9), 16 * n).reshape(n, 16) + d.normal(0, 0.005, (n, 16)),
        "a tenth of the values 10 % low": lambda d, n: d.normal(0, 0.01, (n, 16)) + log(0.9) * (d.random((n, 16)) < 0.1),
    }
    for (name, noise), blocks in ((of, n) for of in noises.items() for n in (4, 6, 10)):
        dice, held, total, said = np.random.default_rng(seed), 0, 0, 0
        for _ in range(rounds):
            in_time = noise(dice, blocks)
            values = np.empty((blocks, 16))
            for block in range(blocks):
                values[block, dice.permutation(16)] = in_time[block]
            cells = [
                FactorCell({"mode": "abcd"[n // 4], "size": str(64 * 2 ** (n % 4))}, tuple(map(float, np.exp(values[:, n]))))
                for n in range(16)
            ]
            found = analyse(cells)
            of = [e.sure.interval for e in found.effects]
            held, total = held + sum(i is not None and i.low <= 1 <= i.high for i in of), total + len(of)
            said += any(i.sure.proven for i in found.interactions)
        yield f"| {blocks} | {name} | {percent(held, total)} | {percent(said, rounds)} |"


def correlated(dice: Dice, count: int, phi: float) -> Line:
    """An autoregression of the first order, standard deviation 1."""
    out, value = np.empty(count), dice.normal()
    for n in range(count):
        out[n] = value
        value = phi * value + sqrt(1 - phi**2) * dice.normal()
    return out


def _lost(dice: Dice, n: int) -> Line:
    return dice.normal(0, 0.01, n) + log(0.8) * (dice.random(n) < 0.1)


def _spread(dice: Dice, n: int) -> Line:
    return dice.normal(0, 0.01, n) * np.where(np.arange(n) < dice.integers(n // 4, 3 * n // 4), *(dice.permutation([1, sqrt(7)])))


STILL: dict[str, Callable[[Dice, int], Line]] = {
    "white, 1 %": lambda d, n: d.normal(0, 0.01, n),
    "one night in ten −20 %": _lost,
    "correlated by 0.5": lambda d, n: 0.01 * correlated(d, n, 0.5),
    "correlated by 0.8": lambda d, n: 0.01 * correlated(d, n, 0.8),
    "correlated by 0.95": lambda d, n: 0.01 * correlated(d, n, 0.95),
    "variance × 7 from some night on, or until it": _spread,
    "heavy tails (t, 3 degrees)": lambda d, n: 0.01 * d.standard_t(3, n),
    "steps of a third of the spread (rounded)": lambda d, n: np.round(d.normal(0, 3, n)) / 300,
}
DRIFTS: dict[str, Callable[[Dice, int], Line]] = {
    "drift of 5 % in 90 nights": lambda d, n: d.normal(0, 0.01, n) + np.linspace(0, log(0.95), n),
    "drift of 15 % in 90 nights": lambda d, n: d.normal(0, 0.01, n) + np.linspace(0, log(0.85), n),
    "drift of 10 % that slows down": lambda d, n: d.normal(0, 0.01, n) + log(0.9) * (1 - np.exp(-np.linspace(0, 3, n))),
    "drift of 10 %, one night in ten −20 %": lambda d, n: _lost(d, n) + np.linspace(0, log(0.9), n),
    "drift of 10 %, correlated by 0.5": lambda d, n: 0.01 * correlated(d, n, 0.5) + np.linspace(0, log(0.9), n),
}
STEPS: dict[str, Callable[[Dice, int], Line]] = {
    **{k: STILL[k] for k in ("white, 1 %", "correlated by 0.5", "correlated by 0.8", "one night in ten −20 %")},
    "drift of 5 % in 90 nights": DRIFTS["drift of 5 % in 90 nights"],
}


def points(line: Line) -> list[HistoryPoint]:
    return [HistoryPoint(str(n), (100 * exp(v),)) for n, v in enumerate(line)]


def histories(rounds: int, seed: int) -> Iterator[str]:
    """Histories of 90 nights."""
    yield f"| history of {NIGHTS} nights | histories with a false step | with a drift said |"
    yield "|---|---|---|"
    for name, of in {**STILL, **DRIFTS}.items():
        dice, false, drifts = np.random.default_rng(seed), 0, 0
        for _ in range(rounds):
            found = history(points(of(dice, NIGHTS)))
            false += bool(found.changes)
            drifts += getattr(found, "drift", None) is not None
        yield f"| {name} | {percent(false, rounds)} | {percent(drifts, rounds)} |"
    yield ""
    yield "| a step after 60 nights | −3 % found within 5 nights | within 10 | −20 % found within 3 |"
    yield "|---|---|---|---|"
    for name, of in STEPS.items():
        shares = []
        for by, nights in ((0.97, 5), (0.97, 10), (0.8, 3)):
            dice, found = np.random.default_rng(seed), 0
            for _ in range(rounds // 2):
                line = of(dice, 60 + nights)
                line[60:] += log(by)
                found += any(58 <= int(c.after) <= 62 for c in history(points(line)).changes)
            shares.append(percent(found, rounds // 2))
        yield f"| {name} | {' | '.join(shares)} |"


def setups(rounds: int, seed: int) -> Iterator[str]:
    """`run --interleave`: two sides of one device, set up anew for every run."""
    yield "| `--interleave`, 8 cells, 6 rounds: runs a side | set-ups | false faster or slower |"
    yield "|---|---|---|"
    kinds: dict[str, Callable[[Dice, int], np.ndarray]] = {
        "alike": lambda d, n: np.zeros((n, 8)),
        "boot state: −6 % in 30 % of runs": lambda d, n: np.repeat(log(0.94) * (d.random((n, 1)) < 0.3), 8, axis=1),
        "run × cell: 3 %": lambda d, n: d.normal(0, 0.03, (n, 8)),
        "both": lambda d, n: log(0.94) * (d.random((n, 1)) < 0.3) + d.normal(0, 0.03, (n, 8)),
    }
    for sides in (1, 3, 4, 6):
        for name, of in kinds.items():
            dice, false = np.random.default_rng(seed), 0
            for _ in range(rounds):
                values = np.exp(of(dice, 2 * sides)[:, :, None] + dice.normal(0, 0.01, (2 * sides, 8, 6)))
                if sides == 1:
                    pairs = [(tuple(map(float, values[0, n])), tuple(map(float, values[1, n]))) for n in range(8)]
                    at = tuple(range(6))
                    found = compare([Pair(f"cell {n}", "received_pps", a, b, RunOrder.ROUNDS, at, at) for n, (a, b) in enumerate(pairs)])
                else:
                    middle = np.median(values, axis=2)
                    turns = middle[dice.permutation(2 * sides)]
                    found = of_runs(turns[:sides], turns[sides:])
                whole = together(found)
                verdicts = {c.verdict for c in found} | ({whole.verdict} if whole else set())
                false += bool(verdicts & {Verdict.BETTER, Verdict.WORSE})
            yield f"| {sides} | {name} | {percent(false, rounds)} |"


def predictions(rounds: int, seed: int) -> Iterator[str]:
    """Where the next run will lie."""
    yield "| the next run: nights before it | device | intervals that hold it |"
    yield "|---|---|---|"
    for nights in (20, 60, 90):
        for name, of in {**STILL, **DRIFTS}.items():
            dice, held, said = np.random.default_rng(seed), 0, 0
            for _ in range(rounds):
                line = of(dice, nights + 1)
                inside = history(points(line[:-1])).next_run
                if inside is not None:
                    said, held = said + 1, held + (inside.low <= 100 * exp(line[-1]) <= inside.high)
            yield f"| {nights} | {name} | {percent(held, said) if said else 'none is given'} |"


OTHERS: dict[str, Callable[[Dice, int], Line]] = {
    "one night in seven −10 %": lambda d, n: d.normal(0, 0.01, n) + log(0.9) * (d.random(n) < 1 / 7),
    "lost nights in pairs, one pair in twenty −20 %": lambda d, n: d.normal(0, 0.01, n) + log(0.8) * np.repeat(d.random(n) < 0.05, 2)[:n],
    "correlated by 0.9": lambda d, n: 0.01 * correlated(d, n, 0.9),
    "variance that doubles in each third": lambda d, n: d.normal(0, 0.01, n) * 2 ** (np.arange(n) * 3 // n),
    "drift of 8 % that speeds up": lambda d, n: d.normal(0, 0.01, n) + log(0.92) * np.linspace(0, 1, n) ** 2,
    "a season of 60 nights, 2 %": lambda d, n: d.normal(0, 0.01, n) + 0.02 * np.sin(np.arange(n) / 60 * 2 * np.pi),
}


def _false_steps(devices: dict[str, Callable[[Dice, int], Line]], rounds: int, seed: int) -> Iterator[str]:
    for name, of in devices.items():
        dice, false, held = np.random.default_rng(seed), 0, 0
        for _ in range(rounds):
            line = of(dice, NIGHTS + 1)
            found = history(points(line[:-1]))
            false += bool(found.changes)
            held += found.next_run is not None and found.next_run.low <= 100 * exp(line[-1]) <= found.next_run.high
        yield f"| {name} | {percent(false, rounds)} | {percent(held, rounds)} |"


def others(rounds: int, seed: int) -> Iterator[str]:
    """Devices that were looked at last."""
    yield f"| history of {NIGHTS} nights | histories with a false step | next run held |"
    yield "|---|---|---|"
    yield from _false_steps(OTHERS, rounds, seed)
    for modes, runs, spreads in ((6, 4, [0.015] * 6), (5, 3, [0.005, 0.01, 0.02, 0.03, 0.04])):
        dice = np.random.default_rng(seed)
        false = sum(bool(order(dice, spreads, runs).proven) for _ in range(rounds))
        yield f"| order: {modes} modes, {runs} runs, levels of {min(spreads):.1%} to {max(spreads):.1%} | {percent(false, rounds)} | |"


RIGS: dict[str, tuple[float, float, Callable[[Dice, int], Line] | None, str]] = {
    "device −5 %, rig 1 %": (0.95, 1.0, STILL["white, 1 %"], "DEVICE"),
    "device −3 %, rig 1 %": (0.97, 1.0, STILL["white, 1 %"], "DEVICE"),
    "rig −10 % and with it the device, rig 1 %": (0.9, 0.9, STILL["white, 1 %"], "RIG"),
    "rig −3 % and with it the device, rig 1 %": (0.97, 0.97, STILL["white, 1 %"], "RIG"),
    "device −5 %, rig +5 %, rig 1 %": (0.95, 1.05, STILL["white, 1 %"], "DEVICE"),
    "device −5 %, rig drifts by 15 %": (0.95, 1.0, DRIFTS["drift of 15 % in 90 nights"], "DEVICE"),
    "device −5 %, rig 1 %, correlated by 0.8": (0.95, 1.0, STILL["correlated by 0.8"], "DEVICE"),
    "device −5 %, rig measured once a week": (0.95, 1.0, lambda d, n: np.repeat(d.normal(0, 0.01, n // 7 + 1), 7)[:n], "DEVICE"),
    "device −5 %, rig 4 %": (0.95, 1.0, lambda d, n: d.normal(0, 0.04, n), "DEVICE"),
    "device −5 %, rig never measured": (0.95, 1.0, None, "UNKNOWN"),
}
"""Step of the device, step of the rig, noise of the rig, and what is true."""


def rigs(rounds: int, seed: int) -> Iterator[str]:
    """Whether a step is put down to what changed. The device has 1 % of noise; it steps after 60 of 75 nights."""
    yield "| history: what changed | said of the steps found | another | not known | a false step of the rig |"
    yield "|---|---|---|---|---|"
    for name, (device, rig, noise, true) in RIGS.items():
        dice, said, false = np.random.default_rng(seed), list[str](), 0
        for _ in range(rounds):
            nights = dice.normal(0, 0.01, 75) + np.where(np.arange(75) < 60, 0.0, log(device))
            of_rig = None if noise is None else noise(dice, 75) + np.where(np.arange(75) < 60, 0.0, log(rig))
            line = [HistoryPoint(str(n), (100 * exp(v),), None if of_rig is None else 300 * exp(of_rig[n])) for n, v in enumerate(nights)]
            found = history(line)
            said += [c.cause.name for c in found.changes if 58 <= int(c.after) <= 62]
            false += any(rig == 1 or not 58 <= int(c.after) <= 62 for c in found.rig)
        other = sum(of not in {true, "UNKNOWN"} for of in said)
        unknown = said.count("UNKNOWN")
        yield (
            f"| {name} | {percent(said.count(true), len(said))} | {percent(other, len(said))} | {percent(unknown, len(said))} | "
            f"{percent(false, rounds)} |"
        )


LAST: dict[str, Callable[[Dice, int], Line]] = {
    "drift of 8 % that speeds up": OTHERS["drift of 8 % that speeds up"],
    "a season of 60 nights, 2 %": OTHERS["a season of 60 nights, 2 %"],
    "a season of 40 nights, 2 %": lambda d, n: d.normal(0, 0.01, n) + 0.02 * np.sin(np.arange(n) / 40 * 2 * np.pi + d.uniform(0, 6.3)),
    "a season of 120 nights, 4 %": lambda d, n: d.normal(0, 0.01, n) + 0.04 * np.sin(np.arange(n) / 120 * 2 * np.pi + d.uniform(0, 6.3)),
    "a season of a year, 5 %": lambda d, n: d.normal(0, 0.01, n) + 0.05 * np.sin(np.arange(n) / 365 * 2 * np.pi + d.uniform(0, 6.3)),
    "a season of 60 nights, 2 %, correlated by 0.5": lambda d, n: (
        0.01 * correlated(d, n, 0.5) + 0.02 * np.sin(np.arange(n) / 60 * 2 * np.pi + d.uniform(0, 6.3))
    ),
    "6 % more in 30 nights, in an S": lambda d, n: d.normal(0, 0.01, n) + 0.06 / (1 + np.exp(-(np.arange(n) - n / 2) / 5)),
    "drift of 20 % that speeds up (third power)": lambda d, n: d.normal(0, 0.01, n) + log(0.8) * np.linspace(0, 1, n) ** 3,
    "drift of 8 % that speeds up, lost nights": lambda d, n: _lost(d, n) + log(0.92) * np.linspace(0, 1, n) ** 2,
}
"""Curves. The first two are those of the part before; the others were first looked at when the rule for curves was set."""


def curves(rounds: int, seed: int) -> Iterator[str]:
    """Nights that bend, and what it costs to tell a curve from a step."""
    yield f"| history of {NIGHTS} nights | histories with a false step | next run held |"
    yield "|---|---|---|"
    yield from _false_steps(LAST, rounds, seed)


def percent(part: float, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


PARTS = {f.__name__: f for f in (orders, checks, effects, histories, setups, predictions, others, curves, rigs)}


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    for name in asked.parts or PARTS:
        for line in PARTS[name](asked.rounds, asked.seed):
            print(line, flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
