"""Publications: reports in the form of a certain kind of review, with its tables, figures and units.

A style selects the content for its readers; the rest is in the full report, which each publication names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dutlab.choices import STYLES
from dutlab.errors import InputError
from dutlab.report.model.run_report import LimitRow, ReadRun, RunReport
from dutlab.report.model.table import Figure, Table
from dutlab.report.model.words import plural
from dutlab.report.plots.plot import Plot


@dataclass(frozen=True)
class Contents:
    """Contents of a style: answers in sentences, tables, and plots by the slug of the table above them."""

    answers: tuple[str, ...]
    tables: tuple[Table, ...]
    plots: Mapping[str, tuple[Plot, ...]]


@dataclass(frozen=True)
class Publication:
    """Content of a publication of some runs in one style."""

    style: str
    title: str
    contents: Contents
    certainty: tuple[str, ...]
    """Confidence in the figures, a sentence or two for each run."""
    limits: tuple[str, ...]
    """Known limits of the figures."""
    methods: tuple[tuple[str, tuple[str, ...]], ...]
    """Run → its method, in sentences."""
    runs: tuple[RunReport, ...]


_LAST = datetime.max.replace(tzinfo=UTC)
"""Place of a run without a trial: after all others."""
_SURE = ("shown", "likely", "possible")
"""Words of confidence, from most to least certain."""
Builder = Callable[[Sequence[ReadRun], Sequence[RunReport]], Contents]


def publication(style: str, reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Publication:
    """Return the runs in a style. Raises InputError if none of them has the figures of the style."""
    from dutlab.report.pages.method_words import method_words  # noqa: PLC0415 -- only publications need it

    module = importlib.import_module(STYLES[style])
    if getattr(module, "IN_TIME", False):
        in_time = sorted(zip(reads, reports, strict=True), key=lambda of: min((r.started for r in of[0].records), default=_LAST))
        reads, reports = [read for read, _ in in_time], [report for _, report in in_time]
    build: Builder = module.contents
    contents = build(reads, reports)
    contents = replace(contents, tables=tuple(_marked_once(table, reports) for table in contents.tables))
    if not contents.tables:
        done = sorted({r.cell.workload for read in reads for r in read.records})
        raise InputError(
            f"style {style}: {', '.join(r.name for r in reports)}: the runs have nothing that this style shows",
            remedy=f"{'these runs have ' + ', '.join(done) if done else 'they have no results'}; leave --style out to show everything",
        )
    return Publication(
        style=style,
        title=", ".join(dict.fromkeys(r.experiment for r in reports)),
        contents=contents,
        certainty=tuple(words for r in reports for words in _certainty(r, run_words(r, reports))),
        limits=tuple(f"{label_words(r, reports)}{words}" for r in reports for words in _limits(r)),
        methods=tuple((r.name, method_words(r)) for r in reports),
        runs=tuple(reports),
    )


def _marked_once(table: Table, reports: Sequence[RunReport]) -> Table:
    """Return the table with the notes that apply to every figure of a run as common marks; severe ones stay in the cells."""
    marks = [set(cell.marks) for row in table.rows for cell in row.cells if isinstance(cell, Figure)]
    common = set(table.common_marks)
    for r in reports:
        numbers = {note.number for note in r.notes}
        of_run = [of for of in marks if of & numbers] if len(reports) > 1 else marks
        common |= set.intersection(*of_run) - {note.number for note in r.severe} if of_run else set()
    return replace(table, common_marks=tuple(sorted(common)))


def run_words(report: RunReport, reports: Sequence[RunReport]) -> str:
    """Return the prefix of a run's sentences, as `after: `, which distinguishes them from other runs'; empty for a single run."""
    if len(reports) == 1:
        return ""
    names = [r.experiment for r in reports]
    return f"{report.experiment if names.count(report.experiment) == 1 else report.name}: "


def label_words(report: RunReport, reports: Sequence[RunReport]) -> str:
    """Return run_words() for sentences that begin with a label; empty if no other run has one of the run's labels."""
    others = {label for r in reports if r is not report for label in r.labels}
    return run_words(report, reports) if others & set(report.labels) else ""


def _limits(r: RunReport) -> list[str]:
    """Return a sentence for each verdict of each mode and size, with the lowest confidence among its places.

    If a mode and size have several verdicts, or only some of its results have one, each sentence names its links and settings.
    """
    asked = {t.group: t.asked for t in r.trials} | {t.number: t.asked for t in r.trials}
    cells: dict[str, list[tuple[str, LimitRow]]] = {}
    for row in r.limits:
        of_trial = asked.get(row.trials[0], "") if row.trials else ""
        cells.setdefault(f"{row.label}, {row.size or row.workload}", []).append((of_trial, row))
    out = []
    for about, rows in cells.items():
        if len({row.words if row.confidence else "" for _, row in rows}) == 1:
            sure = max((row.confidence for _, row in rows), key=lambda of: _SURE.index(of) if of else -1)
            out += [f"{about}: {rows[0][1].words} ({sure})."] if sure else []
            continue
        places = len({row.links for _, row in rows}) > 1
        settings = len({words for words, _ in rows}) > 1
        for of_trial, row in rows:
            where = [about, *([row.where] if places else []), *([of_trial] if settings and of_trial else [])]
            out += [f"{', '.join(where)}: {row.words} ({row.confidence})."] if row.confidence else []
    return list(dict.fromkeys(out))


def _certainty(r: RunReport, named: str) -> list[str]:
    about = named or f"{r.experiment}: "
    repeats = f"{about}{plural(r.course.repeats, 'repeat')}" + (f". {r.spread}" if r.spread else ".")
    if r.course.repeats < 2:  # noqa: PLR2004 -- one repeat has no spread
        repeats = f"{about}measured once; the spread between repeats is unknown."
    severe = [f"{note.text[:1].upper()}{note.text[1:]} ({plural(len(note.trials), 'trial')})." for note in r.severe]
    return [repeats, *(f"{named}{words}" for words in severe)]
