"""An order of cells: what repeats of several runs prove of it, in literal numbers and each run being one."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from math import exp, log, sqrt
from statistics import fmean, stdev

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.answers import Contest, Entrant, decide
from dutlab.analysis.verdict import Procedure
from dutlab.cli.compare import compare
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.report.questions.ordered import method_words, order_rows, order_words, ordered
from dutlab.report.questions.sides import open_run
from dutlab.stats.rank import over_runs
from dutlab.stats.runs import RunLevels, levels_within, with_pooled_errors

FAST = ((930.0, 931.0, 932.0), (900.0, 901.0, 902.0), (960.0, 961.0, 962.0))
MIDDLE = ((830.0, 831.0, 832.0), (800.0, 801.0, 802.0), (860.0, 861.0, 862.0))
SLOW = ((330.0, 331.0, 332.0), (300.0, 301.0, 302.0), (360.0, 361.0, 362.0))
MIDDLE_TOO = ((831.5, 830.5, 832.5), (801.5, 800.5, 799.5), (860.5, 861.5, 862.5))


def order_of(*, figure="goodput_bps", least=0.01, **entrants):
    (order,) = decide([Contest("c", figure, tuple(Entrant(name, runs) for name, runs in entrants.items()))], least=least)
    return order


def places(order):
    return [(p.label, p.first, p.last) for p in order.places]


# ---- runs as the unit


def test_each_run_gives_one_ratio_and_t_is_over_these():
    found = levels_within([(100.0, 110.0), (200.0, 230.0), (300.0, 327.0)])
    logs = [log(1.1), log(1.15), log(1.09)]
    assert found.ratio == pytest.approx(exp(fmean(logs)))
    ((error, freedom),) = found.errors
    assert (error, freedom) == (pytest.approx(stdev(logs) / sqrt(3)), 2)
    assert levels_within([(1.0, 2.0)]) is None and levels_within([(1.0, 2.0), (0.0, 1.0)]) is None


def test_a_spread_that_few_runs_know_badly_is_drawn_towards_the_usual_one_and_never_below_what_was_found():
    pairs = [RunLevels(1.0, 1.1, ((se, 2.0),)) for se in (0.009, 0.010, 0.011, 0.010)]
    ((steady, freedom), *_), *_ = (of.errors for of in with_pooled_errors(pairs))
    usual = exp(fmean(log(of.errors[0][0]) for of in pairs) + 0.5772 / 2)  # digamma(1): what a logarithm of so few squares is too small by
    assert steady == pytest.approx(usual, rel=1e-3) and freedom > 1000, "alike: one spread, known as well as all of them together"
    odd = with_pooled_errors([*pairs, RunLevels(1.0, 1.1, ((0.5, 2.0),))])[-1].errors[0]
    assert odd[0] == 0.5 and odd[1] < 5
    assert with_pooled_errors(pairs[:1]) == pairs[:1]


def test_of_values_without_a_logarithm_the_signs_of_runs_count():
    strata = [((0.0, 0.0), (5.0, 6.0))] * 5 + [((3.0,), (3.0,))]
    found = over_runs(strata, 0.01)
    assert (found.delta, found.p, found.least_p) == (5 / 6, pytest.approx(2 * 7 / 64), 2 / 64)
    assert over_runs([((1.0,), (1.005,))], 0.01).delta == 0
    nothing = tuple((0.0,) for _ in range(6))
    order = order_of(figure="loss_ratio", clean=nothing, lossy=tuple((0.1,) for _ in range(6)))
    assert places(order) == [("clean", 1, 1), ("lossy", 2, 2)]


def test_a_level_that_each_run_gives_a_mode_is_no_order():
    """One mode is 5 % faster in each run of three by its repeats; from run to run it is 9 %, 4 % and 2 %."""
    levels = ((1.0, 1.09), (1.0, 1.04), (1.0, 1.02))
    runs = [[tuple(100 * of * (1 + n / 1e4) for n in range(6)) for of in run] for run in levels]
    order = order_of(a=tuple(of for of, _ in runs), b=tuple(of for _, of in runs))
    assert order.ties and order.could_prove
    false = 0
    for seed in range(100):
        dice = random.Random(seed)
        modes = {
            f"m{n}": tuple(tuple(dice.gauss(v, 0.3) for _ in range(4)) for v in [dice.gauss(100, 2) for _ in range(3)]) for n in range(4)
        }
        false += bool(order_of(**modes).proven)
    assert false <= 7, "of 100; 37 had one when repeats were the unit"


# ---- places


def test_cells_that_are_told_apart_have_a_place_each_and_the_order_is_the_same_in_all_runs(golden):
    order = order_of(slow=SLOW, fast=FAST, middle=MIDDLE)
    assert places(order) == [("fast", 1, 1), ("middle", 2, 2), ("slow", 3, 3)]
    golden.check("orders.txt", "\n".join("".join(f"{words}\n" for words in order_words(of)) for of in (
        order, order_of(slow=SLOW, fast=FAST), tied(), turned(), order_of(fast=(FAST[0][:2],), slow=(SLOW[0][:2],)),
    )))  # fmt: skip


def tied():
    return order_of(fast=FAST, middle=MIDDLE, other=MIDDLE_TOO, slow=SLOW)


def turned():
    others = (*MIDDLE[:2], *MIDDLE[:2], (970.0, 971.0, 972.0))
    return order_of(fast=(*FAST[:2], *FAST), middle=others, least=0.0)


def test_cells_between_which_no_difference_is_proven_share_a_place_and_a_run_that_turns_a_proven_pair_round_is_an_exception():
    order = tied()
    assert [(first, last) for _, first, last in places(order)] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    (tie,) = order.ties
    assert {tie.better, tie.worse} == {"middle", "other"}
    assert turned().exceptions


def test_one_run_of_two_repeats_proves_no_order_and_says_so():
    order = order_of(fast=(FAST[0][:2],), slow=(SLOW[0][:2],))
    assert places(order) == [("fast", 1, 2), ("slow", 1, 2)]
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
    with pytest.raises(InputError, match="two modes or levels"):
        ordered([open_run(run_of(tmp_path / "alone", "one", 0, {"router": FAST}))])
    run = str(run_of(tmp_path, "one", 0, CIPHERS))
    done = CliRunner().invoke(compare, [run, "--order", "--baseline", "router", "--margin", "2%"])
    assert isinstance(done.exception, InputError) or done.exit_code == 2
    assert all(option in done.output + str(done.exception) for option in ("--order", "--baseline", "--margin"))


@pytest.mark.parametrize(
    ("figure", "runs", "kinds"),
    [
        ("goodput_bps", lambda of: of, {Procedure.RUNS}),
        ("goodput_bps", lambda of: (of[0] * 3,), {Procedure.RANKS}),
        ("goodput_bps", lambda of: of[:1], {Procedure.SHARED_SPREAD}),
        ("exact_instructions_per_frame", lambda of: of[:1], {Procedure.NONE}),
    ],
)
def test_the_test_that_is_named_is_the_one_that_was_made(figure, runs, kinds):
    order = order_of(figure=figure, fast=runs(FAST), middle=runs(MIDDLE), slow=runs(SLOW))
    assert {pair.comparison.kind for pair in order.pairs} == kinds
    assert ("Mann-Whitney" in method_words([order])) == (Procedure.RANKS in kinds)
