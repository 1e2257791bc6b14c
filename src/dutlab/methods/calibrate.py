"""Calibration of the rig: the same generator and sink, looped without the DUT. No result can be better than this.

Each mix is sent as fast as the generator can, then at 90, 50 and 10 % of the rate received at full speed. Each load gives one point:

    offered_pps, received_pps        counted by the generator and by the sink
    failed_ratio                  share of the frames made that were lost or not taken: the loss floor
    rate_error_ratio              made ÷ asked - 1; None at full speed
    gap_error_ns                  median gap between sent frames, less the asked gap; None if the back end records no gaps
    latency_min_ns, latency_p99_ns  the latency floor; None if the clocks do not agree

Where source and sink cannot be looped, only the generator is measured, sending into the DUT: its rate and its evenness. Received and failed
frames and latency then depend on the DUT, so they are None.

A result's headroom is the rate of the rig with the same frames on the same links ÷ the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dutlab.choices import Rig
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import failed_frames, made_frames
from dutlab.methods.ports import Generator as Sender
from dutlab.methods.ports import Offer
from dutlab.spec.generators import ENGINE, Generator, GeneratorModel
from dutlab.spec.mixes import Mix
from dutlab.spec.traffic import Directions
from dutlab.subject import apart, figure_name
from dutlab.units import Pps, Seconds

LOADS = (None, 0.9, 0.5, 0.1)
"""Loads as shares of the rate received at full speed; None is full speed."""
LOADS_ALONE = (None, 0.5)
"""Loads for the generator alone, whose frames go through the DUT."""
LEAST_HEADROOM = 1.1
"""Headroom below which a result may show the rig's limit, not the DUT's."""
CLEAN_RATIO = 0.001
"""Largest failed share of a load that counts as carried by the rig."""
DURATION = Seconds(0.25)
_WARMUP, _DRAIN = Seconds(0.05), Seconds(0.2)
HEADROOM = "headroom_ratio"


@dataclass(frozen=True)
class RigPoint:
    """One load on one link of the rig. `links` were loaded at once; each has the name of its flow."""

    links: tuple[str, ...]
    link: str
    mix: str
    """Mix in the form of mix_key()."""
    intended_pps: float | None
    offered_pps: float
    received_pps: float | None
    failed_ratio: float | None
    rate_error_ratio: float | None
    gap_error_ns: float | None
    latency_min_ns: int | None
    latency_p99_ns: int | None
    generator: Generator = ENGINE
    version: str = ""
    """Version of the generator."""
    disturbed: str = ""
    """Effect of other work on this load, if disturbed loads count; empty for an undisturbed load."""

    @property
    def carried_pps(self) -> float:
        """Received rate; for a generator alone, the rate that it made, although the sink may be slower."""
        return self.offered_pps if self.received_pps is None else self.received_pps

    @property
    def clean(self) -> bool:
        """True if no more than CLEAN_RATIO of the frames failed, or if the failed share is not known."""
        return self.failed_ratio is None or self.failed_ratio <= CLEAN_RATIO


def mix_key(mix: Mix) -> str:
    """Return the sizes of a mix as a key: two mixes with one name may differ."""
    if mix.sequence is not None:
        return ">".join(str(size) for size in mix.sequence)
    return str(mix.parts[0][0]) if len(mix.parts) == 1 else ",".join(f"{size}:{weight}" for size, weight in mix.parts)


async def calibrate(
    generator: Sender,
    links: tuple[str, ...],
    mix: Mix,
    *,
    duration: Seconds = DURATION,
    loads: Sequence[float | None] = LOADS,
    model: GeneratorModel = ENGINE,
    version: str = "",
    rig: Rig = Rig.LOOPED,
    directions: Directions = Directions.FORWARD,
) -> list[RigPoint]:
    """Measure all `loads` on `links` at once; `model` and `version` describe the generator."""
    points: list[RigPoint] = []
    carried = 0.0
    for share in loads:
        rate = None if share is None else Pps(carried * share)
        offer = Offer(links, mix, rate, duration, _WARMUP, _DRAIN, directions=directions)
        outcome = await generator.offer(offer)
        if silent := [f.link for f in outcome.flows if f.sent_seconds <= 0 or (rig is Rig.LOOPED and f.received_frames == 0)]:
            raise MeasurementError(f"no frame arrived on link {' and '.join(silent)} of the rig without the DUT")
        bare = [_point(offer.flow_names, mix, rate, flow) for flow in outcome.flows]
        whole = [replace(point, generator=model, version=version, disturbed=outcome.disturbed) for point in bare]
        of_load = whole if rig is Rig.LOOPED else [_alone(p, flow) for p, flow in zip(whole, outcome.flows, strict=True)]
        if rate is None:
            carried = min(p.carried_pps for p in of_load)
        points += of_load
    return points


def _point(links: tuple[str, ...], mix: Mix, rate: Pps | None, flow: Flow) -> RigPoint:
    frames = made_frames(flow)
    gap_ns = None if rate is None or flow.gaps is None else flow.gaps.p50_ns - 1e9 / rate
    known = flow.latency if flow.latency is not None and flow.latency.count else None
    return RigPoint(
        links=links,
        link=flow.link,
        mix=mix_key(mix),
        intended_pps=rate,
        offered_pps=flow.sent_frames / flow.sent_seconds,
        received_pps=flow.received_frames / flow.sent_seconds,
        failed_ratio=failed_frames(flow) / frames if frames else 1.0,
        rate_error_ratio=None if rate is None else frames / flow.sent_seconds / rate - 1,
        gap_error_ns=gap_ns,
        latency_min_ns=known.min_ns if known else None,
        latency_p99_ns=known.p99_ns if known else None,
    )


def _alone(point: RigPoint, flow: Flow) -> RigPoint:
    """Return the point without values that depend on the DUT. `made` also counts frames that the DUT's port did not take."""
    made_pps = made_frames(flow) / flow.sent_seconds
    return replace(point, offered_pps=made_pps, received_pps=None, failed_ratio=None, latency_min_ns=None, latency_p99_ns=None)


