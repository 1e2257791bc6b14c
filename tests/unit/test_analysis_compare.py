"""Verdict words: what may be said of two sets of repeats, and what may not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.differences import differences
from dutlab.analysis.together import together
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.stats.runs import share_as_far
from golden import Golden

LOW, HIGH = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0), (200.0, 201.0, 202.0, 203.0, 204.0, 205.0)


def one(first: tuple[float, ...], second: tuple[float, ...], figure: str = "received_pps", **asked: Any) -> Comparison:
    design = asked.pop("design", RunOrder.IN_TURN)
    return compare([Pair("cell", figure, first, second, design)], **asked)[0]


def test_more_frames_are_faster_and_more_latency_is_slower() -> None:
    assert one(LOW, HIGH).words == "faster"
    assert one(HIGH, LOW).words == "slower"
    assert one(LOW, HIGH, "latency_p99_ns").words == "slower"
    assert one(LOW, HIGH, "loss_ratio").words == "worse"
    assert one(HIGH, LOW, "idle/watts").words == "better"


def test_the_ratio_is_that_of_the_medians_shown() -> None:
    first, second = (700.0, 705.0, 1300.0, 1301.0, 1302.0), (1000.0, 1010.0, 1012.0, 1500.0, 1510.0)
    found = one(first, second)
    assert found.first is not None and found.second is not None and found.ratio is not None and found.ratio.interval is not None
    assert (found.first.value, found.second.value) == (1300.0, 1012.0)
    assert found.ratio.ratio == pytest.approx(1012 / 1300), "the median over all pairs is 1.15"
    assert found.ratio.interval.low < 1012 / 1300 < found.ratio.interval.high


def test_what_chance_can_do_is_no_difference_and_says_what_would_have_been_proven(golden: Golden) -> None:
    dice = random.Random(5)
    found = one(tuple(dice.gauss(100, 5) for _ in range(8)), tuple(dice.gauss(100, 5) for _ in range(8)))
    assert found.words == "no difference proven"
    assert found.provable is not None and 0.05 < found.provable < 0.2
    # What is said of this, of runs that may differ by more than the margin, of zeros, of what is no number, and of each side.
    tight, rise = tuple(100 + v / 1e3 for v in LOW), (0.1, 0.2, 0.1, 0.3, 0.2, 0.1)
    every = [found, one(tight, tight, margin=0.02, design=RunOrder.ONE_AFTER_THE_OTHER), one((0.0,) * 6, rise, "loss_ratio"),
             one((nan, 1.0, inf, 2.0), (nan,)), one((), ()), one((nan, *LOW), HIGH), one((5.0,) * 6, HIGH[::-1])]  # fmt: skip
    golden.check("comparisons.txt", "".join(f"{c.words}\n    {c.why}\n" + "".join(f"    {flag}\n" for flag in c.flags) for c in every))


def test_a_change_below_the_least_that_counts_is_no_verdict_however_sure() -> None:
    shifted = tuple(v * 1.005 for v in LOW)
    tight = tuple(100 + v / 1e3 for v in LOW)
    assert one(tight, tuple(v * 1.005 for v in tight)).verdict is Verdict.NO_DIFFERENCE
    assert one(tight, tuple(v * 1.005 for v in tight), least=0.001).verdict is Verdict.BETTER
    assert one(LOW, shifted).p == 1.0


def test_two_runs_one_after_the_other_prove_only_what_time_cannot_do() -> None:
    slower = tuple(v * 0.95 for v in LOW)
    assert one(LOW, tuple(v * 0.93 for v in LOW)).words == "slower"
    apart = one(LOW, tuple(v * 0.93 for v in LOW), design=RunOrder.ONE_AFTER_THE_OTHER)
    assert apart.verdict is Verdict.NO_DIFFERENCE and apart.least == 0.1
    assert one(LOW, tuple(v * 0.5 for v in LOW), design=RunOrder.ONE_AFTER_THE_OTHER).words == "slower"
    assert one(LOW, slower, design=RunOrder.INTERLEAVED).least == 0.04


def test_runs_one_after_the_other_are_not_called_equivalent_within_less_than_runs_differ() -> None:
    tight = tuple(100 + v / 1e3 for v in LOW)
    assert one(tight, tight, margin=0.02).words == "equivalent within ±2 %"
    apart = one(tight, tight, margin=0.02, design=RunOrder.ONE_AFTER_THE_OTHER)
    assert apart.verdict is Verdict.NO_DIFFERENCE
    assert one(tight, tight, margin=0.2, design=RunOrder.ONE_AFTER_THE_OTHER).verdict is Verdict.EQUIVALENT


def test_several_runs_a_side_count_once_each() -> None:
    def runs(*second: float) -> Comparison:
        first = (100.0, 100.4, 99.7, 100.2, 99.9)
        at = tuple(range(5, 5 + len(second)))
        return compare([Pair("cell", "received_pps", first, second, RunOrder.RUNS, tuple(range(5)), at)])[0]

    assert runs(85.0).words == "slower"
    assert runs(99.5).verdict is Verdict.NO_DIFFERENCE
    assert runs(90.0, 90.3, 89.8).words == "slower"
    found = runs(85.0)
    assert found.first is not None and found.second is not None and found.ratio is not None
    assert found.ratio.ratio == pytest.approx(found.second.value / found.first.value)


def of_runs(first: Sequence[float], second: Sequence[float], label: str = "cell") -> Pair:
    n = len(first)
    return Pair(label, "received_pps", tuple(first), tuple(second), RunOrder.RUNS, tuple(range(n)), tuple(range(n, n + len(second))))


def test_a_single_run_may_lie_in_a_slow_hour_that_a_few_others_missed() -> None:
    dice = random.Random(5)
    before = [100 * dice.gauss(1, 0.003) for _ in range(10)]
    against_five = compare([of_runs(before[:5], [92.0])])[0]
    assert (against_five.verdict, against_five.least) == (Verdict.NO_DIFFERENCE, 0.1)
    for held in (compare([of_runs(before, [92.0])])[0], compare([of_runs(before[:5], [92.0, 92.2])])[0]):
        assert (held.words, held.least) == ("slower", 0.01)
    assert compare([of_runs(before[:5], [92.0])], least=0.01)[0].words == "slower"  # who asks for it gets it


def test_one_run_with_a_median_as_low_as_some_cell_of_the_others_had_is_no_news() -> None:
    """One repeat in ten is 30 % low, so now and then a median of six is."""

    def verdicts(low: int) -> list[Verdict]:
        dice, pairs = random.Random(1), []
        for cell in range(8):
            runs = [dice.gauss(100, 1) * (0.7 if (n, cell) in {(3, 5), (8, 2)} and n < low else 1) for n in range(10)]
            new = dice.gauss(100, 1) * (0.7 if cell == 0 else 1)
            pairs.append(Pair(f"cell {cell}", "received_pps", tuple(runs), (new,), RunOrder.RUNS, tuple(range(10)), (10,)))
        return [c.verdict for c in compare(pairs)]

    assert verdicts(0)[0] is Verdict.WORSE, "nothing of the kind was seen before"
    assert set(verdicts(10)) == {Verdict.NO_DIFFERENCE}
    assert share_as_far([((1.0, 1.0, 0.7), 0.7), ((1.0, 1.0, 1.0), 1.3)]) == [2 / 7, 0.0]


def test_a_cell_that_was_lucky_has_the_error_of_the_others() -> None:
    """Seven cells of one box spread by 2 % from run to run; an eighth shows none of it in five runs, and lies 4 % lower in the two after."""
    dice = random.Random(6)
    others = [of_runs([100 * dice.gauss(1, 0.02) for _ in range(5)], [100.0, 100.5], str(n)) for n in range(7)]
    lucky = of_runs([100.0, 100.01, 99.99, 100.0, 100.01], [96.0, 96.01], "lucky")
    assert compare([lucky])[0].words == "slower"
    found = compare([*others, lucky])[-1]
    assert found.verdict is Verdict.NO_DIFFERENCE
    assert found.ratio is not None and found.ratio.interval is not None
    assert found.ratio.interval.high > 1  # the interval says the same as the verdict


def test_equivalent_needs_a_margin_given_beforehand_which_may_be_another_for_each_cell() -> None:
    shifted = tuple(v * 1.001 for v in LOW)
    assert one(LOW, shifted, margin=0.1).words == "equivalent within ±10 %"
    assert one(LOW, shifted).verdict is Verdict.NO_DIFFERENCE
    assert one(LOW, shifted, margin=0.005).verdict is Verdict.NO_DIFFERENCE  # the interval reaches further
    pairs = [Pair(name, "received_pps", LOW, LOW) for name in ("nat", "router")]
    found = compare(pairs, margin=lambda pair: 0.1 if pair.label == "nat" else None)
    assert [c.verdict for c in found] == [Verdict.EQUIVALENT, Verdict.NO_DIFFERENCE]
    for margin in (0.0, -0.1, 1.0, nan):
        with pytest.raises(ValueError, match="margin"):
            one(LOW, HIGH, margin=margin)
    with pytest.raises(ValueError, match="least"):
        one(LOW, HIGH, least=-1.0)


def test_many_cells_are_called_equivalent_only_where_all_of_them_may_be() -> None:
    dice = random.Random(20261122)
    false = 0
    for _ in range(60):
        sides = [[tuple(level * dice.gauss(1, 0.01) for _ in range(6)) for level in (100, 97.9)] for _ in range(16)]
        found = compare([Pair(str(n), "received_pps", *of) for n, of in enumerate(sides)], margin=0.02)
        false += any(c.verdict is Verdict.EQUIVALENT for c in found)
    assert false <= 3, "one in six, when each cell had an interval of 95 % of its own"


def test_two_repeats_prove_nothing_alone() -> None:
    found = one(LOW[:2], HIGH[:2])
    assert (found.verdict, found.reason) == (Verdict.NO_DIFFERENCE, Reason.TOO_FEW)
    assert found.provable is None
    assert not found.could_prove


def test_many_cells_of_the_same_blocks_are_no_more_witnesses_than_there_are_blocks() -> None:
    def pairs(repeats: int) -> list[Pair]:
        scaled = [(tuple(v * n for v in HIGH[:repeats]), tuple(v * n for v in LOW[:repeats])) for n in range(1, 6)]
        return [Pair(f"cell {n}", "received_pps", *both) for n, both in enumerate(scaled)]

    of_five, of_two = together(compare(pairs(3))), together(compare(pairs(3)[:2]))
    assert of_five is not None and of_two is not None
    assert (of_five.blocks, of_five.p) == ((3, 3), pytest.approx(of_two.p))
    overall = together(compare(pairs(6)))
    assert overall is not None
    assert (overall.words, overall.cells, overall.blocks) == ("slower", 5, (6, 6))
    assert overall.p == pytest.approx(2 / 924), "six blocks apart from six"
    assert overall.ratio == pytest.approx(102.5 / 202.5, rel=0.01)


def test_cells_of_which_less_is_better_count_the_other_way_round() -> None:
    overall = together(compare([Pair("a", "received_pps", LOW, HIGH), Pair("b", "latency_p50_ns", HIGH, LOW)]))
    assert overall is not None
    assert overall.verdict is Verdict.BETTER
    assert overall.ratio > 1.9
    assert together(compare([Pair("a", "received_pps", LOW, HIGH)])) is None


def test_one_of_twenty_cells_at_five_percent_is_no_news() -> None:
    nothing = Pair("cell", "received_pps", LOW, (100.5, 101.5, 102.5, 103.5, 104.5, 99.5))
    seeming = Pair("seems", "received_pps", (1.0, 2.0, 3.0, 4.0), (6.5, 6.0, 7.0, 8.0))
    assert compare([seeming])[0].verdict is Verdict.BETTER
    assert compare([seeming, *[nothing] * 19])[0].verdict is Verdict.NO_DIFFERENCE


def test_zero_baselines_have_no_ratio_but_a_verdict() -> None:
    found = one((0.0,) * 6, (0.1, 0.2, 0.1, 0.3, 0.2, 0.1), "loss_ratio")
    assert (found.ratio, found.words) == (None, "worse")
    assert one((0.0,) * 6, (0.0,) * 6, "loss_ratio").words == "no difference proven"


def test_what_is_no_number_is_left_out_and_named() -> None:
    found = one((nan, 1.0, inf, 2.0), (nan,))
    assert found.verdict is Verdict.MISSING
    assert found.first is not None and found.first.n == 2


@given(st.lists(st.tuples(st.lists(st.floats(0, 1e9), max_size=8), st.lists(st.floats(0, 1e9), max_size=8)), max_size=6))
def test_any_repeats_have_a_verdict_and_turned_round_the_opposite_one(cells: list[tuple[list[float], list[float]]]) -> None:
    there = compare([Pair("c", "received_pps", tuple(a), tuple(b)) for a, b in cells], least=0.0)
    back = compare([Pair("c", "received_pps", tuple(b), tuple(a)) for a, b in cells], least=0.0)
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert [opposite.get(c.verdict, c.verdict) for c in there] == [c.verdict for c in back]


def test_differences_name_what_matters_and_leave_out_what_always_differs() -> None:
    def of(kernel: str, mac: str, seed: int, mtu: int, neighbour: dict[str, Any], **more: str) -> dict[str, Any]:
        dut = {"kernel": kernel, "mac": mac, "cpus": [1, 2], **more, "neighbours": {"out-a": [neighbour]}}
        return {"hosts": {"dut": dut}, "seed": seed, "testbed": {"links": [{"mtu": mtu}]}}

    first = of("6.1", "02::1", 1, 1500, {"state": "REACHABLE", "confirmed_s": 3})
    second = of("6.12", "02::2", 2, 9000, {"state": "STALE", "confirmed_s": 70}, smt="on")
    assert [(d.path, d.first, d.second) for d in differences(first, second)] == [
        ("hosts.dut.kernel", "6.1", "6.12"), ("testbed.links.0.mtu", "1500", "9000"), ("hosts.dut.smt", "absent", "on"),
    ]  # fmt: skip
