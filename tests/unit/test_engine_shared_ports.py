"""Several senders to one port: one plan, one account, and no latency by a clock that is not the sender's."""

from __future__ import annotations

from typing import Any

from dutlab.doubts import DoubtKind
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.tools.engine.clocks import Offset
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.tools.engine.trial import Part
from dutlab.units import Pps, Seconds

LATENCY = {"count": 10, "min_ns": 1, "p50_ns": 2, "p90_ns": 3, "p99_ns": 3, "p999_ns": 3, "max_ns": 3, "mean_ns": 2.0}


class Answers:
    """An agent of which every frame arrives."""

    def __init__(self, host: str) -> None:
        self.host, self.asked = host, list[tuple[str, dict[str, Any]]]()

    async def ask(self, op: str, **words: Any) -> dict[str, Any]:
        self.asked.append((op, words))
        if op == "clock":
            return {"replied_monotonic_ns": 10**9}
        if op == "wait":
            (armed,) = (said["send"]["streams"] for what, said in self.asked if what == "arm")
            sent = {"asked": 10, "sent": 10, "refused": 0, "backpressure": 0, "sent_bytes": 5120, "seconds": 1.0}
            return {"ended": "finished", "streams": [{"stream": s["stream"], **sent} for s in armed]}
        if op == "settle":
            came = {"received": 10, "lost": 0, "duplicated": 0, "reordered": 0, "received_bytes": 5120, "corrupted": 0, "guessed": 0}
            each = {**came, "reorder_extent_max": 0, "balances": True, "sources": [], "latency": LATENCY}
            streams = [{"stream": s["stream"], **each} for s in words["sent"]]
            return {"foreign": 3, "stale": 0, "kernel_dropped": 2, "streams": streams}
        return {}


def from_host(number: int) -> Direction:
    port = Port(host=f"s{number}", interface="eth0")
    ip, mac = f"10.0.{number}.2", "02:00:00:00:00:01"
    return Direction(f"l{number}", f"l{number}", port, Port(host="sink", interface="eth0"), ip, "10.0.9.2", mac, 1, isolated=False)


async def carried_out(clocks: dict[str, Offset] | None) -> tuple[list[Any], Answers]:
    agents = {host: Answers(host) for host in ("s1", "s2", "sink")}
    load = EngineLoad(frame_mix(512), Pps(10.0), Seconds(0.0), Seconds(1.0))
    part = Part(agents, [from_host(1), from_host(2)], {"l1": 7, "l2": 8}, load, clocks)  # type: ignore[arg-type]
    return await part.carry_out(), agents["sink"]


async def test_one_port_is_armed_started_and_settled_once_for_all_its_streams() -> None:
    accounts, sink = await carried_out(None)
    assert [op for op, _ in sink.asked] == ["arm", "start", "settle"]
    assert sink.asked[0][1]["receive"]["streams"] == [7, 8] and sink.asked[1][1]["ports"] == ["sink:eth0"]
    assert [(a.flow.link, a.flow.received_frames, a.flow.foreign_frames) for a in accounts] == [("l1", 10, 3), ("l2", 10, 0)]
    assert [[d.kind for d in a.doubts] for a in accounts] == [[DoubtKind.RX_DROPPED], []], "the port dropped them once"
    assert all(a.flow.latency is not None for a in accounts)


async def test_of_senders_with_clocks_of_their_own_no_latency_is_told() -> None:
    accounts, _ = await carried_out({host: Offset(ns, 1) for ns, host in enumerate(("s1", "s2", "sink"))})
    assert [a.flow.latency for a in accounts] == [None, None]
    assert all(DoubtKind.LATENCY_UNKNOWN in [d.kind for d in a.doubts] for a in accounts)
