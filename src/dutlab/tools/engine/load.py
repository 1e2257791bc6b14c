"""What the engine is asked to send: a load by direction of each link, in the protocol's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dutlab.methods.ports import IPAddress, Offer, OfferedStream, Stretch, flow_of_stream
from dutlab.spec.links import Port
from dutlab.spec.mixes import Mix
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
    """One direction of one link. `name` is what its flow is called."""

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
    """Of several streams on the link, the one that this is; its name is behind that of the direction."""

    @property
    def is_back(self) -> bool:
        """Whether frames go from sink to source."""
        return not self.stream and self.name != self.link

    @property
    def sender(self) -> str:
        """The host that sends."""
        return self.sends_on.host

    @property
    def receiver(self) -> str:
        """The host at the other end."""
        return self.receives_on.host


@dataclass(frozen=True)
class EngineLoad:
    """What is sent in each direction: for a time, or a number of frames."""

    mix: Mix
    rate: Pps | None
    drain: Seconds
    duration: Seconds | None = None
    frames: int | None = None
    profile: tuple[Stretch, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)
    """Direction → its own traffic instead of `traffic`."""
    burst_frames: int = 1
    burst_rate: Pps | None = None
    broadcast_ratio: float = 0.0
    directions: Directions = Directions.FORWARD
    answered: IPAddress | None = None
    """Where answers go, if not to the address of the direction's end."""
    streams: Mapping[str, EngineLoad] = field(default_factory=dict)
    """Name → what is sent instead of all this in the direction of that stream."""
    through_link_loss: bool = False
    """What falls due while a link has no carrier is refused, and the load goes on."""

    def warming_up(self, duration: Seconds, drain: Seconds) -> EngineLoad:
        """The same at the rate that it begins with, for another time."""
        rate = self.profile[0].from_rate if self.profile else self.rate
        return replace(self, rate=rate, profile=(), duration=duration, drain=drain)

    def send_plan(self, direction: Direction, stream: int, broadcast: int | None = None) -> dict[str, Any]:
        """As the protocol's SendPlan; with the stream of frames to everybody beside it, if that has a number."""
        if direction.stream:
            return self.streams[direction.stream].send_plan(replace(direction, stream=""), stream)
        parts, traffic = self.mix.parts, self.traffic_of.get(direction.name, self.traffic)
        sizes: dict[str, Any] = {"weighted": [{"bytes": b, "weight": w} for b, w in parts]}
        if len(parts) == 1:
            sizes = {"fixed_bytes": parts[0][0]}
        elif self.mix.sequence is not None:
            sizes = {"sequence_bytes": list(self.mix.sequence)}
        plan: dict[str, Any] = {
            "stream": stream,
            "destination_mac": direction.destination_mac,
            "source": direction.source,
            "destination": direction.destination,
            "source_port": direction.source_port,
            "destination_port": DESTINATION_PORT,
            "sizes": sizes,
            "rate": self._rate(),
            **_headers(traffic),
        }
        if self.directions is Directions.ANSWERS:  # described as what they answer
            plan |= {"answers": True, "source": str(self.answered or direction.destination), "destination": direction.source}
            plan |= {end: str(spread.first) for end, spread in _spreads(traffic) if spread is not None}
        if self.frames is not None:
            plan["frames"] = self.frames
        streams = [plan] if broadcast is None else [plan, self._to_all(plan, broadcast)]
        lasts = {} if self.duration is None else {"duration_ns": round(self.duration * NS)}
        return {"streams": streams, **lasts, **({"through_link_loss": True} if self.through_link_loss else {})}

    def _to_all(self, plan: Mapping[str, Any], stream: int) -> dict[str, Any]:
        """The same frames to the hardware broadcast address: a router need not process them (RFC 2544 section 11.1)."""
        share = self.broadcast_ratio
        profile = tuple(Stretch(s.duration, Pps(s.from_rate * share), Pps(s.to_rate * share)) for s in self.profile)
        rate = replace(self, rate=None if self.rate is None else Pps(self.rate * share), profile=profile, burst_frames=1, burst_rate=None)
        return {**plan, "stream": stream, "destination_mac": BROADCAST_MAC, "rate": rate._rate()}  # noqa: SLF001 - of its own kind

    def _rate(self) -> dict[str, Any]:
        if self.profile:
            return {
                "profile": [{"from_pps": s.from_rate, "to_pps": s.to_rate, "duration_ns": round(s.duration * NS)} for s in self.profile]
            }
        if self.rate is None:
            return {"max": True}
        if self.burst_frames == 1:
            return {"pps": self.rate}
        if self.burst_rate is None:
            return {"bursts_at": {"frames": self.burst_frames, "pps": self.rate}}
        pause_s = self.burst_frames / self.rate - (self.burst_frames - 1) / self.burst_rate
        return {"multi_burst": {"frames": self.burst_frames, "pps": self.burst_rate, "gap_ns": round(pause_s * NS)}}

    @property
    def longest_s(self) -> float:
        """How long sending can take."""
        return self.duration if self.duration is not None else (self.frames or 0) / (self.rate or 1.0)


def of_streams(direction: Direction, offer: Offer) -> list[Direction]:
    """Each stream of an offer of several, with a source port of its own; the direction itself of any other."""
    return [
        replace(direction, name=flow_of_stream(direction.link, stream.name), stream=stream.name, source_port=direction.source_port + i)
        for i, stream in enumerate(offer.streams)
    ] or [direction]


def stream_load(offer: Offer, stream: OfferedStream) -> EngineLoad:
    """What is sent as one of the streams of an offer."""
    alone = replace(offer, mix=stream.mix, rate=stream.rate, streams=(), chains=()).carrying(stream.traffic)
    return EngineLoad(
        alone.mix, alone.rate, alone.drain, alone.duration, stream.frames,
        traffic=alone.traffic, burst_frames=alone.burst_frames, burst_rate=alone.burst_rate,
    )  # fmt: skip


def _headers(t: Traffic) -> dict[str, Any]:
    """What differs from one UDP flow without tags."""
    headers = dict[str, Any]()
    if t.transport != "udp":
        headers["transport"] = t.transport.replace("-", "_")
    if t.vlans:
        headers["vlans"] = [{"id": number} for number in t.vlans]
    if t.extension_headers:
        headers["extension_headers"] = [name.replace("-", "_") for name in t.extension_headers]
    if t.flows.count > 1:
        headers["flows"] = t.flows.model_dump(exclude_none=True, exclude={"sources", "destinations"})
        # Each range begins at the stream's own: high enough that none reaches past the last port.
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
