"""Contents of other tools' files by mode: values read, values left out, and assumed units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.store.record import ASSUMED, LEFT_OUT, PUBLISHED, TrialRecord
from dutlab.subject import figure_name

_LEAD = "Figures of the imported files. The files themselves are kept with the trials."
_COLUMNS = (
    Column("what", name="what"),
    Column("part", name="part"),
    Column("count", name="count", align="right"),
    Column("detail"),
)
_OWN = frozenset({LEFT_OUT, ASSUMED, PUBLISHED})
"""Tables that do not come from a file."""


@dataclass
class _Count:
    count: int = 0
    details: dict[str, None] = field(default_factory=dict)
    """Details in their order, each once."""


def imported_section(groups: Sequence[Group]) -> tuple[Section, ...]:
    """Return one section if any trial was imported, else none."""
    of_label: dict[str, list[TrialRecord]] = {}
    for group in groups:
        if isinstance(group.cell.setting, ImportedSetting):
            of_label.setdefault(group.label, []).extend(group.records)
    if not of_label:
        return ()
    rows = [
        Row(label, (what, part, str(of.count), "; ".join(of.details)))
        for label, records in of_label.items()
        for (what, part), of in _counts(records).items()
    ]
    table = Table("imported", "What was read, left out and assumed", _COLUMNS, tuple(rows), folded=True)
    return (Section(slug="imported", workload="", title="Imported files", lead=_LEAD, tables=(table,)),)


def _counts(records: Sequence[TrialRecord]) -> Mapping[tuple[str, str], _Count]:
    counts: dict[tuple[str, str], _Count] = {}
    for record in records:
        for what, part, count, detail in _parts(record):
            of = counts.setdefault((what, part), _Count())
            of.count += count
            of.details |= {detail: None} if detail else {}
    return counts


def _parts(record: TrialRecord) -> Iterator[tuple[str, str, int, str]]:
    """Yield (kind, part, number, names)."""
    yield ("read", "trials", 1, "") if record.status == "measured" else ("left out", "trials", 1, record.why)
    for of in record.figures.values():
        yield "read", "figures", len(of), ", ".join(sorted({figure_name(name).measure for name in of}))
    for name, table in record.tables.items():
        if name not in _OWN:
            yield "read", f"rows of {name}", len(table), ""
    for row in record.tables.get(LEFT_OUT, ()):
        yield "left out", str(row["what"]), int(row["count"] or 0), ": ".join(filter(None, (str(row["why"]), str(row["detail"]))))
    for row in record.tables.get(ASSUMED, ()):
        yield "assumed", str(row["field"]), 1, f"{row['unit']}: {row['why']}"
