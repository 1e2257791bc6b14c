"""Medians and their intervals against the binomial distribution and its printed table."""

from __future__ import annotations

import random
import statistics as reference
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.stats.summary import binomials, median, order_interval, summarise

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n", "low", "high", "percent"),
    [
        (6, 1, 6, 96.9), (7, 1, 7, 98.4), (8, 1, 8, 99.2), (9, 2, 8, 96.1), (10, 2, 9, 97.9), (12, 3, 10, 96.1), (15, 4, 12, 96.5),
        (20, 6, 15, 95.9), (25, 8, 18, 95.7), (30, 10, 21, 95.7),
    ],
)  # fmt: skip
def test_the_interval_of_n_values_is_the_exact_one(n: int, low: int, high: int, percent: float) -> None:
    found = order_interval([float(i) for i in range(1, n + 1)])
    assert found is not None
    assert (found.low, found.high, round(found.confidence * 100, 1)) == (low, high, percent)


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_values_have_no_95_percent_interval(n: int) -> None:
    assert order_interval([float(i) for i in range(n)]) is None


def test_99_percent_needs_eight_values() -> None:
    assert order_interval([1.0] * 7, 0.99) is None
    assert order_interval([1.0] * 8, 0.99) is not None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(20261121)
    hits = 0
    for _ in range(4000):
        found = order_interval([dice.expovariate(1.0) for _ in range(9)])
        assert found is not None
        hits += found.low <= 0.6931471805599453 <= found.high  # the median of the exponential distribution is ln 2
    assert hits / 4000 == pytest.approx(0.961, abs=0.012)  # four standard deviations


@given(VALUES)
def test_the_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(reference.median(values))


@given(VALUES, st.randoms())
def test_a_summary_does_not_depend_on_the_order_and_encloses_its_median(values: list[float], dice: random.Random) -> None:
    found = summarise(values)
    shuffled = values.copy()
    dice.shuffle(shuffled)
    assert summarise(shuffled) == found
    assert found.low <= found.median <= found.high
    if found.interval:
        assert found.low <= found.interval.low <= found.median <= found.interval.high <= found.high
    assert (found.interval is None) == (len(values) < 6)


@pytest.mark.parametrize("n", [0, 1, 6, 7, 300])
def test_binomials_are_those_of_the_standard_library(n: int) -> None:
    assert list(binomials(n)) == [comb(n, k) for k in range(n + 1)]


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no median"):
        summarise([])


def test_the_range_is_relative_to_the_median() -> None:
    assert summarise([9.0, 10.0, 12.0]).relative_range == pytest.approx(0.3)
    assert summarise([-1.0, 0.0, 1.0]).relative_range == 0.0
