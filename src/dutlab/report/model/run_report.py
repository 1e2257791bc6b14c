"""A report as data, which the HTML, Markdown, CSV and JSON writers print.

A figure is a median over repeats with its spread; a missing figure has a reason. Rates are in bits or frames a second, latencies in
nanoseconds; only the writers convert them to other units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from dutlab.plan.cell import Cell
from dutlab.report.model.course import Conditions, RunCourse, RunWatch
from dutlab.report.model.cpu import CpuCost
from dutlab.report.model.curve import Curve
from dutlab.report.model.flame import Flame
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import DoubtNote, NoteBook
from dutlab.report.model.shown_tables import shared_marks
from dutlab.report.model.table import Table
from dutlab.report.model.testbed_map import TestbedMap
from dutlab.report.model.watched_means import SampleMeans
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import plug_of

if TYPE_CHECKING:
    from dutlab.analysis.doctor import Finding
    from dutlab.analysis.limited.finding import LimitFinding

MOST_LISTED = 1000
"""Largest number of trials that a page lists one by one."""


@dataclass(frozen=True)
class ReadRun:
    """Contents of a run folder, from which every form of report is made."""

    run: RunFolder
    resolved: Mapping[str, Any]
    experiment: Mapping[str, Any]
    testbed: Mapping[str, Any]
    plan: Mapping[str, Any]
    """plan.json without its trials, which are in `planned`."""
    planned: Mapping[int, Cell]
    records: list[TrialRecord]
    """Records without watched values and times of threads."""
    means: SampleMeans
    aside: list[TrialRecord]
    """Records of attempts that do not count."""
    lost: list[TrialRecord]
    """Records of attempts that lost a host."""
    facts: Mapping[str, Mapping[str, Any]]
    """Facts of hosts."""
    findings: tuple[Finding, ...]
    """Findings of each examination of the testbed, each once. Runs of other tools, and older ones, have none."""
    groups: Sequence[Group]
    labels: tuple[str, ...]
    """Labels in the order of the rows."""
    book: NoteBook
    faults: list[str]
    """Parts that could not be read."""


@dataclass(frozen=True)
class NextStep:
    """Suggested next step."""

    words: str
    """Text, a sentence."""
    command: str = ""
    """Command to paste, with the run's name; empty if dutlab has no command for it."""


@dataclass(frozen=True)
class Answer:
    """Sentences, each clear without the others, and the tables that they are from."""

    fast: tuple[str, ...]
    """Answers, one sentence for each question; without a result, the reason."""
    sure: tuple[str, ...]
    """Agreement of repeats, number of trials without a result, and every severe doubt."""
    limited: str
    """Limit of the results; empty if not known, as for latencies."""
    next: tuple[NextStep, ...]
    """Next steps, most useful first."""
    tables: tuple[Table, ...]
    """Tables with a row per result and its limit; if modes were measured at several places, a row per mode and a column per place."""
    at_head: tuple[str, ...] = ()
    """Sentences of `sure` that the head of a page repeats with more detail."""


@dataclass(frozen=True)
class DrawnTable:
    """A table of the section that is drawn as well."""

    kind: Literal["links", "sizes", "factors", "effects"]
    """`links`: a mark per figure, below the name of its mode. `sizes`: a plot per figure, with a line per mode over frame sizes.
    `factors`: a bar per combination of levels. `effects`: ratios with their intervals."""
    table: str
    """Slug of the table with the figures; the plots' names begin with it."""
    below: str
    """Slug of the table that the plots are below."""


@dataclass(frozen=True)
class Section:
    """Part of the report about one workload. Every form of the report shows it."""

    slug: str
    workload: str
    title: str
    lead: str
    """Introduction: a few sentences on how to read it."""
    tables: tuple[Table, ...]
    drawings: tuple[DrawnTable, ...] = ()
    curves: tuple[Curve, ...] = ()
    flames: tuple[Flame, ...] = ()
    diagrams: tuple[TestbedMap, ...] = ()
    words: tuple[str, ...] = ()
    """Findings in sentences."""
    unknown: tuple[str, ...] = ()
    """Open questions, in phrases."""
    headlines: tuple[Headline, ...] = ()
    answer: tuple[str, ...] = ()
    """Findings that the answer of the run begins with, in sentences."""
    deviations: tuple[str, ...] = ()
    """Deviations from the standard that the workload follows."""


