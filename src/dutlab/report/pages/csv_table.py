"""The report's figures as CSV (RFC 4180): one row a figure, in base units, also the rows that have none, with the reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from dutlab.report.model.run_report import RunReport
from dutlab.report.model.value import Figure, Value

COLUMNS = (
    "run", "workload", "asked", "mode", "links", "link", "frame_size", "figure", "median", "low", "high", "spread", "repeats", "planned",
    "ceiling", "trials", "doubts", "worst_doubt", "missing", "limit",
)  # fmt: skip
Row = dict[str, str | float | int | None]


def csv_table(runs: Sequence[RunReport]) -> str:
    """`spread` says what low and high are: range, or the 95 % interval."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for r in runs:
        for row in _rows(r):
            writer.writerow({k: formula_safe(v) for k, v in row.items()})
    return out.getvalue()


def _rows(r: RunReport) -> Iterator[Row]:
    for m in r.matrices:
        for row in m.rows:
            for column, limit, value in zip(m.columns, m.ceilings, row.values, strict=True):
                place: Row = {
                    "workload": m.workload,
                    "asked": m.asked,
                    "mode": row.label,
                    "links": "+".join(column.links),
                    "link": column.link,
                }
                yield {"run": r.name, **place, "frame_size": None, "figure": m.figure, "ceiling": limit, **_value(r, value)}
    yield from _grids(r)
    for s in r.sweeps:
        for series in s.series:
            for point in series.points:
                place = {"workload": s.workload, "asked": s.asked, "mode": series.label, "links": "+".join(s.links), "link": s.link}
                for figure, value in point.values.items():
                    if isinstance(value, Figure) or figure == "received_pps":
                        limit = s.ceilings.get(point.size, {}).get(figure)
                        yield {"run": r.name, **place, "frame_size": point.size, "figure": figure, "ceiling": limit, **_value(r, value)}


def _grids(r: RunReport) -> Iterator[Row]:
    for section in r.sections:
        for grid in section.grids:
            for row in grid.rows:
                place: Row = {"run": r.name, "workload": section.workload, "asked": grid.caption, "mode": row.label, "links": row.links}
                place |= {"link": row.link, "frame_size": row.size}
                for i, (column, value) in enumerate(zip(grid.columns, row.cells, strict=True)):
                    if not isinstance(value, str):
                        limit = row.ceilings[i] if row.ceilings else None
                        yield {**place, "figure": column.figure, "ceiling": limit, **_value(r, value)}


def _value(r: RunReport, value: Value) -> Row:
    trials = " ".join(map(str, value.trials))
    if not isinstance(value, Figure):
        return {"trials": trials, "missing": value.why}
    limit = next((row.words for row in r.limits if value.trials and value.trials[0] in row.trials), "")
    touching = [n for n in r.notes if n.number in value.marks]
    return {
        "median": value.median, "low": value.low, "high": value.high, "spread": "95 % interval" if value.interval else "range",
        "repeats": value.n, "planned": value.planned, "trials": trials, "doubts": " ".join(n.kind for n in touching),
        "worst_doubt": touching[0].grade if touching else "", "limit": limit,
    }  # fmt: skip


def formula_safe(value: str | float | None) -> str | float | None:
    """A text that a spreadsheet would run as a formula is made a text by an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
