"""Latency (RFC 2544 section 26.2): a stream at the throughput, frames timed in its second half, the mean of the repeats' means.

The text tags one frame after 60 s of a stream of 120 s. Here every frame of the second 60 s is timed, which is more than the 500 tagged
frames of RFC 8219 section 7.2. So a repeat has a mean, a median (typical latency) and a 99.9th percentile (worst case latency). For the
latter two, the result is the median over the repeats, as in that section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from dutlab.errors import MeasurementError
from dutlab.methods.flow import Latency
from dutlab.methods.ports import Row
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext, failed, made
from dutlab.units import Pps

UNTIMED_S = 60.0
TIMED_S = 60.0


async def measure(stand: SuiteContext, rate: Pps) -> Rfc2544Result:
    """Return one row a repeat; for several directions the worst.

    Raises MeasurementError if the clocks allow no latency, or the rate failed.
    """
    setting, rows = stand.setting, list[Row]()
    for repeat in range(1, setting.latency_repeats + 1):
        outcome, short = await stand.offer_in_full(stand.load(rate, setting.seconds(TIMED_S), warmup=setting.seconds(UNTIMED_S)))
        if short:
            raise MeasurementError(f"the generator did not make the throughput: {short}", raw=dict(outcome.raw))
        timed = [flow.latency for flow in outcome.flows if flow.latency is not None and flow.latency.count]
        if len(timed) < len(outcome.flows):
            raise MeasurementError("no frame could be timed: see the doubts of the record", raw=dict(outcome.raw))
        times = " and ".join(dict.fromkeys(flow.timed_by for flow in outcome.flows if flow.timed_by))
        lost = failed(outcome.flows) / max(1, made(outcome.flows))
        rows.append({"repeat": repeat, **_worst(timed), "loss_ratio": lost, "timed_by": times or None})
    figures = {name: mean([float(row[name] or 0) for row in rows]) for name, mean in _WORST.items()}
    figures["latency_min_ns"] = min(float(row["latency_min_ns"] or 0) for row in rows)
    figures["latency_max_ns"] = max(float(row["latency_max_ns"] or 0) for row in rows)
    lossy = sum(1 for row in rows if row["loss_ratio"])
    notes = [f"in {lossy} of {len(rows)} repeats at the throughput frames were lost"] if lossy else []
    return Rfc2544Result(rows, figures, notes)


_WORST: Mapping[str, Callable[[Sequence[float]], float]] = {
    "latency_mean_ns": fmean, "latency_p50_ns": median, "latency_p999_ns": median, "pdv_p999_ns": median,
}  # fmt: skip
"""Mean of the repeats by RFC 2544 section 26.2; medians of typical and worst-case latency and PDV by RFC 8219 sections 7.2 and 7.3.1."""


def _worst(of: Sequence[Latency]) -> dict[str, float]:
    return {
        "latency_min_ns": min(one.min_ns for one in of),
        "latency_mean_ns": max(one.mean_ns for one in of),
        "latency_p50_ns": max(one.p50_ns for one in of),
        "latency_p999_ns": max(one.p999_ns for one in of),
        "latency_max_ns": max(one.max_ns for one in of),
        "pdv_p999_ns": max(one.p999_ns - one.min_ns for one in of),
    }
