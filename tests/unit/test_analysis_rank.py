"""Rank tests, ratios and their intervals, against SciPy, printed tables and every arrangement counted out."""

from __future__ import annotations

import math
import random
from itertools import combinations, pairwise

import pytest
import scipy  # its parts are loaded when they are asked for: stats takes a second
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.stats.power import _SHIFTS, _deviations, _simulated
from dutlab.stats.rank import holm, least_p, mann_whitney, repeats_needed, u_quantile
from dutlab.stats.ratio import ratio_of

FEW = st.lists(st.integers(1, 9).map(float), min_size=1, max_size=6)  # ties are certain to occur
POSITIVE = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=12)


def test_the_least_p_is_that_of_benchstats_table_and_four_repeats_are_needed_to_prove_anything() -> None:
    for n, least in ((3, 0.1), (4, 0.0286), (5, 0.0079)):
        apart = mann_whitney(range(n), range(n, 2 * n))
        assert apart.p == pytest.approx(apart.least_p)
        assert apart.p == pytest.approx(least, abs=5e-5)
        assert (apart.u, apart.delta) == (n * n, 1.0)
    assert (repeats_needed(), repeats_needed(0.05 / 20)) == (4, 6)
    assert least_p(5, 5) > 0.05 / 20 >= least_p(6, 6)


@settings(max_examples=40)
@given(st.sets(st.integers(-1000, 1000), min_size=2, max_size=24), st.data())
def test_without_ties_p_is_scipys(values: set[int], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(sorted(values)))
    cut = data.draw(st.integers(1, len(shuffled) - 1))
    first, second = [float(v) for v in shuffled[:cut]][:20], [float(v) for v in shuffled[cut:]][:20]
    expected = scipy.stats.mannwhitneyu(second, first, method="exact")
    found = mann_whitney(first, second)
    assert found.u == expected.statistic
    assert found.p == pytest.approx(expected.pvalue)


@settings(max_examples=40)
@given(FEW, FEW)
def test_with_ties_p_is_the_count_of_all_arrangements(first: list[float], second: list[float]) -> None:
    ranks = scipy.stats.rankdata([*first, *second])
    middle = len(second) * (len(ranks) + 1) / 2
    far = abs(sum(ranks[len(first) :]) - middle)
    sums = [sum(ranks[i] for i in chosen) for chosen in combinations(range(len(ranks)), len(second))]
    assert mann_whitney(first, second).p == pytest.approx(sum(abs(s - middle) >= far - 1e-9 for s in sums) / len(sums))


def test_many_values_take_the_normal_approximation() -> None:
    dice = random.Random(7)
    first, second = [dice.gauss(0, 1) for _ in range(40)], [dice.gauss(0.5, 1) for _ in range(50)]
    assert mann_whitney(first, second).p == pytest.approx(scipy.stats.mannwhitneyu(second, first, method="asymptotic").pvalue)
    assert mann_whitney([1.0] * 30, [1.0] * 30).p == 1.0
    with pytest.raises(ValueError, match="empty"):
        mann_whitney([], [1.0])


def test_holm_is_the_step_down_of_his_paper() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_lowers_a_p_and_keeps_their_order(ps: list[float]) -> None:
    found = holm(ps)
    assert all(p <= adjusted <= 1 for p, adjusted in zip(ps, found, strict=True))
    ordered = sorted(zip(ps, found, strict=True))
    assert all(a[1] <= b[1] for a, b in pairwise(ordered))


def test_critical_values_of_u_are_those_of_the_printed_tables() -> None:
    # Tables of U at 5 %, two-sided, print the largest U that is significant: one less than k (Mann-Whitney tables: 5,5: 2; 8,8: 13; 10,10: 23).
    printed = {(3, 3): 0, (4, 4): 1, (5, 5): 3, (6, 6): 6, (8, 8): 14, (10, 10): 24, (4, 7): 4}
    assert {of: u_quantile(*of, 0.025)[0] for of in printed} == printed


# ---- ratios


