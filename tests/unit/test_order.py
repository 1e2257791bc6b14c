"""An order of cells: what repeats of several runs prove of it, in literal numbers and against every arrangement counted out."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from itertools import combinations, product
from math import comb

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.answers import Contest, Entrant, decide
from dutlab.cli.compare import compare
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.report.questions.ordered import order_rows, order_words, ordered
from dutlab.report.questions.sides import open_run
from dutlab.stats.rank import beyond_within_runs, least_p_within_runs, mann_whitney, within_runs

FAST = ((930.0, 931.0, 932.0), (900.0, 901.0, 902.0), (960.0, 961.0, 962.0))
MIDDLE = ((830.0, 831.0, 832.0), (800.0, 801.0, 802.0), (860.0, 861.0, 862.0))
SLOW = ((330.0, 331.0, 332.0), (300.0, 301.0, 302.0), (360.0, 361.0, 362.0))
MIDDLE_TOO = ((831.5, 830.5, 832.5), (801.5, 800.5, 799.5), (860.5, 861.5, 862.5))


def order_of(*, figure="goodput_bps", least=0.01, **entrants):
    (order,) = decide([Contest("c", figure, tuple(Entrant(name, runs) for name, runs in entrants.items()))], least=least)
    return order


def places(order):
    return [(p.label, p.first, p.last) for p in order.places]


# ---- the test within runs


def test_values_that_overlap_in_no_run_have_the_least_p_of_three_runs_of_three():
    found = within_runs([((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))] * 3)
    assert (found.u, found.delta) == (27, 1.0)
    assert found.p == pytest.approx(2 / 20**3)
    assert least_p_within_runs([(3, 3)] * 3) == 2 / 20**3
    a, b = (1.0, 5.0, 5.0, 7.0), (5.0, 6.0, 9.0)
    alone, of_one = mann_whitney(a, b), within_runs([(a, b)])
    assert (of_one.u, of_one.delta) == (alone.u, alone.delta), "of one run it is Mann-Whitney's"
    assert of_one.p == pytest.approx(alone.p)


@pytest.mark.parametrize("seed", range(3))
def test_p_is_the_count_of_all_arrangements_within_each_run(seed):
    dice = random.Random(seed)
    strata = [([float(dice.randint(1, 6)) for _ in range(3)], [float(dice.randint(1, 6)) for _ in range(n)]) for n in (3, 2)]
    middle = sum(len(a) * len(b) / 2 for a, b in strata)

    def u(a, b):
        return sum((y > x) + (y == x) / 2 for x in a for y in b)

    far = abs(sum(u(a, b) for a, b in strata) - middle)
    ways = []
    for a, b in strata:
        both = [*a, *b]
        ways.append(
            [u([both[i] for i in range(len(both)) if i not in chosen], [both[i] for i in chosen])
             for chosen in combinations(range(len(both)), len(b))]
        )  # fmt: skip
    reached = sum(abs(sum(us) - middle) >= far - 1e-9 for us in product(*ways))
    assert within_runs(strata).p == pytest.approx(reached / (comb(6, 3) * comb(5, 2)))


def test_many_repeats_take_the_normal_approximation():
    dice = random.Random(3)
    strata = [([dice.gauss(0, 1) for _ in range(30)], [dice.gauss(0.4, 1) for _ in range(30)]) for _ in range(3)]
    one_after = within_runs([(a[:20], b[:20]) for a, b in strata])
    assert 0 < within_runs(strata).p < 0.1
    assert one_after.p < 1
    assert within_runs([([1.0] * 30, [1.0] * 30)]).p == 1.0


def test_a_difference_that_a_set_up_makes_to_all_cells_hides_none():
    # In one pot the runs overlap; within each run B is always the larger.
    a, b = [(10.0, 11.0), (20.0, 21.0), (30.0, 31.0)], [(12.0, 13.0), (22.0, 23.0), (32.0, 33.0)]
    assert mann_whitney(sum(a, ()), sum(b, ())).p > 0.3
    assert within_runs(list(zip(a, b, strict=True))).p == pytest.approx(2 / 6**3)


def test_a_difference_below_the_least_that_counts_is_none():
    near = [((100.0, 100.1, 100.2), (100.5, 100.6, 100.7))] * 3
    assert beyond_within_runs(near, 0.0) == pytest.approx(2 / 20**3)
    assert beyond_within_runs(near, 0.01) == 1.0
    assert beyond_within_runs([], 0.01) == 1.0


# ---- places


def test_cells_that_are_told_apart_have_a_place_each_and_the_order_is_the_same_in_all_runs():
    order = order_of(slow=SLOW, fast=FAST, middle=MIDDLE)
    assert places(order) == [("fast", 1, 1), ("middle", 2, 2), ("slow", 3, 3)]
    assert next(order_words(order)) == "The order is the same in all 3 runs: all 3 pairs are told apart."
    two = next(order_words(order_of(slow=SLOW, fast=FAST)))
    assert two == "The order is the same in all 3 runs: the pair is told apart."


def test_cells_between_which_no_difference_is_proven_share_a_place():
    order = order_of(fast=FAST, middle=MIDDLE, other=MIDDLE_TOO, slow=SLOW)
    assert [(first, last) for _, first, last in places(order)] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    (tie,) = order.ties
    assert {tie.better, tie.worse} == {"middle", "other"}
    words = list(order_words(order))
    assert words[0] == "The order is the same in all 3 runs, ties aside: 5 of 6 pairs are told apart."
    assert words[1] == "other and middle share a place: no difference is proven, and run 2 has them the other way round."


def test_a_run_that_turns_a_proven_pair_round_is_named():
    turned = (*MIDDLE[:2], (970.0, 971.0, 972.0))
    runs = [FAST[0], FAST[1], FAST[0], FAST[1], FAST[2]]
    others = [turned[0], turned[1], turned[0], turned[1], turned[2]]
    order = order_of(fast=tuple(runs), middle=tuple(others), least=0.0)
    assert order.exceptions
    words = list(order_words(order))
    assert words[0].startswith("The order is not the same in all 5 runs")
    assert words[1] == "fast comes before middle over all runs, but after it in run 5."


def test_one_run_of_two_repeats_proves_no_order_and_says_so():
    order = order_of(fast=(FAST[0][:2],), slow=(SLOW[0][:2],))
    assert places(order) == [("fast", 1, 2), ("slow", 1, 2)]
    words = list(order_words(order))
    assert words[0] == "No two of them are proven to differ, so they have no order."
    assert words[1] == "So few repeats could prove no order of 2 cells: repeat more often, or add runs."
    order = order_of(fast=(FAST[0], (), FAST[2]), slow=SLOW)
    assert places(order) == [("fast", 1, 1), ("slow", 2, 2)], "a cell that a run lacks is ordered by the others"
    assert order_rows(order)[1][0][3] == "none"
    assert places(order_of(figure="rtt_p50_ns", slow=SLOW, fast=FAST))[0] == ("slow", 1, 1), "of latencies the least comes first"
    with pytest.raises(ValueError, match="a least change"):
        order_of(fast=FAST, slow=SLOW, least=1.0)


def test_p_is_adjusted_over_all_pairs_of_all_contests():
    entrants = tuple(Entrant(f"c{n}", tuple(tuple(v * (1 + n) for v in of) for of in FAST)) for n in range(9))
    (one,) = decide([Contest("c", "goodput_bps", entrants)], least=0.01)
    assert (len(one.proven), one.tests) == (36, 36)
    assert max(pair.p for pair in one.pairs) == pytest.approx(36 * 2 / 20**3)


# ---- of runs


def run_of(folder, name, number, cells, *, workload="iperf3", **given):
    trials = [
        Imported(cell_of(workload, mode=mode, repeat=n, **given), Measured({"a": {"goodput_bps": value}}))
        for mode, runs in cells.items()
        for n, value in enumerate(runs[number], 1)
    ]
    return write_imported(folder, name, trials, command=(), now=datetime(2026, 11, 20 + number, tzinfo=UTC)).path


CIPHERS = {"ipsec-cbc": SLOW, "router": FAST, "ipsec": MIDDLE, "ipsec-aes-gcm-256": MIDDLE_TOO}


def test_the_command_says_whether_the_order_of_modes_is_the_same_in_all_runs(tmp_path):
    folders = [str(run_of(tmp_path, f"ciphers-{n}", n, CIPHERS)) for n in range(3)]
    done = CliRunner().invoke(compare, [*folders, "--order"])
    assert done.exit_code == 0, done.output
    assert "The order is the same in all 3 runs, ties aside: 5 of 6 pairs are told apart." in done.output
    lines = [line.split()[:2] for line in done.output.splitlines() if line[:1].isdigit()]
    assert [line[0] for line in lines] == ["1", "2–3", "2–3", "4"]
    assert (lines[0][1], lines[3][1]) == ("router", "ipsec-cbc")
    said = json.loads(CliRunner().invoke(compare, [*folders, "--order", "--json"]).output)
    assert len(said["runs"]) == 3
    assert said["orders"][0]["places"][0] == {"label": "router", "first": 1, "last": 1, "medians": [931.0, 901.0, 961.0]}


def test_what_was_asked_differently_is_ordered_apart(tmp_path):
    trials = [
        Imported(cell_of("iperf3", mode=mode, repeat=n, streams=streams), Measured({"a": {"goodput_bps": value + streams}}))
        for streams in (1, 4)
        for mode, runs in CIPHERS.items()
        for n, value in enumerate(runs[0], 1)
    ]
    run = write_imported(tmp_path, "two", trials, command=(), now=datetime(2026, 11, 20, tzinfo=UTC))
    found = ordered([open_run(run.path)])
    assert [order.contest.label for order in found] == ["iperf3 · link a · 1 stream", "iperf3 · link a · 4 streams"]


def test_an_order_takes_no_baseline_no_margin_and_no_run_of_one_mode(tmp_path):
    with pytest.raises(InputError, match="no two modes or levels were measured alike"):
        ordered([open_run(run_of(tmp_path / "alone", "one", 0, {"router": FAST}))])
    run = str(run_of(tmp_path, "one", 0, CIPHERS))
    done = CliRunner().invoke(compare, [run, "--order", "--baseline", "router", "--margin", "2%"])
    assert isinstance(done.exception, InputError) or done.exit_code == 2
    assert "--order cannot be combined with --baseline and --margin" in (done.output + str(done.exception))
