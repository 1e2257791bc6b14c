"""Least squares: numbers from the formulas, what a plan determines, and intervals that hold."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.stats.least_squares import least_squares
from dutlab.stats.student import quantile


def test_one_column_is_the_mean_and_its_error_is_that_of_the_formula():
    fit = least_squares([[1.0]] * 4, [1.0, 2.0, 3.0, 6.0])
    assert fit.estimates == pytest.approx((3.0,)) and fit.leverages == pytest.approx((0.25,) * 4)
    # residuals -2, -1, 0, 3; each ÷ (1 - 1/4), squared, × (1/4)², summed: 14 / 0.5625 / 16 = 1.5556
    assert fit.standard_error((1.0,)) == pytest.approx(sqrt(14 / 0.5625 / 16))
    assert fit.deviation == pytest.approx(sqrt(14 / 3))
    interval, new = fit.interval((1.0,)), fit.prediction((1.0,))
    assert interval is not None and new is not None
    assert interval.high - 3.0 == pytest.approx(3.182446 * 1.247219, rel=1e-5), "t of 3 degrees at 97.5 %, from a printed table"
    assert new.high - 3.0 == pytest.approx(3.182446 * sqrt(1.555556 + 4.666667), rel=1e-5)


def test_a_line_has_the_hc3_error_that_exact_fractions_give():
    xs, ys = (0, 1, 2, 4), (1, 2, 4, 6)
    n, sx, sxx = len(xs), sum(xs), sum(x * x for x in xs)
    det = Fraction(n * sxx - sx * sx)
    weights = [[(Fraction(sxx) - sx * x) / det, (Fraction(n) * x - sx) / det] for x in xs]  # of intercept and slope
    intercept, slope = (sum(w[i] * y for w, y in zip(weights, ys, strict=True)) for i in range(2))
    squares = Fraction(0)
    for x, y, (a, b) in zip(xs, ys, weights, strict=True):
        leverage = a + b * x
        squares += (b * (y - intercept - slope * x) / (1 - leverage)) ** 2
    fit = least_squares([[1.0, float(x)] for x in xs], [float(y) for y in ys])
    assert fit.estimates == pytest.approx((float(intercept), float(slope)))
    assert fit.standard_error((0.0, 1.0)) == pytest.approx(sqrt(float(squares)))


def test_terms_that_change_only_together_have_no_value_and_their_sum_has_one():
    rows = [[1.0, 4.0, x] for x in (0.0, 1.0, 2.0, 3.0)]
    fit = least_squares(rows, [10.0 + 2.0 * row[2] for row in rows])
    assert fit.rank == 2 and fit.freedom == 2
    assert [fit.separates(w) for w in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 4.0, 7.0))] == [False, False, True, True]
    assert fit.value((1.0, 4.0, 7.0)) == pytest.approx(24.0)
    assert not fit.separates((1.0, 2.0, 0.0))


def test_a_level_that_was_meant_to_be_constant_may_jitter():
    random = Random(3)
    rows = [[1.0, 8000.0 * (1 + random.uniform(-1e-3, 1e-3)), x] for x in (0.0, 1.0, 2.0, 0.0, 1.0, 2.0)]
    fit = least_squares(rows, [row[2] for row in rows])
    assert fit.rank == 2 and not fit.separates((0.0, 1.0, 0.0)) and fit.separates((0.0, 0.0, 1.0))


def test_a_row_that_alone_determines_a_term_gives_it_no_error():
    fit = least_squares([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 2.0, 3.0, 9.0])
    assert fit.value((0.0, 1.0)) == pytest.approx(7.0)
    assert fit.interval((0.0, 1.0)) is None and fit.prediction((1.0, 1.0)) is None
    assert fit.interval((1.0, 0.0)) is not None


@pytest.mark.parametrize(("rows", "values"), [([], []), ([[1.0]], [float("nan")]), ([[float("inf")]], [1.0]), ([[1.0]], [1.0, 2.0])])
def test_what_cannot_be_fitted_is_refused(rows, values):
    with pytest.raises(ValueError, match="finite numbers"):
        least_squares(rows, values)


_LEVELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=6, max_size=20).filter(
    lambda of: len({p for p, _ in of}) > 1 and len({x for _, x in of}) > 2
)


@given(levels=_LEVELS, seed=st.integers(0, 999), unit=st.sampled_from([1e-9, 1e-3, 1.0, 1e6]))
def test_units_change_no_answer_and_residuals_are_at_right_angles_to_every_column(levels, seed, unit):
    random = Random(seed)
    rows = [[1.0, float(p), float(x)] for p, x in levels]
    values = [40.0 + 4.0 * p + 0.5 * x + random.gauss(0.0, 0.2) for p, x in levels]
    fit, scaled = least_squares(rows, values), least_squares([[a, b, c * unit] for a, b, c in rows], values)
    assert fit.rank == scaled.rank
    for column in zip(*rows, strict=True):
        assert sum(c * r for c, r in zip(column, fit.residuals, strict=True)) == pytest.approx(0.0, abs=1e-6)
    if fit.rank == 3 and fit.freedom > 0 and max(fit.leverages) < 1 - 1e-3:
        one, other = fit.prediction((1.0, 2.0, 3.0)), scaled.prediction((1.0, 2.0, 3.0 * unit))
        assert one is not None and other is not None
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    assert sum(fit.leverages) == pytest.approx(fit.rank)


@given(base=st.floats(1.0, 100.0), port=st.floats(0.1, 10.0), frame=st.floats(1e-7, 1e-3))
def test_values_without_noise_give_their_terms_back(base, port, frame):
    rows = [[1.0, p, f] for p in (2.0, 4.0) for f in (0.0, 1e4, 5e4)]
    fit = least_squares(rows, [base + port * p + frame * f for _, p, f in rows])
    assert fit.estimates == pytest.approx((base, port, frame), rel=1e-6)


def test_intervals_hold_what_they_say_where_errors_grow_with_the_value():
    random, held, new = Random(7), 0, 0
    rows = [[1.0, x] for x in (0.0, 5.0, 10.0, 20.0, 40.0) for _ in range(6)]
    for _ in range(400):
        fit = least_squares(rows, [10.0 + 2.0 * x + random.gauss(0.0, 0.01 * (10.0 + 2.0 * x)) for _, x in rows])
        slope, at = fit.interval((0.0, 1.0)), fit.prediction((1.0, 10.0))
        assert slope is not None and at is not None
        held += slope.low <= 2.0 <= slope.high
        new += at.low <= 30.0 + random.gauss(0.0, 0.3) <= at.high
    assert 0.92 <= held / 400 <= 0.999 and new / 400 >= 0.92, (held, new)


def test_the_quantile_is_that_of_the_printed_table():
    assert quantile(0.975, 3) == pytest.approx(3.182446, rel=1e-6)
