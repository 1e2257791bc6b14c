"""Cost of profiling: pairs of the load at a limit, with a profiler and without."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.measures import MeasureUnit, measure_unit
from dutlab.methods.ports import Row as RecordRow
from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group
from dutlab.report.model.table import Cell, Column, Row, Table, figure_text
from dutlab.report.model.words import MINUS, name_words, slug_of, unit_for
from dutlab.stats.paired import FEWEST_PAIRS, PairedChange, change_of
from dutlab.store.limit_trials import AT_LIMIT, CONTROL, PROFILED
from dutlab.store.record import TrialRecord

_COLUMNS = (
    Column("frame size", align="right"),
    Column("figure"),
    Column("without the profiler", align="right"),
    Column("with the profiler", align="right"),
    Column("change by the profiler", align="right"),
    Column("verdict on the cost"),
)
_NOTE = f"""A pair is the load at the limit twice, with the profiler and without. A change is proven where its whole 95 % interval lies on
one side of zero. {FEWEST_PAIRS} pairs, one a repeat, give an interval. The limit itself is from trials without the profiler."""


def cost_tables(groups: Sequence[Group], *, count_disturbed: bool, taken: list[str]) -> list[Table]:
    """Return a table per workload: for each cell and figure both medians, the median change of its pairs, and the verdict.

    A pair with a disturbed trial is left out, unless disturbed trials count.
    """
    rows: dict[str, list[Row]] = {}
    for group in groups:
        pairs = {r.trial: pair for r in group.measured if (pair := _pair(r, count_disturbed=count_disturbed)) is not None}
        rows.setdefault(group.cell.workload, []).extend(_rows(group, pairs))
    tables = []
    for workload, of in rows.items():
        if of:
            slug = slug_of(f"profile-cost-{workload}", taken)
            tables.append(Table(slug, f"What profiling costs: {workload}", _COLUMNS, tuple(of), notes=(_NOTE,)))
            taken.append(slug)
    return tables


def _pair(record: TrialRecord, *, count_disturbed: bool) -> tuple[RecordRow, RecordRow] | None:
    """Return the control trial and the profiled one; None if one is missing or must not count."""
    rows = {str(row.get("trial")): row for row in record.tables.get(AT_LIMIT, ())}
    if CONTROL not in rows or PROFILED not in rows:
        return None
    if not count_disturbed and any(row.get("disturbed") for row in rows.values()):
        return None
    return rows[CONTROL], rows[PROFILED]


def _rows(group: Group, pairs: dict[int, tuple[RecordRow, RecordRow]]) -> list[Row]:
    size = group.cell.setting.size
    rows = []
    for name in dict.fromkeys(name for pair in pairs.values() for name in pair[0] if name not in ("trial", "disturbed")):
        both = {
            trial: (float(a), float(b))
            for trial, (control, profiled) in pairs.items()
            if isinstance(a := control.get(name), int | float) and isinstance(b := profiled.get(name), int | float)
        }
        change = change_of(both.values(), relative=measure_unit(name) is not MeasureUnit.RATIO)
        if change is None:
            continue
        first, second = (figure_of({trial: pair[i] for trial, pair in both.items()}, len(group.planned)) for i in (0, 1))
        unit = unit_for(name, [first.median, second.median])
        cells: tuple[Cell, ...] = (
            size, name_words(name), figure_text(first, unit), figure_text(second, unit), _change(change), _verdict(change)
        )  # fmt: skip
        rows.append(group.row(cells, size=size))
    return rows


def _change(change: PairedChange) -> str:
    """Return the change, as `+3.10 % (+1.00 to +5.20)`; for ratios in percentage points."""
    of, unit = change.of, "%" if change.relative else "points"
    reach = of.interval
    around = "" if reach is None else f" ({_signed(reach.low)} to {_signed(reach.high)})"
    return f"{_signed(of.median)} {unit}{around}"


def _signed(share: float) -> str:
    text = f"{abs(share) * 100:.2f}"
    return text if not float(text) else f"{'+' if share > 0 else MINUS}{text}"


def _verdict(change: PairedChange) -> str:
    pairs = f"{change.of.n} pair{'s' if change.of.n > 1 else ''}"
    return f"{'proven' if change.proven else 'not proven'}, {pairs}"
