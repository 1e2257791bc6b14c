"""As reviews of firewall appliances print: modes × links of goodput, each mode's share of the barest, frame rates by size."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.gather import ReadRun
from dutlab.report.model.run_report import Column, Matrix, RunReport, Sweep
from dutlab.report.model.value import Figure
from dutlab.report.model.words import KPPS, PERCENT, Unit, column_words
from dutlab.report.pages.html import matrix_unit
from dutlab.report.pages.publication import Cell, Contents, Head, Table
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.row_plots import matrix_plot, matrix_words
from dutlab.report.plots.size_plot import SIZE_PLOTS, size_plot

_PLOTTED = ("kpps", "delivered", "latency-p50")


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Goodput of every run, then its frame sizes."""
    del reads
    tables, plots = list[Table](), dict[str, tuple[Plot, ...]]()
    for r in reports:
        prefix = f"{r.name}-" if len(reports) > 1 else ""
        for m in r.matrices:
            table = _goodput(prefix, m)
            tables += [table, *_shares(prefix, m)]
            plots[tables[-1].slug] = _there(matrix_plot(m, r.labels))
        for s in (s for s in r.sweeps if s.main):
            tables.append(_sizes(prefix, s))
            plots[tables[-1].slug] = _there(*(size_plot(s, wanted, r.labels) for wanted in SIZE_PLOTS if wanted.slug in _PLOTTED))
    return Contents(tuple(h.sentence for r in reports for h in r.headlines), tuple(tables), plots)


def _goodput(prefix: str, m: Matrix) -> Table:
    unit, columns = matrix_unit(m), _single_first(m)
    heads = (Head("mode", "mode"), *(Head(column_words(c.links, c.link), _column(c, unit), unit) for _, c in columns))
    rows = [(row.label, *(row.values[n] for n, _ in columns)) for row in m.rows]
    return Table(f"{prefix}{m.slug}", f"{matrix_words(m)}, {unit.name}: {m.asked}", heads, tuple(rows))


def _shares(prefix: str, m: Matrix) -> tuple[Table, ...]:
    """Of the first mode, which is the barest: what each further one leaves."""
    columns = _single_first(m)
    if len(m.rows) < 2:  # noqa: PLR2004 -- nothing to compare with
        return ()
    heads = (Head("mode", "mode"), *(Head(column_words(c.links, c.link), _column(c, PERCENT), align="right") for _, c in columns))
    rows = [(row.label, *(_share(row.values[n], m.rows[0].values[n]) for n, _ in columns)) for row in m.rows[1:]]
    return (Table(f"{prefix}{m.slug}-share", f"The same in % of {m.rows[0].label}", heads, tuple(rows)),)


def _share(value: Cell, base: Cell) -> str:
    both = isinstance(value, Figure) and isinstance(base, Figure) and base.median
    return f"{value.median / base.median:.1%}".rstrip("%") if both else ""  # type: ignore[union-attr]


def _single_first(m: Matrix) -> list[tuple[int, Column]]:
    """Sums are left to the full report: reviews print the links."""
    return [(n, c) for n, c in enumerate(m.columns) if not c.sum]


def _column(c: Column, unit: Unit) -> str:
    """`single_a_gbps`, `dual_a_gbps`."""
    driven = {1: "single", 2: "dual"}.get(len(c.links), "all")
    return f"{driven}_{c.link}_{'percent' if unit is PERCENT else unit.name.replace('/', 'p').lower()}"


def _sizes(prefix: str, s: Sweep) -> Table:
    heads = [Head("frame size", "frame_size"), *(Head(f"{series.label}, kpps", f"{series.label}_kpps", KPPS) for series in s.series)]
    heads += [Head("ceiling of the link, kpps", "ceiling_kpps", align="right")] if s.ceilings else []
    rows = []
    for n, size in enumerate(s.sizes):
        limit = s.ceilings.get(size, {}).get("received_pps")
        ceiling = ("" if limit is None else KPPS.number(limit),) if s.ceilings else ()
        rows.append((size, *(series.points[n].values["received_pps"] for series in s.series), *ceiling))
    caption = f"{s.rate_words}, link {'+'.join(s.links)}: {s.asked}. Sizes with FCS"
    return Table(f"{prefix}{s.slug}-sizes", caption, tuple(heads), tuple(rows))


def _there(*plots: Plot | None) -> tuple[Plot, ...]:
    return tuple(p for p in plots if p is not None)
