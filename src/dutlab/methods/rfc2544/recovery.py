"""System recovery (RFC 2544 section 26.5): the time for which frames are still lost after an overload drops to half the load.

Both instants are from the generator's readings, so the result is as fine as the time between readings: READINGS_EVERY_S if the generator
supports it. The instant of the drop follows from the reading that contains it, whose rate is between the two. The result is the mean of the
repeats, as the section asks; if one repeat has no result, there is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from dutlab.errors import MeasurementError
from dutlab.methods.ports import Row, Stretch, ToolReading
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext
from dutlab.units import Pps, Seconds

OVERLOAD = 1.1
OVERLOAD_S = 60.0
AFTER_S = 30.0
"""Seconds after the drop: longer than any useful recovery; the text has no length."""
LEAST_S = 5.0
"""Least duration in seconds, for any scale: it must hold some readings, which come once a second."""
READINGS_EVERY_S = 0.05
"""Time between readings in seconds; a back end in the kernel is not read more often."""
_SECOND_S = 0.9
"""Least time between readings to find the drop, in seconds: at a finer resolution, a hesitating sender looks like a drop."""
SETTLED = 0.5
"""A reading still belongs to the overload if its rate has fallen by less than this share of the drop."""


@dataclass(frozen=True)
class Recovered:
    """Seconds from the drop to the end of the last reading with loss, and the time between readings."""

    seconds: float
    resolution_s: float
    ongoing: bool
    """True if frames were lost to the end."""


async def measure(stand: SuiteContext, throughput: Pps) -> Rfc2544Result:
    """Return one row a repeat. Raises MeasurementError if the generator had too few readings."""
    rows, notes = list[Row](), list[str]()
    for repeat in range(1, stand.setting.recovery_repeats + 1):
        row, note = await _one(stand, throughput)
        rows.append({"repeat": repeat, **row})
        notes += [note] if note else []
    took = [value for row in rows if isinstance(value := row["recovery_ns"], float)]
    return Rfc2544Result(rows, {"recovery_ns": fmean(took)} if len(took) == len(rows) else {}, list(dict.fromkeys(notes)))


async def _one(stand: SuiteContext, throughput: Pps) -> tuple[dict[str, float | None], str]:
    high = Pps(min(throughput * OVERLOAD, stand.maximum))
    low = Pps(high / 2)
    before, after = (Seconds(max(stand.setting.seconds(s), LEAST_S)) for s in (OVERLOAD_S, AFTER_S))
    profile = (Stretch(before, high, high), Stretch(after, low, low))
    outcome, short = await stand.offer_in_full(
        replace(stand.load(None, Seconds(before + after), profile=profile), readings_every=Seconds(READINGS_EVERY_S))
    )
    row: dict[str, float | None] = {
        "overload_pps": high,
        "after_pps": low,
        "overload_s": float(before),
        "recovery_ns": None,
        "resolution_ns": None,
    }
    if short:
        return row, f"there is no recovery from an overload that the generator did not make: {short}"
    recovery = recovered(outcome.readings, high=high, low=low)
    row["resolution_ns"] = recovery.resolution_s * 1e9
    if recovery.ongoing:
        return row, f"the DUT had not recovered {after:g} s after the overload"
    row["recovery_ns"] = recovery.seconds * 1e9
    return row, ""


def recovered(readings: Sequence[ToolReading], *, high: Pps, low: Pps) -> Recovered:
    """Return the recovery from the readings of one trial; for several directions the slowest. Raises MeasurementError."""
    by_link: dict[str, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for reading in readings:
        by_link[reading.link][reading.at_s][reading.name] = reading.value
    if not by_link:
        raise MeasurementError("the generator reported nothing in time, so the recovery is not known")
    recoveries = [_of_link(sorted(times.items()), high, low) for times in by_link.values()]
    return max(recoveries, key=lambda one: (one.ongoing, one.seconds))


def _of_link(series: Sequence[tuple[float, dict[str, float]]], high: Pps, low: Pps) -> Recovered:
    rates = _by_second([(at, row["offered_pps"] + row.get("backpressure_pps", 0.0)) for at, row in series if "offered_pps" in row])
    edge = low + (high - low) * SETTLED
    dropped = next((i for i in range(1, len(rates)) if rates[i - 1][1] > edge and rates[i][1] <= high * 0.98), None)
    if dropped is None:
        raise MeasurementError("the generator's readings do not show the drop of the rate")
    start, end = rates[dropped - 1][0], rates[dropped][0]
    share = min(max((rates[dropped][1] - low) / (high - low), 0.0), 1.0)
    instant = start + share * (end - start)
    failing = [at for at, row in series if at > instant and row.get("lost_pps", 0.0) + row.get("backpressure_pps", 0.0) > 0]
    times = [at for at, row in series if "lost_pps" in row] or [at for at, _ in rates]
    apart = max(b - a for a, b in pairwise(times))
    ongoing = bool(failing) and failing[-1] >= times[-1]
    return Recovered(failing[-1] - instant if failing else 0.0, apart, ongoing)


def _by_second(rates: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return mean rates over groups of readings at least a second long; a shorter rest is left out."""
    out = list(rates[:1])
    frames, since = 0.0, rates[0][0] if rates else 0.0
    for (before, _), (at, rate) in pairwise(rates):
        frames += rate * (at - before)
        if at - since >= _SECOND_S:
            out.append((at, frames / (at - since)))
            frames, since = 0.0, at
    return out
