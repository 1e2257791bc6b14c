"""Tables print what was measured: two significant digits at least of each number, inside the interval that is printed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutlab.choices import IMPORTS
from dutlab.interop.imported_run import Imported, ImportOptions
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
def test_each_number_keeps_two_digits_and_the_interval_holds_the_median(unit, sizes, from_zero, n) -> None:
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


# ---- Which columns of a table of figures are figures, which are settings, and which only tell repeats apart


def read(text: str) -> list[Imported]:
    return IMPORTS["figures"].importer("table.csv", text.encode(), ImportOptions())


def test_operations_watts_and_bytes_a_second_are_figures() -> None:
    (trial,) = read("mode,workload,block,read_iops,idle_watts,read_gbytes_per_s\nnvme,fio,4k,250000,6.5,1.02\n")
    assert trial.measured.figures["a"] == {"iops.read": 250000.0, "idle_watts": 6.5, "bytes_per_s.read": 1.02e9}
    assert trial.cell.params == {"block": "4k"}


def test_what_a_sensor_showed_is_a_figure_and_makes_no_setting_of_equal_rows() -> None:
    trials = read("mode,workload,goodput_gbps,dut_w,temp_c\nnat,iperf3,2.1,11.5,40\nnat,iperf3,2.2,11.7,41\n")
    assert [t.measured.figures["a"] for t in trials] == [
        {"goodput_bps": 2.1e9, "dut_watts": 11.5, "temp_c": 40.0}, {"goodput_bps": 2.2e9, "dut_watts": 11.7, "temp_c": 41.0}
    ]  # fmt: skip
    assert [t.cell.params for t in trials] == [{}, {}]


@pytest.mark.parametrize(
    ("column", "figure", "value"),
    [("gbps", "rate_bps", 2e9), ("kpps", "rate_pps", 2e3), ("gbytes_per_s", "rate_bytes_per_s", 2e9), ("kiops", "iops", 2e3), ("watts", "watts", 2.0)],
)  # fmt: skip
def test_a_column_that_is_called_as_its_unit_alone_is_a_figure(column: str, figure: str, value: float) -> None:
    (trial,) = read(f"mode,workload,{column}\nnat,fio,2\n")
    assert trial.measured.figures["a"] == {figure: value}
    assert trial.cell.params == {}


@pytest.mark.parametrize("column", ["run", "Iteration", "date", "#", "no"])
def test_a_column_that_varies_beside_equal_settings_is_a_repeat_and_that_is_said(column: str) -> None:
    trials = read(
        f"mode,workload,{column},streams,goodput_gbps\nnat,iperf3,1,4,2.1\nnat,iperf3,2,4,2.3\nnat,iperf3,1,8,2.2\nnat,iperf3,2,8,2.4\n"
    )
    if column == "#":  # a name that tells nothing is a setting
        assert len({t.cell.model_dump_json() for t in trials}) == 4
        return
    assert [t.cell.params for t in trials] == [{"streams": 4}, {"streams": 4}, {"streams": 8}, {"streams": 8}]
    assert {t.measured.facts["repeat_columns"] for t in trials} == {column}
    assert [len(t.measured.notes) for t in trials] == [1, 0, 0, 0] and column in trials[0].measured.notes[0]


def test_a_column_of_such_a_name_by_which_no_two_lines_of_equal_settings_differ_stays_a_setting() -> None:
    once = read("mode,workload,run,goodput_gbps\nnat,iperf3,1,2.1\nrouter,iperf3,2,2.3\n")
    assert [t.cell.params for t in once] == [{"run": 1}, {"run": 2}]
    twice = read("mode,workload,id,goodput_gbps\nnat,iperf3,7,2.1\nnat,iperf3,7,2.3\n")
    assert [t.cell.params for t in twice] == [{"id": 7}, {"id": 7}], "they do not differ by it"


def test_a_size_that_varies_is_a_setting() -> None:
    trials = read("mode,workload,frame_size,received_kpps\nnat,sweep,64,100\nnat,sweep,128,90\n")
    assert [t.cell.params["frame_size"] for t in trials] == [64, 128]
    assert "repeat_columns" not in trials[0].measured.facts
