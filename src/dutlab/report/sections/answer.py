"""Answer of a run, from its cells, verdicts and doubts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from dutlab.doubts import DoubtKind
from dutlab.measures import MeasureUnit, bare_name, is_exact, measure_unit
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import DoubtNote, NoteBook
from dutlab.report.model.run_report import Answer, LimitRow, NextStep, RunReport
from dutlab.report.model.table import Cell, Column, Figure, Missing, Row, Table, Value, figure_text
from dutlab.report.model.words import SIZES, alike_names, asked_of_all, better_of, column_words, in_order, plural, setting_words, size_order
from dutlab.report.sections.factors import FACTORS
from dutlab.report.sections.headline import counted, overall_words, spread_sentence
from dutlab.report.sections.pairs import PAIRS
from dutlab.report.sections.steps import STEPS, found_in_outputs
from dutlab.stats.ratio import FEWEST
from dutlab.subject import Way, figure_name, joined, share_of, subject_of
from dutlab.systems.modes import AS_FOUND
from dutlab.workloads import main_figures, plug_of, settable

MOST_ROWS = 8
"""Largest number of results with a row each; beyond it, and with several modes, a table has a column per place."""
_BESIDE = {"peak/iops": ("peak/depth", "knee/iops", "knee/depth", "knee/clat_mean_ns")}
"""Figure that says little alone → figures shown with it."""
MOST_SENTENCES = 4
"""Largest number of comparisons that are listed; more are counted, and the table has them all."""
REPEATS = 5
"""Repeats suggested after a single one; fewer say little about the spread."""
_PLACE = (*SIZES, "mtu", "client", "server")
_HEADS = {"received_pps": "forwarded", "max_received_pps": "most forwarded", "max_ok_pps": "highest without failure",
          "path_mtu_bytes": "path MTU", "knee/clat_mean_ns": "mean latency there", "peak/depth": "its depth", "knee/depth": "its depth",
          "knee/iops": "at the knee"}  # fmt: skip
_BOUNDS = {"lower_pps": "", "upper_pps": " at most"}
"""Bounds of a goal → what follows the goal's name."""
_PAIRS = " from the host of the row to the host of the column"
_AT_SHARE = {"tl_ns": "median latency", "pps_per_w": "rate by watt"}
"""Measures at a share of the load → words."""
_COUNTED = "Instructions are counted: the same guest gives the same figures, so one trial is enough."
_GOODPUT = "goodput_bps"
_OF_WHICH, _WAYS = "of which", {Way.FORWARD: "forward", Way.BACK: "backward"}
"""Head above the columns of single directions, and their heads."""
_TAKE_REPEATS = ("test", "measure", *settable())


def answer_of(report: RunReport, groups: Sequence[Group], book: NoteBook) -> Answer:
    """Return the answer of a report that is otherwise complete."""
    of = list(_tables(report, groups, book))
    tables = tuple(table for _, table in of)
    cells = [of for table in tables for row in table.rows for of in zip(table.columns, row.cells, strict=True)]
    values = [cell for column, cell in cells if isinstance(cell, Figure | Missing) and not is_exact(column.figure)]
    counts = any(isinstance(cell, Figure) and is_exact(column.figure) for column, cell in cells)
    at_head = tuple(_at_head(report))
    return Answer(
        fast=tuple(_fast(report, of, book)),
        sure=(*((_COUNTED,) if counts else ()), *_sure(report, tables, values)),
        at_head=at_head,
        limited="" if report.busy else _limited(report.limits, groups),
        next=tuple(_next(report, values)),
        tables=tables,
    )


def _tables(report: RunReport, groups: Sequence[Group], book: NoteBook) -> Iterator[tuple[str, Table]]:
    """Yield (workload, table) in the order of the sections. A heat map of hosts is used as it is."""
    of_factors = {s.workload for s in report.sections if s.slug.startswith(FACTORS)}
    for section in report.sections:
        if section.slug.startswith(FACTORS):
            yield section.workload, replace(section.tables[0], again=True)
            continue
        if section.workload in of_factors or section.slug == PAIRS:
            continue
        if section.workload == STEPS and (found := found_in_outputs(section)) is not None:
            yield section.workload, found
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
    names = list(dict.fromkeys(name for r in group.measured or group.disturbed for name in r.figures.get(link, ())))
    found = (
        main_figures(group.cell.workload, names)
        or [name for name in names if better_of(name) or measure_unit(name) is MeasureUnit.WATTS][:3]
    )
    return [*found, *(name for of in found for name in _BESIDE.get(of, ()) if name in names)]


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
        for group in groups:
            asked = setting_words(group.cell.setting, without={*alike, *_PLACE})
            by_place[group.label, _Place(group.cell.links, _size(group), asked)] = group
        return cls(by_place, asked_of_all([g.cell for g in groups], without=_PLACE))

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
        marks = book.common([v.marks for row in rows for v in row.cells if isinstance(v, Figure)])
        workload = self.workload
        of = figure_words(figures[0])
        title = f"{workload}: {of}" if len(figures) == 1 and of != workload else workload
        asked = "" if self.asked == workload else self.asked.removeprefix(f"{workload}, ")
        first = "" if self.labels == [AS_FOUND.name] else "mode"  # the only mode, and none that was applied
        return Table(f"answer-{workload}", title, tuple(columns), tuple(rows), marks, asked, first=first, shaded=wide, again=True)

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
        parts = [Column(_WAYS[way], figures[0], group=_OF_WHICH) for way in ways]
        return [*map(Column, self.heads), *(Column(figure_words(name), name) for name in figures), *parts, known], rows

    def _ways(self, figures: Sequence[str]) -> list[Way]:
        """Return the directions that have a column each: both, if both carried load and each end counted what it received."""
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


