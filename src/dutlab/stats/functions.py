"""Cost of each function per frame: its row in a record, and the functions that take more or less in a newer version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import NormalDist

FUNCTIONS = "functions"
"""The table of a record."""
WITH, WITHOUT = "router", "rig"
"""Its two profiles: frames with the device, and without it."""
REST = "(rest)"
"""Cost of a pass outside its functions: its begin and end, and interrupts."""
LEAST, MOST = 0.5, 8
"""A change of fewer instructions is none; so many functions are named."""
_REACH = NormalDist().inv_cdf(0.975)
_NUMBERS = ("own_instructions_per_frame", "own_error_per_frame", "whole_instructions_per_frame", "rig_instructions_per_frame")


@dataclass(frozen=True)
class FunctionCost:
    """Instructions a frame."""

    name: str
    own: float
    """Cost in the device: with it less without it."""
    error: float
    """Standard error of `own`."""
    whole: float
    """With the device."""
    rig: float
    """Without it."""

    @property
    def row(self) -> dict[str, int | float | str | None]:
        """For a record."""
        return {"function": self.name, **dict(zip(_NUMBERS, (self.own, self.error, self.whole, self.rig), strict=True))}


@dataclass(frozen=True)
class FunctionChange:
    """Change of a function's instructions per frame in the newer version."""

    name: str
    change: float
    reach: float
    """The change is known to so much, with 95 % confidence."""

    @property
    def words(self) -> str:
        """`nft_do_chain +412`."""
        return f"{self.name} {self.change:+,.0f}{f' ± {self.reach:.1f}' if self.reach >= LEAST else ''}"


def of_rows(rows: Iterable[Mapping[str, int | float | str | None]]) -> list[FunctionCost]:
    """Read a record's table."""
    return [FunctionCost(str(row["function"]), *(float(row[name] or 0) for name in _NUMBERS)) for row in rows]


def changes(older: Sequence[FunctionCost], newer: Sequence[FunctionCost]) -> tuple[FunctionChange, ...]:
    """The largest first, of those that the choice of frames does not explain."""
    before, after = ({of.name: of for of in side if of.name != REST} for side in (older, newer))
    none = FunctionCost("", 0.0, 0.0, 0.0, 0.0)
    differences = list[FunctionChange]()
    for name in before.keys() | after.keys():
        a, b = before.get(name, none), after.get(name, none)
        differences.append(FunctionChange(name, b.own - a.own, _REACH * hypot(a.error, b.error)))
    proven = [of for of in differences if abs(of.change) >= LEAST and abs(of.change) > of.reach]
    return tuple(sorted(proven, key=lambda of: (-abs(of.change), of.name)))


def grown(found: Sequence[FunctionChange]) -> tuple[FunctionChange, ...]:
    """Those that take more, not too many of them."""
    return tuple(of for of in found if of.change > 0)[:MOST]


def words_of(found: Sequence[FunctionChange]) -> str:
    """`nft_do_chain +412, __skb_get_hash +18`."""
    return ", ".join(of.words for of in found)
