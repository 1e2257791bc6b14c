"""The words of a verdict."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """Verdicts on two sides. `better` of a figure of which less is better means less of it."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NO_DIFFERENCE = "no difference proven"
    MISSING = "not comparable"


class Reason(enum.Enum):
    """Why no difference is proven. The first that holds is given."""

    BOUND = "only a lower bound of one side is known"
    ONE_REPEAT = "one repeat"
    TOO_FEW = "too few repeats"
    EQUAL = "equal values"
    WITHIN = "counts differ by less than the threshold"
    INTERVAL = "the interval of the ratio contains 1"
    CHANCE = "chance could explain it"


class Procedure(enum.Enum):
    """Procedure that compares two sides; the words go into an answer."""

    NONE = "no test"
    """Counts have no error, and a side without a value has nothing to compare."""
    RANKS = "Mann-Whitney, Holm"
    SHARED_SPREAD = "t with the spread of all cells, Holm"
    RUNS = "t over runs, Holm"
    SIGNS = "signs of runs, Holm"
    ROUNDS = "rounds, swapped in all ways"


def side_words(*, better: bool, speed: bool) -> tuple[Verdict, str]:
    """The verdict of a proven difference, in words: rates and times are faster or slower, everything else better or worse."""
    good, bad = ("faster", "slower") if speed else (Verdict.BETTER.value, Verdict.WORSE.value)
    return (Verdict.BETTER, good) if better else (Verdict.WORSE, bad)


class CheckKind(enum.Enum):
    """The outcome of a check; the value is what its sentence begins with."""

    PASS = "PASS"  # noqa: S105 -- no password
    FAIL = "FAIL"
    CANNOT_TELL = "CANNOT TELL"

    @property
    def exit_status(self) -> int:
        """Exit status of `dutlab check` and `dutlab gate`."""
        return {CheckKind.PASS: 0, CheckKind.FAIL: 1, CheckKind.CANNOT_TELL: 2}[self]