def _fast(report: RunReport, tables: Sequence[tuple[str, Table]], book: NoteBook) -> Iterator[str]:
    if report.busy:
        yield report.busy
        if report.cpu_cost is not None:
            yield report.cpu_cost.words
        return
    yield from (sentence for section in report.sections for sentence in section.answer)
    if len(report.headlines) > MOST_SENTENCES:
        yield from _many(report, tables)
    else:
        yield from (f"{h.about}: {h.sentence}" for h in report.headlines)
    if report.headlines:
        yield from overall_words(book.answers.overall)
    spoken = {section.workload for section in report.sections if section.headlines and report.headlines}
    for workload, table in tables:
        if any(c.figure == "knee/iops" for c in table.columns):
            yield from _knees(table)
        elif workload not in spoken:
            yield from _ranges(table)
    yield from _without_rank(tables)
    yield from (f"{of.what}." for of in report.findings if of.kind == "both-ways" and of.price.percent)
    greyed = any(isinstance(c, Missing) and c.greyed is not None for _, t in tables for r in t.rows for c in r.cells)
    if (cost := report.cpu_cost) is not None and (greyed or cost.at_equal_speed):
        yield cost.words
    if not report.headlines and not any(isinstance(c, Figure) for _, t in tables for r in t.rows for c in r.cells):
        done = sum(1 for t in report.trials if t.status == "measured")
        yield f"{plural(done, 'trial')} measured, none with a figure to rank." if done else "No trial has a result."


def _without_rank(tables: Sequence[tuple[str, Table]]) -> Iterator[str]:
    """Yield a sentence naming results of 0 where more is better: nothing was received, so they have no rank."""
    results = dict.fromkeys(
        " ".join(filter(None, ("" if table.same_figure else table.columns[i].head, _row_words(table, row, i))))
        for _, table in tables
        for row in table.rows
        for i, cell in enumerate(row.cells)
        if _is_nothing(table, i, cell)
    )
    if results:
        named, more = list(results)[:MOST_SENTENCES], len(results) - MOST_SENTENCES
        yield f"{plural(len(results), 'result')} of 0, without a rank: {', '.join(named)}{f' and {more} more' if more > 0 else ''}."


def _is_nothing(table: Table, i: int, cell: Cell) -> bool:
    return isinstance(cell, Figure) and not cell.median and table.columns[i].better == "higher"


def _many(report: RunReport, tables: Sequence[tuple[str, Table]]) -> Iterator[str]:
    """Yield a summary of many comparisons: how often each mode was the fastest, and the range of each table."""
    yield f"Of {len(report.headlines)} comparisons: {', '.join(counted(report.headlines))}."
    yield from (sentence for _, table in tables for sentence in _ranges(table))


def _is_of_load(figure: str) -> bool:
    """Return whether a figure is a latency at a share of the rate, up to 100 %."""
    part, measure, _ = figure_name(figure)
    return measure == "tl_ns" and (share_of(part) or 0.0) <= 100  # noqa: PLR2004 -- percent


def _ranges(table: Table) -> Iterator[str]:
    """Yield ranges of the table's first figure; for latencies over the load, those without load and at full load."""
    places = [i for i, c in enumerate(table.columns) if c.figure and (c.group != _OF_WHICH or len(table.rows) == 1)]
    loads = [i for i in places if _is_of_load(table.columns[i].figure)]
    if len(loads) > 1 and len(table.rows) > 1:
        yield from filter(None, (_range(table, [i]) for i in (loads[0], loads[-1])))
    elif sentence := _range(table, places):
        yield sentence


