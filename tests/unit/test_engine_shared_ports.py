"""Several senders to one port: one plan, one account, and each one's latencies by its own clock."""

from __future__ import annotations

from typing import Any

from dutlab.doubts import DoubtKind
from dutlab.methods.ports import Offer
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.tools.engine.clocks import Clocks, Offset
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.tools.engine.trial import Part
from dutlab.tools.engine.typed import read
from dutlab.units import Pps, Seconds

LATENCY = {
    "count": 10, "min_ns": 1, "p50_ns": 2, "p90_ns": 3, "p99_ns": 3, "p999_ns": 3, "max_ns": 3, "mean_ns": 2.0, "negative": 0,
    "histogram": [],
}  # fmt: skip


class Answers:
    """An agent of which every frame arrives."""

    def __init__(self, host: str) -> None:
        self.host, self.asked = host, list[tuple[str, dict[str, Any]]]()

    async def ask(self, op: str, kind: type, **words: Any) -> Any:
        self.asked.append((op, words))
        return read(kind, self._answer(op, words))

    def _answer(self, op: str, words: dict[str, Any]) -> dict[str, Any]:
        if op == "clock":
            return {"received_monotonic_ns": 10**9, "replied_monotonic_ns": 10**9, "realtime_ns": 0}
        if op == "wait":
            (armed,) = (said["send"]["streams"] for what, said in self.asked if what == "arm")
            sent = {"intended": 10, "sent": 10, "refused": 0, "backpressure": 0, "sent_bytes": 5120, "seconds": 1.0, "late_max_ns": 0}
            sent |= dict.fromkeys(("achieved_pps", "achieved_bps_l1", "achieved_bps_l2"), 0)
            return {"port": words["port"], "ended": "finished", "streams": [{"stream": s["stream"], **sent} for s in armed]}
        if op == "settle":
            came = {
                "sent": 10, "received": 10, "lost": 0, "duplicated": 0, "reordered": 0, "reordered_at_least": 0, "received_bytes": 5120,
                "corrupted": 0, "guessed": 0,
            }  # fmt: skip
            each = {**came, "reorder_extent_max": 0, "balances": True, "sources": [], "latency": LATENCY}
            streams = [{"stream": s["stream"], **each} for s in words["sent"]]
            return {"port": words["port"], "foreign": 3, "stale": 0, "kernel_dropped": 2, "streams": streams}
        return {"armed": words["port"], "streams": []} if op == "arm" else {"at_monotonic_ns": 0}


def from_host(number: int) -> Direction:
    port = Port(host=f"s{number}", interface="eth0")
    ip, mac = f"10.0.{number}.2", "02:00:00:00:00:01"
    return Direction(f"l{number}", f"l{number}", port, Port(host="sink", interface="eth0"), ip, "10.0.9.2", mac, 1, isolated=False)


ONE = Clocks(dict.fromkeys(("s1", "s2", "sink"), b"one"), {})


async def carried_out(clocks: Clocks) -> tuple[list[Any], dict[str, Answers]]:
    agents = {host: Answers(host) for host in ("s1", "s2", "sink")}
    load = EngineLoad(Offer(("l1", "l2"), frame_mix(512), Pps(10.0), Seconds(1.0), drain=Seconds(0.0)))
    part = Part(agents, [from_host(1), from_host(2)], {"l1": 7, "l2": 8}, load, clocks)  # type: ignore[arg-type]
    return await part.carry_out(), agents


async def test_one_port_is_armed_started_and_settled_once_for_all_its_streams() -> None:
    accounts, agents = await carried_out(ONE)
    sink = agents["sink"]
    assert [op for op, _ in sink.asked] == ["arm", "start", "settle"]
    assert sink.asked[0][1]["receive"]["streams"] == [7, 8] and sink.asked[1][1]["ports"] == ["sink:eth0"]
    assert [(a.flow.link, a.flow.received_frames, a.flow.foreign_frames) for a in accounts] == [("l1", 10, 3), ("l2", 10, 0)]
    assert [[d.kind for d in a.doubts] for a in accounts] == [[DoubtKind.RX_DROPPED], []], "the port dropped them once"
    assert all(a.flow.latency is not None for a in accounts)


async def test_of_several_senders_each_stream_is_read_by_the_clock_of_its_own_and_all_begin_at_one_instant() -> None:
    clocks = Clocks({"s1": b"1", "s2": b"2", "sink": b"0"}, {b"1": Offset(700, 1), b"2": Offset(-5_000, 2), b"0": Offset(40, 3)})
    accounts, agents = await carried_out(clocks)
    receive = agents["sink"].asked[0][1]["receive"]
    assert receive["sender_clocks"] == [{"stream": 7, "clock": {"ahead_ns": 660}}, {"stream": 8, "clock": {"ahead_ns": -5_040}}]
    assert all(a.flow.latency is not None and a.doubts[1:] == () for a in accounts)
    at_ns = [said["at_monotonic_ns"] for host in ("s1", "s2") for op, said in agents[host].asked if op == "start"]
    assert at_ns[1] - at_ns[0] == -5_700, "one instant, by each one's own clock"


async def test_a_sender_on_the_machine_of_the_sink_needs_no_offset_whatever_the_others_have() -> None:
    clocks = Clocks({"s1": b"0", "s2": b"2", "sink": b"0"}, {b"2": Offset(-5_000, 2), b"0": Offset(40, 3)})
    _, agents = await carried_out(clocks)
    assert agents["sink"].asked[0][1]["receive"]["sender_clocks"] == [{"stream": 8, "clock": {"ahead_ns": -5_040}}]
    assert clocks.ahead("s1", "sink") == Offset(0, 0)
