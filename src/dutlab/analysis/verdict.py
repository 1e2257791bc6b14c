"""The words of a verdict, and in which direction a figure is better."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

_MAIN = (
    re.compile(r"goodput_bps"),
    re.compile(r"\w+_lower_pps|max_ok_pps|throughput_pps"),
    re.compile(r"received_pps"),
    re.compile(r"max_received_pps"),
    re.compile(r"\w+_iops"),
    re.compile(r"rtt_p50_ns"),
    re.compile(r"duration_s"),
)
"""What a cell is judged by: the first of these that it has."""
LESS_IS_BETTER = ("latency_", "pdv_", "ipdv_", "loss_", "refused_", "retransmits", "lost_", "watts", "jitter_", "rtt_", "duration_")


class Verdict(enum.Enum):
    """What may be said. `better` of a figure of which less is better means less of it."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NO_DIFFERENCE = "no difference proven"
    MISSING = "not comparable"


def less_is_better(figure: str) -> bool:
    """Of latency, loss, what was refused and power; not of rates."""
    return figure.startswith(LESS_IS_BETTER)


def main_figures(names: Iterable[str]) -> list[str]:
    """Of the figures of a cell those that it is judged by; several where a search had several goals."""
    held = list(dict.fromkeys(names))
    return next((found for pattern in _MAIN if (found := [n for n in held if pattern.fullmatch(n)])), [])


def side_words(*, better: bool, speed: bool) -> tuple[Verdict, str]:
    """The verdict of a proven difference, in words: rates and times are faster or slower, everything else better or worse."""
    good, bad = ("faster", "slower") if speed else (Verdict.BETTER.value, Verdict.WORSE.value)
    return (Verdict.BETTER, good) if better else (Verdict.WORSE, bad)


def is_speed(figure: str) -> bool:
    """Whether faster and slower are the words for it."""
    return figure.endswith(("_pps", "_bps", "_bps_l1", "_bps_l2", "_ns"))
