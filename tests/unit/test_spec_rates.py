"""Rates as users write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.spec.rates import AskedRate, RateUnit, parse_rate
from dutlab.units import BpsL1, UnitError

TEN_GIGABIT = BpsL1(1e10)


@pytest.mark.parametrize("text", ["14880952.380952381pps", "10Gbit/s-l1", "7.619047619047619Gbit/s-l2", "100%"])
def test_every_unit_means_the_same_frames_on_ten_gigabit(text):
    asked = parse_rate(text)
    assert asked is not None
    assert asked.pps(64.0, TEN_GIGABIT) == pytest.approx(14_880_952.38, rel=1e-9), "RFC 5180 appendix A"


def test_max_is_no_rate_and_a_share_of_nothing_known_is_not_known():
    assert parse_rate("max") is None
    half = parse_rate("50%")
    assert half == AskedRate(50.0, RateUnit.PERCENT)
    assert half is not None and half.pps(64.0, None) is None
    assert AskedRate(1e5, RateUnit.PPS).pps(64.0, None) == 1e5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5Gbit/s", "5Gbit/s-l1"), ("5G", "5G-l1"), ("0%", "at most 100%"), ("101%", "at most 100%"), ("nan%", "at most 100%"), ("half%", "max"),
        ("fast", "max"), ("5Gbit/s-l3", "max"), ("0pps", "above 0"), ("0bit/s-l1", "above 0"), ("5Gb-l1", "an amount"),
    ],
)  # fmt: skip
def test_what_is_no_rate_is_refused_with_what_would_be_one(text, says):
    with pytest.raises(UnitError, match=re.escape(says)):
        parse_rate(text)


@given(st.floats(1.0, 1e15), st.sampled_from([RateUnit.PPS, RateUnit.BPS_L1, RateUnit.BPS_L2]))
def test_what_is_written_back_is_read_as_the_same_rate(value, unit):
    asked = AskedRate(value, unit)
    again = parse_rate(str(asked))
    assert again is not None
    assert again.unit is unit and again.value == pytest.approx(value, rel=1e-12, abs=1e-17)
