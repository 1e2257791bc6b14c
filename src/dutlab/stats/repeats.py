"""Rule for when to stop repeating, fixed before the first trial so that a quiet spell cannot end it early.

Looking after each repeat and stopping at the first narrow interval gives wrong results more often than a single interval does. So the 5 %
are divided among all looks of the rule (Bonferroni: it assumes nothing, unlike other group-sequential designs). The first look is at the
first number of repeats whose whole range reaches this confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.stats.summary import CONFIDENCE, median, order_interval


@dataclass(frozen=True)
class RepeatRule:
    """Repeat until an interval of the median is at most `half_width` to either side of it, or `most` repeats are done.

    Over all looks together, 95 % of such intervals hold the median.
    """

    half_width: float
    """Half-width as a share of the median: 0.02 is ±2 %."""
    most: int

    def __post_init__(self) -> None:
        if not 0 < self.half_width < 1:
            raise ValueError(f"a half-width must be between 0 % and 100 % of the median, not {self.half_width:.0%}")
        if order_interval([0.0] * self.most) is None:
            raise ValueError(f"at most {self.most} repeats never have a {CONFIDENCE:.0%} interval; allow at least 6")

    @property
    def first_look(self) -> int:
        """Fewest repeats after which the rule can stop."""
        return next(n for n in range(1, self.most + 1) if order_interval([0.0] * n, _each(self.most - n + 1)) is not None)

    @property
    def confidence(self) -> float:
        """Confidence of the interval at each look, for 95 % over all looks."""
        return _each(self.most - self.first_look + 1)

    @property
    def words(self) -> str:
        """Description for the report."""
        looks = self.most - self.first_look + 1
        each = f", {self.confidence:.1%} at each of {looks} looks," if looks > 1 else ""
        return (
            f"repeated until the {CONFIDENCE:.0%} interval of the median{each} was within ±{self.half_width:.1%} of it, at least "
            f"{self.first_look} and at most {self.most} times"
        )


@dataclass(frozen=True)
class Decision:
    """Decision whether to stop repeating, and the reason."""

    stop: bool
    reached: bool
    """True if the interval is as narrow as asked."""
    why: str


def decide(values: Sequence[float], rule: RepeatRule) -> Decision:
    """Apply the rule to these repeats."""
    n = len(values)
    interval = order_interval(values, rule.confidence) if n >= rule.first_look else None
    if interval is None:
        return Decision(stop=False, reached=False, why=f"{n} repeats have no {rule.confidence:.1%} interval")
    middle = median(values)
    wide = max(interval.high - middle, middle - interval.low)
    if wide <= rule.half_width * abs(middle):
        return Decision(stop=True, reached=True, why=f"the interval of {n} repeats is within ±{rule.half_width:.1%}")
    relative = f"±{wide / abs(middle):.1%} of the median" if middle else f"±{wide:g} around a median of 0"
    if n >= rule.most:
        return Decision(stop=True, reached=False, why=f"{n} repeats, the most allowed, and the interval still reaches {relative}")
    return Decision(stop=False, reached=False, why=f"the interval of {n} repeats reaches {relative}")


def _each(looks: int) -> float:
    return 1 - (1 - CONFIDENCE) / looks
