"""Sweeps at several rates as one figure: a panel per rate, a line per mode; and the bits a second in the style of reviews."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab
from dutlab.report.gather import gather
from dutlab.report.plots.curve_plot import curve_plot

MODES = {"router": 9e5, "nat": 4e5}
RATES, SIZES = (250_000, 500_000, 1_000_000), (64, 512, 1518)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [f"{m},sweep,{size},{rate},{min(rate, most):.0f}" for m, most in MODES.items() for rate in RATES for size in SIZES]
    (tmp_path / "ipgen.csv").write_text("\n".join(["mode,workload,frame_size,rate_pps,received_pps", *rows]))
    asked = ["import", "figures", str(tmp_path / "ipgen.csv"), "--line-rate", "10G", "--runs", str(tmp_path / "runs")]
    assert CliRunner().invoke(dutlab, asked, catch_exceptions=False).exit_code == 0
    (path,) = (tmp_path / "runs").iterdir()
    return path


def test_each_rate_is_a_panel_of_one_figure_with_a_line_per_mode(run: Path) -> None:
    report = gather(run, run)
    (curve,) = (c for s in report.sections for c in s.curves)
    panels = [curve]
    while panels[-1].below is not None:
        panels.append(panels[-1].below)
    assert [[line.label for line in panel.lines] for panel in panels] == [list(MODES)] * len(RATES)
    assert [panel.lines[0].points[0] for panel in panels] == [(64.0, min(rate, MODES["router"])) for rate in RATES]
    assert len({panel.panel for panel in panels}) == len(RATES)
    plot = curve_plot(curve, report.labels)
    assert plot is not None
    drawn = plot.drawing.inline(plot.box, "")
    assert all(panel.panel in drawn for panel in panels)
    axes, _, _ = drawn.partition('<g class="told">')
    assert axes.count(">1518<") == 1, "one axis of sizes for all panels"


def test_the_style_of_reviews_draws_frames_and_bits_a_second(run: Path, tmp_path: Path) -> None:
    rows = [f"{m},sweep,{size},{most:.0f},{most * 8 * (size + 20):.0f}" for m, most in MODES.items() for size in SIZES]
    (tmp_path / "bits.csv").write_text("\n".join(["mode,workload,frame_size,received_pps,received_bps_l1", *rows]))
    asked = ["import", "figures", str(tmp_path / "bits.csv"), "--runs", str(tmp_path / "bits")]
    assert CliRunner().invoke(dutlab, asked, catch_exceptions=False).exit_code == 0
    (path,) = (tmp_path / "bits").iterdir()
    assert CliRunner().invoke(dutlab, ["report", str(path), "--style", "review", "-o", str(tmp_path / "out")]).exit_code == 0
    heads = re.findall("<h3>([^<]*)</h3>", (tmp_path / "out" / "review.html").read_text())
    assert heads[0].startswith("Forwarding rate") and "L1" in heads[1]
