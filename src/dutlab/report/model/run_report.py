"""What a report says, as data: HTML, Markdown, CSV and JSON are four ways to write this down.

A figure is a median over repeats with its spread; a place without one says why. Rates are bits or frames a second, latencies nanoseconds;
only the writers turn them into the unit that reads best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from dutlab.plan.cell import Cell
from dutlab.report.model.curve import Curve
from dutlab.report.model.flame import Flame
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import DoubtNote, NoteBook
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import Unit
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import plug_of

if TYPE_CHECKING:
    from dutlab.analysis.doctor import Finding


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
    aside: list[TrialRecord]
    """Of attempts that do not count."""
    lost: list[TrialRecord]
    """Of those the ones that lost a host."""
    facts: Mapping[str, Mapping[str, Any]]
    """Of hosts."""
    findings: tuple[Finding, ...]
    """Of every time that the testbed was examined; the same finding once. Runs of other tools, and older ones, have none."""
    groups: Sequence[Group]
    labels: tuple[str, ...]
    """In their order."""
    book: NoteBook
    faults: list[str]
    """What could not be read."""


@dataclass(frozen=True)
class NextStep:
    """What to do next."""

    words: str
    """A sentence."""
    command: str = ""
    """Ready to paste, with the run by its name; empty where no command of ours does it."""


@dataclass(frozen=True)
class Answer:
    """Sentences, each whole by itself, and the tables behind them."""

    fast: tuple[str, ...]
    """How fast, one sentence for each question; where there is no result, why."""
    sure: tuple[str, ...]
    """How well repeats agree, how many trials have no result, and every severe doubt."""
    limited: str
    """What limited the results; empty where nothing is known of that, as of latencies."""
    next: tuple[NextStep, ...]
    """The first of them is the most useful."""
    tables: tuple[Table, ...]
    """A row a result with what limited it; where modes were measured at several places, a row a mode and a column a place."""


PERCENT = Unit("%", 1.0, 1)


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
    """What one workload's method has to say: the plug through which a method gets into every form of the report."""

    slug: str
    workload: str
    title: str
    lead: str
    """How to read it, in a few sentences."""
    tables: tuple[Table, ...]
    drawings: tuple[DrawnTable, ...] = ()
    curves: tuple[Curve, ...] = ()
    flames: tuple[Flame, ...] = ()
    words: tuple[str, ...] = ()
    """Findings in sentences."""
    unknown: tuple[str, ...] = ()
    """What could not be found out, in phrases."""
    headlines: tuple[Headline, ...] = ()
    answer: tuple[str, ...] = ()
    """Findings that the answer of the run begins with, in sentences."""
    deviations: tuple[str, ...] = ()
    """Where it departs from the standard that it follows."""


@dataclass(frozen=True)
class CpuRow:
    """One core in one mode: kind of work → percentage, the mean over all trials."""

    label: str
    core: int
    shares: dict[str, float]
    trials: int

    @property
    def busy(self) -> float:
        """Percent that the core was not idle."""
        return sum(self.shares.values())


@dataclass(frozen=True)
class Cpu:
    """Per-core load of a host during one workload."""

    workload: str
    host: str
    rows: tuple[CpuRow, ...]

    @property
    def table(self) -> Table:
        """A row a mode and core, a column a kind of work."""
        kinds = list(dict.fromkeys(kind for row in self.rows for kind in row.shares))
        columns = (Column("core", align="right"), *(Column(head, unit=PERCENT) for head in ("busy", *kinds)))
        rows = (Row(row.label, (str(row.core), row.busy, *(row.shares.get(kind, 0.0) for kind in kinds))) for row in self.rows)
        return Table(f"cores-{self.host}-{self.workload}", f"Cores of {self.host} during {self.workload}, % busy", columns, tuple(rows))


@dataclass(frozen=True)
class CheckLine:
    """What verify found of a mode, over all its applications."""

    mode: str
    what: str
    passed: int
    total: int
    found: str
    by_ping: bool = False
    """Whether pings showed it, where an end of the link does not run the engine."""

    @property
    def broken(self) -> bool:
        """It did not hold at least once."""
        return self.passed < self.total


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
        """What was asked for, and on which links or drives."""
        return f"{self.asked}, {plug_of(self.workload).place} {self.links}" if self.links else self.asked


@dataclass(frozen=True)
class FactRow:
    """A fact of the hosts, by host; a host that lacks it has none."""

    name: str
    by_host: dict[str, str]
    key: bool
    """One of the few that a reader looks for first."""


@dataclass(frozen=True)
class HeadlineFigure:
    """Where a figure of a headline comes from: the median over `trials` of what their records have under `link` and `figure`."""

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
    """Of the furthest apart by their medians, the worse over the better, with its 95 % interval where there is one."""
    ratio_low: float | None
    ratio_high: float | None
    p: float | None
    """Of their difference, adjusted for all pairs of the run."""
    sentence: str
    figures: tuple[HeadlineFigure, ...] = ()
    """Of the furthest apart by their medians, the better first."""
    severe: bool = False
    limits: tuple[str, ...] = ()
    """What limited both, where it is known: `router: limited by line rate (shown)`."""

    @property
    def trials(self) -> tuple[int, ...]:
        """Of both."""
        return tuple(sorted({trial for of in self.figures for trial in of.trials}))


