"""Doubts of a run, numbered for the page, and the figures that each of them affects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dutlab.doubts import DoubtKind
from dutlab.report.model.groups import Group
from dutlab.report.model.run_answers import RunAnswers
from dutlab.report.model.table import Column, Figure, Row, Table
from dutlab.report.model.words import numbers_words
from dutlab.store.record import DoubtRecord, TrialRecord
from dutlab.subject import apart, back_of

FIRST_INTERVAL_N = 6
"""Repeats from which a 95 % interval exists (stats.summary)."""
MOST_DETAILS = 8
_Key = tuple[str, str, str, str]
_Scopes = tuple[tuple[_Key, str], ...]
"""Doubts of a record, each with its subject."""
GradeWord = Literal["note", "warning", "severe"]
GRADES: tuple[GradeWord, ...] = ("severe", "warning", "note")


@dataclass(frozen=True)
class DoubtNote:
    """One doubt of the page, with the number that marks the figures it touches."""

    number: int
    kind: str
    grade: GradeWord
    text: str
    remedy: str
    details: tuple[str, ...]
    """Details from single trials, each once."""
    trials: tuple[int, ...]


class NoteBook:
    """Doubts of a run's records, and of their repeats together; `answers` holds the comparisons of the run's cells."""

    def __init__(self, groups: Sequence[Group], *, first: int = 1) -> None:
        trials: dict[_Key, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        scopes, known = dict[int, _Scopes](), dict[_Scopes, _Scopes]()
        for record, doubts in sorted(_doubts(groups), key=lambda of: of[0].trial):
            for doubt in doubts:
                about = f"{doubt.about}: " if doubt.about and doubt.detail else doubt.about
                trials[_key(doubt)][about + doubt.detail].append(record.trial)
            doubt_scopes = tuple((_key(doubt), _scope(doubt, record)) for doubt in doubts)
            scopes[record.trial] = known.setdefault(doubt_scopes, doubt_scopes)
        ordered = sorted(trials, key=lambda k: (GRADES.index(k[1]), k[0], k[2]))
        number = {key: n for n, key in enumerate(ordered, first)}
        marks = {of: tuple((number[key], scope) for key, scope in of) for of in known}
        numbers = {of: tuple(sorted({number[key] for key, _ in of})) for of in known}
        self._marks = {trial: marks[of] for trial, of in scopes.items()}
        self._numbers = {trial: numbers[of] for trial, of in scopes.items()}
        self._marks_of = dict[tuple[int, ...], set[tuple[int, str]]]()
        self.notes = tuple(
            DoubtNote(
                number=number[key],
                kind=key[0],
                grade=key[1],  # type: ignore[arg-type]  # as above
                text=key[2],
                remedy=key[3],
                details=_details(trials[key]),
                trials=tuple(sorted({t for of_detail in trials[key].values() for t in of_detail})),
            )
            for key in ordered
        )
        self._severe = {n.number for n in self.notes if n.grade == "severe"}
        self._disturbed = {n.number for n in self.notes if n.kind == DoubtKind.DISTURBED.name}
        self.answers = RunAnswers([r for group in groups for r in group.measured])

    def touching(self, trials: tuple[int, ...], link: str, figure: str) -> set[int]:
        """Return numbers of the notes about one figure of these trials. A doubt about a link also applies to sums that include it."""
        whole, flows = {"", link, figure}, apart(link)
        if (every := self._marks_of.get(trials)) is None:  # all figures of a cell have the same trials, and most trials the same doubts
            every = self._marks_of[trials] = {mark for marks in {self._marks.get(trial, ()) for trial in trials} for mark in marks}
        return {number for number, scope in every if scope in whole or scope in flows}

    def of_trial(self, trial: int) -> tuple[int, ...]:
        """Return the numbers of all notes of a trial."""
        return self._numbers.get(trial, ())

    def severe(self, marks: Iterable[int]) -> bool:
        """Return whether any of the notes has the highest grade."""
        return not self._severe.isdisjoint(marks)

    def disturbed(self, marks: Iterable[int]) -> bool:
        """Return whether any of the notes is about other work that disturbed a trial."""
        return not self._disturbed.isdisjoint(marks)

    def common(self, of_figures: Sequence[Iterable[int]]) -> tuple[int, ...]:
        """Return notes that apply to every figure of a table and are shown once at its title; severe ones stay in the cells."""
        if not of_figures:
            return ()
        shared = set.intersection(*(set(marks) for marks in of_figures))
        return tuple(sorted(shared - self._severe))

    def table(
        self, slug: str, title: str, columns: Iterable[Column], rows: Iterable[Row], *, asked: str = "", notes: tuple[str, ...] = ()
    ) -> Table:
        """Return a table with the notes that apply to every figure of its rows."""
        rows = tuple(rows)
        marks = self.common([cell.marks for row in rows for cell in row.cells if isinstance(cell, Figure)])
        return Table(slug, title, tuple(columns), rows, marks, asked, notes)


def _doubts(groups: Sequence[Group]) -> Iterator[tuple[TrialRecord, list[DoubtRecord]]]:
    """Yield each record with all of its doubts."""
    for group in groups:
        joint = _joint_doubts(group)
        for record in group.records:
            yield record, [*record.doubts, *_ledger_doubts(record), *(joint if record.status == "measured" else ())]


def _key(doubt: DoubtRecord) -> _Key:
    return (doubt.kind, doubt.grade, doubt.text, doubt.remedy)


def _scope(doubt: DoubtRecord, record: TrialRecord) -> str:
    """Return the subject of a doubt; empty if it is about everything, or unknown."""
    about = doubt.about
    if not about:
        return ""
    links = {*record.figures, *record.cell.links, *(f.link for f in record.flows)}
    is_known = about in links or about in map(back_of, links) or any(about in of for of in record.figures.values())
    return about if is_known else ""


def _ledger_doubts(record: TrialRecord) -> list[DoubtRecord]:
    """Return doubts about flows that do not balance, unless the record has that doubt already."""
    kind = DoubtKind.LEDGER_OPEN
    links = [flow.link for flow in record.flows if not flow.balances]
    if not links or record.doubted(kind):
        return []
    return [DoubtRecord(kind=kind.name, grade=kind.grade.value, text=kind.text, remedy=kind.remedy, about=link) for link in links]


def _joint_doubts(group: Group) -> list[DoubtRecord]:
    """Return the doubts about the number of repeats."""
    n, out = len(group.measured), []
    few = DoubtKind.FEW_REPEATS
    if n < FIRST_INTERVAL_N and not any(r.doubted(few) for r in group.records):
        out.append(DoubtRecord(kind=few.name, grade=few.grade.value, text=few.text, remedy=few.remedy))
    if n < len(group.planned):
        detail = f"{n} of {len(group.planned)} repeats in {group.label}, {group.cell.workload}"
        out.append(
            DoubtRecord(
                kind="REPEATS_MISSING",
                grade="warning",
                text="some repeats have no result; the median is of the others",
                remedy="see the trials without a result; `dutlab resume` repeats those that were cut",
                detail=detail,
            )
        )
    return out


def _details(of: dict[str, list[int]]) -> tuple[str, ...]:
    details = [(detail, trials) for detail, trials in of.items() if detail]
    sentences = (
        f"{detail} ({'trial' if len(trials) == 1 else 'trials'} {numbers_words(trials)})" for detail, trials in details[:MOST_DETAILS]
    )
    more = len(details) - MOST_DETAILS
    return (*sentences, f"and {more} more, in the records") if more > 0 else tuple(sentences)
