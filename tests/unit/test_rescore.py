"""The same trials under every definition, against the formula of RFC 9971 by hand and against the library that implements it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.stats.definitions import CSIT_NDR, CSIT_PDR, DEFINITIONS, NDR_0001, PDR_01, RFC2544, TST009, Definition
from dutlab.stats.rescore import (
    BoundGap,
    LoadVerdict,
    RampSecond,
    TrialPoint,
    answer,
    classify,
    conditional_loss,
    points_of,
    rescore,
    saturation,
)

LOWER, UPPER, UNDECIDED = LoadVerdict.LOWER, LoadVerdict.UPPER, LoadVerdict.UNDECIDED


def trials(*durations_and_losses, load=100.0, exact=True):
    return [TrialPoint(load, float(seconds), loss, exact) for seconds, loss in durations_and_losses]


@pytest.mark.parametrize(
    ("definition", "of", "verdict"),
    [
        # one clean trial of 60 s is all that RFC 2544 asks for; 59 s clean are nothing, one bad second anywhere is the end
        (RFC2544, trials((60, 0.0)), LOWER),
        (RFC2544, trials((60, 1e-9)), UPPER),
        (RFC2544, trials((59, 0.0)), UNDECIDED),
        (RFC2544, trials((1, 1e-9)), UPPER),
        (RFC2544, trials((60, 0.0), (1, 1e-9)), UPPER),
        # half of 21 s may be bad: 11 good settle it whatever the other 10 do, 10 good do not, 11 bad settle it the other way
        (CSIT_NDR, trials(*[(1, 0.0)] * 10), UNDECIDED),
        (CSIT_NDR, trials(*[(1, 0.0)] * 11), LOWER),
        (CSIT_NDR, trials(*[(1, 0.1)] * 10), UNDECIDED),
        (CSIT_NDR, trials(*[(1, 0.1)] * 11), UPPER),
        (CSIT_NDR, trials(*[(1, 0.1)] * 10, *[(1, 0.0)] * 10), UNDECIDED),
        (CSIT_NDR, trials(*[(1, 0.1)] * 10, *[(1, 0.0)] * 11), LOWER),
        # beyond the sum the share of what was measured decides: 12 bad of 24 are just allowed, 13 of 25 are not
        (CSIT_NDR, trials(*[(1, 0.1)] * 12, *[(1, 0.0)] * 12), LOWER),
        (CSIT_NDR, trials(*[(1, 0.1)] * 13, *[(1, 0.0)] * 12), UPPER),
        # short trials: bad ones count, good ones only balance them (c = 0.5 / 0.5 = 1)
        (CSIT_NDR, trials(*[(0.5, 0.1)] * 22), UPPER),
        (CSIT_NDR, trials(*[(0.5, 0.1)] * 22, *[(0.5, 0.0)] * 2), UNDECIDED),
        (CSIT_NDR, trials(*[(0.5, 0.0)] * 100), UNDECIDED),
        # loss exactly at the ratio is allowed
        (CSIT_PDR, trials(*[(1, 0.005)] * 11), LOWER),
        (CSIT_PDR, trials(*[(1, 0.0050001)] * 11), UPPER),
        # one of two trials of 60 s may lose
        (TST009, trials((60, 0.1)), UNDECIDED),
        (TST009, trials((60, 0.1), (60, 0.0)), LOWER),
        (TST009, trials((60, 0.0)), LOWER),
        (TST009, trials((60, 0.1), (60, 0.1)), UPPER),
        # of any length, and every one of them
        (NDR_0001, trials((0.1, 1e-5)), LOWER),
        (NDR_0001, trials((0.1, 1e-5), (10, 1.1e-5)), UPPER),
        (PDR_01, trials((0.1, 1e-3)), LOWER),
        (PDR_01, trials((0.1, 1.1e-3)), UPPER),
        (RFC2544, [], UNDECIDED),
        (PDR_01, [], UNDECIDED),
    ],
)
def test_a_load_is_classified_as_the_definition_says(definition, of, verdict):
    assert classify(of, definition) is verdict


ratios = st.sampled_from([0.0, 1e-6, 1e-5, 1e-3, 0.005, 0.1, 1.0])
points = st.lists(st.builds(TrialPoint, st.just(100.0), st.sampled_from([0.5, 1.0, 7.7, 60.0]), ratios, st.booleans()), max_size=25)
definitions = st.sampled_from(DEFINITIONS) | st.builds(
    lambda loss, exceed, final, more: Definition("any", loss, exceed, final, final * more),
    ratios.filter(lambda r: r < 1),
    st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    st.sampled_from([0.5, 1.0, 60.0]),
    st.sampled_from([1.0, 2.0, 21.0]),
)


class _Result:
    """As much of the library's trial result as its classification reads."""

    def __init__(self, point):
        self.intended_duration = self.duration_with_overheads = point.duration_s
        self.loss_ratio = point.loss_ratio


