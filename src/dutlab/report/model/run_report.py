"""What a report says, as data: HTML, Markdown, CSV and JSON are four ways to write this down.

A figure is a median over repeats with its spread; a place without one says why. Rates are bits or frames a second, latencies nanoseconds;
only the writers turn them into the unit that reads best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from dutlab.analysis.doctor import Finding
from dutlab.report.model.curve import Curve
from dutlab.report.model.grid import Grid
from dutlab.report.model.value import Figure, Value

GradeWord = Literal["note", "warning", "severe"]
GRADES: tuple[GradeWord, ...] = ("severe", "warning", "note")


@dataclass(frozen=True)
class Note:
    """One doubt of the page, with the number that marks the figures it touches."""

    number: int
    kind: str
    grade: GradeWord
    text: str
    remedy: str
    details: tuple[str, ...]
    """What single trials said of it, each once."""
    trials: tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """A column of a matrix: one link of those driven at once, or their sum."""

    links: tuple[str, ...]
    link: str

    @property
    def alone(self) -> bool:
        """The link was driven by itself."""
        return len(self.links) == 1

    @property
    def sum(self) -> bool:
        """All links driven at once, added up."""
        return len(self.links) > 1 and self.link == "+".join(self.links)


@dataclass(frozen=True)
class MatrixRow:
    """One mode (and the levels of other factors) in a matrix."""

    label: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Matrix:
    """Modes × links, of one figure of one workload."""

    slug: str
    """Its name in file names, unique in the run."""
    workload: str
    asked: str
    """What was driven, in words: `4 streams, 30 s`."""
    figure: str
    columns: tuple[Column, ...]
    rows: tuple[MatrixRow, ...]
    ceilings: tuple[float | None, ...]
    """Of each column."""
    common_marks: tuple[int, ...]
    """Notes that touch every figure here."""


@dataclass(frozen=True)
class SweepPoint:
    """One frame size (or mix) in one mode: figure name → value."""

    size: str
    mean_frame: float | None
    """Bytes with FCS; None when nothing was received that would tell a mix's."""
    values: dict[str, Value]
    trials: tuple[int, ...]
    marks: tuple[int, ...]
    severe: bool


@dataclass(frozen=True)
class SweepSeries:
    """One mode over all frame sizes."""

    label: str
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True)
class Sweep:
    """Modes × frame sizes on one link (or several driven at once)."""

    slug: str
    """Its name in file names; the sweeps of single links of several driven at once share it."""
    workload: str
    asked: str
    links: tuple[str, ...]
    link: str
    sizes: tuple[str, ...]
    series: tuple[SweepSeries, ...]
    ceilings: dict[str, dict[str, float]]
    """Size → figure → limit."""
    mixes: dict[str, str]
    """Name of a mix → its sizes and weights, as the plan has them: `64:7,594:4,1518:1`."""
    common_marks: tuple[int, ...]

    @property
    def rate_words(self) -> str:
        """What the field calls received frames a second here."""
        asked = any(isinstance(p.values.get("intended_pps"), Figure) for series in self.series for p in series.points)
        maximum = "Forwarding rate at maximum offered load (FRMOL, RFC 2285 section 3.6.2)"
        return "Forwarding rate (RFC 2285 section 3.6.1)" if asked else maximum

    @property
    def main(self) -> bool:
        """The whole of what was driven, not one link of several."""
        return self.link == "+".join(self.links)


@dataclass(frozen=True)
class Section:
    """What one workload's method has to say: the plug through which a method gets into every form of the report."""

    slug: str
    workload: str
    title: str
    lead: str
    """How to read it, in a few sentences."""
    grids: tuple[Grid, ...]
    curves: tuple[Curve, ...] = ()
    words: tuple[str, ...] = ()
    """Findings in sentences."""
    unknown: tuple[str, ...] = ()
    """What could not be found out, in phrases."""
    headlines: tuple[Headline, ...] = ()
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


