"""Publications: reports in the form of a certain kind of review, with its tables, figures and units.

A style selects what its readers look for; everything else is in the full report, which each publication names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dutlab.choices import STYLES
from dutlab.errors import InputError
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Table
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


_SURE = ("shown", "likely", "possible")
"""Words of confidence, from most to least certain."""
Builder = Callable[[Sequence[ReadRun], Sequence[RunReport]], Contents]


def publication(style: str, reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Publication:
    """Return the runs in a style. Raises InputError if none of them has what the style shows."""
    from dutlab.report.pages.method_words import method_words  # noqa: PLC0415 -- only publications need it

    build: Builder = importlib.import_module(STYLES[style]).contents
    contents = build(reads, reports)
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
        certainty=tuple(words for r in reports for words in _certainty(r)),
        limits=tuple(words for r in reports for words in _limits(r)),
        methods=tuple((r.name, method_words(r)) for r in reports),
        runs=tuple(reports),
    )


def _limits(r: RunReport) -> list[str]:
    """Return a sentence for each mode, size and verdict, with the lowest confidence among its links."""
    confidence_by_limit: dict[tuple[str, str], str] = {}
    for row in r.limits:
        if row.confidence:
            key = (f"{row.label}, {row.size or row.workload}", row.words)
            confidence_by_limit[key] = max(confidence_by_limit.get(key, "shown"), row.confidence, key=_SURE.index)
    return [f"{about}: {words} ({sure})." for (about, words), sure in confidence_by_limit.items()]


def _certainty(r: RunReport) -> list[str]:
    repeats = f"{r.experiment}: {plural(r.course.repeats, 'repeat')}" + (f". {r.spread}" if r.spread else ".")
    if r.course.repeats < 2:  # noqa: PLR2004 -- one repeat has no spread
        repeats = f"{r.experiment}: measured once; the spread between repeats is unknown."
    severe = [f"{note.text[:1].upper()}{note.text[1:]} ({plural(len(note.trials), 'trial')})." for note in r.severe]
    return [repeats, *severe]
