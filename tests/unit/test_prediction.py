"""Prediction intervals hold the median of one more run as often as they say, and no oftener than they must."""

from __future__ import annotations

import random
from math import exp, log
from statistics import median

import pytest

from dutlab.analysis.design import LEVEL
from dutlab.stats.few import shared_spread
from dutlab.stats.prediction import FEWEST_RUNS, at_level, common_change, next_of_repeats, next_of_runs, reach_of, widened
from dutlab.stats.summary import Interval

ROUNDS = 800


def share_inside(seed: int, draw, predict) -> float:
    """Share of rounds in which a new median is inside."""
    dice = random.Random(seed)
    inside = 0
    for _ in range(ROUNDS):
        interval = predict(dice)
        inside += interval.low <= draw(dice) <= interval.high
    return inside / ROUNDS


def repeats(dice: random.Random, n: int, sd: float = 0.02) -> list[float]:
    return [1e6 * exp(dice.gauss(0, sd)) for _ in range(n)]


@pytest.mark.parametrize(("n", "count"), [(3, 3), (4, 4), (6, 6), (6, 3), (12, 5), (20, 20)])
def test_the_next_median_of_repeats_is_inside_as_often_as_asked(n: int, count: int) -> None:
    found = share_inside(n, lambda d: median(repeats(d, count)), lambda d: next_of_repeats(repeats(d, n), count, LEVEL, None))
    assert 0.93 <= found <= 0.99


@pytest.mark.parametrize("n", [3, 6])
def test_with_the_spread_of_all_cells_too_and_the_interval_of_few_repeats_is_narrower(n: int) -> None:
    def predicted(dice: random.Random) -> Interval:
        cells = [repeats(dice, n) for _ in range(12)]
        found = next_of_repeats(cells[0], n, LEVEL, shared_spread(cells))
        assert found is not None
        return found

    assert 0.93 <= share_inside(n, lambda d: median(repeats(d, n)), predicted) <= 0.995
    dice = random.Random(n)
    cells = [repeats(dice, 3) for _ in range(12)]
    with_all = [next_of_repeats(cell, 3, LEVEL, shared_spread(cells)) for cell in cells]
    alone = [next_of_repeats(cell, 3, LEVEL, None) for cell in cells]
    assert median(i.high / i.low for i in with_all) < median(i.high / i.low for i in alone)  # type: ignore[union-attr]


@pytest.mark.parametrize("runs", [3, 5, 12])
def test_the_next_of_independent_runs_is_inside_as_often_as_asked(runs: int) -> None:
    assert 0.93 <= share_inside(runs, lambda d: repeats(d, 1)[0], lambda d: next_of_runs(repeats(d, runs), LEVEL)) <= 0.97


@pytest.mark.parametrize("runs", [3, 4, 8])
@pytest.mark.parametrize(("of_run", "of_cell"), [(0.03, 0.01), (0.01, 0.01), (0.0, 0.01)])
def test_all_cells_of_the_next_run_are_inside_together_and_the_intervals_are_narrower_than_alone(
    runs: int, of_run: float, of_cell: float
) -> None:
    dice, cells, inside, wide = random.Random(runs), 8, 0, list[float]()
    for _ in range(ROUNDS // 3):
        table = [[0.0] * (runs + 1) for _ in range(cells)]
        for run in range(runs + 1):
            level = dice.gauss(0, of_run)
            for cell in table:
                cell[run] = exp(level + dice.gauss(0, of_cell))
        past = [cell[:runs] for cell in table]
        common = common_change(past)
        found = [next_of_runs(of, LEVEL / cells, None, common, LEVEL) for of in past]
        inside += all(i is not None and i.low <= cell[-1] <= i.high for i, cell in zip(found, table, strict=True))
        wide.append(
            median(i.high / i.low for i in found if i is not None)
            / median(i.high / i.low for of in past if (i := next_of_runs(of, LEVEL / cells)))
        )
    assert inside / (ROUNDS // 3) >= 0.93 and median(wide) < 1


def test_too_little_predicts_nothing() -> None:
    assert next_of_repeats([1.0, 2.0], 3, LEVEL, None) is None and next_of_repeats([1.0] * 3, 0, LEVEL, None) is None
    assert next_of_runs([1.0] * (FEWEST_RUNS - 1), LEVEL) is None and next_of_runs([1.0, 0.0, 1.0], LEVEL) is None


def test_zeros_are_predicted_on_the_linear_scale() -> None:
    found = next_of_repeats([0.0, 0.0, 0.0], 3, LEVEL, None)
    assert found is not None and (found.low, found.high) == (0.0, 0.0)
    found = next_of_repeats([0.0, 1.0, 2.0], 3, LEVEL, None)
    assert found is not None and found.low < 0 and found.high > 1 and reach_of(found, 1.0) is None


def test_wider_is_wider_on_both_sides_of_zero() -> None:
    wide = widened(Interval(100.0, 110.0, 0.95), 0.1)
    assert wide.low == pytest.approx(100 / 1.1) and wide.high == pytest.approx(121)
    wide = widened(Interval(-1.0, 1.0, 0.95), 0.1)
    assert wide.low == pytest.approx(-1.1) and wide.high == pytest.approx(1.1)
    assert reach_of(Interval(90.0, 120.0, 0.95), 100.0) == pytest.approx(0.2)
    away = at_level(Interval(90.0, 110.0, 0.95), 100.0, 0.05 / 10)
    assert away.confidence == 0.995 and log(away.high / 100) > log(1.1)
