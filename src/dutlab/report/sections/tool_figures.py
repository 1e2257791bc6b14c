"""All figures of a tool without a method in dutlab: storage by fio, latency under load by flent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.measures import bare_name
from dutlab.report.model.figures import value_of, value_or_dash
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import alike_names, asked_of_all, better_of, setting_words
from dutlab.report.sections.headline import compared, first_of
from dutlab.subject import WAYS_OF_DRIVES, figure_name, sums_first

_ORDER = (*WAYS_OF_DRIVES.values(), None)
"""Reads, writes and trims, then figures without a way."""


@dataclass(frozen=True)
class _Table:
    """Figures of one direction. `asked` is group (by identity) → its settings that not all groups share."""

    workload: str
    direction: str
    figures: tuple[str, ...]
    groups: Sequence[Group]
    asked: Mapping[int, str]

    def table(self, book: NoteBook) -> Table:
        several = len({link for g in self.groups for link in _places(g)}) > 1
        rows = [row for g in self.groups if _has(g, self.figures) for row in self._rows(g, book, several=several)]
        columns = (
            *([Column("of")] if several else []),
            *([Column("asked")] if any(self.asked.values()) else []),
            *(Column(_head(name), name) for name in self.figures),
        )
        slug = f"{self.workload}-{self.direction}" if self.direction else self.workload
        return book.table(slug, self.direction or "figures", columns, rows)

    def _rows(self, group: Group, book: NoteBook, *, several: bool) -> list[Row]:
        settings = [self.asked[id(group)]] if any(self.asked.values()) else []
        return [
            group.row(
                (*([place] if several else []), *settings, *(value_or_dash(group, name, book, place) for name in self.figures)), link=place
            )
            for place in _places(group)
            if _is_shown(place, group)
        ]

    def headlines(self, book: NoteBook) -> tuple[Headline, ...]:
        """Return headlines of the first figure of which more is better: modes on the same drives, or the drives of a single mode."""
        name = next((name for name in self.figures if better_of(name) == "higher"), "")
        if not name:  # nothing is fastest in times or losses
            return ()
        one_mode = len({g.label for g in self.groups}) == 1
        alike = {id(g): (self.asked[id(g)], len(g.cell.links) if one_mode else g.cell.link_label) for g in self.groups}
        results = []
        for key in dict.fromkeys(alike.values()):
            same, asked = [g for g in self.groups if alike[id(g)] == key], key[0]
            named = [(g.cell.link_label if one_mode else g.label, value_of(g, g.main[1], name, book)) for g in same]
            about = ", ".join(word for word in (f"{self.workload} {self.direction}".strip(), asked) if word)
            results.append(compared(about, named, name, book))
        return first_of([h for h in results if h is not None])


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table per direction, with a row per mode, drives and settings, and a column per figure."""
    workload = groups[0].cell.workload
    groups = sorted(groups, key=lambda g: (labels.index(g.label), len(g.cell.links), g.cell.link_label, _settings(g)))
    figures = list(dict.fromkeys(name for g in groups for r in g.measured for of in r.figures.values() for name in of))
    alike = alike_names(g.cell.setting for g in groups)
    asked = {id(g): setting_words(g.cell.setting, without=alike) for g in groups}
    ways = {name: figure_name(name).way for name in figures}
    tables = [
        _Table(workload, "" if way is None else way.value, tuple(name for name in figures if ways[name] is way), groups, asked)
        for way in _ORDER
        if way in ways.values()
    ]
    return Section(
        slug=workload,
        workload=workload,
        title=workload,
        lead=f"Figures reported by the tool: {asked_of_all([g.cell for g in groups])}.",
        tables=tuple(table.table(book) for table in tables),
        words=tuple(trial_notes(groups)),
        headlines=tuple(headline for table in tables if table.direction or len(tables) == 1 for headline in table.headlines(book)),
    )


def _settings(group: Group) -> list[tuple[str, int, float | str]]:
    """Return a sort key with numbers as numbers, so that a depth of 8 comes before one of 16."""
    values = group.cell.params.items()
    return [(name, 1, value) if isinstance(value, str) else (name, 0, value or 0) for name, value in values]


def _places(group: Group) -> list[str]:
    """Return the places with figures: all driven places together, then each."""
    places = sums_first(place for r in group.measured for place in r.figures)
    return list(dict.fromkeys((group.main[1], *group.cell.links, *places)))


def _is_shown(place: str, group: Group) -> bool:
    """Return whether a place has a row: single drives of an array have none; a single drive keeps its row even without a figure."""
    places = {place for r in group.measured for place in r.figures}
    if place in group.cell.links:
        return not group.measured or not places.isdisjoint(group.cell.links)
    return place in places


def _has(group: Group, figures: Sequence[str]) -> bool:
    """Return whether a group is in a table; a cell without any result is in all of them, with the reason."""
    return not group.measured or any(name in of for r in group.measured for of in r.figures.values() for name in figures)


def _head(figure: str) -> str:
    """Return a column head: `clat p99` for `clat_p99_ns.read`, in the table of reads."""
    return bare_name(str(figure_name(figure)._replace(way=None))).replace("_", " ") or "rate"
