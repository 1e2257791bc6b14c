"""Tables as in data sheets and factor tables: a row for each combination of settings, a column for each figure, in the published units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from dutlab.measures import BIT_RATES, MeasureUnit, measure_unit
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Cell, Column, Figure, Row, Table
from dutlab.report.model.words import Unit, alike_names, asked_of_all, chosen_rate, name_words, unit_of
from dutlab.report.pages.publication import Contents
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import ELSEWHERE
from dutlab.store.record import PUBLISHED

_DIGITS = 3
"""Decimals of figures without published digits, in a published unit."""


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return one table per workload of each run."""
    several = len(reads) > 1
    tables = []
    for read in reads:
        for workload, same in groupby(sorted(read.groups, key=lambda g: g.cell.workload), key=lambda g: g.cell.workload):
            table = _table(f"{read.run.name}-" if several else "", workload, sorted(same, key=lambda g: g.planned[0]), read)
            tables += [table] if table.rows else []
    return Contents((), tuple(tables), {})


def _table(prefix: str, workload: str, groups: Sequence[Group], read: ReadRun) -> Table:
    settings = [g.cell.setting for g in groups]
    factors, alike, said = list[str](), set[str](), ""
    if not any(isinstance(s, ImportedSetting) for s in settings):  # published tables keep their columns and their order
        groups = sorted(groups, key=lambda g: read.labels.index(g.label))
        levels = [(name, level) for g in groups for name, level in g.cell.factors.items() if name != "mode"]
        factors = [name for name in dict.fromkeys(name for name, _ in levels) if len({level for n, level in levels if n == name}) > 1]
        alike, said = (alike_names(settings), asked_of_all([g.cell for g in groups])) if len(groups) > 1 else (alike, said)
    asked = list(
        dict.fromkeys(k for s in settings for k, v in s.params.items() if v is not None and s.words.get(k) != ELSEWHERE and k not in alike)
    )
    places = [(g, link) for g in groups for link in dict.fromkeys(name for r in g.measured for name in r.figures)]
    figures = list(dict.fromkeys(name for g, link in places for r in g.measured for name in r.figures.get(link, ())))
    columns = {name: _head(name, places) for name in figures}
    by_link = len({link for _, link in places}) > 1
    heads = (Column("mode"), *(Column(k.replace("_", " "), name=k) for k in (*factors, *asked)), *([Column("link")] if by_link else []))
    rows = []
    for group, link in places:
        params = [str(group.cell.params[k]) if group.cell.params.get(k) is not None else "" for k in asked]
        params = [*(str(group.cell.factors.get(name, "")) for name in factors), *params]
        rows.append(
            Row(
                "",
                (group.cell.mode if factors else group.label, *params, *([link] if by_link else []), *_cells(group, link, figures, read)),
            )
        )
    caption = f"{workload}: every figure, as it was published or in its own unit"
    return Table(f"{prefix}{workload}", caption, (*heads, *columns.values()), tuple(rows), asked=said, first="")


def _cells(group: Group, link: str, figures: Sequence[str], read: ReadRun) -> Iterator[Cell]:
    """Yield the row's figures; a missing one is an empty cell."""
    for name in figures:
        value = value_of(group, link, name, read.book)
        yield value if isinstance(value, Figure) else ""


def _head(figure: str, places: Sequence[tuple[Group, str]]) -> Column:
    """Return a figure's column: the published one, if all published columns agree."""
    rows = [row for g, _ in places for r in g.measured for row in r.tables.get(PUBLISHED, ()) if row.get("figure") == figure]
    columns = {(str(row["column"]), float(scale)) for row in rows if isinstance(scale := row.get("scale"), int | float)}
    in_bits = measure_unit(figure) in BIT_RATES or measure_unit(figure) is MeasureUnit.BYTES_PER_S
    if len(columns) != 1 or (chosen_rate() is not None and in_bits):
        return Column(name_words(figure), figure, unit_of(figure))
    ((column, scale),) = columns
    return Column(column.replace("_", " "), figure, Unit("", scale, _DIGITS), column)
