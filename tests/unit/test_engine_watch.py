"""Readings once a second out of what both ends have counted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.methods.flow import Flow
from dutlab.methods.ports import LostSoFar
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
    flow = Flow.counted("a", asked=420, sent=400, received=360, seconds=0.4, frame_bytes=64.0, reordered_frames=0)
    seen: list[tuple[str, object]] = []
    short, long = watched(0.2, 3), watched(1.0, 4)
    for watch in (short, long):
        watch.tell = lambda flow, rates: seen.append((flow, rates))
    long.see(SentSoFar(9, 9, 9 * S, 9000, 9000, 0), ArrivedSoFar(9, 9, 14 * S, 9000, 0, 9000, latency_count=0, latency_sum_ns=0))
    seen.clear()
    for watch in (short, long):
        watch.report_finished(flow)
    assert seen == [("a.back", {"offered_pps": 1000.0, "received_pps": 900.0, "lost_pps": 100.0})]


# ---- What is certainly lost in the middle of a trial: never more than what turns out lost, and found soon


DRAIN = Seconds(0.5)


@dataclass
class Trial:
    """`fates` of frames sent at `pps`: seconds until it arrives; None: lost; "refused": it used up a number and never left."""

    fates: list[float | str | None]
    pps: float

    def sent(self, at: float) -> SentSoFar:
        numbered = min(int(at * self.pps) + 1, len(self.fates))
        refused = self.fates[:numbered].count("refused")
        return SentSoFar(at, at, round(at * 1e9), numbered - refused, numbered, refused)

    def arrived(self, at: float) -> ArrivedSoFar:
        times = sorted((n / self.pps + f, n) for n, f in enumerate(self.fates) if isinstance(f, float) and n / self.pps + f <= at)
        following, reordered = 0, 0
        for _, n in times:
            reordered += n < following
            following = max(following, n + 1)
        return ArrivedSoFar(at, at, round(at * 1e9), len(times), reordered, following)

    def watched(self, until: float, *, every: float = 0.2, skew: float = 0.0, watch: LossWatch | None = None) -> LossWatch:
        watch = watch or LossWatch(DRAIN)
        for i in range(1, int(until / every + 1e-9) + 1):
            watch.see(self.sent(i * every + skew), self.arrived(i * every))
        return watch


def test_a_gap_is_a_loss_once_it_has_had_time_to_be_filled():
    trial = Trial([None if n % 10 == 9 else 0.001 for n in range(1000)], 1000.0)
    assert trial.watched(0.2).lost == 0, "a gap that is new may be a frame on its way"
    assert trial.watched(0.4).lost == 19, "the hundred and ninety-ninth frame is on its way, the twentieth gap not yet seen"
    assert trial.watched(2.0).lost == 100
    # Frames that come late are not lost.
    trial = Trial([0.05 if n % 10 == 3 else 0.001 for n in range(2000)], 1000.0)
    assert trial.watched(3.0).lost == 0
    # Silence is loss after a drain.
    trial = Trial([0.001] * 500 + [None] * 1500, 1000.0)
    assert trial.watched(0.8).lost == 0
    assert trial.watched(1.2).lost == 101, "sent by 0.6 s, and not there at 1.2 s"
    assert trial.watched(2.6).lost == 1500
    # Refused numbers are neither sent nor lost.
    trial = Trial(["refused" if n % 2 else 0.001 for n in range(2000)], 1000.0)
    watch = trial.watched(2.0)
    assert (watch.lost, watch.backpressure) == (0, 1000)


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.floats(0.0, 0.09), st.none(), st.just("refused"), st.just(0.001), st.just(0.001)), min_size=1, max_size=300),
    st.sampled_from([50.0, 200.0, 1000.0]),
    st.sampled_from([0.05, 0.1, 0.2, 0.37]),
    st.floats(0.0, 0.04),
)
def test_what_is_called_lost_is_lost_whatever_happens_to_the_frames(fates, pps, every, skew):
    trial, watch = Trial(fates, pps), LossWatch(DRAIN)
    end, lost = len(fates) / pps + 1.5, fates.count(None)
    before = 0
    for i in range(1, int(end / every) + 1):
        watch.see(trial.sent(i * every + skew), trial.arrived(i * every))
        assert before <= watch.lost <= lost
        before = watch.lost
    assert watch.lost == lost, "after the drain all of it is certain"


@pytest.mark.parametrize("age", [0.0, 0.05])
def test_readings_that_nobody_can_order_say_nothing(age):
    watch = LossWatch(DRAIN)
    for i in range(1, 20):
        at = i * 0.05
        watch.see(SentSoFar(at - 10, at, 0, 1000 * i, 1000 * i, 0), ArrivedSoFar(at - 10 - age, at, 0, 0, 0, 0))
    assert watch.lost == 0