@dataclass(frozen=True)
class CounterRow:
    """A counter of a host: mode → median over trials of what it grew by."""

    host: str
    counter: str
    by_label: dict[str, float]


@dataclass(frozen=True)
class LossRow:
    """Where one cell's frames got lost: place on the path → share of the frames sent, the median over repeats."""

    label: str
    workload: str
    link: str
    size: str
    shares: dict[str, float]
    trials: tuple[int, ...]


@dataclass(frozen=True)
class CheckLine:
    """What verify found of a mode, over all its applications."""

    mode: str
    what: str
    passed: int
    total: int
    found: str

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


@dataclass(frozen=True)
class FactRow:
    """A fact of the hosts, by host; a host that lacks it has none."""

    name: str
    by_host: dict[str, str]
    key: bool
    """One of the few that a reader looks for first."""


@dataclass(frozen=True)
class Headline:
    """One sentence of the answer, and its numbers for a larger print."""

    about: str
    fastest: str
    fastest_value: str
    slowest: str
    slowest_value: str
    difference: str
    sentence: str
    trials: tuple[int, ...] = ()
    severe: bool = False
    limits: tuple[str, ...] = ()
    """What limited the fastest and the slowest, where it is known: `router: limited by line rate (shown)`."""


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
    def because(self) -> str:
        """The evidence, and what was not available."""
        return "; ".join((*self.evidence, *([f"not available: {', '.join(self.missing)}"] if self.missing else [])))


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
    started: str
    ended: str
    seconds: float
    trials_planned: int
    seed: str
    order: str
    repeats: int
    """At most, of any cell."""
    repeat_rule: str
    """When a cell was repeated enough, in words; empty where all were repeated alike."""
    command: str
    manifest: str | None
    """SHA-256 of MANIFEST.sha256; None for a run that has not finished."""
    labels: tuple[str, ...]
    """Rows in their order; a label's place decides its colour."""
    headlines: tuple[Headline, ...]
    matrices: tuple[Matrix, ...]
    sweeps: tuple[Sweep, ...]
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    """What spoils measurements on the testbed, as it was examined before the trials; the dearest first."""
    limits: tuple[LimitRow, ...]
    losses: tuple[LossRow, ...]
    cpus: tuple[Cpu, ...]
    counters: tuple[CounterRow, ...]
    checks: tuple[CheckLine, ...]
    hosts: tuple[str, ...]
    facts: tuple[FactRow, ...]
    tools: tuple[tuple[str, str], ...]
    trials: tuple[TrialLine, ...]
    notes: tuple[Note, ...]
    deviations: tuple[str, ...]
    busy: str = ""
    """That other work left nearly nothing to be measured, in a sentence; it comes before every answer."""
    repeated: str = ""
    """How many trials other work disturbed, in a sentence."""
    per_cpu: tuple[str, ...] = ()
    """Then, of each cell in a sentence, its rate per CPU second of the testbed's own threads."""
    spread: str = ""
    """How well repeats agree, in a sentence."""
    faults: tuple[str, ...] = field(default=())
    """What could not be read while the report was made."""

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Each label, and each mode that labels begin with → the first place where it stands among them."""
        out: dict[str, int] = {}
        for place, label in enumerate(self.labels):
            mode = ""
            for level in label.split(" · "):
                mode = f"{mode} · {level}" if mode else level
                out.setdefault(mode, place)
        return out

    @property
    def unsuccessful(self) -> tuple[TrialLine, ...]:
        """Trials without a result."""
        return tuple(sorted((t for t in self.trials if t.status != "measured"), key=lambda t: t.number))

    @property
    def loss_places(self) -> list[str]:
        """Places on the path where anything was lost, in the order of the path."""
        return [p for p in dict.fromkeys(place for row in self.losses for place in row.shares) if any(r.shares.get(p) for r in self.losses)]

    @property
    def severe(self) -> tuple[Note, ...]:
        """Doubts that nobody may miss."""
        return tuple(n for n in self.notes if n.grade == "severe")
