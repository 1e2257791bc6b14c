"""A figure of the fixture `dutlab` for tests of other projects, against a limit."""

from __future__ import annotations

import pytest

from dutlab.pytest_plugin import MeasuredFigure


@pytest.mark.parametrize(
    ("values", "at_least", "below"),
    [
        ((10.0, 11.0, 12.0), True, False),
        ((8.0, 11.0, 12.0), False, False),
        ((7.0, 8.0, 9.0), False, True),
        ((2.0, *[10.0] * 20), True, False),
    ],
)
def test_a_limit_is_met_or_missed_only_where_the_interval_is_wholly_beyond_it(
    values: tuple[float, ...], at_least: bool, below: bool
) -> None:
    figure = MeasuredFigure("received_pps", "mode nat", values)
    assert (figure.is_at_least(10.0), figure.is_below(10.0)) == (at_least, below), str(figure)
