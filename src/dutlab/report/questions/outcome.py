"""Outcome of a check or a gate, as data for all CI formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.verdict import CheckKind
from dutlab.report.questions.checked import Checked, worse_by
from dutlab.report.questions.sides import ComparedRun
from dutlab.stats.functions import FunctionChange

OVERALL = "all cells together"


@dataclass(frozen=True)
class OutcomeCase:
    """One result."""

    name: str
    """Name, as `nat · sweep 64 · link a · received_pps`."""
    kind: CheckKind
    words: str = ""
    """Reason for not passing; empty if it passes."""
    first: float | None = None
    second: float | None = None
    worse: float | None = None
    """Share of the first by which it is worse."""
    functions: tuple[FunctionChange, ...] = ()
    """Functions that take more instructions."""


@dataclass(frozen=True)
class CheckOutcome:
    """Everything that is reported to CI."""

    command: str
    """Command, as `dutlab check`."""
    kind: CheckKind
    sentence: str
    first: str
    second: str
    cases: tuple[OutcomeCase, ...]
    warnings: tuple[tuple[str, str], ...] = ()
    """Warnings: (place, problem)."""
    lines: tuple[str, ...] = ()
    """Lines for a terminal."""
    suite: str = "gate"
    testbed: str = ""
    ended: datetime = field(default_factory=lambda: datetime.now(UTC))
    """End of the last trial."""


def outcome_of_check(result: Checked, newest: ComparedRun, lines: Iterator[str]) -> CheckOutcome:
    """Return the outcome of a check of runs; `newest` is the newest run."""
    flags = [(c.pair.label, flag) for c in result.pair.comparisons for flag in c.flags]
    return CheckOutcome(
        command="dutlab check",
        kind=result.kind,
        sentence=result.sentence,
        first=result.pair.first,
        second=result.pair.second,
        cases=tuple(_cases(result)),
        warnings=(*flags, *(("dutlab check", fault) for fault in result.pair.faults)),
        lines=tuple(lines),
        suite=newest.named("experiment") or newest.name,
        testbed=newest.named("testbed"),
        ended=max((r.ended for r in newest.records), default=datetime.now(UTC)),
    )


def _cases(result: Checked) -> Iterator[OutcomeCase]:
    """Yield each result, with the reason if it fails."""
    if result.pair.together is not None:
        kind = CheckKind.FAIL if result.all_worse else CheckKind.PASS
        yield OutcomeCase(OVERALL, kind, result.overall if result.all_worse else "")
    for c in result.pair.comparisons:
        fails = result.fails(c)
        level = [None if side is None else side.value for side in (c.first, c.second)]
        kind = CheckKind.FAIL if fails else CheckKind.PASS
        yield OutcomeCase(_name(c), kind, result.words(c) if fails else "", level[0], level[1], worse_by(c))
    for label in result.pair.only_first:
        yield OutcomeCase(label, CheckKind.FAIL, "missing: only the baseline has it")


def _name(c: Comparison) -> str:
    return f"{c.pair.label} · {c.pair.figure}"
