"""Groups of trials that are repeats of the same cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from dutlab.plan.cell import Cell
from dutlab.report.model.table import Cell as ShownCell
from dutlab.report.model.table import Row
from dutlab.report.model.words import SIZES, asked_words, size_order
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import identity_of
from dutlab.stats.summary import median
from dutlab.store.cell_figures import NO_COLUMN, Column, Columns, KeyMemory, columns_of, counts
from dutlab.store.cell_figures import CellKey as GroupKey
from dutlab.store.judged import DISTURBED
from dutlab.store.record import TrialRecord
from dutlab.subject import Figures, whole_of
from dutlab.workloads import main_figures


@dataclass
class Group:
    """All trials of one cell: planned trials, and records of finished ones."""

    label: str
    cell: Cell
    """Cell of the first record; its repeat has no meaning here."""
    planned: list[int] = field(default_factory=list)
    records: list[TrialRecord] = field(default_factory=list)
    _medians: dict[tuple[str, str], float | None] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def measured(self) -> list[TrialRecord]:
        """Records with a result that counts. Read it only when all records are present."""
        return [r for r in self.records if counts(r)]

    @cached_property
    def disturbed(self) -> list[TrialRecord]:
        """Records of disturbed trials, which do not count. Read it only when all records are present."""
        return [r for r in self.records if r.status == DISTURBED]

    @cached_property
    def ceilings(self) -> list[Figures]:
        """Ceilings of the records that count, each once: records read from one run share them."""
        return list({id(r.ceilings): r.ceilings for r in self.measured}.values())

    @cached_property
    def main(self) -> tuple[str, str]:
        """Main figure and its subject: the sum of all links, and of both directions if both carry load."""
        link = whole_of(self._columns or (place for r in self.disturbed for place in r.figures), self.cell.link_label)
        there = main_figures(self.cell.workload, self._columns.get(link, ()))
        return (there[0], link) if there else ("", link)

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.measured)

    def column(self, link: str, figure: str) -> Column:
        """Return a figure of the records that count and have it. Call it only when all records are present."""
        return self._columns.get(link, {}).get(figure, NO_COLUMN)

    def figure_names(self, link: str) -> list[str]:
        """Return the figures of a link in the records that count; if none counts, in those of disturbed trials."""
        if self.measured:
            return list(self._columns.get(link, ()))
        return list(dict.fromkeys(name for r in self.disturbed for name in r.figures.get(link, ())))

    def median(self, link: str, figure: str) -> float | None:
        """Return the median over the records that have the figure; None if none has. Call it only when all records are present."""
        if (link, figure) not in self._medians:
            values = self.column(link, figure).values
            self._medians[link, figure] = median(values) if values else None
        return self._medians[link, figure]

    @property
    def size(self) -> str:
        """Frame size or mix; for an imported table of goodput, its MTU."""
        setting = self.cell.setting
        mtu = setting.mtu if isinstance(setting, ImportedSetting) else None
        return setting.size or ("" if mtu is None else f"MTU {mtu}")

    @cached_property
    def asked(self) -> str:
        """Settings of its workload, in words."""
        return asked_words(self.cell.setting, self.cell.tool)

    def row(self, cells: Iterable[ShownCell], *, link: str = "", size: str = "") -> Row:
        """Return a row of a table about this cell; `link` is that of its figures."""
        return Row(self.label, tuple(cells), links=self.cell.link_label, link=link, size=size)

    @property
    def why_missing(self) -> str:
        """Reason for having no result."""
        for record in self.records:
            if record.status != "measured":
                return f"{record.status}: {record.why}"
        return "not measured: the run ended before it" if self.planned else "not part of the plan"


def group(planned: Mapping[int, Cell], records: Sequence[TrialRecord], labels: Mapping[GroupKey, str]) -> list[Group]:
    """Return one group per cell, in the order of the labels, then of the plan."""
    groups, keys = dict[GroupKey, Group](), KeyMemory()
    for number, cell in sorted({**{r.trial: r.cell for r in records}, **planned}.items()):
        if (cell_group := groups.get(key := keys.key_of(cell))) is None:
            cell_group = groups[key] = Group(labels[key], cell)
        cell_group.planned.append(number)
    for record in sorted(records, key=lambda r: r.trial):
        groups[keys.key_of(record.cell)].records.append(record)
    order = {label: place for place, label in enumerate(dict.fromkeys(labels.values()))}
    return sorted(groups.values(), key=lambda g: (order[g.label], g.planned[0]))


def labels_of(cells: Iterable[Cell], factors: Mapping[str, Any]) -> dict[GroupKey, str]:
    """Return cell → row label: the mode and the levels of all varied factors, in the order of the experiment file."""
    keys = KeyMemory()
    all_cells = list({keys.key_of(cell): cell for cell in cells}.values())
    levels: dict[str, dict[str, int]] = {
        name: {level: place for place, level in enumerate(dict.fromkeys(map(str, values)))}
        for name, values in factors.items()
        if isinstance(values, (list, tuple))
    }
    for cell in all_cells:
        for name, level in {**cell.factors, "mode": cell.mode}.items():
            known = levels.setdefault(name, {})
            known.setdefault(level, len(known))
    varied = [name for name, place_by_level in levels.items() if name != "mode" and len(place_by_level) > 1]

    def place(cell: Cell) -> tuple[int, ...]:
        return (levels["mode"][cell.mode], *(levels[n][cell.factors[n]] if n in cell.factors else -1 for n in varied))

    ordered = sorted(all_cells, key=place)
    return {keys.key_of(c): " · ".join([c.mode, *(f"{n} {c.factors[n]}" for n in varied if n in c.factors)]) for c in ordered}


def by_size(groups: Sequence[Group], labels: Sequence[str]) -> list[Group]:
    """Return the groups in the order of labels, then frame sizes, then links."""

    def place(g: Group) -> tuple[object, ...]:
        return labels.index(g.label), size_order(g.cell.setting.size), len(g.cell.links), g.cell.links

    return sorted(groups, key=place)


def trial_notes(groups: Sequence[Group]) -> list[str]:
    """Return the notes of trials as sentences, each once for a label."""
    return list(dict.fromkeys(f"{g.label}: {note}." for g in groups for r in g.measured for note in r.notes))


def present(labels: Sequence[str], groups: Sequence[Group]) -> list[str]:
    """Return the labels that the groups have, in the order of `labels`."""
    there = {g.label for g in groups}
    return [label for label in labels if label in there]


def alike(groups: Sequence[Group], *, with_links: bool) -> list[list[Group]]:
    """Return the groups of each table: same workload and parameters, any mode and frame size, and any links unless `with_links`."""

    def key(group: Group) -> tuple[str, tuple[str, ...], str]:
        return (group.cell.workload, group.cell.links if with_links else (), repr(identity_of(group.cell.params, without=SIZES)))

    ordered = sorted(groups, key=lambda g: (g.cell.workload, len(g.cell.links) if with_links else 0, key(g)))
    return [list(same) for _, same in groupby(ordered, key=key)]