def _range(table: Table, places: Sequence[int]) -> str:
    """Return a range, as `NDR: from 346.3 kpps (nat) to 603.7 kpps (router).`; for a single result, all its figures."""
    results = [
        (row, i, cell) for row in table.rows for i in places if isinstance(cell := row.cells[i], Figure) and not _is_nothing(table, i, cell)
    ]
    if not results:
        return ""

    def text(i: int, cell: Figure) -> str:
        return _with_unit(table, i, cell)

    if len({id(row) for row, _, _ in results}) == 1:
        phrases = [f"{table.columns[i].head} {text(i, cell)}" for row, i, cell in results]
        return ": ".join(filter(None, (_row_words(table, results[0][0]), ", ".join(phrases)))) + "."
    first = places[0] if not table.same_figure or len(places) == 1 else None
    of = [f for f in results if first is None or f[1] == first]
    low, high = min(of, key=lambda f: f[2].median), max(of, key=lambda f: f[2].median)
    words = [_row_words(table, row, i) for row, i, _ in (low, high)]
    ends = [text(*end[1:]) + (f" ({of})" if of else "") for end, of in zip((low, high), words, strict=True)]
    about = table.columns[places[0]].head if first is not None else table.title.replace(_PAIRS, "")
    if low is high:
        return f"{about}: {ends[0]}."
    return f"{about}: from {ends[0]} to {ends[1]}."


def _knees(table: Table) -> Iterator[str]:
    """Yield the knee and the peak of each set of drives and mix. Sums, single drives and mixes are never merged into one range."""
    for row in table.rows:
        of = {c.figure: _with_unit(table, i, cell) for i, c in enumerate(table.columns) if isinstance(cell := row.cells[i], Figure)}
        if not {"peak/iops", "peak/depth", "knee/iops", "knee/depth"} <= of.keys():
            continue
        latency = f", mean latency {of[name]}" if (name := "knee/clat_mean_ns") in of else ""
        knee = f"{of['knee/iops']} at the knee (depth {of['knee/depth']}{latency})"
        where = _row_words(table, row)
        sentence = f"{knee}, at most {of['peak/iops']} (depth {of['peak/depth']})."
        yield f"{where[:1].upper()}{where[1:]}: {sentence}" if where else sentence


def _with_unit(table: Table, i: int, cell: Figure) -> str:
    return figure_text(cell, table.units[i])


def _row_words(table: Table, row: Row, place: int | None = None) -> str:
    words = [
        cell
        for c, cell in zip(table.columns, row.cells, strict=True)
        if c.head in {"link", "drive", "frames", "of", "asked", "client"} and isinstance(cell, str) and cell
    ]
    if any(c.name == "mode" for c in table.columns):  # a factor experiment: the mode alone, and other factors with their names
        at_figure = next(n for n, c in enumerate(table.columns) if c.figure)
        named = [(c, str(cell)) for c, cell in zip(table.columns[:at_figure], row.cells, strict=False) if cell]
        return ", ".join(cell if c.name == "mode" else f"{c.head} {cell}" for c, cell in named)
    by_column = table.same_figure and not any(c.group == _OF_WHICH for c in table.columns)
    at = [table.columns[place].head] if place is not None and by_column else []
    if at and words and any(c.head == "client" for c in table.columns):  # of a matrix: client and server
        words, at = words[:-1], [f"{words[-1]} {at[0]}"]
    sized = [f"{word} bytes" if word.isdigit() else word for word in (*words, *at)]
    label = row.label or row.head
    alone = sized and all((other.label or other.head) == label for other in table.rows)
    return ", ".join(filter(None, ("" if alone else label, *sized)))


def _sure(report: RunReport, tables: Sequence[Table], values: Sequence[Value]) -> Iterator[str]:
    if any(isinstance(v, Figure) for v in values) and (sentence := spread_sentence(values)):
        yield sentence
    without, lab, simulated = _without_result(report), _of_lab(report), _of_simulation(report)
    yield from filter(None, (without, report.repeated if not report.busy else "", lab, simulated))
    common = {mark for t in tables for mark in t.common_marks}
    marks = {mark for v in values if isinstance(v, Figure) for mark in v.marks}
    bare = not any(isinstance(v, Figure) for v in values)
    for note in report.notes:
        is_marked = note.number in marks and (note.grade != "note" or note.number not in common)
        if is_marked or note.grade == "severe" or (bare and note.grade == "warning"):
            yield _of_note(report, note)


def _at_head(report: RunReport) -> Iterator[str]:
    """Yield the sentences of `_sure()` whose content is in the banner of a page too."""
    yield from filter(None, (_without_result(report), _of_lab(report), _of_simulation(report)))
    yield from (_of_note(report, note) for note in report.severe)


