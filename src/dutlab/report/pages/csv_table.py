"""The report's figures as CSV (RFC 4180): one row per figure, in base units; a missing figure has a row with the reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Cell, Figure, Missing, Table, Value
from dutlab.report.model.words import Unit
from dutlab.subject import joined

COLUMNS = (
    "run", "workload", "asked", "mode", "links", "link", "frame_size", "figure", "median", "low", "high", "spread", "repeats", "planned",
    "ceiling", "trials", "doubts", "worst_doubt", "missing", "limit",
)  # fmt: skip
Row = dict[str, str | float | int | None]


def csv_table(runs: Sequence[RunReport]) -> str:
    """Return all figures of `runs`; column `spread` is the kind of low and high: range or 95 % interval."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for r in runs:
        for row in _rows(r):
            writer.writerow({k: formula_safe(v) for k, v in row.items()})
    return out.getvalue()


def _rows(r: RunReport) -> Iterator[Row]:
    """Yield the rows of each table, without tables that repeat another one."""
    limits = {trial: row.words for row in reversed(r.limits) for trial in row.trials}  # the first of several
    for section in r.sections:
        for table in (t for t in section.tables if not t.again):
            for row in table.rows:
                for i, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
                    if isinstance(cell, Figure | Missing):
                        yield {
                            "run": r.name, "workload": section.workload, "asked": table.asked or table.title, "mode": row.label,
                            "links": row.links or joined(column.links), "link": row.link or column.link,
                            "frame_size": row.size or column.size, "figure": column.figure,
                            "ceiling": row.ceilings[i] if row.ceilings else None, **_value(r, cell, limits),
                        }  # fmt: skip


def table_csv(table: Table) -> str:
    """Return a table as CSV (RFC 4180), in the units of its column heads."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([formula_safe(column.name or column.figure or column.head) for column in table.columns])
    for row in table.rows:
        writer.writerow([formula_safe(_plain(cell, unit)) for cell, unit in zip(row.cells, table.units, strict=True)])
    return out.getvalue()


def _plain(cell: Cell, unit: Unit) -> str:
    """Return a cell as text, with a plain number for programs."""
    if isinstance(cell, str | Missing):
        return cell if isinstance(cell, str) else ""
    value = cell.median if isinstance(cell, Figure) else cell
    return (cell.published_in(unit.scale) if isinstance(cell, Figure) else "") or f"{value / unit.scale:.{unit.digits}f}"


def _value(r: RunReport, value: Value, limits: Mapping[int, str]) -> Row:
    trials = " ".join(map(str, value.trials))
    if not isinstance(value, Figure):
        return {"trials": trials, "missing": value.why}
    limit = limits.get(value.trials[0], "") if value.trials else ""
    touching = [n for n in r.notes if n.number in value.marks]
    return {
        "median": value.median, "low": value.low, "high": value.high, "spread": "95 % interval" if value.interval else "range",
        "repeats": value.n, "planned": value.planned, "trials": trials, "doubts": " ".join(n.kind for n in touching),
        "worst_doubt": touching[0].grade if touching else "", "limit": limit,
    }  # fmt: skip


def formula_safe(value: str | float | None) -> str | float | None:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
