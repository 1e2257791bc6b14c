"""The words of a verdict, and in which direction a figure is better."""

from __future__ import annotations

import enum

LESS_IS_BETTER = ("ipdv_", "retransmits", "watts", "jitter_", "rtt_", "duration_")
"""What names of figures of which less is better begin with,"""
_LESS_WORDS = frozenset(
    {"loss", "lost", "backpressure", "refused", "latency", "outage", "tl", "wcl", "pdv", "reset", "recovery", "command", "width"}
)
"""or one of their words,"""
_LESS_ENDINGS = ("_w", "_j_per_gb", "_j_per_mpkt", "steady_heat_s")
"""or their ends; a rate by watt is none."""


class Verdict(enum.Enum):
    """What may be said. `better` of a figure of which less is better means less of it."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NO_DIFFERENCE = "no difference proven"
    MISSING = "not comparable"


def less_is_better(figure: str) -> bool:
    """Whether less is better: true for latency, loss, refused frames, power and outages, not for rates."""
    if figure.endswith("_per_w"):
        return False
    return figure.startswith(LESS_IS_BETTER) or figure.endswith(_LESS_ENDINGS) or not _LESS_WORDS.isdisjoint(figure.split("_"))


def side_words(*, better: bool, speed: bool) -> tuple[Verdict, str]:
    """The verdict of a proven difference, in words: rates and times are faster or slower, everything else better or worse."""
    good, bad = ("faster", "slower") if speed else (Verdict.BETTER.value, Verdict.WORSE.value)
    return (Verdict.BETTER, good) if better else (Verdict.WORSE, bad)


def is_speed(figure: str) -> bool:
    """Whether faster and slower are the words for it."""
    return figure.endswith(("_pps", "_bps", "_bps_l1", "_bps_l2", "_ns"))
