"""Tables of a run's answer: a row per result, or a row per mode and a column per place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from dutlab.measures import MeasureUnit, bare_name, measure_unit
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Cell, Column, Missing, Row, Table
from dutlab.report.model.words import SIZES, alike_names, asked_of_all, better_of, column_words, in_order, setting_words, size_order
from dutlab.report.sections.factors import FACTORS
from dutlab.report.sections.pairs import PAIRS
from dutlab.report.sections.steps import STEPS, found_in_outputs
from dutlab.subject import Way, figure_name, joined, share_of, subject_of
from dutlab.systems.modes import AS_FOUND
from dutlab.workloads import main_figures, plug_of

MOST_ROWS = 8
"""Largest number of results with a row each; beyond it, and with several modes, a table has a column per place."""
_BESIDE = {"peak/iops": ("peak/depth", "knee/iops", "knee/depth", "knee/clat_mean_ns")}
"""Figure that says little alone → figures shown with it."""
_PLACE, _ENDS = (*SIZES, "mtu"), ("client", "server")
"""Settings that a place names; the ends only where the cells are pairs of hosts."""
_HEADS = {"received_pps": "forwarded", "max_received_pps": "most forwarded", "max_ok_pps": "highest without failure",
          "path_mtu_bytes": "path MTU", "knee/clat_mean_ns": "mean latency there", "peak/depth": "its depth", "knee/depth": "its depth",
          "knee/iops": "at the knee"}  # fmt: skip
_BOUNDS = {"lower_pps": "", "upper_pps": " at most"}
"""Bounds of a goal → text after the goal's name."""
_AT_SHARE = {"tl_ns": "median latency", "pps_per_w": "rate by watt"}
"""Measures at a share of the load → words."""
_GOODPUT = "goodput_bps"
OF_WHICH, _WAYS = "of which", {Way.FORWARD: "forward", Way.BACK: "backward"}
"""Head above the columns of single directions, and their heads."""


def answer_tables(report: RunReport, groups: Sequence[Group], book: NoteBook) -> Iterator[tuple[str, Table]]:
    """Yield (workload, table) in the order of the sections. A heat map of hosts is used as it is."""
    of_factors = {s.workload for s in report.sections if s.slug.startswith(FACTORS)}
    for section in report.sections:
        if section.slug.startswith(FACTORS):
            yield section.workload, replace(section.tables[0], again=True)
            continue
        if section.workload in of_factors or section.slug == PAIRS:
            continue
        if section.workload == STEPS and (outputs := found_in_outputs(section)) is not None:
            yield section.workload, outputs
            continue
        same = [g for g in groups if g.cell.workload == section.workload]
        figures = list(dict.fromkeys(name for g in same for name in _judged_by(g)))
        if maps := [t for t in section.tables if t.shaded and not t.folded]:
            judged = [t for t in maps if {c.figure for c in t.columns} & set(figures)]
            yield from ((section.workload, replace(t, again=True)) for t in judged or maps[:1])
            continue
        if figures:
            yield section.workload, _Cells.of(same).table(figures, report, book)


def _judged_by(group: Group) -> list[str]:
    """Return the main figures of a cell; without the usual ones, the first three with a better direction."""
    link = group.main[1]
    names = group.figure_names(link)
    figures = (
        main_figures(group.cell.workload, names)
        or [name for name in names if better_of(name) or measure_unit(name) is MeasureUnit.WATTS][:3]
    )
    return [*figures, *(name for of in figures for name in _BESIDE.get(of, ()) if name in names)]


@dataclass(frozen=True)
class _Place:
    """Place and settings of a measurement, without its mode."""

    links: tuple[str, ...]
    size: str
    """Frame size or mix, MTU, or the two hosts of a pair."""
    asked: str
    """Settings that not all cells share."""

    @property
    def order(self) -> tuple[object, ...]:
        return (in_order(self.asked), len(self.links), self.links, size_order(self.size))


