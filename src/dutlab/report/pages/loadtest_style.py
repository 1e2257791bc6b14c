"""Tables of ramps as in the APU6 review: peak of all directions together, share of line rate, and saturation, by product and load."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Column, Figure, Row, Table
from dutlab.report.model.words import MBPS, PERCENT, Unit, size_order
from dutlab.report.pages.publication import Contents, label_words
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.row_plots import Bar, bar_plot

_FRAMES = Unit("kpps", 1e3, 2)
_BITS = Unit("Mb/s L1", 1e6, 2)
_LINE = Unit("% L1", PERCENT.scale, PERCENT.digits)
_COLUMNS = (
    Column("frames", "max_received_pps", _FRAMES, "kpps"),
    Column("on the wire", "max_received_bps_l1", _BITS, "mbps_l1"),
    Column("of line rate", "max_line_ratio", _LINE, "percent_of_linerate_l1"),
    Column("saturated at", "saturation_pps", _FRAMES, "saturation_kpps"),
)
_CAPTION = (
    "The highest rate received in a second of the ramp, all directions together; for two directions that is up to 200 % of the line rate "
    "of one. Saturation is where the loss begins to stay above the threshold"
)


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return one table of all runs, a bar plot per load, and each ramp."""
    groups = sorted(((read, g) for read in reads for g in read.groups if g.cell.workload == "loadtest"), key=lambda of: _size(of[1]))
    if not groups:
        return Contents((), (), {})
    products = list(dict.fromkeys(_product(read, g, reads) for read, g in groups))
    shown = [c for c in _COLUMNS if any(isinstance(value_of(g, _together(g), c.figure, read.book), Figure) for read, g in groups)]
    rows = []
    for read, g in groups:
        values = (value_of(g, _together(g), c.figure, read.book) for c in shown)
        rows.append(Row("", (_product(read, g, reads), g.cell.setting.size, *values)))
    table = Table("loadtest", _CAPTION, (Column("product"), Column("load", name="loadtest"), *shown), tuple(rows), first="")
    bars = []
    cells = [row.cells for row in rows]
    for size in dict.fromkeys(str(of[1]) for of in cells):
        of_size = [Bar(str(of[0]), products.index(str(of[0])), v) for of in cells if of[1] == size and isinstance(v := of[3], Figure)]
        bars += [bar_plot(f"loadtest-{size}", f"Load {size}: the most on the wire, L1", of_size, MBPS)] if of_size else []
    ramps = [curve_plot(c, r.labels) for r in reports for s in r.sections if s.workload == "loadtest" for c in s.curves]
    words = [f"{label_words(r, reports)}{line}" for r in reports for s in r.sections if s.workload == "loadtest" for line in s.words]
    return Contents(tuple(words), (table,), {"loadtest": tuple(p for p in [*bars, *ramps] if p is not None)})


def _together(group: Group) -> str:
    """Return the records' name of the sum of all directions; imported tables have their own name for it."""
    return group.main[1]


def _product(read: ReadRun, group: Group, reads: Sequence[ReadRun]) -> str:
    """Return the mode, with the run's name if several runs have that mode."""
    clash = sum(group.label in other.labels for other in reads) > 1
    return f"{group.label} ({read.run.name})" if clash else group.label


def _size(group: Group) -> tuple[int, float, str]:
    return size_order(group.cell.setting.size)
