"""Which columns of a table of figures are figures, which are settings, and which only tell repeats apart."""

from __future__ import annotations

import pytest

from dutlab.choices import IMPORTS
from dutlab.interop.imported_run import Imported, ImportOptions


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
    assert {t.measured.facts["repeats_told_apart_by"] for t in trials} == {column}
    assert [t.measured.notes for t in trials] == [[f"rows that differ only in {column} are repeats: no setting is named so"], [], [], []]


def test_a_column_of_such_a_name_by_which_no_two_lines_of_equal_settings_differ_stays_a_setting() -> None:
    once = read("mode,workload,run,goodput_gbps\nnat,iperf3,1,2.1\nrouter,iperf3,2,2.3\n")
    assert [t.cell.params for t in once] == [{"run": 1}, {"run": 2}]
    twice = read("mode,workload,id,goodput_gbps\nnat,iperf3,7,2.1\nnat,iperf3,7,2.3\n")
    assert [t.cell.params for t in twice] == [{"id": 7}, {"id": 7}], "they do not differ by it"


def test_a_size_that_varies_is_a_setting() -> None:
    trials = read("mode,workload,frame_size,received_kpps\nnat,sweep,64,100\nnat,sweep,128,90\n")
    assert [t.cell.params["frame_size"] for t in trials] == [64, 128]
    assert "repeats_told_apart_by" not in trials[0].measured.facts
