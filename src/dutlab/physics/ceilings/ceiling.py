"""One limit computed from facts, with its formula and source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutlab.units import si


@dataclass(frozen=True)
class Ceiling:
    """A limit: the largest possible value of a figure."""

    name: str
    """Name for programs; its last part is the unit, as in `frames_pps`."""
    about: str
    """Subject of the ceiling: `64 B`, `AES-GCM over IPv4`; empty if there is only one."""
    what: str
    """Name for people: `frames a second`."""
    value: float
    unit: str
    """`pps`, `bit/s`, `B/s`, `B`, `IOPS`; empty for a plain ratio."""
    formula: str
    """Formula with its numbers."""
    source: str
    """Source of the formula."""

    @property
    def words(self) -> str:
        """Value with its unit: five digits and a prefix; frames and bytes in full."""
        if self.unit in {"B", "pps"}:
            return f"{self.value:,.{2 if self.unit == 'pps' else 0}f} {self.unit}".replace(",", " ")
        if self.name == "goodput_bps":  # tools print goodput in any of these three units
            a_second = self.value / 8
            return f"{si(self.value, 'b/s', 5)} ({a_second / 1e6:.2f} MB/s, {a_second / 2**20:.2f} MiB/s)"
        return si(self.value, self.unit.replace("bit/s", "b/s"), 5) if self.unit else f"{self.value:.4f}"


def insist(faults: Iterable[str]) -> None:
    """Raise ValueError with all non-empty `faults` in one message, if there are any."""
    if sentences := [f for f in faults if f]:
        raise ValueError("; ".join(sentences))


def positive(value: float, what: str) -> str:
    """Return a fault if `value` is not a finite number above zero; else an empty string."""
    return "" if 0 < value < float("inf") else f"{what} must be more than 0, not {value:g}"


def number(value: float) -> str:
    """Format a number in a formula with all its significant digits: `1e10`, `14880952.381`."""
    return f"{value:.11g}".replace("e+", "e")


def any_of(numbers: Iterable[int]) -> str:
    """Format the allowed values in a fault: `1, 2, 4`."""
    return ", ".join(map(str, numbers))
