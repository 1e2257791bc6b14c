"""Tables as in reviews of firewall appliances: goodput by mode and link, shares of the first mode, rates by size, watts and heat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Cell, Column, Figure, Row, Table
from dutlab.report.model.words import KPPS, PERCENT, Unit, column_words
from dutlab.report.pages.publication import Contents, run_words
from dutlab.report.pages.specification import diagrams_of, specification_tables
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.of_report import plots_of_table
from dutlab.report.plots.plot import Plot
from dutlab.report.sections.soak_power import ERROR, HEAT, POWER, STATES
from dutlab.report.sections.sweep import RATE, SWEEP, rate_words

_PLOTTED = ("kpps", "mbps-l1", "delivered", "latency-p50")


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return the tables of every run: goodput or frame sizes of each drawing, then power states."""
    answers, tables, plots = list[str](), list[Table](), dict[str, tuple[Plot, ...]]()
    for r in reports:
        answers += [f"{run_words(r, reports)}{h.about}: {h.sentence}" for h in r.headlines]
        prefix = f"{r.name}-" if len(reports) > 1 else ""
        for drawing, table in r.drawn:
            drawn = plots_of_table(drawing, table, r)
            if drawing.kind == "links":
                tables += [_goodput(prefix, table), *_shares(prefix, table)]
                plots[tables[-1].slug] = tuple(drawn)
            elif drawing.kind == "sizes":
                tables.append(_sizes(prefix, table))
                plots[tables[-1].slug] = tuple(p for p in drawn if p.name.removeprefix(f"{table.slug}-") in _PLOTTED)
        over = tuple(p for s in r.sections if s.workload == SWEEP for c in s.curves if (p := curve_plot(c, r.labels)) is not None)
        if over and tables:
            plots[tables[-1].slug] = (*plots.get(tables[-1].slug, ()), *over)
        for section, states in ((s, t) for s in r.sections for t in s.tables if t.slug == STATES):
            answers += [f"{run_words(r, reports)}{words}" for words in section.answer]
            tables += [_states(prefix, states), *(_heat(prefix, t) for t in section.tables if t.slug == HEAT)]
            plots[tables[-1].slug] = tuple(p for c in section.curves if (p := curve_plot(c, r.labels)) is not None)
        tables += (specification := specification_tables(prefix, r))
        plots |= {specification[-1].slug: diagrams_of(r)} if specification else {}
    return Contents(tuple(answers), tuple(tables), plots)


def _goodput(prefix: str, table: Table) -> Table:
    unit, places = table.units[0], _single(table)
    rows = [Row("", (row.label, *(row.cells[n] for n in places))) for row in table.rows if row.label]
    columns = [_column(table.columns[n], unit, table.columns[n].figure) for n in places]
    return Table(f"{prefix}{table.slug}", table.title, (Column("mode"), *columns), tuple(rows), asked=table.asked, first="")


def _shares(prefix: str, table: Table) -> tuple[Table, ...]:
    """Return a table of each further mode's goodput as a share of the first mode's."""
    first_row, *others = [row for row in table.rows if row.label]
    if not others:
        return ()
    places = _single(table)
    rows = [Row("", (row.label, *(_share(row.cells[n], first_row.cells[n]) for n in places))) for row in others]
    columns = (Column("mode"), *(_column(table.columns[n], PERCENT) for n in places))
    return (Table(f"{prefix}{table.slug}-share", f"Goodput in % of {first_row.label}", columns, tuple(rows), first=""),)


def _share(value: Cell, base: Cell) -> str:
    both = isinstance(value, Figure) and isinstance(base, Figure) and base.median
    return f"{value.median / base.median:.1%}".rstrip("%") if both else ""  # type: ignore[union-attr]


def _single(table: Table) -> list[int]:
    """Return the columns of single links; reviews do not print sums."""
    return [n for n, c in enumerate(table.columns) if not c.sum]


def _column(c: Column, unit: Unit, figure: str = "") -> Column:
    """Return a column named as `single_a_gbps` or `dual_a_gbps`; a share is a column of text."""
    driven = {1: "single", 2: "dual"}.get(len(c.links), "all")
    name = f"{driven}_{c.link}_{'percent' if unit is PERCENT else unit.name.replace('/', 'p').lower()}"
    return Column(column_words(c.links, c.link), figure, unit if figure else None, name, align="right")


def _sizes(prefix: str, table: Table) -> Table:
    at = next(n for n, c in enumerate(table.columns) if c.figure == RATE)
    row_of = {(row.label, row.size): row for row in table.rows}
    modes, sizes = (list(dict.fromkeys(key[n] for key in row_of)) for n in (0, 1))
    limits = {row.size: limit for row in table.rows if (limit := row.ceilings[at]) is not None}
    columns = [Column("frame size", name="frame_size"), *(Column(m, RATE, KPPS, f"{m}_kpps") for m in modes)]
    columns += [Column("ceiling of the link, kpps", name="ceiling_kpps", align="right")] if limits else []
    rows = []
    for size in sizes:
        ceiling = (KPPS.number(limits[size]) if size in limits else "",) if limits else ()
        rows.append(Row("", (size, *(row_of[m, size].cells[at] for m in modes), *ceiling)))
    title = f"{rate_words(table)}, link {table.rows[0].links}"
    return Table(f"{prefix}{table.slug}-sizes", title, tuple(columns), tuple(rows), asked=f"{table.asked}. Sizes with FCS", first="")


def _heat(prefix: str, table: Table) -> Table:
    """Return the table of temperatures; its modes are a column, if it has several."""
    several = len({row.label for row in table.rows}) > 1
    rows = [Row("", (*([row.label] if several else []), *row.cells)) for row in table.rows]
    columns = (*([Column("mode")] if several else []), *table.columns)
    return replace(table, slug=f"{prefix}{table.slug}", columns=columns, rows=tuple(rows), first="")


def _states(prefix: str, table: Table) -> Table:
    """Return a table of each state's watts, with the digits of the meter."""
    at, error = (next(n for n, c in enumerate(table.columns) if c.head == head) for head in (POWER, ERROR))
    steps = [float(str(row.cells[error]).removeprefix("± ")) for row in table.rows if row.cells[error]]
    digits = max(0, -math.floor(math.log10(min(steps)))) if steps else 1
    several = len({row.label for row in table.rows}) > 1
    rows = [Row("", (*([row.label] if several else []), row.cells[0], row.cells[at])) for row in table.rows]
    watts = Column("watts", table.columns[at].figure, Unit("W", 1.0, digits), "watts")
    columns = (*([Column("mode")] if several else []), Column("state"), watts)
    return Table(f"{prefix}{table.slug}", table.title, columns, tuple(rows), asked=table.asked, first="")