@dataclass(frozen=True)
class TrialLine:
    """A trial, and where its files lie, relative to the report."""

    number: int
    group: int
    """Lowest trial number of its cell; the same for all repeats."""
    status: Literal["measured", "failed", "refused", "disturbed", "not done"]
    why: str
    label: str
    workload: str
    links: str
    asked: str
    repeat: int
    started: str
    seconds: float
    marks: tuple[int, ...]
    files: tuple[tuple[str, str], ...]
    """Name and relative path; the record first."""
    result: str = ""
    """Its main figure as text, as `615.2 kpps`; empty without one."""

    @property
    def what(self) -> str:
        """Settings of the workload, and its links or drives."""
        return f"{self.asked}, {plug_of(self.workload).place} {self.links}" if self.links else self.asked


@dataclass(frozen=True)
class HeadlineFigure:
    """Source of a headline's figure: the median over `trials` of the records' values under `link` and `figure`."""

    label: str
    link: str
    figure: str
    trials: tuple[int, ...]


@dataclass(frozen=True)
class Headline:
    """One sentence of the answer, and its numbers for a larger print."""

    about: str
    """Cell that the sentence is about."""
    kind: str
    """`fastest`, `shared`, `equivalent`, `not proven`: dutlab.analysis.answers.AnswerKind."""
    reason: str
    """Reason why no difference is proven; empty if one is: dutlab.analysis.verdict.Reason."""
    fastest: str
    fastest_value: str
    """Value of `fastest`; empty unless one is proven better than every other one."""
    slowest: str
    slowest_value: str
    """Value of `slowest`; empty unless one is proven worse than every other one."""
    ratio: float | None
    """Ratio of the worst median to the best, with its 95 % interval if there is one."""
    ratio_low: float | None
    ratio_high: float | None
    p: float | None
    """p of their difference, adjusted for all pairs of the run."""
    sentence: str
    figures: tuple[HeadlineFigure, ...] = ()
    """Figures with the best and the worst median, in this order."""
    severe: bool = False
    limits: tuple[str, ...] = ()
    """Known limits of both, as `router: limited by line rate (shown)`."""

    @property
    def trials(self) -> tuple[int, ...]:
        """Trials of `figures`."""
        return tuple(sorted({trial for of in self.figures for trial in of.trials}))


@dataclass(frozen=True)
class LimitRow:
    """Limit of one cell."""

    label: str
    workload: str
    links: str
    size: str
    figure: str
    value: float
    words: str
    """Text, as `limited by line rate`."""
    cause: str
    """Cause alone, as `line rate`."""
    confidence: str
    """`shown`, `likely`, `possible`; empty if not known."""
    evidence: tuple[str, ...]
    others: tuple[str, ...]
    """Other causes that fit, less well."""
    next_experiment: str
    trials: tuple[int, ...]
    missing: tuple[str, ...] = ()
    """Open questions about it, most important first."""

    @classmethod
    def of(cls, group: Group, finding: LimitFinding, *, value: float, size: str) -> Self:
        """Return the row of a cell's main figure, whose median is `value`."""
        figure, link = group.main
        return cls(
            label=group.label, workload=group.cell.workload, links=link, size=size, figure=figure, value=value, words=finding.words,
            cause=finding.cause, confidence=finding.confidence.word, evidence=finding.evidence, missing=finding.missing,
            others=finding.others, next_experiment=finding.next_experiment, trials=tuple(r.trial for r in group.measured),
        )  # fmt: skip

    @property
    def verdict(self) -> str:
        """Cause with its confidence, as `line rate (shown)`; else `not known`."""
        return f"{self.cause} ({self.confidence})" if self.confidence else "not known"

    @property
    def where(self) -> str:
        """Place in words, as `link a` or `drive d1`."""
        return f"{plug_of(self.workload).place} {self.links}"

    @property
    def because(self) -> str:
        """Evidence, and readings that were not available."""
        return "; ".join((*self.evidence, *([f"not available: {', '.join(self.missing)}"] if self.missing else [])))


