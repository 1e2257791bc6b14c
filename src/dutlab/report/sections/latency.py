"""Latency over load: a row per share of the rate, curves of the median and the 99.9th percentile, and the knee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, by_size
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Value, figure_text
from dutlab.report.model.words import frame_rate_unit, latency_text
from dutlab.report.sections import latency_times
from dutlab.spec.workloads.latency import LatencySetting
from dutlab.subject import part_figure, share_part

_COLUMNS = (("typical, TL", "tl_ns"), ("worst case, WCL", "wcl_ns"), ("variation, PDV", "pdv_ns"), ("lost or not taken", "loss_ratio"))
_FULL_S = 120.0


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, frame size, link and share, and a curve per mode, frame size and link."""
    groups = by_size(groups, labels)
    rows = [row for g in groups for link in g.cell.links for row in _rows(g, link, book)]
    columns = (Column("frames"), Column("link"), Column("load"), *(Column(head, figure) for head, figure in _COLUMNS))
    return Section(
        slug="latency",
        workload="latency",
        title="Latency over load",
        lead="One-way latency at shares of one rate (RFC 8219 section 7): typical is the median, worst case the 99.9th percentile, "
        "variation the 99.9th percentile less the least. At 0 % a trickle is sent.",
        tables=(book.table("latency", "Latency at each load", columns, rows),),
        curves=tuple(curve for g in groups for link in g.cell.links if (curve := _curve(g, link, book)) is not None),
        words=(
            *(words for g in groups if g.measured for link in g.cell.links for words in _words(g, link, book)),
            *latency_times.words(groups),
        ),
        deviations=tuple(_deviations(groups)),
    )


def _shares(group: Group) -> Sequence[float]:
    return group.cell.setting_as(LatencySetting).shares_percent


def _value(group: Group, link: str, share: float, measure: str, book: NoteBook) -> Value:
    return value_of(group, link, part_figure(share_part(share), measure), book)


def _rows(group: Group, link: str, book: NoteBook) -> list[Row]:
    size = group.cell.setting.size
    return [
        group.row((size, link, f"{share:g} %", *(_value(group, link, share, figure, book) for _, figure in _COLUMNS)), link=link, size=size)
        for share in _shares(group)
    ]


def _curve(group: Group, link: str, book: NoteBook) -> Curve | None:
    lines = []
    for words, figure in (("median", "tl_ns"), ("99.9 %", "wcl_ns")):
        values = [(s / 100, _value(group, link, s, figure, book)) for s in _shares(group)]
        lines.append(Line(words, tuple((share, value.median) for share, value in values if isinstance(value, Figure) and value.median > 0)))
    if not any(line.points for line in lines):
        return None
    bend = value_of(group, link, "knee_percent", book)
    size = group.cell.setting.size
    return Curve(
        slug=f"latency-{group.planned[0]}-{link}",
        title=f"Latency of {size}{'-byte frames' if size.isdigit() else ''}, {group.label}, link {link}",
        x_title="load, of the rate",
        x="load_ratio",
        y_title="latency",
        y="latency_ns",
        lines=tuple(lines),
        moments=(Moment(bend.median / 100, f"knee: {bend.median:g} %"),) if isinstance(bend, Figure) else (),
        scale="log",
    )


def _words(group: Group, link: str, book: NoteBook) -> Iterator[str]:
    about = f"{group.label}, {group.cell.setting.size}, link {link}"
    rate, bend = (value_of(group, link, figure, book) for figure in ("reference_pps", "knee_percent"))
    lowest = _value(group, link, _shares(group)[0], "tl_ns", book)
    clauses = [f"at {_shares(group)[0]} % load the median is {latency_text(lowest.median)}"] if isinstance(lowest, Figure) else []
    clauses += (
        [f"it rises steeply after {bend.median:g} %"]
        if isinstance(bend, Figure)
        else ["no knee: the median does not double, or rises evenly"]
    )
    if isinstance(rate, Figure):
        has_rate = any(r.notes for r in group.measured)  # the method's first note has the rate; imported tables have none
        yield f"{about}{'' if has_rate else f', shares of {figure_text(rate, frame_rate_unit([rate.median]))}'}: {', '.join(clauses)}."
    yield from dict.fromkeys(f"{about}: {note}." for r in group.measured for note in r.notes)


def _deviations(groups: Sequence[Group]) -> Iterator[str]:
    shortest = min(g.cell.setting_as(LatencySetting).duration_s for g in groups)
    if shortest < _FULL_S:
        yield f"latency: trials last {shortest:g} s, RFC 8219 section 7.2 asks for at least {_FULL_S:g} s"
    yield "latency: every frame is timed, from the first second on; RFC 8219 section 7.2 times at least 500 tagged frames after 60 s"
