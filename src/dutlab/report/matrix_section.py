"""iperf3 between every two hosts: a row a client, a column a server."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.figures import value_of
from dutlab.report.grid import Grid, GridColumn, GridRow
from dutlab.report.groups import Group
from dutlab.report.model import Section
from dutlab.report.notes import NoteBook
from dutlab.report.value import Figure
from dutlab.report.words import asked_words, bit_rate_unit
from dutlab.store.run_folder import RunFolder

_SHOWN = (("goodput_bps", "Goodput"), ("retransmits", "Retransmits"))


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """One grid a figure, mode and link."""
    del run
    places = [(label, link) for label in labels for link in dict.fromkeys(g.cell.link_label for g in groups if g.label == label)]
    of = {(label, link): [g for g in groups if g.label == label and g.cell.link_label == link] for label, link in places}
    grids = [
        _grid(kept, link, figure, f"{words} from the host of the row to the host of the column, link {link}", book)
        for figure, words in _SHOWN
        for (_, link), kept in of.items()
    ]
    cell = groups[0].cell
    asked = asked_words(cell.params, cell.tool, without=("client", "server"))
    return Section(
        slug="matrix",
        workload="matrix",
        title="Every pair of hosts",
        lead=f"TCP between every two hosts, both ways, one pair at a time: {asked}. A field is shaded by its share of the largest.",
        grids=tuple(grids),
        words=tuple(said for (label, link), kept in of.items() if (said := _extremes(label, link, kept, book))),
    )


def _grid(groups: Sequence[Group], link: str, figure: str, caption: str, book: NoteBook) -> Grid:
    by_pair = {(str(g.cell.params["client"]), str(g.cell.params["server"])): g for g in groups}
    hosts = list(dict.fromkeys(host for pair in by_pair for host in pair))
    rows = [
        GridRow(
            groups[0].label,
            (client, *("" if client == server else value_of(by_pair.get((client, server)), link, figure, book) for server in hosts)),
            link=link,
        )
        for client in hosts
    ]
    found = [cell.marks for row in rows for cell in row.cells if isinstance(cell, Figure)]
    columns = (GridColumn("client"), *(GridColumn(f"to {host}", figure) for host in hosts))
    return Grid(
        f"matrix-{groups[0].label}-{link}-{figure}",
        caption,
        columns,
        tuple(rows),
        book.common(found),
        shaded="by-value" if figure == "goodput_bps" else "no",
    )


def _extremes(label: str, link: str, groups: Sequence[Group], book: NoteBook) -> str:
    """The slowest and the fastest pair in a sentence; nothing where fewer than two have a figure."""
    pairs = [(f"{g.cell.params['client']} to {g.cell.params['server']}", value_of(g, link, "goodput_bps", book)) for g in groups]
    found = sorted(((v.median, pair) for pair, v in pairs if isinstance(v, Figure)), key=lambda f: f[0])
    if len(found) < 2:  # noqa: PLR2004 -- one pair is neither
        return ""
    (low, slowest), (high, fastest) = found[0], found[-1]
    unit = bit_rate_unit([high])
    return f"{label}, link {link}: {fastest} is the fastest pair at {unit.text(high)}, {slowest} the slowest at {unit.text(low)}."
