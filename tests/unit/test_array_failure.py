"""The film of a failure: seconds and phases out of a histogram's log and a host's readings with known answers, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dutlab.errors import SpecRefused
from dutlab.report.model.notes import NoteBook
from dutlab.report.sections.array_failure import section
from dutlab.spec.loader import load_experiment
from dutlab.spec.workloads.array_failure import ArrayFailureSetting
from dutlab.tools.fio.failure import again, figures_of, timeline
from dutlab.tools.fio.histogram import value_of_bin
from dutlab.tools.fio.meanwhile import HostReading, cores_between, read_line, rebuilds
from dutlab.tools.fio.output import histograms_over_time, jobs_of, span_of

SPANS = {"healthy": (100.0, 104.0), "degraded": (105.0, 109.0), "rebuilding": (110.0, 114.0), "rebuilt": (114.0, 118.0)}
IDLE = HostReading(at_s=0.0, ticks_s=0.0, ios=0, lost=0, doing="idle", rebuilt_bytes=None)


def row(at_ms: int, *, way: int = 0, **bins: int) -> str:
    counts = [bins.get(f"bin{index}", 0) for index in range(200)]
    return ", ".join(map(str, (at_ms, way, 4096, *counts))) + "\n"


@pytest.mark.parametrize(
    ("index", "value_ns"),
    [(0, 0), (127, 127), (128, 129), (191, 255), (64 * 11 + 39, 65536 + int(39.5 * 1024))],  # reference: key 105984
)
def test_a_bin_is_named_by_its_midpoint(index, value_ns):
    assert value_of_bin(index) == value_ns


def test_rows_of_a_histogram_last_from_the_row_before_of_the_same_thread_and_direction():
    text = row(101000, bin5=10) + row(101000, way=1, bin6=1) + row(103000, bin5=40) + row(101500, bin7=2) + row(102500, bin7=4) + "1027"
    assert histograms_over_time(text.encode()) == [
        (100.0, 101.0, {5: 10}), (100.0, 101.0, {6: 1}), (101.0, 103.0, {5: 40}), (100.5, 101.5, {7: 2}), (101.5, 102.5, {7: 4})
    ]  # fmt: skip


def test_seconds_without_a_row_share_those_of_the_next_and_a_stall_is_no_gap():
    text = "".join(row(at, bin5=100) for at in range(101000, 106000, 1000)) + row(108000, bin100=30)
    text += "".join(row(at, bin5=200) for at in range(109000, 119000, 1000))
    film = timeline(histograms_over_time(text.encode()), [], SPANS)
    assert [(second.at_s, second.ios) for second in film if 103 <= second.at_s <= 109] == [
        (103, 100.0), (104, 100.0), (105, 10.0), (106, 10.0), (107, 10.0), (108, 200.0), (109, 200.0)
    ]  # fmt: skip
    assert [second.phase for second in film] == [
        *["healthy"] * 4, "", *["degraded"] * 4, "", *["rebuilding"] * 4, *["rebuilt"] * 4
    ]  # fmt: skip
    found = figures_of(film, SPANS, [], 4096 << 10)
    assert (found["healthy/iops"], found["degraded/iops"], found["degraded/least_iops"], found["rebuilt/iops"]) == (100, 57.5, 10, 200)
    assert (found["healthy/clat_p50_ns"], found["rebuild_s"], found["rebuild_bytes_per_s"]) == (5, 4, 1 << 20)
    assert "healthy/host_cpu_cores" not in found, "nothing was read"


def test_a_job_was_measured_up_to_its_report_and_a_phase_without_a_whole_second_has_no_figures():
    document = {"timestamp_ms": 1795403370076, "jobs": [{"jobname": "a", "read": {"runtime": 4009, "total_ios": 8, "iops": 2}}]}
    assert span_of(document, jobs_of(document)) == pytest.approx((1795403366.067, 1795403370.076))
    # A phase without a whole second has no figures.
    spans = {**SPANS, "rebuilding": (110.2, 111.1)}
    text = "".join(row(at, bin5=100) for at in range(101000, 119000, 1000))
    found = figures_of(timeline(histograms_over_time(text.encode()), [], spans), spans, [], 4096 << 10)
    assert not found.keys() & {"rebuilding/iops", "rebuilding/least_iops"}


def test_cores_and_speed_of_a_rebuild_are_between_readings():
    sectors = (None, 0, 0, 2048, 2048, 4096, None)
    readings = [
        replace(IDLE, at_s=10 + i / 2, ticks_s=0.75 * i, rebuilt_bytes=None if done is None else done * 512)
        for i, done in enumerate(sectors)
    ]
    assert cores_between(readings, 10.4, 12.2) == pytest.approx(1.5)
    assert cores_between(readings, 10.4, 10.9) is None
    assert rebuilds(readings) == [(10.5, 11.5, 1 << 20), (11.5, 12.5, 1 << 20)]


@pytest.mark.parametrize(
    ("line", "rebuilt", "whole"),
    [
        ("1795403367.5 250 100 42 1 recover 2048", 1 << 20, False),
        ("1795403367.5 250 100 42 0 idle none", None, True),
        ("1795403367.5 250 100 42 1 idle none", None, False),
    ],
)
def test_a_line_of_the_loop_says_how_far_the_array_is(line, rebuilt, whole):
    found = read_line(line)
    assert (found.at_s, found.ticks_s, found.ios, found.rebuilt_bytes, found.whole) == (1795403367.5, 2.5, 42, rebuilt, whole)


EXPERIMENT = """
experiment: film
testbed: {lab: raid}
factors: {mode: [MODE]}
workloads:
  - array-failure: BODY
