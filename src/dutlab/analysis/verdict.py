"""Verdicts of comparisons and checks, with their words."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """Verdicts on the second of two sides. `better` means a lower value where lower is better."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NO_DIFFERENCE = "no difference proven"
    MISSING = "not comparable"


class Reason(enum.Enum):
    """Reasons why no difference is proven. The first one that is true is given."""

    BOUND = "only a lower bound of one side is known"
    ONE_REPEAT = "one repeat"
    TOO_FEW = "too few repeats"
    EQUAL = "equal values"
    WITHIN = "counts differ by less than the threshold"
    INTERVAL = "the interval of the ratio contains 1"
    CHANCE = "chance could explain it"


class Procedure(enum.Enum):
    """Statistical test that compared two sides. The value appears in answers."""

    NONE = "no test"
    """Counts have no error, and a side without a value has nothing to compare."""
    RANKS = "Mann-Whitney, Holm"
    SHARED_SPREAD = "t with the spread of all cells, Holm"
    RUNS = "t over runs, Holm"
    SIGNS = "signs of runs, Holm"
    ROUNDS = "rounds, swapped in all ways"


def side_words(*, better: bool, speed: bool) -> tuple[Verdict, str]:
    """Return the verdict on a proven difference and its words: `faster` or `slower` for rates and times, else `better` or `worse`."""
    good, bad = ("faster", "slower") if speed else (Verdict.BETTER.value, Verdict.WORSE.value)
    return (Verdict.BETTER, good) if better else (Verdict.WORSE, bad)


class CheckKind(enum.Enum):
    """Outcome of a check. The value is the first word of the check's sentence."""

    PASS = "PASS"  # noqa: S105 -- not a password
    FAIL = "FAIL"
    CANNOT_TELL = "CANNOT TELL"

    @property
    def exit_status(self) -> int:
        """Exit status of `dutlab check` and `dutlab gate`."""
        return {CheckKind.PASS: 0, CheckKind.FAIL: 1, CheckKind.CANNOT_TELL: 2}[self]
