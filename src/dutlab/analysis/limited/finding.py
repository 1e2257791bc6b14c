"""Limit of a result: one verdict with its evidence, its confidence, and the experiment that would settle it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace


class LimitCause(enum.Enum):
    """Causes that can limit a result, in words that follow "limited by"."""

    LINE = "line rate"
    GENERATOR = "the generator"
    RIG = "the rig, which is hardly faster without the DUT"
    SINK = "the sink"
    ONE_CORE = "one core of the DUT"
    ALL_CORES = "all cores of the DUT"
    SHARED_CORES = "cores that the DUT shares with the tester"
    PER_PACKET = "the DUT's processor: its cost per packet"
    MODE = "the DUT's processor: the work of this mode"
    MEMORY = "memory bandwidth"
    PCIE = "the PCIe link"
    NIC = "the DUT's card or its rings"
    ALLOWANCE = "what the hypervisor allows the DUT"
    STATE_TABLE = "the state table"
    FRAGMENTS = "fragmentation"
    TCP = "TCP itself"
    HEAT = "heat or power"
    DRIVE_SPEC = "what the drives are rated for"
    RAID = "RAID arithmetic"
    BUS = "the path that drives share"
    UNKNOWN = "not known"


class Confidence(enum.IntEnum):
    """Confidence in a verdict."""

    NONE = 0
    POSSIBLE = 1
    """No evidence against it, and little for it."""
    LIKELY = 2
    """Measured figures agree with it and with no other checked cause."""
    SHOWN = 3
    """The cause was measured at its limit."""

    @property
    def word(self) -> str:
        """The confidence as a word: `shown`, `likely`, `possible`; empty for none."""
        return "" if self is Confidence.NONE else self.name.lower()


@dataclass(frozen=True)
class LimitFinding:
    """One verdict on what limited a result."""

    limit: LimitCause
    confidence: Confidence
    evidence: tuple[str, ...]
    """Sentences with numbers."""
    next_experiment: str
    detail: str = ""
    """Part of the cause: `core 1, softirq`."""
    others: tuple[str, ...] = ()
    """Other causes that fit, less well."""
    missing: tuple[str, ...] = ()
    """Open questions about this result, most important first."""

    @property
    def cause(self) -> str:
        """The cause in words: `one core of the DUT (core 1, softirq)`."""
        return f"{self.limit.value}{f' ({self.detail})' if self.detail else ''}"

    @property
    def words(self) -> str:
        """The verdict in words: `limited by one core of the DUT (core 1, softirq)`; `limit unknown`."""
        return "limit unknown" if self.limit is LimitCause.UNKNOWN else f"limited by {self.cause}"


def best_of(findings: Sequence[LimitFinding | None], missing: Sequence[str]) -> LimitFinding:
    """Return the finding of highest confidence, the first of equal ones; "not known" if there are none.

    `missing` has the inputs that were not available.
    """
    usable = [f for f in findings if f is not None]
    if not usable:
        next_ = f"measure {missing[0]}" if missing else "repeat with the cores and counters of all hosts watched"
        return LimitFinding(LimitCause.UNKNOWN, Confidence.NONE, (), next_, missing=tuple(missing))
    first = max(usable, key=lambda f: f.confidence)  # max() keeps the first of equals
    others = tuple(dict.fromkeys(f"{f.limit.value} ({f.confidence.word})" for f in usable if f.limit is not first.limit))
    return replace(first, others=others, missing=tuple(missing) if first.confidence < Confidence.SHOWN else ())


def no_verdict(evidence: Sequence[str], next_experiment: str) -> LimitFinding:
    """Return a verdict that names no limit, because of `evidence`."""
    return LimitFinding(LimitCause.UNKNOWN, Confidence.NONE, tuple(evidence), next_experiment)