@dataclass(frozen=True)
class LimitRow:
    """What limited one cell."""

    label: str
    workload: str
    links: str
    size: str
    figure: str
    value: float
    words: str
    """`limited by line rate`."""
    confidence: str
    """`shown`, `likely`, `possible`; empty where it is not known."""
    evidence: tuple[str, ...]
    others: tuple[str, ...]
    """What else fits, less well."""
    next_experiment: str
    trials: tuple[int, ...]
    missing: tuple[str, ...] = ()
    """What nobody knows of it, most telling first."""

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
    """What a person added to the run after it was measured."""

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
    """Of a picture its data, as an address; empty for other files, and for pictures that are too large for a page."""


@dataclass(frozen=True)
class RunCourse:
    """How the run was carried out, and how to do it again."""

    started: str
    ended: str
    seconds: float
    seed: str
    order: str
    repeats: int
    """At most, of any cell."""
    repeat_rule: str
    """When a cell was repeated enough, in words; empty where all were repeated alike."""
    command: str


@dataclass(frozen=True)
class RunWatch:
    """What happened meanwhile on the path and on the hosts."""

    losses: tuple[Table, ...]
    """Where frames got lost; none where no counter could tell."""
    cpus: tuple[Cpu, ...]
    counters: tuple[Table, ...]
    """Those that grew."""


@dataclass(frozen=True)
class Conditions:
    """What was measured, and with what."""

    checks: tuple[CheckLine, ...]
    hosts: tuple[str, ...]
    facts: tuple[FactRow, ...]
    tools: tuple[tuple[str, str], ...]
    """Name, and its version or what it says of itself."""


@dataclass(frozen=True)
class ModeCost:
    """What a frame costs in one mode."""

    mode: str
    times: float
    """Of the cost in the cheapest mode, over all cells."""
    proven: bool
    """That it costs more than in the cheapest mode."""
    ns_per_frame: float | None
    """Of the cells whose figure is in frames, the geometric mean of their medians; None without such a cell."""
    instructions_per_frame: float | None = None
    """Of the same cells; None where the machine does not count them."""


@dataclass(frozen=True)
class CpuCost:
    """The modes of a run by processor time per frame, the cheapest first."""

    modes: tuple[ModeCost, ...]
    cells: int
    """Settings that every mode was measured with."""
    attempts: int
    disturbed: int
    """Attempts that other work disturbed; they count."""
    forwarding: bool
    """The time is that of the threads that forward; else of all threads of the testbed."""
    unplaced: tuple[str, ...] = ()
    """Modes of the run that have no place among them."""

    @property
    def words(self) -> str:
        """The verdict in sentences."""
        first, *others = self.modes
        told = [f"{of.mode} costs {of.times:.2f} × {first.mode}{'' if of.proven else ' (not proven)'}" for of in others]
        whose = "the threads that forward" if self.forwarding else "all threads of the testbed"
        spent = ", ".join(f"{of.mode} {of.ns_per_frame:.0f}" for of in self.modes if of.ns_per_frame is not None)
        each = f" In ns a frame: {spent}." if spent else ""
        counted = ", ".join(f"{of.mode} {of.instructions_per_frame:.0f}" for of in self.modes if of.instructions_per_frame is not None)
        each += f" In instructions a frame: {counted}." if counted else " This machine counts no instructions." if spent else ""
        cells = f"{self.cells} {'cell' if self.cells == 1 else 'cells'}"
        return (
            f"By processor time per frame of {whose}, over {cells} and {self.attempts} attempts, "
            f"{self.disturbed} of them disturbed: {', '.join(told)}.{each}"
        )


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
    headlines: tuple[Headline, ...]
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    """What distorts results on the testbed, as it was examined before the trials; largest impact first."""
    limits: tuple[LimitRow, ...]
    watched: RunWatch
    conditions: Conditions
    trials: tuple[TrialLine, ...]
    notes: tuple[DoubtNote, ...]
    deviations: tuple[str, ...]
    busy: str = ""
    """That other work left nearly nothing to be measured, in a sentence; it comes before every answer."""
    repeated: str = ""
    """How many trials other work disturbed or lost a host, in sentences."""
    cpu_cost: CpuCost | None = None
    """Then the modes by processor time per frame, over all attempts; None where they cannot be compared."""
    spread: str = ""
    """How well repeats agree, in a sentence."""
    faults: tuple[str, ...] = field(default=())
    """What could not be read while the report was made."""
    answer: Answer = field(default=Answer((), (), "", (), ()))
    additions: tuple[ShownAddition, ...] = ()
    simulated: tuple[str, ...] = ()
    """Sensors whose readings are made up."""

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Each label, and each mode that labels begin with → its first place among them."""
        out: dict[str, int] = {}
        for place, label in enumerate(self.labels):
            mode = ""
            for level in label.split(" · "):
                mode = f"{mode} · {level}" if mode else level
                out.setdefault(mode, place)
        return out

    @property
    def drawn(self) -> list[tuple[DrawnTable, Table]]:
        """Every drawing, with the table that has its figures."""
        return [(d, t) for s in self.sections for d in s.drawings for t in s.tables if t.slug == d.table]

    @property
    def unsuccessful(self) -> tuple[TrialLine, ...]:
        """Trials without a result."""
        return tuple(sorted((t for t in self.trials if t.status != "measured"), key=lambda t: t.number))

    @property
    def answered(self) -> bool:
        """Whether modes can be compared although trials were disturbed: by rates, or by processor time per frame."""
        if not any(t.status == "disturbed" for t in self.trials):
            return True
        return self.cpu_cost is not None and not self.cpu_cost.unplaced

    @property
    def severe(self) -> tuple[DoubtNote, ...]:
        """Doubts that nobody may miss."""
        return tuple(n for n in self.notes if n.grade == "severe")
