"""Curves: every point where it belongs, moments and limits with their words inside the picture, nothing drawn of nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutlab.cli.compare import compare
from dutlab.cli.effects import effects
from dutlab.errors import InputError
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.pages import json_data
from dutlab.report.plots import curve_plot as curve_plot_module
from dutlab.report.plots.curve_plot import ABOVE, HEIGHT, WIDTH, curve_plot
from dutlab.report.plots.palette import PAPER, QUIET, series_colour
from dutlab.report.plots.ratio_plot import RatioRow, _ticks, ratio_plot
from dutlab.report.plots.svg import text_width

RAMP = tuple((float(n), 1e3 * n) for n in range(101))


def curve(*lines, **more):
    return Curve("c", "A ramp", "after the first frame", "at_s", "frames a second", "rate_pps", lines, **more)


def drawn(plot):
    return ET.fromstring(plot.svg())


def words_of(plot):
    return [t.text for t in drawn(plot).iter("{http://www.w3.org/2000/svg}text")]


def path_of(plot, colour, width="2"):
    (d,) = re.findall(rf'<path d="([^"]+)" fill="none" stroke="{colour}" stroke-width="{width}"', plot.svg().decode())
    return [tuple(float(v) for v in p.split()) for p in d.lstrip("M").split("L")]


def test_a_line_runs_from_corner_to_corner_in_the_units_of_the_axes():
    plot = curve_plot(curve(Line("sent", RAMP)), [])
    points = path_of(plot, series_colour(0))
    assert points[0] == (0.0, HEIGHT) and points[-1] == pytest.approx((WIDTH, HEIGHT * (1 - 1 / ABOVE)), abs=0.01)
    assert points[50] == pytest.approx((WIDTH / 2, HEIGHT * (1 - 0.5 / ABOVE)), abs=0.01)
    assert "frames a second, kpps" in words_of(plot) and "after the first frame, s" in words_of(plot) and "sent" in words_of(plot)


def test_what_was_asked_is_faint_and_takes_no_colour_from_what_was_found():
    plot = curve_plot(curve(Line("asked", RAMP, "asked"), Line("received", RAMP)), [])
    assert len(path_of(plot, QUIET, "1.5")) == len(RAMP) == len(path_of(plot, series_colour(0)))
    assert "stroke-dasharray" in plot.svg().decode()


def test_a_label_of_the_run_keeps_its_colour_and_others_come_after():
    plot = curve_plot(curve(Line("nat", RAMP), Line("sum", RAMP)), ["router", "nat"])
    assert path_of(plot, series_colour(1)) == path_of(plot, series_colour(2))


@pytest.mark.parametrize(("at", "anchor"), [(10.0, None), (90.0, "end")])
def test_a_moment_stands_upright_with_its_words_on_the_side_where_there_is_room(at, anchor):
    plot = curve_plot(curve(Line("sent", RAMP), moments=(Moment(at, "saturated: 12.0 kpps"),)), [])
    (words,) = [t for t in drawn(plot).iter("{http://www.w3.org/2000/svg}text") if t.text == "saturated: 12.0 kpps"]
    assert words.get("text-anchor") == anchor
    left, top, width, _height = plot.box
    reach = text_width("saturated: 12.0 kpps", 12.5)
    x = float(words.get("x"))
    assert left <= x - (reach if anchor else 0) and x + (0 if anchor else reach) <= left + width
    assert top <= float(words.get("y")) - 12.5 <= 0
    assert "saturated: 12.0 kpps" in plot.described


def test_a_limit_within_the_plot_is_drawn_one_beyond_is_not_and_nothing_of_nothing():
    plot = curve_plot(curve(Line("sent", RAMP), limits=(("line rate", 90e3), ("far", 900e3))), [])
    assert "line rate" in words_of(plot) and "far" not in words_of(plot)
    assert curve_plot(curve(), []) is None
    assert curve_plot(curve(Line("sent", ())), []) is None


FLOATS = st.floats(-1e12, 1e12)


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(st.floats(0, 1e6), FLOATS), min_size=1, max_size=50), min_size=1, max_size=5))
@example([[(0.0, 7.170075580081656e-10)]])  # its ticks lie below 1e-12
def test_any_curve_has_finite_places_inside_its_box(points):
    plot = curve_plot(curve(*(Line(f"line {n}", tuple(p)) for n, p in enumerate(points))), [])
    assert plot is not None
    left, top, width, height = plot.box
    for d in re.findall(r' d="M([^"]+)"', plot.svg().decode()):
        for x, y in (map(float, p.split()) for p in d.split("L")):
            assert left - 1 <= x <= left + width + 1 and top - 1 <= y <= top + height + 1


def test_words_of_moments_that_would_touch_are_left_out_and_their_lines_stay():
    moments = tuple(Moment(at, words) for at, words in ((0.0, "preconditioning"), (0.1, "rounds"), (9.0, "window"), (5.0, "")))
    plot = curve_plot(curve(Line("sent", ((0.0, 1.0), (10.0, 2.0))), moments=moments), [])
    drawn = str(vars(plot.drawing))
    assert "preconditioning" in drawn and "window" in drawn and "rounds" not in drawn
    assert drawn.count("stroke-dasharray") == 4 and "preconditioning; rounds; window" in plot.described


def test_a_line_is_told_as_json_with_and_without_a_gap():
    for line in (Line("a", RAMP), Line("a", RAMP, gap=2.0)):
        assert json.loads(json_data._text(line), parse_constant=pytest.fail)["gap"] == line.gap


def test_points_further_apart_than_the_gap_are_not_joined():
    pieces = list(curve_plot_module._unbroken(((0.0, 1.0), (1.0, 1.0), (9.0, 1.0)), 2.0))
    assert pieces == [((0.0, 1.0), (1.0, 1.0)), ((9.0, 1.0),)]
    assert list(curve_plot_module._unbroken(RAMP, None)) == [RAMP]


def test_the_numbers_for_the_page_are_those_that_were_drawn_and_cannot_end_their_element():
    plot = curve_plot(curve(Line("</script><b>", RAMP), Line("sent", RAMP, role="asked"), limits=(("most", 5e4),)), [])
    assert "<" not in plot.data()
    told = json.loads(plot.data())
    view = told["views"][0]
    assert [line.get("place") for line in told["lines"]] == [0, None]
    assert view["points"][0][-1] == [100.0, 100.0] and view["limits"] == [["most", 50.0]] and view["unit"] == "kpps"
    at = [(HEIGHT * (1 - (y - view["low"]) / (view["high"] - view["low"]))) for _, y in view["points"][0]]
    assert at == pytest.approx([y for _, y in path_of(plot, series_colour(0))], abs=0.01)


def test_a_curve_of_very_many_points_stays_a_picture():
    assert curve_plot(curve(Line("sent", tuple((float(n), 1.0) for n in range(5000)))), []).data() == ""


def test_a_hole_is_told_to_the_page_too():
    told = json.loads(curve_plot(curve(Line("a", ((0.0, 1e3), (1.0, 1e3), (9.0, 2e3)), gap=2.0)), []).data())
    assert told["views"][0]["points"] == [[[0.0, 1.0], [1.0, 1.0], [9.0, 2.0, 2.0, 2.0, 0.0]]]


# ---- Ratios as a picture: each row with its interval, the margin shaded, names escaped; nothing to draw is said


SVG = "{http://www.w3.org/2000/svg}"
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
    drawn = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") != "none" and not r.get("rx")]
    assert len(drawn) == 2  # the paper and the margin
    told = [g for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "told"]
    assert len(told) == 2 and "0.5000, from 0.4000 to 0.6000; slower" in texts


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


def test_two_curves_over_one_axis_are_drawn_one_below_the_other_with_the_same_colours():
    lower = Curve(
        "low", "Latency", "after", "at_s", "latency", "latency_ns", (Line("up", RAMP), Line("down", RAMP)), moments=(Moment(50.0, "ends"),)
    )
    plot = curve_plot(Curve("c", "Load and latency", "after", "at_s", "goodput", "goodput_bps", (Line("down", RAMP),), below=lower), [])
    assert plot is not None and plot.explored is None and {"goodput, Mb/s", "latency, µs", "ends"} <= {*words_of(plot)}
    found = [[y for _, y in path_of_all] for path_of_all in paths_of(plot, series_colour(1))]
    assert len(found) == 2 and max(found[0]) < min(found[1]), "above and below"
    assert len(paths_of(plot, series_colour(0))) == 1
    assert curve_plot(Curve("c", "t", "x", "at_s", "y", "goodput_bps", (), below=lower), []) is None
    root = ET.fromstring(plot.svg())
    told = [[t.text for t in g.iter(f"{SVG}text")] for g in root.iter(f"{SVG}g") if g.get("class") == "told"]
    assert told[-1][0] == "100.00 s" and [of.split(":")[0] for of in told[-1][1:]] == ["down", "up", "down"], "every line at one moment"


def test_points_that_missed_are_hollow_and_a_bound_has_the_colour_of_its_line_and_no_label():
    course = Line("nat", ((1.0, 2e5), (2.0, 1e5), (3.0, 1.5e5)), "apart", missed=(0, 2))
    plot = curve_plot(curve(course, Line("nat", ((1.0, 1e5), (3.0, 1e5)), "bound")), ["router", "nat"])
    marks = re.findall(r'<polygon [^>]*fill="([^"]+)"', plot.svg().decode())
    assert marks == [PAPER, series_colour(1), PAPER]
    assert words_of(plot).count("nat") == 1
    told = json.loads(plot.data())
    assert [line["apart"] for line in told["lines"]] == [True] and told["views"][0]["limits"] == [["", 100.0]]
    assert [len(p) > 5 for p in told["views"][0]["points"][0]] == [True, False, True]


def test_an_axis_that_counts_has_whole_numbers_and_no_unit_is_named_twice():
    plot = curve_plot(Curve("c", "t", "trial", "trial", "IOPS", "iops", (Line("a", ((1.0, 5.0), (2.0, 6.0), (3.0, 9.0))),)), [])
    assert {word for word in words_of(plot) if word and re.fullmatch(r"[123](\.\d+)?", word)} == {"1", "2", "3"}
    assert "IOPS" in words_of(plot) and "IOPS, IOPS" not in words_of(plot)


def paths_of(plot, colour):
    found = re.findall(rf'<path d="([^"]+)" fill="none" stroke="{colour}" stroke-width="2"', plot.svg().decode())
    return [[tuple(float(v) for v in p.split()) for p in d.lstrip("M").split("L")] for d in found]