@dataclass(frozen=True)
class ShownAddition:
    """Addition of a person to the run after it was measured."""

    text: str
    """A note, or the caption of the file."""
    by: str
    added: str
    file: str = ""
    href: str = ""
    """Link relative to the report; empty without a file."""
    sha256: str = ""
    size_bytes: int = 0
    picture: str = ""
    """Picture as a `data:` URL; empty for other files, and for pictures that are too large for a page."""
    host: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    """Settings of `host` that a person read: name and value."""


@dataclass(frozen=True)
class RunReport:
    """One run."""

    name: str
    experiment: str
    testbed: str
    lab: str | None
    """Name of the embedded lab; its figures are relative."""
    folder: str
    """Path of the run, relative to the report."""
    course: RunCourse
    manifest: str | None
    """SHA-256 of MANIFEST.sha256; None for a run that has not finished."""
    labels: tuple[str, ...]
    """Row labels in their order; the position of a label decides its colour."""
    modes: Mapping[str, str]
    """Label → its mode."""
    headlines: tuple[Headline, ...]
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    """Findings that distort results, from the examination before the trials; largest impact first."""
    limits: tuple[LimitRow, ...]
    watched: RunWatch
    conditions: Conditions
    trials: tuple[TrialLine, ...]
    notes: tuple[DoubtNote, ...]
    deviations: tuple[str, ...]
    busy: str = ""
    """Warning that other work left too little to measure; it comes before the answer. Empty otherwise."""
    repeated: str = ""
    """Number of trials that other work disturbed or that lost a host, in sentences."""
    cpu_cost: CpuCost | None = None
    """Modes by processor time per frame, over all attempts, of a disturbed run; None if they cannot be compared."""
    spread: str = ""
    """Agreement of repeats, in a sentence."""
    faults: tuple[str, ...] = field(default=())
    """Parts that could not be read while the report was made."""
    answer: Answer = field(default=Answer((), (), "", (), ()))
    additions: tuple[ShownAddition, ...] = ()
    simulated: tuple[str, ...] = ()
    """Sensors with simulated readings."""

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Label or mode → its first position among the labels."""
        out = {label: place for place, label in enumerate(self.labels)}
        for label in self.labels:
            out.setdefault(self.modes[label], out[label])
        return out

    @property
    def drawn(self) -> list[tuple[DrawnTable, Table]]:
        """Every drawing, with the table that has its figures."""
        return [(d, t) for s in self.sections for d in s.drawings for t in s.tables if t.slug == d.table]

    @cached_property
    def listed(self) -> tuple[TrialLine, ...]:
        """Trials that a page lists: all, or of very many the first of each cell and status, and the few without a result."""
        if len(self.trials) <= MOST_LISTED:
            return self.trials
        few = self.unsuccessful if len(self.unsuccessful) <= MOST_LISTED else ()
        numbers = {t.number for t in few} | {*{(t.group, t.status): t.number for t in reversed(self.trials)}.values()}
        return tuple(t for t in self.trials if t.number in numbers)

    @cached_property
    def shared_marks(self) -> frozenset[int]:
        """Numbers of the notes about every figure of the answer and the sections."""
        return shared_marks([*self.answer.tables, *(t for s in self.sections for t in s.tables)])

    @property
    def other_deviations(self) -> tuple[str, ...]:
        """Deviations that no section states itself."""
        own = {d for s in self.sections for d in s.deviations}
        return tuple(d for d in self.deviations if d not in own)

    @property
    def unsuccessful(self) -> tuple[TrialLine, ...]:
        """Trials without a result."""
        return tuple(sorted((t for t in self.trials if t.status != "measured"), key=lambda t: t.number))

    @property
    def answered(self) -> bool:
        """True if modes can be compared although trials were disturbed: by rates, or by processor time per frame."""
        if not any(t.status == "disturbed" for t in self.trials):
            return True
        return self.cpu_cost is not None and not self.cpu_cost.unplaced

    @property
    def severe(self) -> tuple[DoubtNote, ...]:
        """Doubts that every reader must see."""
        return tuple(n for n in self.notes if n.grade == "severe")