def library_stat(of, definition):
    from MLRsearch.target_spec import TargetSpec  # noqa: PLC0415 -- slow to load below a test
    from MLRsearch.target_stat import TargetStat  # noqa: PLC0415 -- as above

    spec = TargetSpec(definition.loss_ratio, definition.exceed_ratio, None, definition.final_s, definition.sum_s, 2, False, None)
    stat = TargetStat(spec)
    for point in of:
        stat.add(_Result(point))
    return stat


@settings(max_examples=60)
@given(points.map(lambda of: [TrialPoint(p.load_pps, p.duration_s, p.loss_ratio) for p in of]).filter(bool), definitions)
def test_the_library_classifies_every_set_of_trials_alike(of, definition):
    expected = {(True, True): LOWER, (False, False): UPPER, (True, False): UNDECIDED}[library_stat(of, definition).estimates()]
    assert classify(of, definition) is expected


@settings(max_examples=60)
@given(points.filter(bool), definitions)
def test_the_conditional_loss_of_a_lower_bound_is_within_what_the_definition_allows(of, definition):
    if classify(of, definition) is LOWER:
        assert conditional_loss(of, definition) <= definition.loss_ratio


@settings(max_examples=60)
@given(points, definitions, st.data())
def test_a_verdict_holds_whatever_trials_that_were_stopped_early_would_have_lost(of, definition, data):
    verdict = classify(of, definition)
    lost_more = st.floats(0, 1)
    full = [p if p.exact else TrialPoint(p.load_pps, p.duration_s, max(p.loss_ratio, data.draw(lost_more))) for p in of]
    if verdict is not UNDECIDED:
        assert classify(full, definition) is verdict


def test_a_trial_stopped_early_is_bad_where_it_had_lost_enough_and_unknown_where_not():
    stopped = trials((60, 1e-4), exact=False)
    assert classify(stopped, RFC2544) is UPPER
    assert classify(stopped, NDR_0001) is UPPER
    assert classify(stopped, PDR_01) is UNDECIDED


def test_the_conditional_throughput_is_the_load_less_the_loss_at_the_quantile():
    # 1 - 0.5 of 21 s are 10.5 s: the eleventh best of the trials
    of = trials(*[(1, 0.001 * n) for n in range(1, 5)], *[(1, 0.0)] * 7, load=1000.0)
    assert conditional_loss(of, CSIT_PDR) == 0.004
    assert answer(of, CSIT_PDR).conditional_pps == pytest.approx(996.0)
    assert conditional_loss(of[:10], CSIT_PDR) == 1.0  # the missing seconds count as lost


def test_a_lower_bound_above_the_lowest_upper_bound_is_not_relevant_and_neither_is_the_order_of_trials():
    of = [*trials((60, 0.0), load=10), *trials((60, 0.0), load=20), *trials((60, 0.5), load=30), *trials((60, 0.0), load=40)]
    found = answer(of, RFC2544)
    assert (found.lower_pps, found.upper_pps, found.conditional_pps, found.why, found.gap) == (20, 30, 20, "", None)
    assert answer(of[::-1], RFC2544) == found


