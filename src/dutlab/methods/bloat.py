"""Method `bloat`: latency without load, while TCP fills the queues of a link, and until the queues are empty again.

Small probe frames go in both directions, on their own flow: first without load, then while TCP sends, then after the load. At the same
time, new TCP connections are opened, with one request each. The sender's kernel reports the round trip times of the load's own
connections, which wait in the load's own queue.

Figures of a flow (`a` from source to sink, `a.back` from sink to source), in one direction, if the clocks of both ends allow it:

    idle/latency_p50_ns, _p95_ns, _p99_ns, _max_ns      without load
    loaded/latency_…                                    under load
    latency_increase_p50_ns, _p95_ns, _p99_ns, _max_ns  under load, less the median without load
    loaded/loss_ratio                                   of the probe
    goodput_bps                                         of the load, in the time that counts
    load/rtt_p50_ns, _p95_ns, _p99_ns                   of the load's own connections
    settle_s                                            from the end of the load until the mean latency is again as without load

Figures of both directions together (`a+a.back`) are sums of the two one-way values, so the clock difference cancels out.

    idle/latency_…, loaded/latency_…, latency_increase_…, goodput_bps, settle_s
    idle/handshake_p50_ns, loaded/handshake_p50_ns, …   SYN to SYN-ACK of new connections
    round_trips_per_min                                 responsiveness: see `responsiveness`

The record's table `course` has goodput and latency over time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from statistics import fmean

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled
from dutlab.errors import MeasurementError
from dutlab.methods.connection_ports import ConnectionLoad, ConnectionReport
from dutlab.methods.flow import Flow, Histogram, TimedFlow
from dutlab.methods.ledger import starved
from dutlab.methods.ports import NO_TIME, Bench, IPAddress, Measured, Offer, Outcome, Row, ToolReading
from dutlab.methods.transfer_ports import TransferLoad, TransferReport
from dutlab.plan.cell import Cell
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.bloat import BloatSetting
from dutlab.subject import back_of, joined, of_part
from dutlab.units import Pps, Seconds

PROBE = frame_mix(128)
"""Size of probe frames with FCS: short compared with the load's frames, and long enough for a probe over IPv6."""
SHARES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
READINGS_EVERY = Seconds(0.1)
DRAIN = Seconds(1.0)
"""A frame that waits longer in a queue counts as lost."""
HOLDS_S = Seconds(0.5)
SETTLED_NS = 2_000_000
"""Queues count as empty if a reading's mean latency is at most this much above the highest reading without load."""
REQUEST_BYTES, RESPONSE_BYTES = 200, 1024
LOOK_S, LOOK_DRAIN = Seconds(0.3), Seconds(0.2)
"""Duration and drain of the first short offers, which show whether answers arrive."""
TIMEOUT = Seconds(5.0)
"""Time limit of a handshake or an answer."""
LEAST_SPARE_S, MOST_SPARE_S = 1, 60
MS_PER_MIN = 60_000.0
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Phase:
    """The probe and the connections of one phase of a trial."""

    outcome: Outcome
    connections: ConnectionReport | None

    def flow(self, name: str) -> Flow | None:
        """Return the probe's flow in one direction; None if there is no probe in it."""
        return next((f for f in self.outcome.flows if f.link == name), None)

    @property
    def began_s(self) -> float:
        """Wall clock of the first frame that counts."""
        return self.outcome.began_s or 0.0

    @property
    def ended_s(self) -> float:
        """Wall clock of the last frame."""
        return self.began_s + max(f.sent_seconds for f in self.outcome.flows)

    def means(self, name: str) -> list[tuple[float, float]]:
        """Return (wall clock, mean latency in ns) of each reading."""
        return [(r.at_s, r.value) for r in self.outcome.readings if r.link == name and r.name == "latency_mean_ns"]


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run one trial. Raises InputError, HostError, ToolMissing, ToolFailed; MeasurementError for a short load or a lost probe."""
    if bench.transfers is None:
        raise MeasurementError("nothing sends TCP on this testbed", remedy="name hosts with iperf3 at both ends of the link")
    setting, (link,) = cell.setting_as(BloatSetting), cell.links
    probes = _Probes(bench, link, setting)
    look = await probes.find_ways()
    idle = await probes.phase(setting.idle_s, drain=LOOK_DRAIN)
    spare_s = spare(look, idle.outcome)
    load = TransferLoad(link, setting.ways, setting.streams, setting.ramp_s + setting.duration_s + spare_s)
    sending = asyncio.ensure_future(bench.transfers.carry_out(load))
    try:
        loaded = await probes.phase(Seconds(float(setting.duration_s)), warmup=Seconds(float(setting.ramp_s)), drain=DRAIN)
        if sending.done():
            sending.result()  # raises the error that ended it
        after = await probes.offer(Seconds(spare_s + setting.settle_s), drain=DRAIN)
        report = await sending
    finally:
        await cancelled(sending)
    return _Trial(link, setting, idle, loaded, Phase(after, None), report, list(probes.notes)).measured()


@dataclass
class _Probes:
    """Probe frames in both directions, and new connections at the same time."""

    bench: Bench
    link: str
    setting: BloatSetting
    directions: Directions = Directions.BOTH
    answered: IPAddress | None = None
    """Translated source address, if the DUT translates."""
    notes: list[str] = field(default_factory=list)

    async def find_ways(self) -> Outcome:
        """Find out whether frames arrive, and to which address the sink must send. Return the second of two short offers.

        Raises ToolFailed, HostError, MeasurementError.
        """
        short = replace(self._load(LOOK_S, drain=LOOK_DRAIN), directions=Directions.FORWARD, back_answers=False)
        (there,) = _came(await self.bench.generator.offer(short)).flows
        self.answered = ip_address(there.sources[0]) if there.sources else None
        outcome = await self.bench.generator.offer(self._load(LOOK_S, drain=LOOK_DRAIN))
        back = outcome.flows[-1]
        if not back.received_frames:
            self.directions = Directions.FORWARD
            self.notes.append(f"{back.link}: no probe frame arrived, as behind a port translator: latency is measured on {self.link} only")
        return outcome

    def _load(self, duration: Seconds, *, warmup: Seconds = NO_TIME, drain: Seconds) -> Offer:
        both = self.directions is Directions.BOTH
        return Offer(
            (self.link,), PROBE, Pps(self.setting.probe_pps), duration, warmup=warmup, drain=drain, directions=self.directions,
            back_answers=both, answered=self.answered if both else None, readings_every=READINGS_EVERY, lossy=True,
        )  # fmt: skip

    async def offer(self, duration: Seconds, *, warmup: Seconds = NO_TIME, drain: Seconds) -> Outcome:
        """Offer probe frames only. Raises ToolFailed, HostError."""
        offer = self._load(duration, warmup=warmup, drain=drain)
        outcome = _came(await self.bench.generator.offer(offer))
        # Foreign frames are our own load. A starved probe has another rate than intended, so it gets a doubt.
        own = [d for d in outcome.doubts if d.kind is not DoubtKind.FOREIGN_FRAMES]
        slow = [Doubt(DoubtKind.TX_STARVED, why, f.link) for f in outcome.flows if (why := starved(offer, f))]
        return replace(outcome, doubts=(*own, *slow))

    async def phase(self, duration: Seconds, *, warmup: Seconds = NO_TIME, drain: Seconds) -> Phase:
        """Offer probe frames and open connections at the same time. Raises ToolFailed, HostError."""
        rate = self.setting.connections_per_s
        if self.bench.connections is None or not rate:
            return Phase(await self.offer(duration, warmup=warmup, drain=drain), None)
        # Also open connections during the warm-up, so that connections that count overlap with frames that count.
        load = ConnectionLoad(self.link, rate, max(1, round(rate * (warmup + duration))), 1, REQUEST_BYTES, str(RESPONSE_BYTES), TIMEOUT)
        connecting = asyncio.ensure_future(self.bench.connections.carry_out(load))
        try:
            outcome = await self.offer(duration, warmup=warmup, drain=drain)
            return Phase(outcome, await connecting)
        finally:
            await cancelled(connecting)


def spare(first: Outcome, second: Outcome) -> int:
    """Return how many seconds longer the load must last, so that the last probe begins before the load ends.

    The pause of a generator between two offers is measured between the two given ones. It counts three times: before the probe under
    load, after it, and once as a reserve.
    """
    if first.began_s is None or second.began_s is None:
        return MOST_SPARE_S
    lasted = max(f.sent_seconds for f in first.flows)
    between = max(0.0, second.began_s - first.began_s - lasted)
    return min(MOST_SPARE_S, math.ceil(DRAIN + LEAST_SPARE_S + 3 * between))


def _came(outcome: Outcome) -> Outcome:
    """Return the outcome if every flow received frames. Raises MeasurementError."""
    if silent := [f.link for f in outcome.flows if not f.received_frames]:
        raise MeasurementError(f"no frame of the probe arrived on {' and '.join(silent)}", raw=dict(outcome.raw))
    return outcome


@dataclass(frozen=True)
class _Trial:
    """All results of one trial."""

    link: str
    setting: BloatSetting
    idle: Phase
    loaded: Phase
    after: Phase
    report: TransferReport
    notes: list[str] = field(default_factory=list)

    @property
    def flows(self) -> tuple[str, str]:
        """Names of the flows from source to sink, and back."""
        return self.link, back_of(self.link)

    @property
    def loads(self) -> tuple[str, ...]:
        """The flows that TCP fills."""
        return tuple(back_of(self.link) if back else self.link for back in self.setting.ways.backs)

    def measured(self) -> Measured:
        """Return the figures. Raises MeasurementError if the load does not cover the time that counts."""
        if self.report.began_s > self.loaded.began_s or self.report.ended_s < self.loaded.ended_s:
            raise MeasurementError(
                f"TCP did not send throughout the {self.setting.duration_s} s that count",
                remedy="give the testbed more time: a longer `ramp`",
                raw=self._raw(),
            )
        each = {flow: self._one_way(flow) for flow in self.flows}
        figures = {joined(self.flows): self._both(each), **{flow: self._sound(flow, of) for flow, of in each.items()}}
        phases = (self.idle, self.loaded, self.after)
        return Measured(
            figures={place: of for place, of in figures.items() if of},
            flows=self.loaded.outcome.flows,
            doubts=tuple(dict.fromkeys((*self.report.doubts, *(d for of in phases for d in of.outcome.doubts)))),
            raw=self._raw(),
            facts={**self.loaded.outcome.facts, **self.report.facts},
            notes=self.notes,
            readings=[*(r for of in phases for r in of.outcome.readings), *self._goodput_readings()],
            tables={"course": list(self._course())},
        )

    def _one_way(self, flow: str) -> dict[str, float]:
        """Return the figures of a flow: of the probe, and of the load if TCP fills this flow."""
        idle, loaded = _latencies(self.idle.flow(flow)), _latencies(self.loaded.flow(flow))
        figures = {**of_part("idle", idle), **of_part("loaded", loaded), **increases(idle, loaded)}
        if (probe := self.loaded.flow(flow)) is not None:
            figures["loaded/loss_ratio"] = probe.loss_ratio
        if flow in self.loads:
            counted = [r for r in self.report.readings.get(flow, ()) if self.loaded.began_s <= r.at_s <= self.loaded.ended_s]
            figures |= {"goodput_bps": fmean(r.goodput_bps for r in counted)} if counted else {}
            trips = [ns for at_s, ns in self.report.round_trips_ns.get(flow, ()) if self.loaded.began_s <= at_s <= self.loaded.ended_s]
            figures |= of_part("load", {f"rtt_{name}_ns": of_share(trips, share) for name, share in SHARES.items()} if trips else {})
            if (settled := self._settled(flow)) is not None:
                figures["settle_s"] = settled
        return figures

    def _sound(self, flow: str, figures: Mapping[str, float]) -> dict[str, float]:
        """Return the figures, without one-way latencies if the clocks are too inaccurate for them."""
        doubts = self.loaded.outcome.doubts
        if not any(d.kind is DoubtKind.LATENCY_ROUGH and d.about in {flow, self.link} for d in doubts):
            return dict(figures)
        self.notes.append(f"{flow}: the clocks of both ends are not known well enough for latencies one way; those there and back hold")
        return {name: value for name, value in figures.items() if "latency_" not in name}

    def _both(self, each: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the figures of both directions together."""
        added = {
            name: sum(of[name] for of in each.values())
            for name in next(iter(each.values()))
            if "latency_" in name and all(name in of for of in each.values())
        }
        goodputs = [of["goodput_bps"] for of in each.values() if "goodput_bps" in of]
        figures = {**added, **({"goodput_bps": sum(goodputs)} if goodputs else {})}
        settled = [each[flow]["settle_s"] for flow in self.loads if "settle_s" in each[flow]]
        if len(settled) == len(self.loads):
            figures["settle_s"] = max(settled)
        for part, phase in (("idle", self.idle), ("loaded", self.loaded)):
            if phase.connections is not None and phase.connections.completed:
                figures |= of_part(part, _of_connections(phase.connections))
        own = [of["load/rtt_p50_ns"] for of in each.values() if "load/rtt_p50_ns" in of]
        if (rpm := responsiveness(self.loaded.connections, own)) is not None:
            figures["round_trips_per_min"] = rpm
        return figures

    def _settled(self, flow: str) -> float | None:
        """Return the time from the end of the load until the latency stays low for HOLDS_S; None, with a note, if it does not."""
        if self.after.flow(flow) is None:
            return None
        if flow in self.report.readings and self.after.began_s > self.report.readings[flow][-1].at_s:
            self.notes.append(f"{flow}: the load ended before the last probe began, so the time until its queues were empty is unknown")
            return None
        quiet, after = self.idle.means(flow), self.after.means(flow)
        if not quiet or not after:
            self.notes.append(f"{flow}: the time until its queues were empty is unknown: the ends read different clocks")
            return None
        limit, ended_s = max(ns for _, ns in quiet) + SETTLED_NS, self.report.readings[flow][-1].at_s
        later = [(at_s, ns) for at_s, ns in after if at_s >= ended_s]
        for at_s, _ in later:
            window = [ns for t, ns in later if at_s <= t <= at_s + HOLDS_S]
            if max(window) <= limit and later[-1][0] >= at_s + HOLDS_S:
                return at_s - ended_s
        self.notes.append(f"{flow}: its queues were not empty {after[-1][0] - ended_s:.1f} s after the load; the wait ended there")
        return None

    def _course(self) -> Iterator[Row]:
        """Yield rows with the load's goodput and the probe's mean latency; times count from the start of the load."""
        zero = self.report.began_s
        for flow in self.flows:
            for reading in self.report.readings.get(flow, ()):
                yield _row(flow, reading.at_s - zero, goodput=reading.goodput_bps)
            for phase in (self.idle, self.loaded, self.after):
                for at_s, ns in phase.means(flow):
                    yield _row(flow, at_s - zero, latency=ns)

    def _goodput_readings(self) -> Iterator[ToolReading]:
        for flow, of in self.report.readings.items():
            yield from (ToolReading(r.at_s, flow, "goodput_bps", r.goodput_bps) for r in of)

    def _raw(self) -> dict[str, bytes]:
        named = {"idle": self.idle, "loaded": self.loaded, "after": self.after}
        files = {f"{name}-{file}": text for name, phase in named.items() for file, text in phase.outcome.raw.items()}
        made = {name: phase.connections for name, phase in named.items() if phase.connections is not None}
        files |= {f"{name}-{file}": text for name, of in made.items() for file, text in of.raw.items()}
        return {**files, **self.report.raw}