def test_the_interval_is_put_together_from_those_of_the_medians_as_zou_and_donner_do() -> None:
    first, second = [100.0, 101.0, 103.0, 104.0, 107.0, 109.0], [120.0, 122.0, 123.0, 125.0, 126.0, 130.0]
    found = ratio_of(first, second)
    assert found.ratio == 124 / 103.5
    assert found.interval is not None
    scale = scipy.stats.norm.ppf(0.975) / scipy.stats.norm.ppf(1 - 1 / 2**6)  # of six values the range holds the median with 1 - 2 / 2^6
    low_b, high_a = math.log(124 / 120) * scale, math.log(109 / 103.5) * scale
    assert math.log(found.ratio / found.interval.low) == pytest.approx(math.hypot(low_b, high_a))
    assert ratio_of(first[:3], second[:3]).interval is None


@pytest.mark.parametrize("n", [4, 6, 12])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two heaps"])
def test_the_interval_holds_the_ratio_as_often_as_it_says(n: int, kind: str) -> None:
    dice, hits, rounds = random.Random(20261121), 0, 300

    def drawn() -> float:
        if kind == "two heaps":
            return (1.0 if dice.random() < 0.5 else 1.3) * dice.lognormvariate(0, 0.01)
        return dice.lognormvariate(0, 0.05) if kind == "normal" else 1 + dice.expovariate(20)

    for _ in range(rounds):
        found = ratio_of([drawn() for _ in range(n)], [1.2 * drawn() for _ in range(n)]).interval
        assert found is not None
        hits += found.low <= 1.2 <= found.high
    assert hits / rounds >= 0.95


@given(POSITIVE, POSITIVE)
@settings(max_examples=40)
def test_the_ratio_the_other_way_round_is_its_inverse_where_it_is_exact(first: list[float], second: list[float]) -> None:
    there, back = ratio_of(first[:9], second[:9]), ratio_of(second[:9], first[:9])
    if there.interval and back.interval:
        assert there.interval.low == pytest.approx(1 / back.interval.high)
        assert there.interval.low <= there.ratio <= there.interval.high


def test_constant_repeats_have_a_ratio_and_there_is_none_to_zero_or_to_what_is_no_number() -> None:
    found = ratio_of([2.0] * 12, [3.0] * 12)
    assert (found.ratio, found.interval and found.interval.low, found.interval and found.interval.high) == (1.5, 1.5, 1.5)
    assert ratio_of([2.0] * 12, [3.0] * 11 + [3.1]).interval is not None, "nearly all equal"
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not above zero"):
            ratio_of([bad], [1.0])
    with pytest.raises(ValueError, match="empty"):
        ratio_of([], [1.0])


def test_equivalence_needs_the_whole_interval_within_the_margin() -> None:
    base, near = [100.0, 100.1, 100.2, 100.3, 100.4, 100.5], [100.6, 100.7, 100.8, 100.9, 101.0, 101.1]
    assert ratio_of(base, near).within(0.02)
    assert not ratio_of(base, near).within(0.005)
    assert not ratio_of(base[:3], base[:3]).within(0.5)  # no interval, no proof


def test_of_many_repeats_the_rules_go_on_where_the_exact_ones_end():
    exact, of_many = u_quantile(44, 45, 0.025), u_quantile(45, 45, 0.025)
    assert abs(of_many[0] / (45 * 45) - exact[0] / (44 * 45)) < 0.01
    assert abs(_deviations(45, 45, 0.05) / _deviations(44, 45, 0.05) - 1) < 0.05
    assert 0.2 < _deviations(455, 455, 0.05) < _deviations(45, 45, 0.05)
    assert u_quantile(10_000, 10_000, 0.025)[0] > 0


def test_shifts_that_are_written_down_are_those_that_are_drawn():
    for n, k in ((4, 1), (6, 5), (8, 3), (10, 24)):
        assert _simulated(n, n, k) == pytest.approx(_SHIFTS[n][k - 1], rel=0.01)
    for n, of in _SHIFTS.items():
        assert len(of) == u_quantile(n, n, 0.025)[0]
        assert list(of) == sorted(of, reverse=True)


def test_u_counts_every_pair_and_a_tie_as_a_half():
    dice = random.Random(5)
    first, second = ([dice.randint(0, 9) for _ in range(n)] for n in (13, 17))
    assert mann_whitney(first, second).u == sum((b > a) + (b == a) / 2 for a in first for b in second)
