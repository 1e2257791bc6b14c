"""The offset between two clocks: the truth lies within the bound, whatever the exchange took on either way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.tools.engine.clocks import Offset, exchange

DELAYS = st.integers(0, 50_000_000)


@settings(max_examples=40)
@given(st.integers(-(10**18), 10**18), DELAYS, DELAYS, st.integers(0, 10**9))
def test_the_true_offset_is_within_the_bound_of_an_exchange(ahead, there, back, inside):
    asked = 10**19
    received = asked + there + ahead
    replied = received + inside
    offset = exchange(asked_ns=asked, received_ns=received, replied_ns=replied, heard_ns=replied - ahead + back)
    assert abs(offset.ns - ahead) <= offset.error_ns <= (there + back) // 2 + 1


def test_the_example_of_ntp():
    # RFC 5905 section 8: theta = ((T2 - T1) + (T3 - T4)) / 2, delta = (T4 - T1) - (T3 - T2)
    assert exchange(asked_ns=0, received_ns=120, replied_ns=130, heard_ns=50) == Offset(100, 20)


@settings(max_examples=40)
@given(
    st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(0, 50), st.integers(0, 50), st.integers(-50, 50), st.integers(-50, 50)
)
def test_a_difference_of_two_offsets_is_bound_by_both(a, b, error_a, error_b, off_a, off_b):
    off_a, off_b = max(-error_a, min(error_a, off_a)), max(-error_b, min(error_b, off_b))
    apart = Offset(a + off_a, error_a).since(Offset(b + off_b, error_b))
    assert abs(apart.ns - (a - b)) <= apart.error_ns


@pytest.mark.parametrize(("after", "error_ns"), [(Offset(100, 10), 20), (Offset(150, 10), 60), (Offset(100, 30), 30)])
def test_drift_between_two_measurements_widens_the_bound(after, error_ns):
    assert Offset(100, 20).lasting(after) == Offset(100, error_ns)
