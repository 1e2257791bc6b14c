"""Rounds of two runs in an order that chance drew: exact p, for many cells at once, whatever the noise."""

from __future__ import annotations

import random
from itertools import product
from math import log, sqrt

import pytest

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.verdict import Verdict
from dutlab.stats.rounds import FEWEST, changed

Cell = dict[int, tuple[float, float]]


def by_hand(cells: list[Cell], least: float) -> list[float]:
    """The definition, hypothesis by hypothesis: every way to swap rounds, against all that are not clearer than this one."""
    rows = [
        {n: sign * (log(b) - log(a)) - log(1 + least) for n, (a, b) in cell.items()} for cell in cells for sign in (1, -1)
    ]  # fmt: skip
    numbers = sorted({n for row in rows for n in row})

    def shown(row: dict[int, float], swap: dict[int, int]) -> float:
        return sum(swap[n] * d for n, d in row.items()) / sqrt(sum(d * d for d in row.values()))

    found = [shown(row, dict.fromkeys(numbers, 1)) for row in rows]
    p, before = [0.0] * len(rows), 0.0
    for here in sorted(range(len(rows)), key=lambda n: -found[n]):
        no_clearer = [row for n, row in enumerate(rows) if found[n] <= found[here]]
        ways = [dict(zip(numbers, signs, strict=True)) for signs in product((1, -1), repeat=len(numbers))]
        before = p[here] = max(before, sum(max(shown(r, way) for r in no_clearer) >= found[here] - 1e-9 for way in ways) / len(ways))
    return [min(p[2 * n], p[2 * n + 1]) for n in range(len(cells))]


def noisy(dice: random.Random, rounds: int, change: float, sd: float = 0.01) -> Cell:
    return {n: (100 * dice.lognormvariate(0, sd), 100 * change * dice.lognormvariate(0, sd)) for n in range(1, rounds + 1)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("least", [0.0, 0.01, 0.04])
def test_p_is_the_share_of_all_ways_to_swap_rounds(seed: int, least: float) -> None:
    dice = random.Random(seed)
    cells = [noisy(dice, 6, change) for change in (1, 0.95, 1.02, 0.99)]
    del cells[2][3]  # not every cell has every round
    assert changed(cells, least) == pytest.approx(by_hand(cells, least))


def test_six_rounds_prove_something_among_any_number_of_cells_and_five_do_not() -> None:
    dice = random.Random(1)
    cells = [noisy(dice, 6, 0.9 if n == 7 else 1.0) for n in range(100)]
    p = changed(cells, 0.04)
    assert p[7] == 2 / 64
    assert min(p[:7] + p[8:]) > 0.5
    five = [{n: of for n, of in cell.items() if n != 1} for cell in cells]
    assert changed(five, 0.04)[7] == 2 / 32 > 0.05
    assert FEWEST == 6
    assert changed([], 0.04) == []


def test_what_drifts_or_is_slow_for_a_while_is_no_change() -> None:
    """The order was drawn, so p holds for any noise: here one that makes every test of independent repeats cry wolf."""
    dice, false, rounds, tries = random.Random(20261122), 0, 8, 600
    for _ in range(tries):
        slow_from = dice.randrange(2 * rounds)
        line = [1 - 0.05 * n / (2 * rounds) - (0.08 if slow_from <= n < slow_from + 5 else 0) for n in range(2 * rounds)]
        cells: list[Cell] = [{} for _ in range(4)]
        for n in range(rounds):
            first = dice.random() < 0.5
            for cell in cells:
                here = [line[2 * n + place] * dice.lognormvariate(0, 0.002) for place in range(2)]
                cell[n] = (here[0], here[1]) if first else (here[1], here[0])
        false += min(changed(cells, 0.0)) <= 0.05
    assert false / tries <= 0.05 + 3 * sqrt(0.05 * 0.95 / tries)  # three standard deviations
    assert false > 0  # a test that never says anything would pass too


def test_zeros_are_values() -> None:
    nothing = dict.fromkeys(range(6), (0.0, 0.0))
    from_nothing = {n: (0.0, 5.0 + n) for n in range(6)}
    assert changed([nothing, from_nothing], 0.01) == [1.0, 2 / 64]


def test_many_rounds_are_swapped_in_drawn_ways_and_never_come_to_p_0() -> None:
    (p,) = changed([noisy(random.Random(2), 20, 0.9)], 0.01)
    assert 0 < p <= 2 / 4096
    assert changed([noisy(random.Random(2), 20, 1.0)], 0.0)[0] > 0.05


def pair(cell: Cell, label: str = "x", *, leave: int | None = None) -> Pair:
    at = tuple(n for n in cell if n != leave)
    return Pair(label, "received_pps", tuple(cell[n][0] for n in at), tuple(cell[n][1] for n in at), RunOrder.ROUNDS, at, at)


def test_a_comparison_of_rounds_says_so_and_what_would_do() -> None:
    dice = random.Random(3)
    cells = [noisy(dice, 6, 0.9 if n == 0 else 1.0) for n in range(33)]
    found = compare([pair(cell, str(n)) for n, cell in enumerate(cells)])
    assert [c.verdict for c in found] == [Verdict.WORSE] + [Verdict.NO_DIFFERENCE] * 32
    assert all(fact in found[0].why for fact in ("p = 0.031", "33 comparisons", "4 %", "6 rounds"))
    too_few = compare([pair(cell, str(n), leave=1) for n, cell in enumerate(cells)])
    assert {c.verdict for c in too_few} == {Verdict.NO_DIFFERENCE}
    assert "too few rounds" in too_few[0].why and "6" in too_few[0].why
    assert all(of.could_prove for of in found)
    assert not any(of.could_prove for of in too_few)
