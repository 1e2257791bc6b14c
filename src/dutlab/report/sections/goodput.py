"""One figure of each link: a row per mode, a column per link or sum of links.

Used for iperf3, and for every workload without its own section, such as imported tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dutlab.plan.cell import Cell
from dutlab.report.model.curve import Curve
from dutlab.report.model.figures import ceiling_of, value_of
from dutlab.report.model.groups import Group, alike, present
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import DrawnTable, Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Table
from dutlab.report.model.words import asked_words, name_words, slug_of
from dutlab.report.sections.headline import compared, link_words
from dutlab.report.sections.over_tunnels import tunnel_curves
from dutlab.store.cell_figures import WAY_WORDS
from dutlab.subject import joined, subject_of, sums_first
from dutlab.workloads import plug_of

GOODPUT = "goodput_bps"
CEILING = "ceiling of the link"


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table per set of parameters."""
    workload, tables, curves = groups[0].cell.workload, list[Table](), list[Curve]()
    for same in alike(groups, with_links=False):
        tables.append(_table(same, labels, book, [t.slug for t in tables]))
        curves += tunnel_curves(same, tables[-1].slug)
    headlines = [(table, headline(workload, table, book)) for table in tables]
    several = len(tables) > 1
    return Section(
        slug=workload,
        workload=workload,
        title=f"{tables[0].title[:1].upper()}{tables[0].title[1:]} by mode and link",
        lead="",
        tables=tuple(tables),
        drawings=tuple(DrawnTable("links", t.slug, below=t.slug) for t in tables),
        curves=tuple(curves),
        headlines=tuple(
            replace(h, about=f"{h.about}: {t.asked.removeprefix(f'{workload}, ')}") if several else h for t, h in headlines if h is not None
        ),
    )


def headline(workload: str, table: Table, book: NoteBook) -> Headline | None:
    """Return the headline of the sum over all links, if there is one, else of the first column with two figures."""
    for i in sorted(range(len(table.columns)), key=lambda i: (not table.columns[i].sum, i)):
        column = table.columns[i]
        if column.better != "higher":  # nothing is fastest in watts
            continue
        named = [(row.label, cell) for row in table.rows if row.label and not isinstance(cell := row.cells[i], str | float)]
        about = f"{workload} through {link_words(column.links, column.link)}"
        if (result := compared(about, named, column.figure, book)) is not None:
            return result
    return None


def _table(groups: Sequence[Group], labels: Sequence[str], book: NoteBook, taken: Sequence[str]) -> Table:
    cell, figure = groups[0].cell, _figure_of(groups)
    links = sorted({g.cell.links for g in groups}, key=lambda of: (len(of), of))
    columns = [_column(figure, of, link) for of in links for link in _places(of, groups)]
    by_place = {(g.label, g.cell.links): g for g in groups}
    rows = [
        Row(
            label,
            tuple(value_of(by_place.get((label, c.links)), c.link, figure, book) for c in columns),
            ceilings=tuple(ceiling_of(by_place.get((label, c.links)), c.link, figure) for c in columns),
        )
        for label in present(labels, groups)
    ]
    # A tunnel has a lower ceiling than the link.
    ceilings = [max((limit for row in rows if (limit := row.ceilings[i]) is not None), default=None) for i in range(len(columns))]
    marks = book.common([v.marks for row in rows for v in row.cells if isinstance(v, Figure)])
    if any(limit is not None for limit in ceilings):
        rows.append(Row("", tuple("" if limit is None else limit for limit in ceilings), head=CEILING))
    return Table(
        slug=slug_of(f"{cell.workload}-{name_words(figure).replace(' ', '-')}", taken),
        title=(figure == GOODPUT and plug_of(cell.workload).table) or name_words(figure),
        columns=tuple(columns),
        rows=tuple(rows),
        common_marks=marks,
        asked=asked_words(cell.setting, cell.tool),
    )


def protocol_of(cell: Cell) -> str:
    """Return the protocol: `tcp` or `udp`."""
    return getattr(cell.setting, "protocol", None) or "tcp"


def departs(cell: Cell) -> str:
    """Return how TCP deviates from RFC 2544; empty for other protocols."""
    if protocol_of(cell) != "tcp":
        return ""
    return "iperf3 measures TCP goodput, which RFC 2544 does not know: retransmissions and both end hosts are part of it"


def _places(links: tuple[str, ...], groups: Sequence[Group]) -> list[str]:
    """Return each link, then their sum; for tests in both directions, each direction of these too."""
    places = {place for g in groups if g.cell.links == links for r in g.measured for place in r.figures}
    usual = [*links, joined(links)] if len(links) > 1 else [*links]
    return usual if places <= {*usual} else sums_first(places)[::-1]


def _column(figure: str, links: tuple[str, ...], link: str) -> Column:
    driven = {1: "one link at a time", 2: "both at once"}.get(len(links), f"links {', '.join(links)} at once")
    subject = subject_of(link)
    column = Column(f"link {joined(subject.places)}{WAY_WORDS[subject.way]}", figure, group=driven, links=links, link=link)
    return replace(column, head="sum") if column.sum else column


def _figure_of(groups: Sequence[Group]) -> str:
    """Return goodput_bps if there is one, else the first figure of a record."""
    names = [name for g in groups for r in g.measured for of_link in r.figures.values() for name in of_link]
    return GOODPUT if not names or GOODPUT in names else names[0]
