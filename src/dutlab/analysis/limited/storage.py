"""Limit of an array of drives: rules for each possible limit, from the drives' data sheet to the processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.analysis.limited.finding import Confidence, LimitCause, LimitFinding, best_of
from dutlab.units import si

NEAR = 0.85
"""Share of a ceiling from which on it counts as the limit."""
SAME_SHARE = 0.10
SAME_RATE = 0.10
BUSY, COOL = 90.0, 60.0


@dataclass(frozen=True)
class Subset:
    """Result of the same load on fewer drives. `drive_sum` is the sum of their ratings, in the unit of `value`."""

    drives: int
    value: float
    drive_sum: float


@dataclass(frozen=True)
class ArrayFacts:
    """Facts about one result of an array. None means not known."""

    value: float
    unit: str
    """`IOPS` or `B/s`."""
    drives: int
    drive_sum: float
    """Sum of the drives' ratings, in the same unit."""
    arithmetic: float | None = None
    """Rate that the RAID level leaves of the drives' rating (physics.ceilings.storage); None for reads, which it does not reduce."""
    uplinks: float | None = None
    """Rate of the shared PCIe links, in the same unit."""
    cpu_percent: float | None = None
    """Busy percent, mean over all cores."""
    fewer: Sequence[Subset] = ()
    other_engines: Mapping[str, float] = field(default_factory=dict)
    """Results of the same load on the same drives under other RAID software."""

    @property
    def share(self) -> float:
        """Share of the drives' rating."""
        return self.value / self.drive_sum if self.drive_sum else 0.0


def limit_of_array(facts: ArrayFacts) -> LimitFinding:
    """Return the limit of an array, with its evidence."""
    missing = [what for what, there in {
        "load of the processor": facts.cpu_percent is not None, "the same with fewer drives": bool(facts.fewer),
        "PCIe topology": facts.uplinks is not None,
    }.items() if not there]  # fmt: skip
    return best_of([rule(facts) for rule in _RULES], missing)


def _drives(f: ArrayFacts) -> LimitFinding | None:
    if f.share < NEAR:
        return None
    sentence = f"{si(f.value, f.unit)} is {f.share:.0%} of the {si(f.drive_sum, f.unit)} that {f.drives} drives are rated for"
    return LimitFinding(LimitCause.DRIVE_SPEC, Confidence.SHOWN, (sentence,), "more or faster drives")


def _raid(f: ArrayFacts) -> LimitFinding | None:
    if not f.arithmetic or not NEAR <= f.value / f.arithmetic <= 1 / NEAR:
        return None
    sentence = f"{si(f.value, f.unit)} is {f.value / f.arithmetic:.0%} of what the level leaves of the drives' rating"
    return LimitFinding(LimitCause.RAID, Confidence.LIKELY, (sentence,), "the same with RAID 0, which has no parity to write")


def _processor(f: ArrayFacts) -> LimitFinding | None:
    if f.cpu_percent is None or f.cpu_percent < BUSY:
        return None
    return LimitFinding(LimitCause.ALL_CORES, Confidence.SHOWN, (f"all cores were busy {f.cpu_percent:.0f} % of the time",), "more cores")


def _uplinks(f: ArrayFacts) -> LimitFinding | None:
    if not f.uplinks or f.value < NEAR * f.uplinks:
        return None
    sentence = f"{f.share:.1%} of the drives' rating, but {f.value / f.uplinks:.0%} of what the uplinks pass"
    return LimitFinding(LimitCause.BUS, Confidence.SHOWN, (sentence,), "spread the drives over more uplinks")


def _inferred_bus(f: ArrayFacts) -> LimitFinding | None:
    """Infer a shared bus without a measurement of it.

    Each drive gives the same share of its rating, with any number of drives or any RAID software.
    """
    if f.share >= NEAR or (f.cpu_percent is not None and f.cpu_percent >= COOL):
        return None
    why = [f"{f.drives} drives reach {f.share:.0%} of their rating"]
    like = [s for s in f.fewer if s.drive_sum and abs(s.value / s.drive_sum - f.share) <= SAME_SHARE]
    why += [
        f"{s.drives} drives reach {s.value / s.drive_sum:.0%} of theirs: it grows with them, so their shared path is not the limit"
        for s in like
    ]
    same = {name: v for name, v in f.other_engines.items() if f.value and abs(v / f.value - 1) <= SAME_RATE}
    why += [f"{name} reaches {si(v, f.unit)}, the same within {SAME_RATE:.0%}: it is not the software" for name, v in same.items()]
    if len(why) == 1:
        return None
    why += [f"the processor was at {f.cpu_percent:.0f} %"] if f.cpu_percent is not None else []
    sure = Confidence.LIKELY if f.cpu_percent is not None or len(why) > 2 else Confidence.POSSIBLE  # noqa: PLR2004 - two independent signs
    return LimitFinding(
        LimitCause.BUS, sure, tuple(why), "measure one drive alone, then those of one uplink: where the share falls, that link is shared"
    )


_RULES: tuple[Callable[[ArrayFacts], LimitFinding | None], ...] = (_drives, _uplinks, _processor, _raid, _inferred_bus)
