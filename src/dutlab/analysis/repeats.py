"""When to stop repeating: a rule that is fixed before the first trial, so that a quiet spell cannot end it early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.analysis.statistics import CONFIDENCE, order_interval, summarise


@dataclass(frozen=True)
class RepeatRule:
    """Repeat until the 95 % interval of the median is at most `half_width` to either side of it, or `most` repeats are done."""

    half_width: float
    """Relative to the median: 0.02 is ±2 %."""
    most: int

    def __post_init__(self) -> None:
        if not 0 < self.half_width < 1:
            raise ValueError(f"a half-width lies between 0 % and 100 % of the median, not at {self.half_width:.0%}")
        if order_interval([0.0] * self.most) is None:
            raise ValueError(f"at most {self.most} repeats never have a {CONFIDENCE:.0%} interval; allow at least 6")

    @property
    def words(self) -> str:
        """For the report."""
        return (
            f"repeated until the {CONFIDENCE:.0%} interval of the median was within ±{self.half_width:.1%} of it, at most {self.most} "
            "times; looking after each repeat makes such intervals a little too narrow"
        )


@dataclass(frozen=True)
class Decision:
    """Whether to go on, and why."""

    stop: bool
    reached: bool
    """The interval is as narrow as asked."""
    why: str


def decide(values: Sequence[float], rule: RepeatRule) -> Decision:
    """What the rule says after these repeats."""
    n = len(values)
    found = summarise(values) if values else None
    if found is None or found.interval is None:
        return Decision(stop=False, reached=False, why=f"{n} repeats have no {CONFIDENCE:.0%} interval")
    wide = max(found.interval.high - found.median, found.median - found.interval.low)
    if wide <= rule.half_width * abs(found.median):
        return Decision(stop=True, reached=True, why=f"the interval of {n} repeats is within ±{rule.half_width:.1%}")
    relative = f"±{wide / abs(found.median):.1%} of the median" if found.median else f"±{wide:g} around a median of 0"
    if n >= rule.most:
        return Decision(stop=True, reached=False, why=f"{n} repeats, the most allowed, and the interval still reaches {relative}")
    return Decision(stop=False, reached=False, why=f"the interval of {n} repeats reaches {relative}")
