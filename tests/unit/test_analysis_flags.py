"""Hints that repeats give beside their median, and the rule that ends repeating."""

from __future__ import annotations

import random
from itertools import combinations, permutations
from math import factorial

import pytest
import scipy  # its parts are loaded when they are asked for: stats takes a second
from hypothesis import given
from hypothesis import strategies as st

from dutlab.analysis import flags
from dutlab.analysis.flags import drift_of, flags_of, heaps_of, outliers_of
from dutlab.stats.repeats import RepeatRule, decide
from dutlab.stats.summary import median


def test_a_value_far_off_is_named_and_kept() -> None:
    assert outliers_of([100.0, 101.0, 99.0, 100.5, 140.0, 99.5]) == (4,)
    assert flags_of([100.0, 101.0, 99.0, 100.5, 140.0, 99.5]).words[0] == "repeat #5 lies far from the others"
    assert outliers_of([0.0, 0.0, 0.0, 0.0, 0.001]) == (4,), "where most are equal"


def test_two_heaps_are_seen_and_not_taken_for_outliers() -> None:
    found = flags_of([10.0, 20.0, 10.1, 20.1, 10.2, 20.2, 10.1])
    assert found.heaps is not None
    assert (len(found.heaps.low), len(found.heaps.high)) == (4, 3)
    assert not found.outliers
    assert "two heaps, 4 around 10.1 and 3 around 20.1" in found.words[0]
    thousands = flags_of([10e3, 20e3, 10.1e3, 20.1e3, 10.2e3, 20.2e3, 10.1e3])
    assert "4 around 10.1 k and 3 around 20.1 k" in thousands.words[0], "no exponent, as 1.01e+04"


def test_repeats_of_one_distribution_seldom_look_like_two_heaps() -> None:
    dice = random.Random(20261121)
    for n in (6, 10, 20):
        seen = sum(heaps_of([dice.gauss(0, 1) for _ in range(n)]) is not None for _ in range(1000))
        assert seen / 1000 < 0.03, n


@pytest.mark.parametrize("values", [(1, 1, 2, 2, 3), (1, 2, 2, 2, 3), (1, 1, 1, 2, 2)])
def test_ties_claim_no_drift_that_enumeration_of_all_orders_denies(values: tuple[float, ...]) -> None:
    def score(order: tuple[float, ...]) -> int:
        return sum((b > a) - (b < a) for a, b in combinations(order, 2))

    orders = set(permutations(values))
    exact = sum(abs(score(order)) >= abs(score(values)) for order in orders) / len(orders)
    assert exact > 0.05
    assert drift_of(values) is None
    if values == (1, 1, 2, 2, 3):
        assert scipy.stats.kendalltau(range(5), values).pvalue < 0.05  # so SciPy's is not used: its normal approximation claims one


@given(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=15, unique=True))
def test_drift_is_kendalls_test_over_the_order_of_time(values: list[float]) -> None:
    expected = scipy.stats.kendalltau(range(len(values)), values, method="exact").pvalue
    found = drift_of(values)
    assert (found is not None) == (expected <= 0.05 + 1e-12)
    if found:
        assert found.p == pytest.approx(expected)


def test_a_drift_has_its_size() -> None:
    found = flags_of([100.0, 99.0, 98.0, 97.0, 96.0, 95.0])
    assert found.drift is not None
    assert found.drift.change == pytest.approx(-5 / 97.5)
    assert found.words == ("repeats fall with time by 5.1 % of their median from first to last (p = 0.003)",)


def test_constant_and_few_repeats() -> None:
    assert flags_of([5.0, 5.0, 5.0]).words == ("all repeats are exactly the same",)
    assert flags_of([1.0, 2.0, 50.0, 3.0]).words == ()
    assert flags_of([1.0]).words == ()
    assert flags_of([]).words == ()


RULE = RepeatRule(0.02, 20)


@pytest.mark.parametrize(
    ("values", "stop", "reached", "why"),
    [
        ([], False, False, "0 repeats have no"),
        ([100.0] * 8, False, False, "8 repeats have no 99.6% interval"),
        ([100.0, 100.5, 101.0, 99.5, 99.0, 100.2, 99.9, 100.1, 100.3], True, True, "within ±2.0%"),
        ([100.0, 110.0, 90.0, *[100.0] * 6], False, False, "reaches ±10.0% of the median"),
        ([90.0, 110.0] * 10, True, False, "the most allowed"),
        ([0.0] * 8 + [1.0], False, False, "around a median of 0"),
    ],
)
def test_repeating_ends_when_the_interval_is_narrow_or_at_the_most(values: list[float], stop: bool, reached: bool, why: str) -> None:
    found = decide(values, RULE)
    assert (found.stop, found.reached) == (stop, reached)
    assert why in found.why


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.05])
def test_looking_after_each_repeat_does_not_make_a_narrow_interval_a_promise_too_much(spread: float) -> None:
    dice, rule, rounds = random.Random(20261122), RepeatRule(0.02, 12), 600
    broken = 0
    for _ in range(rounds):
        values: list[float] = []
        while not (found := decide(values, rule)).stop:
            values.append(dice.gauss(100, 100 * spread))
        broken += found.reached and not 98 <= sorted(values)[len(values) // 2] <= 102
    assert broken / rounds <= 0.004, "1.3 % at a spread of 3 %, when each look had an interval of 95 %"


def test_the_rule_is_printed_with_its_looks_and_one_that_can_never_be_met_is_refused() -> None:
    each = "95% interval of the median, 99.6% at each of 12 looks,"
    assert RULE.words == f"repeated until the {each} was within ±2.0% of it, at least 9 and at most 20 times"
    assert RepeatRule(0.02, 6).words.startswith("repeated until the 95% interval of the median was within")
    for within, most, why in ((0.02, 5, "at least 6"), (0.0, 10, "between 0 % and 100 %")):
        with pytest.raises(ValueError, match=why):
            RepeatRule(within, most)


@given(st.lists(st.integers(0, 30), min_size=5, max_size=40))
def test_the_score_is_that_of_all_pairs(values: list[int]) -> None:
    pairs = [(a, b) for j, b in enumerate(values) for a in values[:j]]
    assert flags._score(values) == sum((b > a) - (b < a) for a, b in pairs)


def test_the_orders_of_n_values_are_all_counted() -> None:
    for n in (5, 40, 100):
        inversions = flags._inversions(n)
        assert sum(inversions) == factorial(n)
        assert inversions == inversions[::-1] and len(inversions) == n * (n - 1) // 2 + 1


def test_many_repeats_have_the_p_of_kendalls_test() -> None:
    dice = random.Random(20261122)
    values = [dice.gauss(0, 1) + 0.0018 * n for n in range(450)]
    found = drift_of(values)
    assert found is not None
    assert found.p == pytest.approx(scipy.stats.kendalltau(range(450), values, method="asymptotic").pvalue, rel=0.02)
    exact = scipy.stats.kendalltau(range(101), values[:101], method="exact").pvalue
    assert flags._trend_p(101, abs(flags._score(values[:101]))) == pytest.approx(exact, abs=0.001)


def test_the_drift_of_very_many_repeats_keeps_its_size_and_needs_no_look_at_every_pair() -> None:
    values = [1000.0 + 0.01 * n for n in range(5003)]
    found = drift_of(values)
    assert found is not None
    assert found.change == pytest.approx(0.01 * 5002 / median(values))
    assert drift_of([float(n % 7) for n in range(20_000)]) is None, "all pairs would be 1.6 GB"
