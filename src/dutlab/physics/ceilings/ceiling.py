"""One limit that follows from facts, with the formula that gave it and where that was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutlab.units import si


@dataclass(frozen=True)
class Ceiling:
    """At most this much."""

    name: str
    """For programs; the unit is its last part, as in `frames_pps`."""
    about: str
    """Subject among several, in words: `64 B`, `AES-GCM over IPv4`; empty where there is only one."""
    what: str
    """In words: `frames a second`."""
    value: float
    unit: str
    """`pps`, `bit/s`, `B/s`, `B`, `IOPS`; empty for a plain ratio."""
    formula: str
    """With the numbers in it."""
    source: str
    """Source of the formula."""

    @property
    def words(self) -> str:
        """The value with its unit: five digits and a prefix; frames and bytes in full."""
        if self.unit in {"B", "pps"}:
            return f"{self.value:,.{2 if self.unit == 'pps' else 0}f} {self.unit}".replace(",", " ")
        if self.name == "goodput_bps":  # which tools print in any of the three
            a_second = self.value / 8
            return f"{si(self.value, 'b/s', 5)} ({a_second / 1e6:.2f} MB/s, {a_second / 2**20:.2f} MiB/s)"
        return si(self.value, self.unit.replace("bit/s", "b/s"), 5) if self.unit else f"{self.value:.4f}"


def insist(faults: Iterable[str]) -> None:
    """Raises ValueError with all `faults` in one sentence, if there are any (empty ones are none)."""
    if sentences := [f for f in faults if f]:
        raise ValueError("; ".join(sentences))


def positive(value: float, what: str) -> str:
    """A fault where `value` is not a number above zero, or infinite; else nothing."""
    return "" if 0 < value < float("inf") else f"{what} must be more than 0, not {value:g}"


def number(value: float) -> str:
    """A number in a formula, with all digits that matter: `1e10`, `14880952.381`."""
    return f"{value:.11g}".replace("e+", "e")


def any_of(numbers: Iterable[int]) -> str:
    """`1, 2, 4`: what there is, in a fault."""
    return ", ".join(map(str, numbers))
