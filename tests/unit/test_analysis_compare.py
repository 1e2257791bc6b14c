"""Verdict words: what may be said of two sets of repeats, and what may not."""

from __future__ import annotations

import random
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.analysis.compare import Comparison, Pair, Verdict, compare, could_prove, together
from dutlab.analysis.differences import differences

LOW, HIGH = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0), (200.0, 201.0, 202.0, 203.0, 204.0, 205.0)


def one(first: tuple[float, ...], second: tuple[float, ...], figure: str = "received_pps", margin: float | None = None) -> Comparison:
    return compare([Pair("cell", figure, first, second)], margin=margin)[0]


def test_more_frames_are_faster_and_more_latency_is_slower() -> None:
    assert one(LOW, HIGH).words == "faster"
    assert one(HIGH, LOW).words == "slower"
    assert one(LOW, HIGH, "latency_p99_ns").words == "slower"
    assert one(LOW, HIGH, "loss_ratio").words == "worse"
    assert one(HIGH, LOW, "watts_mean").words == "better"


def test_what_chance_can_do_is_no_difference() -> None:
    dice = random.Random(5)
    found = one(tuple(dice.gauss(100, 5) for _ in range(8)), tuple(dice.gauss(100, 5) for _ in range(8)))
    assert found.words == "no difference proven"
    assert found.why.startswith("p = ")


def test_equivalent_needs_a_margin_given_beforehand() -> None:
    shifted = tuple(v * 1.001 for v in LOW)
    assert one(LOW, shifted, margin=0.1).words == "equivalent within ±10 %"
    assert one(LOW, shifted).verdict is Verdict.NO_DIFFERENCE
    assert one(LOW, shifted, margin=0.005).verdict is Verdict.NO_DIFFERENCE  # the interval reaches further


def test_three_repeats_prove_nothing_alone_and_it_says_how_many_would() -> None:
    found = one(LOW[:3], HIGH[:3])
    assert found.verdict is Verdict.NO_DIFFERENCE
    assert found.why == "too few repeats to prove any, 4 a side would do; no repeat of one side lies among the other's"
    assert not could_prove([found])


def test_many_cells_of_three_repeats_prove_together_what_none_can_alone() -> None:
    pairs = [Pair(f"cell {n}", "received_pps", tuple(v * n for v in HIGH[:3]), tuple(v * n for v in LOW[:3])) for n in range(1, 6)]
    found = compare(pairs)
    assert {c.verdict for c in found} == {Verdict.NO_DIFFERENCE}
    overall = together(found)
    assert overall is not None
    assert (overall.words, overall.cells) == ("slower", 5)
    assert overall.p == pytest.approx(2 / 20**5)  # all five cells apart, of 20 ways each
    assert overall.ratio == pytest.approx(101 / 201, rel=0.01)
    assert could_prove(found)


def test_cells_of_which_less_is_better_count_the_other_way_round() -> None:
    overall = together(compare([Pair("a", "received_pps", LOW, HIGH), Pair("b", "latency_p50_ns", HIGH, LOW)]))
    assert overall is not None
    assert overall.verdict is Verdict.BETTER
    assert overall.ratio > 1.9
    assert together(compare([Pair("a", "received_pps", LOW, HIGH)])) is None


def test_one_of_twenty_cells_at_five_percent_is_no_news() -> None:
    nothing = Pair("cell", "received_pps", LOW, (100.5, 101.5, 102.5, 103.5, 104.5, 99.5))
    seeming = Pair("seems", "received_pps", (1.0, 2.0, 3.0, 4.0, 5.0), (4.5, 6.0, 7.0, 8.0, 9.0))
    assert compare([seeming])[0].verdict is Verdict.BETTER
    assert compare([seeming, *[nothing] * 19])[0].verdict is Verdict.NO_DIFFERENCE


def test_zero_baselines_have_no_ratio_but_a_verdict() -> None:
    found = one((0.0,) * 6, (0.1, 0.2, 0.1, 0.3, 0.2, 0.1), "loss_ratio")
    assert (found.ratio, found.words) == (None, "worse")
    assert one((0.0,) * 6, (0.0,) * 6, "loss_ratio").words == "no difference proven"


def test_what_is_no_number_is_left_out() -> None:
    found = one((nan, 1.0, inf, 2.0), (nan,))
    assert found.verdict is Verdict.MISSING
    assert found.why == "the second has no value"
    assert found.first is not None and found.first.n == 2
    assert one((), ()).why == "the first and the second has no value"


def test_flags_of_either_side_are_told() -> None:
    assert one(LOW, HIGH).flags == (
        "first: repeats rise with time by 4.9% from first to last (p = 0.003)",
        "second: repeats rise with time by 2.5% from first to last (p = 0.003)",
    )
    assert one((5.0,) * 6, HIGH[::-1]).flags[0] == "first: all repeats are exactly the same"


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.0, nan])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        one(LOW, HIGH, margin=margin)


@given(st.lists(st.tuples(st.lists(st.floats(0, 1e9), max_size=8), st.lists(st.floats(0, 1e9), max_size=8)), max_size=6))
def test_any_repeats_have_a_verdict_and_turned_round_the_opposite_one(cells: list[tuple[list[float], list[float]]]) -> None:
    there = compare([Pair("c", "received_pps", tuple(a), tuple(b)) for a, b in cells])
    back = compare([Pair("c", "received_pps", tuple(b), tuple(a)) for a, b in cells])
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert [opposite.get(c.verdict, c.verdict) for c in there] == [c.verdict for c in back]


def test_differences_name_what_matters_and_leave_out_what_always_differs() -> None:
    first: dict[str, Any] = {
        "hosts": {
            "dut": {"kernel": "6.1", "mac": "02::1", "cpus": [1, 2], "neighbours": {"out-a": [{"state": "REACHABLE", "confirmed_s": 3}]}}
        },
        "seed": 1,
        "testbed": {"links": [{"mtu": 1500}]},
    }
    second: dict[str, Any] = {
        "hosts": {
            "dut": {
                "kernel": "6.12",
                "mac": "02::2",
                "cpus": [1, 2],
                "smt": "on",
                "neighbours": {"out-a": [{"state": "STALE", "confirmed_s": 70}]},
            }
        },
        "seed": 2,
        "testbed": {"links": [{"mtu": 9000}]},
    }
    assert [(d.path, d.first, d.second) for d in differences(first, second)] == [
        ("hosts.dut.kernel", "6.1", "6.12"),
        ("testbed.links.0.mtu", "1500", "9000"),
        ("hosts.dut.smt", "absent", "on"),
    ]
