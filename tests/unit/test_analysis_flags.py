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
from golden import Golden

ODD, HEAPS, FALLING = (
    [100.0, 101.0, 99.0, 100.5, 140.0, 99.5],
    [10.0, 20.0, 10.1, 20.1, 10.2, 20.2, 10.1],
    [100.0, 99.0, 98.0, 97.0, 96.0, 95.0],
)


def test_a_value_far_off_two_heaps_and_a_drift_are_seen_each_as_what_it_is() -> None:
    assert outliers_of(ODD) == (4,)
    assert outliers_of([0.0, 0.0, 0.0, 0.0, 0.001]) == (4,), "where most are equal"
    found = flags_of(HEAPS)
    assert found.heaps is not None and not found.outliers
    assert (len(found.heaps.low), len(found.heaps.high)) == (4, 3)
    drift = flags_of(FALLING).drift
    assert drift is not None and drift.change == pytest.approx(-5 / 97.5)
    assert flags_of([1.0, 2.0, 50.0, 3.0]).words == flags_of([1.0]).words == flags_of([]).words == (), "few repeats"


def test_what_is_said_of_repeats_is_the_golden_page(golden: Golden) -> None:
    said = [words for values in (ODD, HEAPS, [1e3 * v for v in HEAPS], FALLING, [5.0] * 3) for words in flags_of(values).words]
    said += [f"{decide(values, RULE).why}" for values, *_ in REPEATED]
    golden.check("repeats.txt", "\n".join((*said, RULE.words, RepeatRule(0.02, 6).words)) + "\n")


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


RULE = RepeatRule(0.02, 20)
REPEATED = [
    ([], False, False),
    ([100.0] * 8, False, False),
    ([100.0, 100.5, 101.0, 99.5, 99.0, 100.2, 99.9, 100.1, 100.3], True, True),
    ([100.0, 110.0, 90.0, *[100.0] * 6], False, False),
    ([90.0, 110.0] * 10, True, False),
    ([0.0] * 8 + [1.0], False, False),
]


@pytest.mark.parametrize(("values", "stop", "reached"), REPEATED)
def test_repeating_ends_when_the_interval_is_narrow_or_at_the_most(values: list[float], stop: bool, reached: bool) -> None:
    found = decide(values, RULE)
    assert (found.stop, found.reached) == (stop, reached)


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


@pytest.mark.parametrize(("within", "most", "why"), [(0.02, 5, "at least 6"), (0.0, 10, "between 0 %")])
def test_a_rule_that_can_never_be_met_is_refused(within: float, most: int, why: str) -> None:
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
