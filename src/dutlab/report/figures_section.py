"""Every figure of a tool that no method of ours drives: storage by fio, latency under load by flent."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.figures import value_of
from dutlab.report.groups import Group
from dutlab.report.model import Figure, Grid, GridColumn, GridRow, Section
from dutlab.report.notes import NoteBook
from dutlab.report.words import asked_words
from dutlab.store.run_folder import RunFolder

_SUFFIXES = ("_bytes_per_s", "_bps", "_iops", "_percent", "_ratio", "_pps", "_ns", "_s")


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """One row a mode, what was asked and where; one column a figure, in the order of the records."""
    del run, labels
    workload = groups[0].cell.workload
    figures = list(dict.fromkeys(name for g in groups for r in g.measured for of in r.figures.values() for name in of))
    rows = [row for g in groups for row in _rows(g, figures, book)]
    marks = [v.marks for row in rows for v in row.cells if isinstance(v, Figure)]
    columns = (GridColumn("asked"), *(GridColumn(_head(name), name) for name in figures))
    return Section(
        slug=workload,
        workload=workload,
        title=workload,
        lead="What the tool itself says, figure by figure.",
        grids=(Grid(workload, "All figures", columns, tuple(rows), book.common(marks)),),
        words=tuple(dict.fromkeys(f"{g.label}: {note}." for g in groups for r in g.measured for note in r.notes)),
    )


def _rows(group: Group, figures: Sequence[str], book: NoteBook) -> list[GridRow]:
    asked = asked_words(group.cell.params, group.cell.tool)
    return [
        GridRow(group.label, (asked, *(value_of(group, link, figure, book) for figure in figures)), links=group.cell.link_label, link=link)
        for link in group.cell.links
    ]


def _head(figure: str) -> str:
    """`read clat p99` of `read_clat_p99_ns`."""
    suffix = next((s for s in _SUFFIXES if figure.endswith(s)), "")
    return figure.removesuffix(suffix).replace("_", " ") or suffix.strip("_")