def _without_result(report: RunReport) -> str:
    without = Counter(t.status for t in report.unsuccessful)
    if not without:
        return ""
    counts = ", ".join(f"{n} {status}" for status, n in sorted(without.items()))
    n = sum(without.values())
    return f"{n} of {plural(len(report.trials), 'trial')} {'has' if n == 1 else 'have'} no result: {counts}."


def _of_lab(report: RunReport) -> str:
    return "" if report.lab is None else "Measured in an embedded lab: compare these figures with one another, not with hardware."


def _of_simulation(report: RunReport) -> str:
    words = "these and figures from them are made up"
    return f"Simulated: the readings of {', '.join(report.simulated)}; {words}." if report.simulated else ""


def _of_note(report: RunReport, note: DoubtNote) -> str:
    every = len(report.trials) > 1 and len(note.trials) == len(report.trials)
    return f"[{note.number}] {note.grade}: {note.text} ({'all ' if every else ''}{plural(len(note.trials), 'trial')})."


def _limited(limits: Sequence[LimitRow], groups: Sequence[Group]) -> str:
    """Return the limits, as `Limited by line rate (shown): 4 of 6 results; not known: 2`. Results without a verdict count too."""
    counted = Counter(row.verdict for row in limits)
    if not counted:
        return ""
    judged = {(row.label, trial) for row in limits for trial in row.trials}
    without = sum(1 for g in groups if g.measured and not any((g.label, r.trial) in judged for r in g.measured))
    (first, n), *rest = counted.most_common()
    if not rest and not without:
        return "What limited it is not known." if first == "not known" else f"Limited by {first}."
    causes = [(words, n) for words, n in [(first, n), *rest] if words != "not known"]
    if not causes:
        return "What limited it is not known."
    (words, n), *more = causes
    clauses = [f"Limited by {words}: {n} of {plural(len(limits) + without, 'result')}", *(f"{w}: {m}" for w, m in more)]
    if counted["not known"]:
        clauses.append(f"not known: {counted['not known']}")
    if without:
        clauses.append(f"not judged: {without}")
    return "; ".join(clauses) + "."


def _next(report: RunReport, values: Sequence[Value]) -> Iterator[NextStep]:
    """Yield next steps: first for what is missing, then for what would show more."""
    run, rest = shlex.quote(report.name), Counter(t.status for t in report.trials)
    measured = [v for v in values if isinstance(v, Figure)]
    if rest["not done"]:
        yield NextStep(f"Measure what is left: {plural(rest['not done'], 'trial')}.", f"dutlab resume {run}")
    elif report.busy or rest["disturbed"]:
        yield from _calmer(report)
    elif measured and max(v.n for v in measured) == 1 and (again := with_repeats(report.course.command)):
        yield NextStep("Repeat it, to learn how well it repeats.", again)
    elif len({row.label for row in report.limits}) > 1:
        intervals = max((v.n for v in measured), default=1) >= FEWEST
        yield NextStep(f"Compare the modes{', each with its interval' if intervals else ''}.", f"dutlab compare {run}")
    experiments = Counter(row.next_experiment for row in report.limits if row.next_experiment and not report.busy)
    yield from (NextStep(f"To find out more: {words}{'' if words.endswith('?') else '.'}") for words, _ in experiments.most_common(1))
    yield NextStep("Read every table and doubt.", f"dutlab report {run} --print --verbose")


def _waiting(command: str) -> str:
    """Return the command with the option that waits for a quiet machine."""
    return command if "--wait-quiet" in command or not command.startswith("dutlab ") else f"{command} --wait-quiet 10min"


def with_repeats(command: str) -> str:
    """Return the command with repeats; empty if it takes none."""
    words = shlex.split(command)
    if len(words) < 3 or words[0] != "dutlab" or any(w.startswith(("--repeats", "repeats=")) for w in words):  # noqa: PLR2004 -- dutlab, what, of what
        return ""
    if words[1] == "run":
        return shlex.join([*words, "--set", f"repeats={REPEATS}"])
    return shlex.join([*words, "--repeats", str(REPEATS)]) if words[1] in _TAKE_REPEATS else ""


def _calmer(report: RunReport) -> Iterator[NextStep]:
    """Yield steps that give a result to trials without one."""
    kinds = {note.kind for note in report.notes}
    if unsteady := DoubtKind.LINK_WENT_DOWN.name in kinds:
        yield NextStep("Find out why a link goes down: its cable, its transceivers, its ports. Then measure again.", report.course.command)
    if not unsteady or DoubtKind.DISTURBED.name in kinds:
        waiting = _waiting(report.course.command)
        yield NextStep("Stop other programs on these machines, then measure again; this waits until they are quiet.", waiting)
        yield NextStep("Or count disturbed trials, each with its doubt.", f"DUTLAB_DISTURBED=count {report.course.command}")
