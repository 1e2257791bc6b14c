"""Forwarded frames over frame size: a row per mode, then all figures of each size, and of each link of several driven at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dutlab.plan.cell import Cell
from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import ceiling_of, load_value, value_of
from dutlab.report.model.groups import Group, alike, present
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import DrawnTable, Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, Value
from dutlab.report.model.words import MBPS, SIZES, Unit, asked_words, mix_words, setting_words, size_order, slug_of, unit_for
from dutlab.report.sections import latency_times
from dutlab.report.sections.goodput import CEILING
from dutlab.report.sections.headline import compared, first_of, link_words
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import FrameSetting, Identity, LoadSetting, identity_of
from dutlab.stats.summary import median
from dutlab.store.loads import BACKPRESSURE, DELIVERED
from dutlab.subject import apart, joined

SWEEP = "sweep"
RATE = "received_pps"
LEAD = """Frame sizes count the FCS. L1 rates count preamble and gap as well, 20 bytes a frame; L2 rates do not. A mix (imix) is separate
from the fixed sizes. The thin grey line is the most that left the generator in any mode. A mode on that line was limited by the generator
if there was little backpressure, and held the generator back if there was much: a port that takes no more frames refuses them. Loads have
the names of RFC 2285: intended is what was asked for, offered what left the generator. Backpressure and delivered are shares of what the
generator made, lost is the share of what was offered.""".replace("\n", " ")
MEAN_FRAME, OF_CEILING = "mean_frame_bytes", "ceiling_ratio"
"""Columns that are computed from others."""
_PERCENT = Unit("%", 0.01, 1)
_ASKED = ("rate_pps", "rate_percent")
"""Params with the rate that was asked for."""
_COLUMNS = (
    Column("mean frame", MEAN_FRAME, shown=False),
    Column("intended", "intended_pps", spread=False),
    Column("refused", "refused_ratio", shown=False),
    Column("offered", "offered_pps", spread=False),
    Column("offered, L1", "offered_bps_l1", MBPS, shown=False),
    Column("back\u00adpressure", BACKPRESSURE, spread=False),
    Column("delivered", RATE),
    Column("delivered", DELIVERED, spread=False),
    Column("lost", "loss_ratio"),
    Column("of ceiling", OF_CEILING, _PERCENT),
    Column("L1", "received_bps_l1", MBPS, spread=False),
    Column("L2", "received_bps_l2", MBPS, spread=False),
    Column("p50", "latency_p50_ns", group="latency"),
    Column("p99", "latency_p99_ns", group="latency"),
    Column("max", "latency_max_ns", group="latency", spread=False),
    Column("headroom", "headroom_ratio", spread=False),
)


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: two tables per set of parameters and links, and one more for each link of several driven at once."""
    tables, drawings, headlines = list[Table](), list[DrawnTable](), list[Headline]()
    for same in alike(groups, with_links=True):
        links = same[0].cell.links
        slug, together = slug_of(f"{SWEEP}-{joined(links)}", [d.table for d in drawings]), joined(links)
        every = _every(slug, same, together, labels, book)
        rates = _rates(f"{slug}-rates", same, every)
        tables += [rates, every, *(_every(f"{slug}-of-{link}", same, link, labels, book) for link in links if link != together)]
        drawings.append(DrawnTable("sizes", every.slug, below=rates.slug))
        headlines += _headline(links, every, book)
    times = tuple(latency_times.words(groups))
    curves = tuple(_over_rates(groups, labels))
    return Section(SWEEP, SWEEP, "Frame sizes", LEAD, tuple(tables), tuple(drawings), curves, words=times, headlines=tuple(headlines))


