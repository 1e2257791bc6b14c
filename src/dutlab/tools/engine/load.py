"""Requests to the engine: the load of each direction of each link, in the protocol's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dutlab.methods.ports import Offer, OfferedStream, Stretch, flow_of_stream
from dutlab.spec.links import Port
from dutlab.spec.traffic import RFC4814_DESTINATION_PORTS, RFC4814_SOURCE_PORTS, Directions, Spread, Traffic
from dutlab.units import Pps, Seconds

SOURCE_PORT = 49152
"""UDP source port of a measured flow: constant, so that a card's hash puts it onto the same queue in every trial."""
BROADCAST_MAC = "ff:ff:ff:ff:ff:ff"
DESTINATION_PORT = 7  # echo (RFC 862); RFC 2544 appendix C.2.6.4 has test frames go there
NS = 1_000_000_000
_LAST_PORT = 65535


@dataclass(frozen=True)
class Direction:
    """One direction of one link. `name` is the name of its flow."""

    name: str
    link: str
    sends_on: Port
    receives_on: Port
    source: str
    destination: str
    destination_mac: str
    source_port: int
    isolated: bool
    stream: str = ""
    """Name of this stream, if the link carries several; empty otherwise."""

    @property
    def is_back(self) -> bool:
        """True if frames go from sink to source."""
        return not self.stream and self.name != self.link

    @property
    def sender(self) -> str:
        """Host that sends."""
        return self.sends_on.host

    @property
    def receiver(self) -> str:
        """Host at the other end."""
        return self.receives_on.host


@dataclass(frozen=True)
class EngineLoad:
    """Load of each direction: an offer, or a number of its frames."""

    offer: Offer
    frames: int | None = None
    """Number of frames after which it ends. Without a duration in the offer it lasts as long as they take."""

    def warming_up(self, duration: Seconds, drain: Seconds) -> EngineLoad:
        """Return the load at its first rate, for `duration`."""
        rate = self.offer.profile[0].from_rate if self.offer.profile else self.offer.rate
        return replace(self, offer=replace(self.offer, rate=rate, profile=(), duration=duration, drain=drain))

    def send_plan(self, direction: Direction, stream: int, broadcast: int | None = None) -> dict[str, Any]:
        """Return the protocol's SendPlan. `broadcast` is the number of a stream of broadcast frames, if any."""
        offer = self.offer
        if direction.stream:
            one = next(of for of in offer.streams if of.name == direction.stream)
            return _of_stream(offer, one).send_plan(replace(direction, stream=""), stream)
        answers_learned = offer.answers_learned and direction.is_back
        traffic = Traffic() if answers_learned else offer.traffic_of.get(direction.name, offer.traffic)
        parts, frames = offer.mix.parts, self.frames if self.frames is not None else offer.frames
        sizes: dict[str, Any] = {"weighted": [{"bytes": b, "weight": w} for b, w in parts]}
        if len(parts) == 1:
            sizes = {"fixed_bytes": parts[0][0]}
        elif offer.mix.sequence is not None:
            sizes = {"sequence_bytes": list(offer.mix.sequence)}
        plan: dict[str, Any] = {
            "stream": stream,
            "destination_mac": direction.destination_mac,
            "source": direction.source,
            "destination": direction.destination,
            "source_port": direction.source_port,
            "destination_port": DESTINATION_PORT,
            "sizes": sizes,
            "rate": _rate(offer),
            **_headers(traffic),
        }
        if offer.directions is Directions.ANSWERS or (offer.back_answers and direction.is_back):  # as the answered frames
            plan |= {"answers": True, "source": str(offer.answered or direction.destination), "destination": direction.source}
            plan |= {end: str(spread.first) for end, spread in _spreads(traffic) if spread is not None}
        if answers_learned:
            plan["learned"] = True
        if frames is not None:
            plan["frames"] = frames
        streams = [plan] if broadcast is None else [plan, _to_all(offer, plan, broadcast)]
        lasts = {"duration_ns": round(offer.duration * NS)} if offer.duration and offer.frames is None else {}
        return {"streams": streams, **lasts, **({"through_link_loss": True} if offer.once else {})}

    @property
    def longest_s(self) -> float:
        """Longest time of sending, in seconds."""
        return self.offer.duration or (self.frames or 0) / (self.offer.rate or 1.0)


