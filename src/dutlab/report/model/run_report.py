"""A report as data: HTML, Markdown, CSV and JSON are four ways to write it.

A figure is a median over repeats with its spread; a place without one says why. Rates are bits or frames a second, latencies nanoseconds;
only the writers turn them into the unit that reads best.
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
from dutlab.report.model.table import Table
from dutlab.report.model.watched_means import SampleMeans
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import plug_of

if TYPE_CHECKING:
    from dutlab.analysis.doctor import Finding
    from dutlab.analysis.limited.finding import LimitFinding

MOST_LISTED = 1000
"""More trials than these are not listed one by one on a page."""


@dataclass(frozen=True)
class ReadRun:
    """A run folder, read: what every form of report is made from."""

    run: RunFolder
    resolved: Mapping[str, Any]
    experiment: Mapping[str, Any]
    testbed: Mapping[str, Any]
    plan: Mapping[str, Any]
    """plan.json without its trials, which `planned` has."""
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
    """In their order."""
    book: NoteBook
    faults: list[str]
    """Parts that could not be read."""


@dataclass(frozen=True)
class NextStep:
    """Suggested next step."""

    words: str
    """A sentence."""
    command: str = ""
    """Ready to paste, with the run by its name; empty where no command of ours does it."""


@dataclass(frozen=True)
class Answer:
    """Sentences, each whole by itself, and the tables behind them."""

    fast: tuple[str, ...]
    """Answers, one sentence for each question; where there is no result, the reason."""
    sure: tuple[str, ...]
    """Agreement of repeats, number of trials without a result, and every severe doubt."""
    limited: str
    """Limit of the results; empty where nothing is known of it, as for latencies."""
    next: tuple[NextStep, ...]
    """The first of them is the most useful."""
    tables: tuple[Table, ...]
    """A row a result with what limited it; where modes were measured at several places, a row a mode and a column a place."""


@dataclass(frozen=True)
class DrawnTable:
    """A table of the section that is drawn as well."""

    kind: Literal["links", "sizes"]
    """A mark a figure under the names of modes; or a line a mode over frame sizes, a plot a figure."""
    table: str
    """Slug of the table that has the figures, and the first part of the plots' names."""
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
    words: tuple[str, ...] = ()
    """Findings in sentences."""
    unknown: tuple[str, ...] = ()
    """Open questions, in phrases."""
    headlines: tuple[Headline, ...] = ()
    answer: tuple[str, ...] = ()
    """Findings that the answer of the run begins with, in sentences."""
    deviations: tuple[str, ...] = ()
    """Departures from the standard that it follows."""


@dataclass(frozen=True)
class TrialLine:
    """A trial, and where its files lie, relative to the report."""

    number: int
    group: int
    """The lowest trial of its cell: repeats of one another share it."""
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

    @property
    def what(self) -> str:
        """Request of the workload, and its links or drives."""
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
    """The cell that it speaks of."""
    kind: str
    """`fastest`, `shared`, `equivalent`, `not proven`: dutlab.analysis.answers.AnswerKind."""
    reason: str
    """Why no difference is proven; empty where one is: dutlab.analysis.verdict.Reason."""
    fastest: str
    fastest_value: str
    """Empty where no single one is proven better than every other one."""
    slowest: str
    slowest_value: str
    """Empty where no single one is proven worse than every other one."""
    ratio: float | None
    """Ratio of the two furthest apart by their medians, the worse over the better, with its 95 % interval where there is one."""
    ratio_low: float | None
    ratio_high: float | None
    p: float | None
    """p of their difference, adjusted for all pairs of the run."""
    sentence: str
    figures: tuple[HeadlineFigure, ...] = ()
    """Figures of the two furthest apart by their medians, the better first."""
    severe: bool = False
    limits: tuple[str, ...] = ()
    """Limits of both, where they are known: `router: limited by line rate (shown)`."""

    @property
    def trials(self) -> tuple[int, ...]:
        """Trials of both."""
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
    """`limited by line rate`."""
    cause: str
    """`line rate`."""
    confidence: str
    """`shown`, `likely`, `possible`; empty where it is not known."""
    evidence: tuple[str, ...]
    others: tuple[str, ...]
    """Other causes that fit, less well."""
    next_experiment: str
    trials: tuple[int, ...]
    missing: tuple[str, ...] = ()
    """Open questions about it, most important first."""

    @classmethod
    def of(cls, group: Group, found: LimitFinding, *, value: float, size: str) -> Self:
        """The verdict on a cell's main figure, whose median is `value`."""
        figure, link = group.main
        return cls(
            label=group.label, workload=group.cell.workload, links=link, size=size, figure=figure, value=value, words=found.words,
            cause=found.cause, confidence=found.confidence.word, evidence=found.evidence, missing=found.missing, others=found.others,
            next_experiment=found.next_experiment, trials=tuple(r.trial for r in group.measured),
        )  # fmt: skip

    @property
    def verdict(self) -> str:
        """`line rate (shown)`; `not known`."""
        return f"{self.cause} ({self.confidence})" if self.confidence else "not known"

    @property
    def where(self) -> str:
        """`link a`, `drive d1`."""
        return f"{plug_of(self.workload).place} {self.links}"

    @property
    def because(self) -> str:
        """The evidence, and what was not available."""
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
    """Relative to the report; empty without a file."""
    sha256: str = ""
    size_bytes: int = 0
    picture: str = ""
    """Data of a picture, as an address; empty for other files, and for pictures that are too large for a page."""


@dataclass(frozen=True)
class RunReport:
    """One run."""

    name: str
    experiment: str
    testbed: str
    lab: str | None
    """Name of the embedded lab; its figures are relative."""
    folder: str
    """Relative to the report."""
    course: RunCourse
    manifest: str | None
    """SHA-256 of MANIFEST.sha256; None for a run that has not finished."""
    labels: tuple[str, ...]
    """Rows in their order; a label's place decides its colour."""
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
    """Sentence that other work left nearly nothing to be measured; it comes before every answer."""
    repeated: str = ""
    """Number of trials that other work disturbed or that lost a host, in sentences."""
    cpu_cost: CpuCost | None = None
    """Then the modes by processor time per frame, over all attempts; None where they cannot be compared."""
    spread: str = ""
    """Agreement of repeats, in a sentence."""
    faults: tuple[str, ...] = field(default=())
    """Parts that could not be read while the report was made."""
    answer: Answer = field(default=Answer((), (), "", (), ()))
    additions: tuple[ShownAddition, ...] = ()
    simulated: tuple[str, ...] = ()
    """Sensors whose readings are made up."""

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Each label, and each mode → its first place among the labels."""
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
        """The trials that a page lists: all; of very many the first of each cell and status, and those without a result if few."""
        if len(self.trials) <= MOST_LISTED:
            return self.trials
        few = self.unsuccessful if len(self.unsuccessful) <= MOST_LISTED else ()
        numbers = {t.number for t in few} | {*{(t.group, t.status): t.number for t in reversed(self.trials)}.values()}
        return tuple(t for t in self.trials if t.number in numbers)

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
