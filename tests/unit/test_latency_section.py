"""Latency in the report: a row a share, a curve with a logarithmic axis and its knee, and where it departs from RFC 8219."""

from __future__ import annotations

from datetime import UTC, datetime

from dutlab.interop.imported_run import Imported, write_imported
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from queueing import Queueing, cell, run
from simulated import Dut


def test_the_section_has_every_share_and_the_knee(tmp_path):
    of = cell(duration_s=10.0)
    trials = [Imported(of, run(Queueing(Dut(capacity_pps=105_000.0)), of), {}) for _ in range(3)]
    folder = write_imported(tmp_path, "latency", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    report = gather(folder, folder)
    (section,) = report.sections
    assert [row.cells[2] for row in section.tables[0].rows] == ["0 %", "10 %", "50 %", "90 %", "100 %", "110 %"]
    typical = section.tables[0].rows[3].cells[3]
    assert isinstance(typical, Figure) and typical.n == 3 and typical.median == 38_571
    (curve,) = section.curves
    assert (curve.scale, [(m.x, m.words) for m in curve.moments]) == ("log", [(1.0, "knee: 100 %")])
    assert [len(line.points) for line in curve.lines] == [6, 6]
    assert any("rises steeply after 100 %" in words for words in section.words)
    rates = [words for words in section.words if "kpps" in words]
    assert rates == ["router, 64, link a: the rate is 100 kpps a link, as given."], "the rate is told once, with one number of digits"
    assert any("trials last 10 s, RFC 8219" in words for words in section.deviations)
    assert "latency-1-a" in {plot.name for plot in plots_of(report)}