def headroom(figures: Mapping[str, Mapping[str, float]], points: Iterable[RigPoint], links: tuple[str, ...], mix: str) -> dict[str, float]:
    """Return the headroom (rig ÷ result) of each link, or of `a+b` for a sum; links with an unknown value are absent.

    A forwarding rate, or the best second of a ramp, is compared with the highest rate that the rig received. A rate without loss (the lower
    bound of a search, a throughput, a critical rate, the reference rate of latencies) is compared with the highest load of which at most
    CLEAN_RATIO failed.
    """
    same = [p for p in points if p.links == links and p.mix == mix]
    return {
        label: rig / result
        for label, of_directions in figures.items()
        for result, clean in [_result(of_directions, len(apart(label)))]
        if result > 0 and (rig := _rig(same, apart(label), [p for p in same if p.clean] if clean else same)) > 0
    }


def full_speed(points: Iterable[RigPoint], links: tuple[str, ...], mix: Mix, label: str) -> dict[str, float]:
    """Return the rig's highest rates with these frames: `rig_offered_pps`, `rig_received_pps`; of a link or summed over `a+b`.

    A generator alone has no received rate.
    """
    same = {p.link: p for p in points if (p.links, p.mix, p.intended_pps) == (links, mix_key(mix), None)}
    names = apart(label)
    if not set(names) <= same.keys():
        return {}
    received = [pps for name in names if (pps := same[name].received_pps) is not None]
    return {
        "rig_offered_pps": sum(same[name].offered_pps for name in names),
        **({"rig_received_pps": sum(received)} if len(received) == len(names) else {}),
    }


def doubts_of_headroom(ratios: Mapping[str, float]) -> list[Doubt]:
    """Return a RIG_LIMITED doubt for each link whose headroom is below LEAST_HEADROOM."""
    return [Doubt(DoubtKind.RIG_LIMITED, f"headroom {ratio:.2f}", link) for link, ratio in ratios.items() if ratio < LEAST_HEADROOM]


_WITHOUT_LOSS = ("lower_pps", "throughput_pps", "reference_pps")
_WITH_LOSS = ("received_pps", "max_received_pps")


def _result(of_directions: Mapping[str, float], directions: int) -> tuple[float, bool]:
    """Return the highest rate of `directions` directions together (0 if there is none), and True if it is a rate without loss."""
    bounds = [value for name, value in of_directions.items() if figure_name(name).measure in _WITHOUT_LOSS]
    if "critical_pps" in of_directions:  # critical_pps is for each link
        bounds.append(of_directions["critical_pps"] * directions)
    return (max(bounds), True) if bounds else (max(of_directions.get(name, 0.0) for name in _WITH_LOSS), False)


def _rig(same: Sequence[RigPoint], links: Sequence[str], carried: Sequence[RigPoint]) -> float:
    """Return the sum over `links` of the highest rate that the rig carried; 0 if the rig was not measured on each."""
    if not set(links) <= {p.link for p in same}:
        return 0.0
    return sum(max((p.carried_pps for p in carried if p.link == link), default=0.0) for link in links)