def _over_rates(groups: Sequence[Group], labels: Sequence[str]) -> Iterator[Curve]:
    """Yield one figure for sweeps that differ only in their rate: a panel per rate, received frames over frame size, a line per mode."""
    panels: dict[tuple[str, Identity], dict[float, list[Group]]] = {}
    for g in groups:
        params = g.cell.setting.params
        rate = next((value for name in _ASKED if isinstance(value := params.get(name), int | float)), None)
        if rate is not None and g.cell.setting.size.isdigit():
            panels.setdefault((g.cell.link_label, identity_of(params, without={*_ASKED, *SIZES})), {}).setdefault(rate, []).append(g)
    for n, ((links, _), by_rate) in enumerate(panels.items(), 1):
        drawn = [(of, lines) for _, of in sorted(by_rate.items()) if (lines := _rate_lines(of, links, labels))]
        if len(drawn) < 2:  # noqa: PLR2004 -- a single rate has separate plots
            continue
        rates = [rate for _, lines in drawn for line in lines for _, rate in line.points]
        unit, sizes = unit_for(RATE, rates), sorted({size for _, lines in drawn for line in lines for size, _ in line.points})
        curve = None
        for at, (of, lines) in reversed(list(enumerate(drawn))):
            params = of[0].cell.setting.params
            curve = Curve(
                slug=f"{SWEEP}-rates-{n}{f'-{at}' if at else ''}",
                title=f"Received frames over frame size at each rate, {link_words(apart(links), links)}",
                x_title="frame size, bytes",
                x="size",
                y_title="received",
                y=RATE,
                y_unit=unit,
                lines=lines,
                x_scale="log",
                x_ticks=tuple((size, f"{size:g}") for size in sizes),
                panel=setting_words(of[0].cell.setting, without=params.keys() - set(_ASKED)),
                below=curve,
            )
        if curve is not None:
            yield curve


def _rate_lines(groups: Sequence[Group], links: str, labels: Sequence[str]) -> tuple[Line, ...]:
    points: dict[str, dict[float, float]] = {}
    for g in groups:
        if values := g.column(links, RATE).values:
            points.setdefault(g.label, {})[float(g.cell.setting.size)] = median(values)
    return tuple(Line(label, tuple(sorted(points[label].items()))) for label in labels if label in points)


def departs(cell: Cell) -> str:
    """Return how a sweep at full speed deviates from a throughput search; empty for a sweep at a given rate."""
    setting = cell.setting
    if isinstance(setting, LoadSetting | ImportedSetting) and (setting.rate_pps, setting.rate_percent) != (None, None):
        return ""
    return (
        "the sweep offers as much as the generator can and reports what arrived; it searches for no rate without loss, "
        "so its figures are forwarding rates (RFC 2285 section 3.6), not throughput (RFC 2544 section 26.1)"
    )


def _every(slug: str, groups: Sequence[Group], link: str, labels: Sequence[str], book: NoteBook) -> Table:
    """Return a table of all figures of a link, or of all links together."""
    links, sizes = groups[0].cell.links, _sizes(groups)
    by_place = {(g.label, g.cell.setting.size): g for g in groups}
    rows = [
        replace(_row(by_place.get((label, size)), size, link, book), label=label, links=joined(links))
        for label in present(labels, groups)
        for size in sizes
    ]
    there = [i for i, c in enumerate(_COLUMNS, 1) if c.figure == RATE or any(isinstance(r.cells[i], Figure | float) for r in rows)]
    whole = link == joined(links)
    return Table(
        slug=slug,
        title=f"All figures of {'link' if len(links) == 1 else 'links'} {' and '.join(links)}{'' if len(links) == 1 else ' together'}"
        if whole
        else f"All figures of link {link} while {' and '.join(links)} were driven together",
        columns=(Column("frame size"), *(_COLUMNS[i - 1] for i in there)),
        rows=tuple(_only(row, [0, *there]) for row in rows),
        common_marks=book.common([row.marks for row in rows if any(isinstance(cell, Figure) for cell in row.cells)]),
        asked=asked_words(groups[0].cell.setting, groups[0].cell.tool, without=SIZES),
        marked="rows",
        judged=True,
        folded=not whole,
    )


