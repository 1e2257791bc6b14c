"""Functions that take the instructions of a frame: a table per frame size, a flame graph per mode, and differences of two modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab import outside
from dutlab.bounds import IMPORT
from dutlab.report.model.figures import figure_of
from dutlab.report.model.flame import Flame, Stacks, boxes, folded
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import setting_words, slug_of
from dutlab.stats.functions import FUNCTIONS, REST, WITH, FunctionCost, of_rows
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

TOP = 20
LEAD = """For some frames each instruction was counted, without those of interrupts. `Router` is what a function takes with the router less
without it. Functions, the others together and the rest add up to the figures above; the rest is what begins and ends a pass, and what
interrupts it."""
_COLUMNS = (
    Column("function"),
    Column("router", "own_instructions_per_frame"),
    Column("share", "own_ratio"),
    Column("all together", "whole_instructions_per_frame"),
    Column("generator and sink", "rig_instructions_per_frame"),
)


def instructions_section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str]) -> tuple[Section, ...]:
    """Return the section; none without profiles."""
    records_by_place: dict[str, dict[str, TrialRecord]] = {}
    for group in groups:
        if record := next((r for r in group.measured if r.tables.get(FUNCTIONS)), None):
            records_by_place.setdefault(setting_words(group.cell.setting, without={"frames"}), {})[group.label] = record
    tables, flames, taken = list[Table](), list[Flame](), list[str]()
    for place, records in records_by_place.items():
        named = {label: records[label] for label in labels if label in records}
        for label, record in named.items():
            slug = slug_of(f"functions-{label}-{place}", taken)
            tables.append(Table(slug, f"Functions: {label}, {place}", _COLUMNS, tuple(_rows(label, record))))
            taken.append(slug)
        flames += _flames(place, {label: _stacks(run, record) for label, record in named.items()}, taken)
    if not tables:
        return ()
    title = "Which functions take the instructions"
    return (Section("functions", "", title, LEAD.replace("`", ""), tuple(tables), flames=tuple(flames)),)


def _rows(label: str, record: TrialRecord) -> list[Row]:
    """Return rows of the functions with the largest shares, the others together, the rest, and the sum."""
    costs = of_rows(record.tables[FUNCTIONS])
    functions, rest = [of for of in costs if of.name != REST], [of for of in costs if of.name == REST]
    largest = sorted(functions, key=lambda of: -of.own)[:TOP]
    others = [of for of in functions if of not in largest]
    shown = [*largest, *([_sum(f"{len(others)} others", others)] if others else []), *rest]
    whole = _sum("all together", costs)

    def row(of: FunctionCost) -> Row:
        values = (of.own, of.own / whole.own if whole.own else 0.0, of.whole, of.rig)
        return Row(label, (of.name, *(figure_of({record.trial: value}, 1) for value in values)))

    return [row(of) for of in (*shown, whole)]


def _sum(name: str, costs: Sequence[FunctionCost]) -> FunctionCost:
    return FunctionCost(name, sum(of.own for of in costs), 0.0, sum(of.whole for of in costs), sum(of.rig for of in costs))


def _stacks(run: RunFolder, record: TrialRecord) -> Stacks:
    name = next((name for name in record.raw if name.endswith(f"instructions-{WITH}.folded")), None)
    if name is None:
        return {}
    return folded(outside.read(run.path / "trials" / f"{record.trial:04d}" / name, IMPORT).decode("utf-8", "replace"))


def _flames(place: str, stacks: Mapping[str, Stacks], taken: list[str]) -> list[Flame]:
    flames = list[Flame]()

    def add(slug: str, title: str, lead: str, of: Stacks, than: Stacks | None = None) -> None:
        flames.append(Flame(slug_of(slug, taken), title, tuple(boxes(of, than)), lead))
        taken.append(flames[-1].slug)

    first = next(iter(stacks))
    for label, of in stacks.items():
        add(f"flame-instructions-{label}-{place}", f"Instructions by function: {label}, {place}", "", of)
        if label != first:
            lead = f"Red boxes have a larger share in {label} than in {first}, blue boxes a smaller one; widths are those of {label}."
            title = f"Instructions, {label} against {first}: {place}"
            add(f"flame-instructions-difference-{label}-{place}", title, lead, of, stacks[first])
    return flames
