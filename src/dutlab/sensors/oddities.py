"""Faults that make the readings of a sensor doubtful: silence, and implausible watts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from statistics import fmean
from typing import NamedTuple

from dutlab.bounds import LARGEST_NUMBER, QUANTITIES, RANGES

SILENT_S, SILENT_PERIODS = 5.0, 3
STUCK_S, STUCK_READINGS = 30.0, 20
_LEAST_ZEROS = 3
_NO_BOX_W = 30_000.0
"""Implausible power: more than a distribution unit of a rack supplies."""
_JUMP, _ALIKE = 2.0, 1.2


class Amount(NamedTuple):
    """A number and its unit, as written after a number."""

    value: float
    unit: str


class FaultTally:
    """First fault of a sensor in a trial, and the number of faults. So a device that always fails needs little memory."""

    def __init__(self) -> None:
        self._first, self._count = "", 0

    def __len__(self) -> int:
        return self._count

    def add(self, *faults: str) -> None:
        """Add faults, each as a sentence."""
        self._first = self._first or next(iter(faults), "")
        self._count += len(faults)

    @property
    def words(self) -> list[str]:
        """List of one sentence about all faults; empty without faults."""
        return [f"{self._first}{f' ({self._count} times)' if self._count > 1 else ''}"] if self._count else []


def as_number(value: float | str) -> float:
    """Return a number of a device as a float. Raises ValueError if it is not a number, or too large for a float."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"it reports a number of {len(str(value)):,} digits") from None


def in_range(quantities: Mapping[str, Amount]) -> tuple[dict[str, Amount], list[str]]:
    """Return the quantities that are in the range of their unit, and a sentence for each other one."""
    good, odd = dict[str, Amount](), list[str]()
    if (more := len(quantities) - QUANTITIES) > 0:
        odd.append(f"it has {len(quantities)} readings at once; {more} are left out")
    for name, amount in islice(quantities.items(), QUANTITIES):
        low, high = RANGES.get(amount.unit, (-LARGEST_NUMBER, LARGEST_NUMBER))
        if low <= amount.value <= high:  # also false for NaN
            good[name] = amount
        else:
            odd.append(f"{name} reports {amount.value:g} {amount.unit}, which is impossible here")
    return good, odd


def oddities(readings: Sequence[tuple[float, Mapping[str, Amount]]], began_s: float, ended_s: float, *, every_s: float) -> Iterator[str]:
    """Yield a sentence for each doubt about readings, which are (time, values by name)."""
    if not readings:
        if ended_s - began_s > SILENT_S:
            yield "no reading"
        return
    times = [began_s, *(at_s for at_s, _ in readings), ended_s]
    longest = max(after - before for before, after in pairwise(times))
    if longest > max(SILENT_S, SILENT_PERIODS * every_s):
        yield f"it sent no reading for {longest:.0f} s"
    names = dict.fromkeys(name for _, values in readings for name in values)
    for name in names:
        of = [(at_s, values[name]) for at_s, values in readings if name in values]
        what = "" if len(names) == 1 else f"{name}: "
        yield from (f"{what}{odd}" for odd in _odd([v.value for _, v in of], of[0][1].unit, of[-1][0] - of[0][0]))


def _odd(values: Sequence[float], unit: str, span_s: float) -> Iterator[str]:
    if unit != "W":  # a fan that is off and a constant temperature are plausible
        return
    if min(values) < 0:
        yield f"it reports {min(values):g} W: is the meter the wrong way round?"
    if max(values) > _NO_BOX_W:
        yield f"it reports {max(values):g} W: if it reports milliwatts, write scale: 0.001"
    if len(values) >= _LEAST_ZEROS and not any(values):
        yield "it reports 0 W all the time: an outlet without a meter does"
    if len(values) >= STUCK_READINGS and span_s >= STUCK_S and len(set(values)) == 1 and not values[0].is_integer():
        yield f"it reports {values[0]:g} W without change for {span_s:.0f} s: it may be stuck"
    for before, between, after in zip(values, values[1:], values[2:], strict=False):
        near = min(before, after) > 0 and max(before, after) <= _ALIKE * min(before, after)
        if near and not fmean((before, after)) / _JUMP <= between <= fmean((before, after)) * _JUMP:
            yield f"one reading of {between:g} W is between {before:g} and {after:g}"
            return