def _to_all(offer: Offer, plan: Mapping[str, Any], stream: int) -> dict[str, Any]:
    """Return a stream of the same frames to the hardware broadcast address: a router need not process them (RFC 2544 section 11.1)."""
    share = offer.broadcast_ratio
    profile = tuple(Stretch(s.duration, Pps(s.from_rate * share), Pps(s.to_rate * share)) for s in offer.profile)
    rate = replace(offer, rate=None if offer.rate is None else Pps(offer.rate * share), profile=profile, burst_frames=1, burst_rate=None)
    return {**plan, "stream": stream, "destination_mac": BROADCAST_MAC, "rate": _rate(rate)}


def _rate(of: Offer) -> dict[str, Any]:
    if of.profile:
        return {"profile": [{"from_pps": s.from_rate, "to_pps": s.to_rate, "duration_ns": round(s.duration * NS)} for s in of.profile]}
    if of.rate is None:
        return {"max": True}
    if of.burst_frames == 1:
        return {"pps": of.rate}
    if of.burst_rate is None:
        return {"bursts_at": {"frames": of.burst_frames, "pps": of.rate}}
    pause_s = of.burst_frames / of.rate - (of.burst_frames - 1) / of.burst_rate
    return {"multi_burst": {"frames": of.burst_frames, "pps": of.burst_rate, "gap_ns": round(pause_s * NS)}}


def of_streams(direction: Direction, offer: Offer) -> list[Direction]:
    """Return each stream of an offer with several, with its own source port; otherwise the direction itself."""
    return [
        replace(direction, name=flow_of_stream(direction.link, stream.name), stream=stream.name, source_port=direction.source_port + i)
        for i, stream in enumerate(offer.streams)
    ] or [direction]


def _of_stream(offer: Offer, stream: OfferedStream) -> EngineLoad:
    alone = replace(offer, mix=stream.mix, rate=stream.rate, streams=(), chains=())
    return EngineLoad(alone.carrying(stream.traffic), stream.frames)


def _headers(t: Traffic) -> dict[str, Any]:
    """Return the differences from one UDP flow without tags."""
    headers = dict[str, Any]()
    if t.transport != "udp":
        headers["transport"] = t.transport.replace("-", "_")
    if t.vlans:
        headers["vlans"] = [{"id": number} for number in t.vlans]
    if t.extension_headers:
        headers["extension_headers"] = [name.replace("-", "_") for name in t.extension_headers]
    if t.flows.count > 1:
        headers["flows"] = t.flows.model_dump(exclude_none=True, exclude={"sources", "destinations"})
        # A range begins at the stream's port, which is low enough for the range to end at or below the last port.
        source, destination = t.flows.source_ports, t.flows.destination_ports
        if source > 1:
            headers["source_port"] = min(RFC4814_SOURCE_PORTS[0], _LAST_PORT + 1 - source)
        if destination > 1:
            headers["destination_port"] = RFC4814_DESTINATION_PORTS[0]
    if t.vary:
        headers["vary"] = [rule.protocol() for rule in t.vary]
    for end, spread in _spreads(t):
        if spread is not None:
            headers[end] = str(spread.first)
            headers.setdefault("flows", {"count": 1})[f"{end}_prefix_length"] = spread.length
    return headers


def _spreads(traffic: Traffic) -> tuple[tuple[str, Spread | None], ...]:
    flows = traffic.flows
    return ("source", flows.spread_sources), ("destination", flows.spread_destinations)
