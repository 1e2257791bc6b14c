"""Plots: truthful lines, words that do not touch, colours that everybody can tell apart, files that any viewer opens."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.report.gather import gather
from dutlab.report.model.table import Column, Figure, Missing, Row, Table
from dutlab.report.plots.axis import TICK_SIZE, Scale, spread, spread_words, tick_words
from dutlab.report.plots.of_report import plots_of
from dutlab.report.plots.palette import DARK, FAINT, GRID, INK, KINDS, PAPER, QUIET, SERIES, dark_rules, series_colour, series_shape
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.size_plot import SIZE_PLOTS, size_plot
from dutlab.report.plots.svg import SvgDrawing, distinct, text_width
from dutlab.report.write import write_plots

NAMES = {
    "iperf3-goodput", "sweep-a-kpps", "sweep-a-delivered", "sweep-a-lost", "sweep-a-mbps-l1", "sweep-a-mbps-l2", "sweep-a-latency-p50", "sweep-a-latency-p99",
    "cpu-dut-iperf3", "cpu-dut-sweep",
}  # fmt: skip


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(built: Callable[..., Path]) -> Path:
    return built()


@pytest.fixture(scope="module")
def plots(run: Path) -> dict[str, Plot]:
    return {p.name: p for p in plots_of(gather(run, run))}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_figure_of_the_run_has_its_plot_as_a_file(run: Path, tmp_path: Path) -> None:
    for name in ("svg", "png"):
        written = write_plots([run], format=name, out=tmp_path)
        assert {p.stem for p in written} == NAMES
        assert {p.suffix for p in written} == {f".{name}"}


def test_svg_files_are_well_formed_load_nothing_and_say_what_they_show_and_of_which_run(plots: dict[str, Plot]) -> None:
    for plot in plots.values():
        text = plot.svg().decode()
        root = ET.fromstring(text)
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
        assert "prefers-color-scheme:dark" in text
        assert not re.findall(r"(?:href|src|url\(|@import)", text)
        said = [of.text for of in root.iter("{http://www.w3.org/2000/svg}text")]
        assert plot.title in said and plot.source in said
        assert re.search(r"2026-11-21T0801Z-.* · 2026-11-21 .* UTC", plot.source)


def test_png_files_are_twice_the_size_of_the_drawing(plots: dict[str, Plot]) -> None:
    plot = replace(plots["sweep-a-kpps"], source="run 1 · 2026-11-22")
    data = plot.png()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    drawn = re.search(r'width="(\d+)[^"]*" height="(\d+)', plot.svg().decode())
    assert drawn is not None and width >= 2 * plot.box[2] - 2
    assert abs(height - 2 * (plot.box[3] + 60)) <= 2


def test_every_measured_size_is_labelled_and_a_mode_without_a_result_is_named() -> None:
    sizes = ("64", "128", "1280", "1400", "1500", "1518", "imix")
    rows = [Row("router", (Figure(1e6, 1e6, 1e6, False, 1, 1, (1,)),), links="a", size=size, ceilings=(None,)) for size in sizes]
    rows += [Row("nat", (Missing("refused"),), links="a", size=size, ceilings=(None,)) for size in sizes]
    plot = size_plot(Table("s", "t", (Column("rate", "received_pps"),), tuple(rows)), SIZE_PLOTS[0], ["router", "nat"])
    assert plot is not None
    said = [of.text for of in ET.fromstring(plot.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert set(sizes) <= set(said) and "nat: no result" in said


def test_loss_is_drawn_where_there_was_any_and_only_there() -> None:
    wanted = next(w for w in SIZE_PLOTS if w.figure == "loss_ratio")
    for share, drawn in ((0.0, False), (0.2, True)):
        rows = tuple(
            Row("nat", (Figure(share, share, share, False, 1, 1, (1,)),), links="a", size=size, ceilings=(None,)) for size in ("64", "128")
        )
        assert (size_plot(Table("s", "t", (Column("lost", "loss_ratio"),), rows), wanted, ["nat"]) is not None) is drawn


def test_every_colour_drawn_has_a_partner_in_the_dark_scheme(plots: dict[str, Plot]) -> None:
    drawn = {c for p in plots.values() for c in re.findall(r'(?:fill|stroke)="(#\w+)"', p.inline())}
    assert drawn
    assert drawn <= DARK.keys()
    assert all(f"[fill='{c}']" in dark_rules("figure") for c in drawn)


def test_words_and_lines_can_be_read_in_both_schemes() -> None:
    for colour in (*SERIES, INK, QUIET):
        assert contrast(colour, PAPER) >= 4.5, colour
        assert contrast(DARK[colour], DARK[PAPER]) >= 4.5, colour
    for colour in (FAINT,):
        assert contrast(colour, PAPER) >= 2.5
    for colour in KINDS.values():
        assert contrast(DARK[colour], DARK[PAPER]) >= 3
    assert contrast(GRID, PAPER) < 1.5  # a grid stays behind
    assert len({(series_colour(n), series_shape(n)) for n in range(12)}) == 12, "no two of twelve modes share both"


def test_the_line_of_a_mode_breaks_where_a_size_has_no_figure(plots: dict[str, Plot]) -> None:
    lines = re.findall(rf'<path d="([^"]+)"[^>]*stroke="{series_colour(1)}" stroke-width="2"', plots["sweep-a-kpps"].inline())
    assert [line.count(" ") for line in lines] == [3, 3]  # 64, 128, 256 | 1024, 1280, 1518
    whole = re.findall(rf'<path d="([^"]+)"[^>]*stroke="{series_colour(0)}" stroke-width="2"', plots["sweep-a-kpps"].inline())
    assert [line.count(" ") for line in whole] == [7]


def test_mixes_stand_apart_and_are_not_joined_to_the_line(plots: dict[str, Plot]) -> None:
    text = plots["sweep-a-kpps"].inline()
    longest = max(
        float(x) for line in re.findall(r'd="M([^"]+)"[^>]*stroke-width="2"', text) for x in re.findall(r"(?:^|L)([\d.]+) ", line)
    )
    marks = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', text)]
    assert max(marks) > longest + 20


def test_a_ceiling_far_above_is_left_out_and_said(plots: dict[str, Plot]) -> None:
    assert "ceiling" in plots["sweep-a-kpps"].note and "6 of 8 sizes" in plots["sweep-a-kpps"].note
    assert ">ceiling<" in plots["sweep-a-mbps-l1"].inline()
    assert plots["sweep-a-mbps-l1"].note == ""
    assert ">Mb/s, L1<" in plots["sweep-a-mbps-l1"].inline()
    assert ">Mb/s, L2<" in plots["sweep-a-mbps-l2"].inline()
    assert ">frame size, bytes with FCS<" in plots["sweep-a-kpps"].inline()


def test_a_text_in_a_drawing_stays_text() -> None:
    d = SvgDrawing()
    d.text(0, 0, "<script>&\"'")
    ET.fromstring(d.file((0, 0, 10, 10), "<b>", "&"))
    assert "<script" not in d.inline((0, 0, 10, 10), '"><script>')


@given(st.lists(st.floats(0, 200), min_size=1, max_size=8).map(sorted))
def test_labels_never_touch_stay_in_order_and_inside_and_are_left_alone_when_they_fit(wanted: list[float]) -> None:
    found = spread(wanted, 15, 200)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(found))
    assert found[0] >= -1e-6
    assert found[-1] <= 200 + 1e-6
    if all(b - a >= 15 for a, b in pairwise(wanted)):
        assert found == pytest.approx(wanted)


@given(st.floats(-3, 9), st.floats(0.05, 6), st.booleans())
def test_ticks_are_few_round_and_on_the_scale(low: float, octaves: float, log: bool) -> None:
    scale = Scale(10**low, 10**low * 2**octaves, 0, 100, log=True) if log else Scale(0, 10**low, 0, 100)
    ticks = scale.ticks()
    assert len(ticks) <= 12
    assert len(ticks) >= (2 if log else 4)
    assert all(-1e-6 <= scale(t) <= 100 + 1e-6 for t in ticks)
    assert ticks == sorted(set(ticks))


def test_tick_words_are_short() -> None:
    assert [tick_words(v) for v in (0.0, 0.5, 20.0, 12000.0)] == ["0", "0.5", "20", "12\u202f000"]


def test_the_numbers_of_a_rate_have_its_other_units_and_its_share_of_the_ceiling(plots: dict[str, Plot]) -> None:
    told = json.loads(plots["sweep-a-kpps"].data())
    views = {view["title"]: view for view in told["views"]}
    assert list(views) == ["kpps", "% of the link's ceiling", "Mb/s, L1", "Mb/s, L2"]
    names = [line["label"] for line in told["lines"]]
    router, ceiling = (names.index(name) for name in ("router", "ceiling"))
    for (x, y, *_), (_, most, *_), (_, share, *_) in zip(
        *(views["kpps"]["points"][n] for n in (router, ceiling)), views["% of the link's ceiling"]["points"][router], strict=True
    ):
        assert share == pytest.approx(100 * y / most), x
    frames, bits = views["kpps"]["points"][router][0][1] * 1e3, views["Mb/s, L1"]["points"][router][0][1] * 1e6
    assert bits / frames == pytest.approx((64 + 20) * 8, rel=0.01)


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=12, unique=True))
def test_names_stay_different_when_they_are_cut(names: list[str]) -> None:
    short = distinct(names)
    assert list(short) == names and len(set(short.values())) == len(names)
    assert all(short[name] == name for name in names if len(name) <= 30)


@pytest.mark.parametrize(
    ("names", "drawn"),
    [
        (("a" * 40, "b" * 40), ("a" * 29 + "…", "b" * 29 + "…")),
        (("x" * 40 + "1", "x" * 40 + "2"), ("x" * 14 + "…" + "x" * 14 + "1", "x" * 14 + "…" + "x" * 14 + "2")),
        (
            tuple(f"random reads of one drive, queue depth 1{n}, blocks of 4k, jobs 4" for n in (2, 6)),
            ("…12, blocks of 4k, jobs 4", "…16, blocks of 4k, jobs 4"),
        ),
        (("x" * 40 + "1" + "y" * 40, "x" * 40 + "2" + "y" * 40), ("…1" + "y" * 27 + "…", "…2" + "y" * 27 + "…")),
    ],
)
def test_what_tells_long_names_apart_is_kept(names: tuple[str, ...], drawn: tuple[str, ...]) -> None:
    assert tuple(distinct(names).values()) == drawn


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8, unique=True))
def test_words_of_ticks_stay_in_order_without_touching(at: list[int]) -> None:
    wanted = [(float(place), "1024") for place in sorted(at)]
    middles = spread_words(wanted, -16.0, 316.0)
    assert middles is not None
    wide = text_width("1024", TICK_SIZE)
    assert all(b - a >= wide for a, b in pairwise(middles)) and middles[0] >= -16 and middles[-1] <= 316
    assert spread_words(wanted * 20, 0.0, 300.0) is None


def test_a_logarithmic_axis_is_named(plots: dict[str, Plot]) -> None:
    titles = {name: re.findall(r"rotate\(-90\)[^>]*>([^<]+)<", plot.inline()) for name, plot in plots.items()}
    assert titles["sweep-a-latency-p50"] == ["µs (log)"] and titles["sweep-a-kpps"] == ["kpps"]


def test_ranges_of_one_size_are_beside_one_another_and_lines_differ_without_colour(plots: dict[str, Plot]) -> None:
    drawn = plots["sweep-a-kpps"].inline()
    for colour in SERIES[:4]:
        assert f'stroke="{colour}"' in drawn
    upright = {c: re.findall(rf'd="M([\d.]+) [\d.]+L\1 [\d.]+" fill="none" stroke="{c}"', drawn) for c in SERIES[:4]}
    firsts = [min(map(float, places)) for places in upright.values()]
    assert len(set(firsts)) == 4 and firsts == sorted(firsts) and firsts[-1] - firsts[0] <= 10
    dashes = {c: re.findall(rf'stroke="{c}" stroke-width="2"(?: stroke-dasharray="([^"]+)")?', drawn)[0] for c in SERIES[:4]}
    assert len(set(dashes.values())) == 4


def test_a_drawing_without_a_script_tells_its_values_under_the_pointer(plots: dict[str, Plot]) -> None:
    root = ET.fromstring(plots["iperf3-goodput"].svg())
    told = [g for g in root.iter(f"{SVG}g") if g.get("class") == "told"]
    assert len(told) == 20  # four modes, five places
    words = [t.text for t in told[0].iter(f"{SVG}text")]
    assert words == ["router, link a alone", "9.40 Gb/s (9.34–9.46), 3 of 3 repeats"]
    assert all(g.find(f"{SVG}g").get("display") == "none" for g in told)  # type: ignore[union-attr]  # each has one


def test_a_file_of_lines_tells_the_values_of_each_size(plots: dict[str, Plot]) -> None:
    root = ET.fromstring(plots["sweep-a-kpps"].svg())
    told = [[t.text for t in g.iter(f"{SVG}text")] for g in root.iter(f"{SVG}g") if g.get("class") == "told"]
    assert [words[0] for words in told] == [f"{size} bytes" for size in ("64", "128", "256", "512", "1024", "1280", "1518", "imix")]
    assert re.fullmatch(r"router: 60\d\.\d kpps \([\d.]+–[\d.]+\)", told[0][1] or "") and "generator sent" in (told[0][-1] or "")
    assert "told" not in plots["sweep-a-kpps"].inline(), "on a page, its script does"
