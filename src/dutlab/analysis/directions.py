"""Which side of a figure is the better one: one written list. Nothing is guessed from the words of a name.

A pattern matches a whole name. Names of goals, streams and phases, shares and numbers of runs are part of names, so those are patterns. A
figure that no pattern matches has no known direction, and gets no verdict until its user says which side is better (`--better`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

Better = Literal["higher", "lower", ""]
"""Which values of a figure are the better ones; empty for those of which neither are, as a load that was asked for."""

_PERCENTILE = r"(min|mean|avg|max|first|last|p\d+)"
_NEITHER = (
    # What was asked for, offered or set, and what the rig did.
    r"(intended|offered|asked|load|max|half_load|reference|rig_offered|rig_received|max_offered)_pps",
    r"offered_\w+_pps", r"offered_(bps|bps_l1|bps_l2|line_ratio|share_ratio|step_ratio)", r"(back_)?sent_bps", r"target_loss_ratio",
    r"(peak|knee|least)_depth", "trials", "rounds", r"search_(trials|sent_s|saved_s)", r"routes_(loaded|hit|count)",
    # Properties of a measurement or of a clock.
    "resolution_ns", r"clock_\w+_ns", r"(earliest|latest)_ns", "at_s", "burst_stddev_frames", r"buffer_(implied|corrected)_ns", "error_w",
    r"(range|slope)_iops", r"(sent|received|sender|receiver|made)_frames", "capacity_bytes", "written_bytes",
    # How much of a processor, or which temperature: that depends on how much was done.
    r"\w+_cpu_percent", r"(\w+_)?(fio|host)_cpu_cores", r"(idle|load|peak|limit|temperature)_c",
    # A count of events, as long as the test was.
    r"\w+_count",
)  # fmt: skip
_HIGHER_RATES = (
    r"(\w+_)?goodput_(bps|bytes_per_s)", r"(\w+_)?received_(pps|bps|bps_l1|bps_l2)", r"received_\w+_pps",
    r"throughput_(pps|bps|bps_l1|bps_l2)", r"(made|max_ok|least|most|after)_pps", r"made_\d+_streams_pps", r"saturation_(pps|bps_l1)",
    r"(\w+_)?(lower|upper|conditional)_(pps|bps_l1|per_s)", r"critical_(\w+_)?pps", r"(low|high)_pps",
    r"(rate_)?[kmgt]?i?(pps|bps|bps_l1|bps_l2|bytes_per_s)",
    r"(\w+_)?iops", r"(read|write|trim|mixed)_\w+_bytes_per_s",
    r"(\w+_)?(read|write|trim|mixed|peak|knee|least|rebuild|r\d+_\w+)_bytes_per_s",
    r"(transactions|completed|routes_load)_per_s",
)  # fmt: skip
_HIGHER = (
    r"(\w+_)?pps_per_w", "received_frames_per_cpu_s", "goodput_bits_per_cpu_s", "headroom_ratio", r"(heat_)?headroom_c",
    r"(\w+_)?line_ratio", r"(throughput_|delivered_|lossless_\w+_|received_step_)(share_)?ratio", "delivered_ratio",
    "share_ratio", "knee_percent", "saturation_s", "longest_clean_s", r"concurrent_(upper_)?(flows|connections)",
    r"burst_((mean|min|max)_)?frames", "lost_from_frames", r"(path_mtu|payload|whole)_bytes", r"(established|completed)_connections",
)  # fmt: skip
_LOWER_TIMES = (
    rf"(half_)?latency_(\w+_)?{_PERCENTILE}_ns", "latency_ns", rf"rtt_{_PERCENTILE}_ns", rf"(\w+_)?[cs]?lat_{_PERCENTILE}_ns",
    rf"(handshake|first_byte|response)_{_PERCENTILE}_ns", r"(at_[\d.]+_)?(tl|wcl)_ns", r"command_(\w+_)?ns", r"reset_(\w+_)?ns",
    "recovery_ns", "routes_load_s", "rebuild_s", "duration_s", r"(real|user|sys)_s",
)  # fmt: skip
_LOWER = (
    r"pdv_(p\d+_)?ns", r"ipdv_p\d+_ns", r"at_[\d.]+_pdv_ns", r"(back_)?jitter_ns", r"outage_(\w+_)?ns", r"silence_(\w+_)?s",
    r"between_bursts_\d+_ns", "between_ns", "skew_ns", r"(\w+_)?loss_ratio", r"loss_\w+_ratio",
    r"(refused|queue_full|failed|backpressure)_ratio",
    r"(\w+_)?width_ratio", r"(lost|backpressure)_pps", "loss_events", "failed_steps", r"(\w+_)?retransmits",
    r"(lost|failed|refused|backpressure|corrupted|damaged|duplicated|reordered|late)_frames",
    r"(refused|reset|unreachable|no_answer|no_handshake|malformed|closed_early)_connections",
    "watts", r"\w+_w", r"(\w+_)?j_per_(gb|mpkt)", "steady_heat_s",
)  # fmt: skip
_LISTS: Sequence[tuple[Better, bool, Sequence[str]]] = (
    ("", False, _NEITHER),
    ("higher", True, _HIGHER_RATES),
    ("higher", False, _HIGHER),
    ("lower", True, _LOWER_TIMES),
    ("lower", False, _LOWER),
)
"""The first that matches counts: side, whether faster and slower are the words for it, names."""
# `run_2_` begins the figures of a program's second run in one step (tools/steps/figures.py).
_PATTERNS = tuple((better, speed, re.compile(rf"(?:run_\d+_)?(?:{'|'.join(names)})")) for better, speed, names in _LISTS)


class UnknownDirection(ValueError):
    """Verdicts were asked for about figures of which it is not known which side is better."""

    def __init__(self, figures: Sequence[str]) -> None:
        self.figures = tuple(dict.fromkeys(figures))
        super().__init__(f"which side of {', '.join(self.figures)} is better is not known")


@cache
def _known(figure: str) -> tuple[Better, bool] | None:
    return next(((better, speed) for better, speed, names in _PATTERNS if names.fullmatch(figure)), None)


def direction_of(figure: str) -> Better | None:
    """The side that the list names, empty where neither is better; None where the list does not have the figure."""
    known = _known(figure)
    return None if known is None else known[0]


def side_of(figure: str, said: Mapping[str, Better]) -> Better:
    """The known side, else the one that `said` has for the figure, or under the empty name for every figure; empty for none.

    Raises ValueError where `said` contradicts the list.
    """
    known, own = direction_of(figure) or "", said.get(figure, said.get("", ""))
    if known and own and known != own:
        raise ValueError(f"of {figure} {known} is better, so {own} cannot be")
    return known or own


def is_speed(figure: str) -> bool:
    """Whether faster and slower are the words for it: rates and times that are known."""
    known = _known(figure)
    return known is not None and known[1]