def _rates(slug: str, groups: Sequence[Group], every: Table) -> Table:
    """Return a table of received frames a second by size, from the table of all figures."""
    at, sizes = _place(every, RATE), _sizes(groups)
    of = {(row.label, row.size): row.cells[at] for row in every.rows}
    limits = {row.size: limit for row in every.rows if (limit := row.ceilings[at]) is not None}
    rows = [Row(label, tuple(of[label, size] for size in sizes)) for label in dict.fromkeys(row.label for row in every.rows)]
    if limits:
        rows.append(Row("", tuple(limits.get(size, "") for size in sizes), head=CEILING))
    settings = [g.cell.setting for g in groups]
    mixes = {s.size: s.frame_size.text if isinstance(s, FrameSetting) else getattr(s, "frame_mix", None) for s in settings}
    links = groups[0].cell.links
    about = f"link {links[0]}" if len(links) == 1 else f"links {' and '.join(links)} together"
    return Table(
        slug=slug,
        title=f"{rate_words(every)}, {about}",
        columns=tuple(Column(size, RATE, links=links, link=joined(links), size=size) for size in sizes),
        rows=tuple(rows),
        common_marks=every.common_marks,
        asked=every.asked,
        notes=tuple(f"{size}: {mix_words(str(mix))}." for size, mix in sorted(mixes.items()) if mix and not size.isdigit()),
        again=True,
    )


def rate_words(every: Table) -> str:
    """Return the RFC's name for received frames a second in this table."""
    if any(c.figure == "intended_pps" for c in every.columns):
        return "Forwarding rate (RFC 2285 section 3.6.1)"
    return "Forwarding rate at maximum offered load (FRMOL, RFC 2285 section 3.6.2)"


def _row(group: Group | None, size: str, link: str, book: NoteBook) -> Row:
    cells: dict[str, Value | float | str] = {
        c.figure: _value(group, link, c.figure, book) for c in _COLUMNS if c.figure not in {MEAN_FRAME, OF_CEILING}
    }
    rate, limit = cells[RATE], ceiling_of(group, link, RATE)
    cells[MEAN_FRAME] = _mean_frame(group, link, size)
    cells[OF_CEILING] = rate.median / limit if isinstance(rate, Figure) and limit else ""
    limits = (None, *(ceiling_of(group, link, c.figure) for c in _COLUMNS))
    return Row("", (size, *(cells[c.figure] for c in _COLUMNS)), link=link, size=size, ceilings=limits)


def _mean_frame(group: Group | None, link: str, size: str) -> float | str:
    """Return the mean frame in bytes with FCS; empty for a mix of which nothing was received."""
    if size.isdigit():
        return float(size)
    means = [f.mean_frame_bytes for r in (group.measured if group else ()) for f in r.flows if f.link in apart(link)]
    return median(means) if means else ""


def _value(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    if figure in {BACKPRESSURE, DELIVERED}:
        return load_value(group, link, figure, book)
    return value_of(group, link, figure, book)


def _only(row: Row, places: Sequence[int]) -> Row:
    return replace(row, cells=tuple(row.cells[i] for i in places), ceilings=tuple(row.ceilings[i] for i in places))


def _place(table: Table, figure: str) -> int:
    return next(i for i, c in enumerate(table.columns) if c.figure == figure)


def _sizes(groups: Sequence[Group]) -> list[str]:
    return sorted({g.cell.setting.size for g in groups}, key=size_order)


def _headline(links: tuple[str, ...], every: Table, book: NoteBook) -> tuple[Headline, ...]:
    """Return the headline on received frames a second at the first size that two modes have, with a summary of the others."""
    at = _place(every, RATE)
    headlines = []
    for size in dict.fromkeys(row.size for row in every.rows):
        named = [(row.label, cell) for row in every.rows if row.size == size and isinstance(cell := row.cells[at], Figure | Missing)]
        what = f"{size}-byte frames" if size.isdigit() else size
        headlines.append(compared(f"{SWEEP}, {what} through {link_words(links, joined(links))}", named, RATE, book))
    return first_of([h for h in headlines if h is not None], "sizes")
