"""The ramp in the report: an answer in a sentence, a row a way, the curve with its moment, and what is said of a ramp without saturation."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.loadtest_json import to_bytes
from dutlab.interop.loadtest_run import imported
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure, Missing
from dutlab.report.plots.of_report import plots_of
from dutlab.report.write import write_report
from loadtest_files import ramp_file

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
SATURATED = ((1000, 1000), (2000, 2000), (3000, 3000), (4000, 3200), (5000, 3300))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    files = {
        "vpp": ramp_file(*SATURATED),
        "danos": ramp_file((1000, 1000), (2000, 2000)),
        "one-way": ramp_file(*SATURATED, unidirectional=True),
    }
    trials = [t for name, of in files.items() for t in imported(f"{name}.json", to_bytes(of), ImportOptions())]
    return write_imported(tmp_path_factory.mktemp("runs"), "loadtest-import", trials, command=("dutlab", "import"), now=NOW).path


@pytest.fixture(scope="module")
def section(run):
    found, _ = gather(run, run).sections  # the other says what was imported
    return found


def row(section, label, way):
    (found,) = [r for r in section.tables[0].rows if r.label == label and r.link == way]
    return dict(zip([c.figure for c in section.tables[0].columns], found.cells, strict=True))


def test_each_way_has_its_row_and_both_together_stand_first(section):
    assert [r.link for r in section.tables[0].rows if r.label == "vpp"] == ["a+a.back", "a", "a.back"]
    assert [r.link for r in section.tables[0].rows if r.label == "one-way"] == ["a"]
    of_sum = row(section, "vpp", "a+a.back")
    assert (of_sum["max_received_pps"].median, of_sum["saturation_pps"].median, of_sum["saturation_s"].median) == (6600, 6400, 3.0)
    assert isinstance(row(section, "vpp", "a")["loss_ratio"], Figure)


def test_a_ramp_without_saturation_says_so_instead_of_a_number(section):
    value = row(section, "danos", "a")["saturation_pps"]
    assert isinstance(value, Missing) and "not reached" in value.why
    assert any(words.startswith("danos") and "without saturation" in words for words in section.words)
    assert any(
        "vpp, imix, a, both directions: at most 6.6 kpps" in words and "after the ramp began, at 6.4 kpps" in words
        for words in section.words
    )


def test_the_curve_shows_offered_and_received_and_marks_the_saturated_second(section):
    of = {curve.slug: curve for curve in section.curves}["loadtest-1"]
    assert [line.label for line in of.lines] == ["offered", "received"], "a file does not say what was asked"
    assert of.lines[1].points == tuple((float(n), 2.0 * received) for n, (_, received) in enumerate(SATURATED))
    assert [(m.x, m.words) for m in of.moments] == [(3.0, "saturated: 6.4 kpps")]
    assert not section.curves[1].moments


def test_every_form_of_the_report_has_it(run, tmp_path):
    written = {p.suffix: p for p in write_report([run], formats=("html", "md", "csv", "json"), out=tmp_path)}
    for suffix in (".html", ".md"):
        assert "Load test: the ramp" in written[suffix].read_text() and "another tool measured this" in written[suffix].read_text()
    assert "saturation_pps" in written[".csv"].read_text() and "not reached" in written[".csv"].read_text()
    assert {"loadtest-1", "loadtest-2", "loadtest-3"} <= {p.name for p in plots_of(gather(run, run))}