@pytest.mark.parametrize(
    ("of", "definition", "bounds", "gap"),
    [
        ([], RFC2544, (None, None), BoundGap.NO_TRIALS),
        (trials((1, 0.0)), RFC2544, (None, None), BoundGap.SHORT_TRIALS),
        (trials((1, 0.0)), CSIT_NDR, (None, None), BoundGap.FEW_TRIALS),
        (trials((60, 1e-6), exact=False), PDR_01, (None, None), BoundGap.FEW_TRIALS),
        (trials((60, 0.0)), RFC2544, (100, None), BoundGap.NO_UPPER_BOUND),
        (trials((60, 0.1)), RFC2544, (None, 100), BoundGap.NO_LOWER_BOUND),
    ],
)
def test_where_a_bound_is_missing_it_says_what_these_trials_cannot_tell(of, definition, bounds, gap):
    found = answer(of, definition)
    assert (found.lower_pps, found.upper_pps) == bounds
    assert found.gap is gap and found.why


def test_one_search_is_rescored_under_every_definition():
    rows = [
        {"load_pps": 1000, "duration_s": 60, "known_loss_ratio": 0.0, "exact": "yes", "counts": "yes"},
        {"load_pps": 1010, "duration_s": 60, "known_loss_ratio": 5e-6, "exact": "yes", "counts": "yes"},
        {"load_pps": 1000, "duration_s": 60, "known_loss_ratio": 0.9, "exact": "yes", "counts": "no"},
        {"load_pps": 1020, "duration_s": 60, "known_loss_ratio": 4e-4, "exact": "no", "counts": "yes"},
        {"load_pps": 1030, "duration_s": 60, "known_loss_ratio": 0.02, "exact": "yes", "counts": "yes"},
    ]
    found = {a.definition.name: (a.lower_pps, a.upper_pps) for a in rescore(points_of(rows))}
    assert found == {
        "rfc2544": (1000, 1010),
        "csit-ndr": (1000, 1010),
        "csit-pdr": (1010, 1030),
        "tst009": (1000, None),  # a second trial at 1010 could still be clean
        "ndr-0.001%": (1010, 1020),
        "pdr-0.1%": (1010, 1030),
    }


def ramp(*rows):
    return [RampSecond(float(i), float(sent), float(received)) for i, (sent, received) in enumerate(rows)]


def test_a_ramp_is_saturated_from_the_first_second_after_which_every_one_fails():
    # the published case: sent 100 … 500, received 100, 150, 300, 320, 330: the clean third second takes back the second
    found = saturation(ramp((100, 100), (200, 150), (300, 300), (400, 320), (500, 330)))
    assert (found.saturated.offered_pps, found.saturated.received_pps, found.saturated.at_s) == (400, 320, 3)
    assert (found.last_clean.offered_pps, found.most_received_pps, found.why) == (300, 330, "")
    assert saturation(ramp((1000, 999))).saturated is None, "a loss at the threshold is none"
    assert saturation(ramp((1000, 998))).saturated.at_s == 0
    assert saturation(ramp((1000, 1001))).saturated is None
    assert saturation(ramp((1000, 950)), threshold=0.1).saturated is None
    clean, lossy = saturation(ramp((100, 50), (200, 200))), saturation(ramp((100, 50), (200, 100)))
    assert (clean.saturated, clean.last_clean.offered_pps) == (None, 200) and "ended before" in clean.why
    assert (lossy.saturated.at_s, lossy.last_clean) == (0, None)
    assert saturation(ramp((0, 0), (100, 100), (0, 0))).last_clean.at_s == 1, "seconds in which nothing was sent do not count"
    assert "nothing was sent" in saturation(ramp((0, 0), (0, 5))).why
    assert saturation([]).most_received_pps == 0.0
