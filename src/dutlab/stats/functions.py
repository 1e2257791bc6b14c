"""Cost of each function per frame: its row in a record, and the functions that take more or less in a newer version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import NormalDist

FUNCTIONS = "functions"
"""Name of the table in a record."""
WITH, WITHOUT = "router", "rig"
"""Names of the two profiles in the table: frames with the device, and without it."""
REST = "(rest)"
"""Pseudo-function for the rest of a pass: its begin and end, and interrupts."""
LEAST, MOST = 0.5, 8
"""Least change, in instructions a frame, and largest number of functions in a list."""
_REACH = NormalDist().inv_cdf(0.975)
_NUMBERS = ("own_instructions_per_frame", "own_error_per_frame", "whole_instructions_per_frame", "rig_instructions_per_frame")


@dataclass(frozen=True)
class FunctionCost:
    """Cost of a function, in instructions a frame."""

    name: str
    own: float
    """Cost in the device: `whole` less `rig`."""
    error: float
    """Standard error of `own`."""
    whole: float
    """Cost with the device."""
    rig: float
    """Cost without the device."""

    @property
    def row(self) -> dict[str, int | float | str | None]:
        """Row of the table in a record."""
        return {"function": self.name, **dict(zip(_NUMBERS, (self.own, self.error, self.whole, self.rig), strict=True))}


@dataclass(frozen=True)
class FunctionChange:
    """Change of a function's instructions per frame in the newer version."""

    name: str
    change: float
    reach: float
    """Half-width of the 95 % interval of the change."""

    @property
    def words(self) -> str:
        """Text as in `nft_do_chain +412`."""
        return f"{self.name} {self.change:+,.0f}{f' ± {self.reach:.1f}' if self.reach >= LEAST else ''}"


def of_rows(rows: Iterable[Mapping[str, int | float | str | None]]) -> list[FunctionCost]:
    """Read a record's table."""
    return [FunctionCost(str(row["function"]), *(float(row[name] or 0) for name in _NUMBERS)) for row in rows]


def changes(older: Sequence[FunctionCost], newer: Sequence[FunctionCost]) -> tuple[FunctionChange, ...]:
    """Return the changes that the sampling of frames does not explain, the largest first."""
    before, after = ({of.name: of for of in side if of.name != REST} for side in (older, newer))
    none = FunctionCost("", 0.0, 0.0, 0.0, 0.0)
    differences = list[FunctionChange]()
    for name in before.keys() | after.keys():
        a, b = before.get(name, none), after.get(name, none)
        differences.append(FunctionChange(name, b.own - a.own, _REACH * hypot(a.error, b.error)))
    proven = [of for of in differences if abs(of.change) >= LEAST and abs(of.change) > of.reach]
    return tuple(sorted(proven, key=lambda of: (-abs(of.change), of.name)))


def grown(changes: Sequence[FunctionChange]) -> tuple[FunctionChange, ...]:
    """Return the functions that cost more, at most MOST of them."""
    return tuple(of for of in changes if of.change > 0)[:MOST]


def words_of(changes: Sequence[FunctionChange]) -> str:
    """Return text as in `nft_do_chain +412, __skb_get_hash +18`."""
    return ", ".join(of.words for of in changes)