"""


@pytest.mark.parametrize(
    ("mode", "body", "at"),
    [
        ("as-found", "{options: {rw: read}}", ""),
        ("raid0", "{options: {rw: read}}", ""),
        ("raid5-degraded", "{options: {rw: read}}", ""),
        ("raid5", "{}", "options.rw"),
        ("raid5", "{options: {rw: read, filename: /dev/sda}}", "options.filename"),
        ("raid5", "{options: {rw: read}, phase: 1s}", "phase"),
        ("raid5", "{options: {rw: read}, drives: [each]}", "drives"),
        ("raid5", "{options: {rw: [read, read]}}", "options.rw"),
    ],
)
def test_a_failure_that_cannot_be_measured_is_refused_before_anything_is_touched(tmp_path: Path, mode, body, at):
    (path := tmp_path / "experiment.yaml").write_text(EXPERIMENT.replace("MODE", mode).replace("BODY", body))
    with pytest.raises(SpecRefused) as refused:
        load_experiment(path)
    assert [fault.path for fault in refused.value.faults] == [f"workloads.0.array-failure.{at}".rstrip(".")]


def test_each_combination_of_options_is_a_film(tmp_path: Path):
    (path := tmp_path / "experiment.yaml").write_text(
        EXPERIMENT.replace("MODE", "raid5").replace("BODY", "{options: {rw: randrw, iodepth: [1, 8]}, phase: 5s, rebuild: 60s}")
    )
    (workload,) = load_experiment(path).workloads
    settings = [setting for setting, _ in workload.settings()]
    assert all(isinstance(s, ArrayFailureSetting) for s in settings)
    assert [(s.params["iodepth"], s.loaded_s, s.writes) for s in settings] == [(1, 77.0, True), (8, 77.0, True)]


def test_the_table_of_phases_names_its_columns():
    found = section(None, [], [], NoteBook([]))
    assert [column.head for column in found.tables[0].columns][2:] == [
        "mean",
        "least of a second",
        "latency, median",
        "p99",
        "cores of the host",
    ]


def test_a_film_is_worked_out_again_from_its_raw_files_and_phases_that_they_do_not_give_are_found_out():
    text = "".join(row(at, bin5=100) for at in range(101000, 119000, 1000))
    host = "".join(f"{at} {at}00 100 42 {int(110 <= at < 114)} idle none\n" for at in range(100, 119))
    raw = {"server_clat_hist.log": text.encode(), "array-host.txt": host.encode(), "array-phases.json": json.dumps(SPANS).encode()}
    found = again(raw, {"server:array_dutlab_component_size": "4096"})
    assert (found["healthy/iops"], found["rebuild_s"], found["rebuild_bytes_per_s"]) == (100, 4, 1 << 20)
    assert found["healthy/host_cpu_cores"] == pytest.approx(1)
    moved = {**SPANS, "rebuilding": (110.0, 113.0), "rebuilt": (113.0, 118.0)}
    with pytest.raises(ValueError, match="a time other than"):
        again({**raw, "array-phases.json": json.dumps(moved).encode()}, {})
    with pytest.raises(ValueError, match=r"array-phases\.json is not kept"):
        again({name: data for name, data in raw.items() if name != "array-phases.json"}, {})
