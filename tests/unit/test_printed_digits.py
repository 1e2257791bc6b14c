"""Tables print what was measured: two significant digits at least of each number, inside the interval that is printed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutlab.report.model.table import Figure, number_text, spread_text
from dutlab.report.model.words import BYTE_RATE, COUNT, KPPS, MICROSECONDS, MINUS, NARROW_SPACE, PERCENT, SECONDS, Unit

UNITS = st.sampled_from([COUNT, KPPS, MICROSECONDS, PERCENT, SECONDS, BYTE_RATE])
SIZES = st.builds(lambda digits, decade: digits * 10.0**decade, st.floats(1.0, 9.9), st.integers(-6, 6))
"""Twelve decades, in the unit that is printed."""


def figure(low: float, median: float, high: float, n: int = 5) -> Figure:
    return Figure(median, low, high, True, n, n, tuple(range(1, n + 1)))


def number(text: str) -> float:
    return float(text.replace(NARROW_SPACE, "").replace(MINUS, "-"))


@given(UNITS, st.tuples(SIZES, SIZES, SIZES), st.booleans(), st.integers(1, 9))
@example(MICROSECONDS, (3076.0, 4615.0, 316_516.0), False, 5)
@example(COUNT, (4177.0, 5223.0, 45_489.0), False, 5)
@example(KPPS, (349.0, 349.0, 981.0), False, 5)
@example(COUNT, (9949.0, 9951.0, 10_001.0), False, 5)
def test_each_number_keeps_two_digits_and_the_interval_holds_the_median(
    unit: Unit, sizes: tuple[float, float, float], from_zero: bool, n: int
) -> None:
    low, median, high = sorted(sizes)
    low = 0.0 if from_zero else low
    of = figure(low * unit.scale, median * unit.scale, high * unit.scale, n)
    printed = [number(number_text(of, unit))]
    if n > 1:
        printed = [
            number(text)
            for text in (spread_text(of, unit).partition("–")[0], number_text(of, unit), spread_text(of, unit).partition("–")[2])
        ]
    assert printed == sorted(printed)
    for told, measured in zip(printed, (low, median, high) if n > 1 else (median,), strict=True):
        assert told == pytest.approx(measured, rel=0.0501)


@pytest.mark.parametrize(
    ("unit", "sizes", "printed"),
    [
        (MICROSECONDS, (3076e3, 4615e3, 316_516e3), ("4600", "3100–320 000")),
        (COUNT, (4177.0, 5223.0, 45_489.0), ("5200", "4200–45 000")),
        (KPPS, (349e3, 500e3, 981e3), ("500", "350–980")),
        (COUNT, (1.0, 3.0, 9.0), ("3", "1–9")),
        (PERCENT, (0.0, 2.13e-6, 4e-6), ("0.00021", "0.00–0.0004")),
    ],
)
def test_digits_that_a_count_does_not_have_are_not_printed(unit: Unit, sizes: tuple[float, float, float], printed: tuple[str, str]) -> None:
    told = (number_text(figure(*sizes), unit), spread_text(figure(*sizes), unit))
    assert tuple(text.replace(NARROW_SPACE, " ") for text in told) == printed


@pytest.mark.parametrize("measured", [0.004, 3e-9])
def test_a_number_is_never_rounded_to_nothing(measured: float) -> None:
    assert number(number_text(figure(measured, measured, measured, n=1), MICROSECONDS)) > 0
    assert number(number_text(measured, MICROSECONDS)) > 0
    assert number_text(0.0, MICROSECONDS) == "0.0"
