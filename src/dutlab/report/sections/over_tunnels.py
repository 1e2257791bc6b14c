"""Goodput, and its cost in processor time per kilobyte, over the number of tunnels (factor `tunnels`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.groups import Group
from dutlab.report.model.words import Unit
from dutlab.report.sections.cpu_cost import ALL_THREADS, FORWARDING
from dutlab.spec.factors import TUNNELS

_GOODPUT = "goodput_bps"
_NS_OF_KILOBYTE = 8e3 * 1e9
"""Dividend: this ÷ bits a second of processor time is ns per kilobyte."""
_COST = Unit("ns/kB", 1.0, 0)
_WIDE = 20
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""


def tunnel_curves(groups: Sequence[Group], slug: str) -> Iterator[Curve]:
    """Yield curves with a line per mode, horizontal for modes without a number of tunnels; none for fewer than two numbers."""
    if len({count for g in groups if (count := _count(g))}) < 2:  # noqa: PLR2004 -- two points make a line
        return
    for link in dict.fromkeys(g.cell.link_label for g in groups):
        of_link = [g for g in groups if g.cell.link_label == link]
        if lines := _lines(of_link, link, _GOODPUT):
            yield _curve(f"{slug}-over-tunnels-{link}", f"Goodput by number of tunnels, link {link}", lines, y_title="goodput", y=_GOODPUT)
        for figure, whose in ((FORWARDING[1], "the threads that forward"), (ALL_THREADS[1], "all threads of the testbed")):
            if all(g.median(link, figure) for g in of_link if g.measured) and (rates := _lines(of_link, link, figure)):
                title = f"Processor time of {whose} by number of tunnels, link {link}"
                lines = tuple(Line(of.label, tuple((x, _NS_OF_KILOBYTE / y) for x, y in of.points), of.role) for of in rates)
                yield _curve(
                    f"{slug}-cost-over-tunnels-{link}", title, lines, y_title="for a kilobyte of goodput", y="cost_ns", y_unit=_COST
                )
                break


def _count(group: Group) -> int:
    level = group.cell.factors.get(TUNNELS, "")
    return int(level) if level.isdecimal() else 0  # imported runs have other factors


def _lines(groups: Sequence[Group], link: str, figure: str) -> tuple[Line, ...]:
    counts = [count for g in groups if (count := _count(g))]
    points_by_label: dict[tuple[str, ...], dict[int, float]] = {}
    for g in groups:
        if (value := g.median(link, figure)) is not None:
            label = (g.cell.mode, *(f"{name} {level}" for name, level in g.cell.factors.items() if name not in {"mode", TUNNELS}))
            points_by_label.setdefault(label, {})[_count(g)] = value
    lines = []
    for label, points in points_by_label.items():
        if set(points) == {0}:
            ends = ((float(min(counts)), points[0]), (float(max(counts)), points[0]))
            lines.append(Line(label[0], ends, role="asked"))
        else:
            lines.append(Line(" · ".join(label), tuple((float(n), value) for n, value in sorted(points.items()))))
    return tuple(lines)


def _curve(slug: str, title: str, lines: tuple[Line, ...], *, y_title: str, y: str, y_unit: Unit | None = None) -> Curve:
    ticks = sorted({x for of in lines for x, _ in of.points})
    values = [value for of in lines for _, value in of.points]
    return Curve(
        slug=slug, title=title, x_title="tunnels", x="tunnels_count", y_title=y_title, y=y, lines=lines, x_scale="log", y_unit=y_unit,
        scale="log" if min(values) > 0 and max(values) > _WIDE * min(values) else "linear",
        x_ticks=tuple((x, f"{x:.0f}") for x in ticks),
    )  # fmt: skip
