"""Changes in how iperf3 counts (esnet/iperf, RELNOTES.md). Results of two versions also differ by each change between the versions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

_VERSION = re.compile(r"\b(\d+)\.(\d+)(?:\.(\d+))?")
_Version = tuple[int, int, int]


@dataclass(frozen=True)
class CountChange:
    """A change in how iperf3 counts some figures."""

    since: str
    """The first version with the change."""
    measures: tuple[str, ...]
    words: str
    """Behaviour before the change."""
    setting: str = ""
    """Setting that must be above `least` for the change to affect a test; empty for all tests."""
    least: int = 0
    of_datagrams: bool = False
    """True if only UDP tests are affected: those with a share of lost datagrams."""


CHANGES = (
    CountChange("3.2", ("loss_ratio", "goodput_bps"), "datagrams that came out of order were counted as lost", of_datagrams=True),
    CountChange("3.8", ("jitter_ns",), "jitter included the drift between the clocks of both ends"),
    CountChange("3.10", ("sender_cpu_percent", "receiver_cpu_percent"), "the CPU share was calculated wrongly"),
    CountChange("3.14", ("goodput_bps", "sent_bps", "loss_ratio"), "sums of a test with a warm-up (-O) were wrong", "omit_s"),
    CountChange("3.16", ("goodput_bps", "sent_bps"), "one thread served all streams of a test", "streams", 1),
    CountChange("3.18", ("sender_cpu_percent", "receiver_cpu_percent"), "the CPU share was too high at limited rates"),
    CountChange("3.18", ("sent_bps", "loss_ratio"), "datagrams that the sender could not send were counted as sent", of_datagrams=True),
)


def changes_between(
    first: Iterable[str], second: Iterable[str], measures: Collection[str], settings: Iterable[Mapping[str, object]] = ()
) -> tuple[CountChange, ...]:
    """Return the changes between any version of one side and any of the other that affect `measures` in tests with these settings.

    A version is the number found in each text; texts without one are left out.
    """
    ours, theirs = _versions(first), _versions(second)
    tests = list(settings)
    return tuple(
        change
        for change in CHANGES
        if any((a < _since(change)) != (b < _since(change)) for a in ours for b in theirs)
        and any(name in measures for name in change.measures)
        and (not change.of_datagrams or "loss_ratio" in measures)
        and (not change.setting or any(_has(change, test) for test in tests))
    )


def _has(change: CountChange, test: Mapping[str, object]) -> bool:
    value = test.get(change.setting)
    return isinstance(value, int | float) and value > change.least


def _since(change: CountChange) -> _Version:
    (version,) = _versions([change.since])
    return version


def _versions(texts: Iterable[str]) -> set[_Version]:
    return {(int(m[1]), int(m[2]), int(m[3] or 0)) for text in texts for m in _VERSION.finditer(text)}
