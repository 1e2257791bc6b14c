"""Ratios as a picture: each row with its interval, the margin shaded, names escaped; nothing to draw is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dutlab.cli.compare import compare
from dutlab.cli.effects import effects
from dutlab.errors import InputError
from dutlab.report.plots.ratio_plot import RatioRow, _ticks, ratio_plot

DATA = Path(__file__).parents[1] / "data"


@given(st.floats(1.02, 99.0) | st.sampled_from([1.04, 1.08, 1.2, 1.4]))
def test_ticks_are_few_round_and_inside(reach: float) -> None:
    found = _ticks(reach)
    assert 1.0 in found and 1 <= len(found) <= 17
    assert all(1 / reach <= t <= reach for t in found)


def test_rows_margin_and_hostile_names() -> None:
    rows = [RatioRow("<b>&", 0.5, 0.4, 0.6, "worse", "slower"), RatioRow("x" * 99, 1.0, 0.99, 1.01, "neither", "equivalent within ±2 %")]
    root = ET.fromstring(ratio_plot("p", "t", rows, margin=0.02).svg())
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<b>&" in texts and "0.500 slower" in texts and f"{'x' * 45}…" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 2  # the paper and the margin


def test_modes_of_a_run_are_drawn(built: Callable[..., Path], tmp_path: Path) -> None:
    run = built(repeats=8, sizes=(64,), seconds=2, cores=0, bad_luck=False)
    said = CliRunner().invoke(compare, [str(run), "--margin", "2%", "--plot", str(tmp_path / "c.svg")])
    assert said.exit_code == 0, said.output
    drawn = (tmp_path / "c.svg").read_text()
    assert "nat · sweep 64 · link a" in drawn and " slower" in drawn
    assert f"{run.name} · dutlab" in drawn, "a picture names the runs that it is of"


def test_factors_are_drawn(tmp_path: Path) -> None:
    table = str(DATA / "apu2-openbsd-factors.csv")
    said = CliRunner().invoke(effects, [table, "--figure", "mbytes_per_s", "--plot", str(tmp_path / "e.png")])
    assert said.exit_code == 0, said.output
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    said = CliRunner().invoke(effects, [table, "--figure", "mbytes_per_s", "--plot", str(tmp_path / "e.gif")])
    assert isinstance(said.exception, InputError)
    (tmp_path / "t.csv").write_text("a,b,c,v\n0,0,0,1\n1,1,0,2\n0,1,1,3\n")  # no pair differs in one factor alone
    said = CliRunner().invoke(effects, [str(tmp_path / "t.csv"), "--figure", "v", "--plot", str(tmp_path / "e.svg")])
    assert isinstance(said.exception, InputError) and "nothing to draw" in str(said.exception)


def test_the_axis_of_far_ratios_has_round_ticks() -> None:
    rows = [RatioRow("a", 8.8, 8.8, 8.8, "neither", "no difference proven")]
    texts = [t.text for t in ET.fromstring(ratio_plot("p", "t", rows).svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert [t for t in texts if t and t.replace(".", "").isdigit()] == ["0.2", "0.5", "1", "2", "5"]
