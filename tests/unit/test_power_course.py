"""Watts and temperatures of all trials of a run as one figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dutlab.report.gather import gather
from dutlab.report.model.curve import Curve
from dutlab.report.plots.of_report import plots_of
from dutlab.sensors.sensor import Sample
from dutlab.store.samples import columns, means_of, write_samples
from fake_run import Wanted, build


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = build(tmp_path / "runs", Wanted(repeats=2, seconds=2, cores=0, sizes=(64,), bad_luck=False))
    for n, trial in enumerate(sorted(made.glob("trials/*"))):
        rows = [
            sample
            for t in range(2)
            for sample in (
                Sample(t + 0.1, "dut", "wall", "wall", "W", 70.0 + n),
                Sample(t + 0.1, "dut", "hw", "core_celsius", "degC", 40.0 + n),
                Sample(t + 0.1, "dut", "hw", "core_limit_celsius", "degC", 100.0),
            )
        ]
        write_samples(trial / "samples.parquet", columns(rows))
        record = trial / "record.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "watched": means_of(rows)}))
    return made


def course_of(run: Path) -> Curve:
    (section,) = [s for s in gather(run, run).sections if s.slug == "power"]
    (curve,) = section.curves
    return curve


def test_every_trial_is_on_one_axis_with_its_band_and_the_limit_of_each_temperature(run: Path) -> None:
    course = course_of(run)
    trials = sorted(run.glob("trials/*"))
    (wall,) = course.lines
    assert sorted(value for _, value in wall.points) == sorted(70.0 + n for n in range(len(trials)) for _ in range(2))
    assert [x for x, _ in wall.points] == sorted(x for x, _ in wall.points)
    assert course.below is not None
    assert course.below.limits == (("limit 100 °C", 100.0),)
    assert [line.label for line in course.below.lines] == ["dut: core"]
    assert course.x_span == course.below.x_span
    assert 1 < len(course.bands) <= len(trials)
    assert course.bands[0].start == 0.0
    assert all(before.end <= after.start for before, after in zip(course.bands, course.bands[1:], strict=False))
    assert any(plot.name == course.slug for plot in plots_of(gather(run, run)))


def test_a_run_without_watts_has_none(tmp_path: Path) -> None:
    made = build(tmp_path, Wanted(repeats=2, seconds=2, cores=0, sizes=(64,), bad_luck=False))
    assert not [s for s in gather(made, made).sections if s.slug == "power"]
