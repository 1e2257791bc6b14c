"""Readings once a second out of what both ends have counted."""

from __future__ import annotations

from dutlab.methods.ports import Flow, LostSoFar
from dutlab.tools.engine.loss_watch import ArrivedSoFar, LossWatch, SentSoFar
from dutlab.tools.engine.watch import DirectionWatch
from dutlab.units import Seconds

S = 1_000_000_000


def watched(every_s: float, count: int) -> DirectionWatch:
    """1000 frames a second, of which every tenth is lost and 50 more are refused; latencies of 7 ns."""
    watch = DirectionWatch("a.back", LossWatch(Seconds(0.5)))
    for i in range(count):
        t = i * every_s
        sent, numbered = round(1000 * t), round(1050 * t)
        arrived = sent - sent // 10
        watch.see(
            SentSoFar(t + 0.01, t + 0.01, round((t + 0.01) * S), sent, numbered, numbered - sent),
            ArrivedSoFar(t, t, 5 * S + round(t * S), arrived, 0, numbered, latency_count=arrived, latency_sum_ns=7 * arrived),
        )
    return watch


def told(watch: DirectionWatch, *, latency: bool = True) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for r in watch.readings(lambda ns: ns / S, lambda ns: ns / S - 5, latency=latency):
        assert r.link == "a.back"
        found.setdefault(r.name, []).append((round(r.at_s, 2), round(r.value, 3)))
    return found


def test_rates_between_looks_once_a_second_and_losses_as_old_as_they_are_certain():
    assert told(watched(1.0, 4)) == {
        "offered_pps": [(1.01, 1000.0), (2.01, 1000.0), (3.01, 1000.0)],
        "backpressure_pps": [(1.01, 50.0), (2.01, 50.0), (3.01, 50.0)],
        "received_pps": [(1.0, 900.0), (2.0, 900.0), (3.0, 900.0)],
        "lost_pps": [(1.0, 100.0), (2.0, 100.0)],
        "latency_mean_ns": [(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)],
    }
    # What was lost by the last reading is a count and as old as the reading.
    assert watched(1.0, 4).lost_so_far(lambda ns: ns / S - 5) == LostSoFar(2.0, 200 + 150)
    assert watched(1.0, 1).lost_so_far(lambda ns: ns / S - 5) is None, "nothing is certain yet"
    # Looks in between give no readings and unknown clocks no latency.
    often = told(watched(0.2, 16), latency=False)
    assert often["received_pps"] == [(1.0, 900.0), (2.0, 900.0), (3.0, 900.0)]
    assert "latency_mean_ns" not in often


def test_a_load_too_short_for_a_reading_tells_its_rates_at_its_end():
    flow = Flow(
        "a", 420, sent_frames=400, refused_frames=20, received_frames=360, lost_frames=40, duplicated_frames=0, reordered_frames=0,
        foreign_frames=0, sent_seconds=0.4, mean_frame_bytes=64.0, received_bytes=360 * 64,
    )  # fmt: skip
    seen: list[tuple[str, object]] = []
    short, long = watched(0.2, 3), watched(1.0, 4)
    for watch in (short, long):
        watch.tell = lambda flow, rates: seen.append((flow, rates))
    long.see(SentSoFar(9, 9, 9 * S, 9000, 9000, 0), ArrivedSoFar(9, 9, 14 * S, 9000, 0, 9000, latency_count=0, latency_sum_ns=0))
    seen.clear()
    for watch in (short, long):
        watch.tell_whole(flow)
    assert seen == [("a.back", {"offered_pps": 1000.0, "received_pps": 900.0, "lost_pps": 100.0})]
