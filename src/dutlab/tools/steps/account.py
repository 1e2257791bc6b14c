"""Account of steps: the output and end of each step, the start of each host, and their part of the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured, Row
from dutlab.reason import reason_in
from dutlab.spec.workloads.steps import PHASES, Phase, Step
from dutlab.subject import Figures, Subject, step_part
from dutlab.tools.gate import ClockReading, Start
from dutlab.tools.steps.figures import step_figures

TOOL = "steps"
STARTS = "starts"
"""Table with the start of each host in each phase, and the clocks by which it is known."""
FIGURES = "step_figures"
"""Table of the figures in the outputs of steps (`figures.py`)."""
ALL_HOSTS = "all hosts"
"""Subject of the figures of all steps; other tools have a link as the subject. The subject of one step's figures is its host."""

End = Literal["", "time-out", "step", "trial", "interrupted"]
"""Cause of a step's end, unless it ended itself: its time-out, a later step, the end of its trial, an interruption of the run."""


@dataclass(frozen=True)
class StepDone:
    """A step that was begun, and its result."""

    host: str
    phase: Phase
    place: int
    """Number in its phase on its host, from 1."""
    step: Step
    started_s: float
    """Wall clock, in seconds since the epoch."""
    seconds: float
    status: int | None
    """Exit status; None if it was ended, or its host was lost."""
    stdout: bytes = b""
    stderr: bytes = b""
    why: str = ""
    """Reason why it failed; empty if it did not."""
    end: End = ""

    @property
    def failed(self) -> bool:
        """True if it failed. A spawned step that ran until the reset did not fail, and a step that its time-out was to end did not."""
        return bool(self.why)

    @property
    def file(self) -> str:
        """Path of its output, without the ending."""
        return f"{self.host}/{self.phase}/{self.place:02d}"

    @property
    def subject(self) -> Subject:
        """Subject of the figures in its output."""
        return Subject((self.host,), part=step_part(self.phase, self.place))

    @property
    def row(self) -> Row:
        """Row for the record's table."""
        return {
            "host": self.host,
            "phase": self.phase,
            "step": self.step.name or str(self.place),
            "kind": "run" if self.step.spawn is None else "spawn",
            "command": self.step.command,
            "status": self.status,
            "started_s": round(self.started_s, 6),
            "duration_s": round(self.seconds, 6),
            "why": self.why,
            "ended_by": self.end,
            "file": self.file,
        }


@dataclass
class Account:
    """Account so far. It is filled while steps run, so that an interrupted trial keeps it too."""

    done: list[StepDone] = field(default_factory=list)
    starts: dict[Phase, list[Start]] = field(default_factory=dict)
    """Phase → start of each host; a host that was lost has none."""
    clocks: dict[str, ClockReading] = field(default_factory=dict)
    """Host → last reading of its clock."""
    interrupted: Phase | None = None
    """Phase in which the run was interrupted."""
    began: dict[Phase, float] = field(default_factory=dict)
    """Phase → its start, in seconds since the epoch."""
    _at: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> list[StepDone]:
        """Failed steps, in the order in which they ended."""
        return [d for d in self.done if d.failed]

    def keep(self, step: StepDone) -> None:
        """Add `step`, or replace its earlier entry."""
        at = self._at.setdefault(step.file, len(self.done))
        self.done[at : at + 1] = [step]

    @property
    def skew_ns(self) -> int:
        """Longest possible time between the first and the last host's start of a phase, in nanoseconds."""
        spreads = [max(s.latest_ns for s in starts) - min(s.earliest_ns for s in starts) for starts in self.starts.values() if starts]
        return max(spreads, default=0)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts about clocks that were set during the trial."""
        jumps = [(phase, s) for phase, starts in self.starts.items() for s in starts if s.jumped_ns]
        return tuple(
            Doubt(DoubtKind.CLOCK_JUMPED, detail=f"{s.host}, by {s.jumped_ns / 1e9:+.3f} s, seen as {phase} began") for phase, s in jumps
        )

    def measured(self) -> Measured:
        """Return figures, tables and outputs for the record."""
        ordered = sorted(self.done, key=lambda d: (PHASES.index(d.phase), d.started_s))
        raw = {f"{d.file}.{end}": data for d in ordered for end, data in (("out", d.stdout), ("err", d.stderr)) if data}
        own = [(d, own_figures) for d in ordered if (own_figures := step_figures(d.stdout, d.stderr))]
        figures = {
            "failed_steps": float(len(self.failed)),
            "skew_ns": float(self.skew_ns),
            "duration_s": max((d.started_s + d.seconds for d in ordered), default=0.0) - min((d.started_s for d in ordered), default=0.0),
        }
        return Measured(
            figures=Figures.of([(Subject((ALL_HOSTS,)), figures), *((d.subject, own_figures) for d, own_figures in own)]),
            raw=raw,
            doubts=self.doubts,
            tables={
                TOOL: [d.row for d in ordered],
                FIGURES: [{**_named(d), "figure": name, "value": v} for d, own_figures in own for name, v in own_figures.items()],
                STARTS: [_row(phase, s) for phase, starts in self.starts.items() for s in starts],
            },
            notes=[*([f"interrupted in {self.interrupted}"] if self.interrupted else []), *(_words(d) for d in self.failed)],
        )


def _named(step: StepDone) -> Row:
    return {
        "host": step.host,
        "phase": step.phase,
        "step": step.step.name or str(step.place),
        "command": step.step.command,
        "file": step.file,
    }


def _row(phase: Phase, start: Start) -> Row:
    return {
        "host": start.host,
        "phase": phase,
        "clock_ahead_ns": start.ahead.ns,
        "clock_error_ns": start.ahead.error_ns,
        "earliest_ns": start.earliest_ns,
        "latest_ns": start.latest_ns,
        "jumped_ns": start.jumped_ns,
    }


def _words(step: StepDone) -> str:
    reason = reason_in(step.stderr.decode("utf-8", "replace"))
    return (
        f"{step.host}, {step.phase}, step {step.step.name or step.place}: `{step.step.command}` {step.why}{f': {reason}' if reason else ''}"
    )
