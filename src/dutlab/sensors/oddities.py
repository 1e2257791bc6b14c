"""Faults that make the readings of a sensor doubtful: silence, and watts that no device can take."""

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
"""More than a distribution unit of a rack gives."""
_JUMP, _ALIKE = 2.0, 1.2


class Amount(NamedTuple):
    """A number and its unit, as one writes it behind a number."""

    value: float
    unit: str


class FaultTally:
    """The first fault of a sensor in a trial, and how many there were: a device that is never right fills no memory."""

    def __init__(self) -> None:
        self._first, self._count = "", 0

    def __len__(self) -> int:
        return self._count

    def add(self, *faults: str) -> None:
        """Each in words."""
        self._first = self._first or next(iter(faults), "")
        self._count += len(faults)

    @property
    def words(self) -> list[str]:
        """One sentence, or none."""
        return [f"{self._first}{f' ({self._count} times)' if self._count > 1 else ''}"] if self._count else []


def as_number(value: float | str) -> float:
    """A number of a device as a float. Raises ValueError for what is not one, or has more digits than a float holds."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"it reports a number of {len(str(value)):,} digits") from None


def in_range(quantities: Mapping[str, Amount]) -> tuple[dict[str, Amount], list[str]]:
    """Those that are finite and in the range of their unit, and each other one in words."""
    good, odd = dict[str, Amount](), list[str]()
    if (more := len(quantities) - QUANTITIES) > 0:
        odd.append(f"it has {len(quantities)} readings at once; {more} are left out")
    for name, amount in islice(quantities.items(), QUANTITIES):
        low, high = RANGES.get(amount.unit, (-LARGEST_NUMBER, LARGEST_NUMBER))
        if low <= amount.value <= high:  # also false of NaN
            good[name] = amount
        else:
            odd.append(f"{name} reports {amount.value:g} {amount.unit}, which is impossible here")
    return good, odd


def oddities(readings: Sequence[tuple[float, Mapping[str, Amount]]], began_s: float, ended_s: float, *, every_s: float) -> Iterator[str]:
    """Return what makes readings, each with its time and values by name, doubtful; each in words."""
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
    if unit != "W":  # a fan that is off, a temperature that does not move: both are as they should be
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