def _row(flow: str, at_s: float, *, goodput: float | None = None, latency: float | None = None) -> Row:
    return {"link": flow, "at_s": round(at_s, 3), "goodput_bps": goodput, "latency_mean_ns": latency}


def _latencies(flow: Flow | None) -> dict[str, float]:
    """Return percentiles and maximum of the latency; nothing if no frame was timed."""
    of = None if flow is None else flow.latency
    if of is None or not of.count:
        return {}
    histogram = flow.latency_histogram if isinstance(flow, TimedFlow) else ()
    known = {"p50": float(of.p50_ns), "p99": float(of.p99_ns)}
    percentiles = {name: min(of_histogram(histogram, share), float(of.max_ns)) for name, share in SHARES.items()} if histogram else known
    return {f"latency_{name}_ns": value for name, value in {**percentiles, "max": float(of.max_ns)}.items()}


def increases(idle: Mapping[str, float], loaded: Mapping[str, float]) -> dict[str, float]:
    """Return each value under load, less the median without load."""
    base = idle.get("latency_p50_ns")
    if base is None:
        return {}
    return {name.replace("latency_", "latency_increase_"): value - base for name, value in loaded.items()}


def responsiveness(connections: ConnectionReport | None, own_ns: Sequence[float]) -> float | None:
    """Return round trips per minute under load (draft-ietf-ippm-responsiveness-09, section 5.3.1, for TCP without TLS).

    The result is the mean of 60 s / ((TM(tcp_f) + TM(http_f)) / 2) for new connections and 60 s / TM(http_l) for the load's own
    connections. TM is a trimmed mean in the draft; here it is the median. The time of a request on a connection of the load is the round
    trip time that its kernel reports. Return None if either part was not measured.
    """
    if connections is None or not connections.completed or not own_ns:
        return None
    handshake = connections.handshake.p50_ns
    request = max(connections.first_byte.p50_ns - handshake, 1.0)
    foreign = MS_PER_MIN / (fmean((handshake, request)) / _NS_PER_MS)
    own = MS_PER_MIN / (max(fmean(own_ns), 1.0) / _NS_PER_MS)
    return (foreign + own) / 2


def _of_connections(report: ConnectionReport) -> dict[str, float]:
    times = {"handshake": report.handshake, "first_byte": report.first_byte}
    return {f"{name}_{at}": getattr(of, at) for name, of in times.items() for at in ("p50_ns", "p99_ns")}


def of_histogram(histogram: Histogram, share: float) -> float:
    """Return the upper end of the first bucket at which `share` of all values is reached."""
    total, reached = sum(count for _, count in histogram), 0
    for ends, count in histogram:
        reached += count
        if reached >= share * total:
            return float(ends)
    raise ValueError("an empty histogram has no percentiles")


def of_share(values: Iterable[float], share: float) -> float:
    """Return the value that a `share` of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
