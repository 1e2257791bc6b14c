"""What is certainly lost in the middle of a trial: never more than what turns out lost, and found soon."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.tools.engine.loss_watch import ArrivedSoFar, LossWatch, SentSoFar
from dutlab.units import Seconds

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