@dataclass(frozen=True)
class _Cells:
    """Cells of one workload by label and place."""

    by_place: Mapping[tuple[str, _Place], Group]
    asked: str
    """Settings that all cells share."""

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Self:
        alike, by_place = alike_names(g.cell.setting for g in groups), {}
        named = (*_PLACE, *(_ENDS if any(g.cell.setting.ends for g in groups) else ()))
        for group in groups:
            asked = setting_words(group.cell.setting, without={*alike, *named})
            by_place[group.label, _Place(group.cell.links, _size(group), asked)] = group
        return cls(by_place, asked_of_all([g.cell for g in groups], without=named))

    @property
    def workload(self) -> str:
        return next(iter(self.by_place.values())).cell.workload

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(label for label, _ in self.by_place))

    @property
    def places(self) -> list[_Place]:
        return sorted({place for _, place in self.by_place}, key=lambda p: p.order)

    @cached_property
    def heads(self) -> dict[str, Callable[[_Place], str]]:
        """Columns that distinguish the places: head → text of a place."""
        places = self.places
        several = len({p.links for p in places}) > 1
        alone = all(len(p.links) == 1 for p in places)
        words_by_head: dict[str, Callable[[_Place], str]] = {}
        if several:
            place = plug_of(self.workload).place
            words_by_head[place] = lambda p: p.links[0] if alone else column_words(p.links, joined(p.links), place)
        if len({p.size for p in places}) > 1:
            words_by_head["frames" if any(g.cell.setting.size for g in self.by_place.values()) else "of"] = lambda p: p.size
        if len({p.asked for p in places}) > 1:
            words_by_head["asked"] = lambda p: p.asked
        return words_by_head

    def table(self, figures: Sequence[str], report: RunReport, book: NoteBook) -> Table:
        """Return the table: a row per result, or, for many results of several modes, a row per mode and a column per place."""
        several = len(self.labels) > 1 and len(self.places) > 1
        full = 2 * len(self.by_place) > len(self.labels) * len(self.places)
        wide = several and full and len(figures) == 1 and len(self.by_place) > MOST_ROWS
        columns, rows = self._wide(figures[0], book) if wide else self._long(figures, report, book)
        workload = self.workload
        of = figure_words(figures[0])
        title = f"{workload}: {of}" if len(figures) == 1 and of != workload else workload
        asked = "" if self.asked == workload else self.asked.removeprefix(f"{workload}, ")
        first = "" if self.labels == [AS_FOUND.name] else "mode"  # the only mode, and none that was applied
        return replace(book.table(f"answer-{workload}", title, columns, rows, asked=asked), first=first, shaded=wide, again=True)

    def _wide(self, figure: str, book: NoteBook) -> tuple[list[Column], list[Row]]:
        heads = {p: ", ".join(filter(None, (words(p) for words in self.heads.values()))) or "–" for p in self.places}
        columns = [Column(head, figure, links=p.links, link=joined(p.links), size=p.size) for p, head in heads.items()]
        return columns, [Row(label, tuple(self._value(label, p, figure, book) for p in self.places)) for label in self.labels]

    def _value(self, label: str, place: _Place, figure: str, book: NoteBook) -> Cell:
        group = self.by_place.get((label, place))
        if group and group.measured and not _judged_by(group):
            return Missing("no result: its doubts say why", tuple(r.trial for r in group.measured))
        return value_of(group, group.main[1], figure, book) if group else ""

    def _long(self, figures: Sequence[str], report: RunReport, book: NoteBook) -> tuple[list[Column], list[Row]]:
        limits = {(row.label, trial): row for row in report.limits for trial in row.trials}
        ways, rows = self._ways(figures), list[Row]()
        for label, place in ((label, place) for label in self.labels for place in self.places if (label, place) in self.by_place):
            group = self.by_place[label, place]
            own, words = _judged_by(group), tuple(words(place) for words in self.heads.values())
            cells = ("" if group.measured and own and name not in own else self._value(label, place, name, book) for name in figures)
            each = (value_of(group, flow, figures[0], book) if (flow := _flow(group, way)) else "" for way in ways)
            limit = next((limits[label, r.trial].verdict for r in group.measured if (label, r.trial) in limits), "")
            rows.append(Row(label, (*words, *cells, *each, limit), links=joined(place.links), link=group.main[1], size=place.size))
        verdicts = {row.verdict for row in report.limits}  # a single verdict is in the sentence below
        known = Column("limited by", shown=any(row.cells[-1] for row in rows) and len(verdicts | {row.cells[-1] for row in rows}) > 1)
        parts = [Column(_WAYS[way], figures[0], group=OF_WHICH) for way in ways]
        return [*map(Column, self.heads), *(Column(figure_words(name), name) for name in figures), *parts, known], rows

    def _ways(self, figures: Sequence[str]) -> list[Way]:
        """Return the directions that have a column each: both, if both carried load and each end counted its received frames."""
        if figures[0] != _GOODPUT or not any(subject_of(g.main[1]).way is Way.BOTH for g in self.by_place.values() if g.measured):
            return []
        return [Way.FORWARD, Way.BACK]


def _flow(group: Group, way: Way) -> str:
    """Return the place of one direction of a load in both directions; empty without one."""
    whole = subject_of(group.main[1])
    place = replace(whole, way=way).place
    return place if whole.way is Way.BOTH and any(place in r.figures for r in group.measured) else ""


def figure_words(name: str) -> str:
    """Return the words of a figure: `NDR` for `ndr/lower_pps`, `goodput` for `goodput_bps`."""
    if name in _HEADS:
        return _HEADS[name]
    part, measure, _ = figure_name(name)
    if measure in _AT_SHARE and (share := share_of(part)) is not None:
        return f"{_AT_SHARE[measure]} at {share:g} % load"
    if part and measure in _BOUNDS:
        return f"{part.upper() if part in {'ndr', 'pdr'} else part}{_BOUNDS[measure]}"
    return bare_name(name).replace("_", " ") or measure


def _size(group: Group) -> str:
    return group.size or " to ".join(group.cell.setting.ends)
