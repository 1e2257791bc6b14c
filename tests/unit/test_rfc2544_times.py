"""Latency, and the time to recover and to come back, on a simulated DUT of which they are known (RFC 2544 sections 26.2, 26.5, 26.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutlab.errors import MeasurementError
from dutlab.methods.flow import Latency
from dutlab.methods.ports import ToolReading
from dutlab.methods.rfc2544 import latency, recovery, reset
from dutlab.units import Pps
from rfc2544_context import MAX, Resetting, stand
from simulated import Dut, Simulation


class Timed:
    """Frames that arrive `of` ns after they were sent."""

    def __init__(self, *of):
        self.inner, self.of, self.offers = Simulation(Dut(1e9)), list(of), []

    async def offer(self, offer):
        self.offers.append(offer)
        outcome, ns = await self.inner.offer(offer), self.of[len(self.offers) - 1]
        if ns is None:
            return outcome
        seen = Latency(count=10, min_ns=ns - 5, p50_ns=ns, p90_ns=ns, p99_ns=ns, p999_ns=ns + 7, max_ns=ns + 9, mean_ns=ns + 1)
        return replace(outcome, flows=tuple(replace(flow, latency=seen) for flow in outcome.flows))


async def test_latency_is_the_mean_of_the_repeats_and_its_percentiles_are_the_medians_of_theirs():
    """RFC 2544 section 26.2 and RFC 8219 section 7.2; frames are timed after 60 s."""
    generator = Timed(100, 200, 300, 4000)
    found = await latency.measure(stand(generator), Pps(1000))
    assert found.figures == {
        "latency_mean_ns": 1151.0, "latency_p50_ns": 250.0, "latency_p999_ns": 257.0, "latency_min_ns": 95, "latency_max_ns": 4009, "pdv_p999_ns": 12.0,
    }  # fmt: skip
    assert [row["repeat"] for row in found.rows] == [1, 2, 3, 4]
    assert {(o.warmup, o.duration, o.rate) for o in generator.offers} == {(60.0, 60.0, 1000.0)}


async def test_no_latency_is_made_up_where_none_was_measured():
    with pytest.raises(MeasurementError, match="timed"):
        await latency.measure(stand(Timed(100, None)), Pps(1000))


def readings(after_s, *, drop_at=60.0, step=1.0, lag=0.0, end=90.0, high=110.0, low=55.0):
    """What a generator tells of a DUT that goes on losing for `after_s` once the rate has dropped."""
    at, out = step, []
    while at <= end:
        share = min(max(drop_at - (at - step), 0.0), step) / step
        losing = at - step < drop_at + after_s
        out += [
            ToolReading(at + lag, "a", "offered_pps", low + (high - low) * share),
            ToolReading(at + lag, "a", "lost_pps", 10.0 * losing),
        ]
        at += step
    return out


@settings(max_examples=60)
@given(after_s=st.floats(0.0, 20.0), drop_at=st.floats(50.0, 65.0), lag=st.floats(0, 1e9), step=st.sampled_from([1.0, 0.0625]))
@example(after_s=1.03125, drop_at=50.96875, lag=0.0, step=1.0)
@example(after_s=0.0, drop_at=60.0, lag=0.0, step=0.0625)
def test_recovery_is_found_to_within_one_reading(after_s, drop_at, lag, step):
    found = recovery.recovered(readings(after_s, drop_at=drop_at, lag=lag, step=step), high=Pps(110.0), low=Pps(55.0))
    late_s = 2.0 * 0.02 + 1e-3  # a reading within 2 % of the higher rate is not taken for the drop
    assert after_s - late_s <= found.seconds <= after_s + found.resolution_s + late_s
    assert found.resolution_s == pytest.approx(step)
    assert not found.ongoing


def test_a_dut_that_never_recovers_has_no_time_and_a_drop_that_nobody_saw_is_an_error():
    assert recovery.recovered(readings(100.0), high=Pps(110.0), low=Pps(55.0)).ongoing
    with pytest.raises(MeasurementError, match="the drop"):
        recovery.recovered(readings(1.0, drop_at=1000.0), high=Pps(110.0), low=Pps(55.0))


async def test_the_overload_is_110_percent_and_never_above_the_highest_rate():
    generator = Simulation(Dut(500_000))
    found = await recovery.measure(stand(generator), Pps(500_000))
    (offer,) = generator.offers
    assert [(s.duration, s.from_rate, s.to_rate) for s in offer.profile] == [(60, 550_000, 550_000), (30, 275_000, 275_000)]
    assert found.figures["recovery_ns"] <= 1e9
    await recovery.measure(stand(generator), Pps(950_000))
    assert generator.offers[1].profile[0].from_rate == MAX


async def test_reset_time_is_lost_frames_over_offered_rate():
    lab = Resetting(process=0.125, software=2.5)
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert found.figures == {"process/reset_ns": 125e6, "software/reset_ns": 2.5e9}
    assert [row["lost_frames"] for row in found.rows] == [1250, 25_000]
    assert not found.notes


async def test_resets_and_recoveries_are_repeated_and_their_mean_is_the_answer():
    lab = Resetting(process=0.125, software=2.5)

    async def slower(kind, reset=lab.reset):
        lab.out_s["process"] += 0.1
        return await reset(kind)

    lab.reset = slower
    found = await reset.measure(stand(lab, device=lab, reset_repeats=3), Pps(10_000))
    assert [row["kind"] for row in found.rows] == ["process"] * 3 + ["software"] * 3
    assert found.figures == {"process/reset_ns": pytest.approx(325e6), "software/reset_ns": 2.5e9}
    generator = Simulation(Dut(500_000))
    found = await recovery.measure(stand(generator, recovery_repeats=3), Pps(500_000))
    assert len(generator.offers) == len(found.rows) == 3
    assert found.figures["recovery_ns"] == pytest.approx(sum(row["recovery_ns"] for row in found.rows) / 3)


async def test_a_dut_that_stays_away_a_reset_that_nobody_saw_and_no_device_have_no_time():
    for out_s, why in ((1000.0, "did not forward again within 45 s"), (0.0, "no frame was lost")):
        lab = Resetting(process=out_s, software=0.1)
        found = await reset.measure(stand(lab, device=lab), Pps(10_000))
        assert list(found.figures) == ["software/reset_ns"]
        assert why in found.notes[0] and len(found.notes) == 1
    assert "cannot be reset" in (await reset.measure(stand(Simulation(Dut(1e6))), Pps(1000))).notes[0]


async def test_a_cut_of_power_is_timed_without_the_time_that_it_lasts():
    lab = Resetting(process=0.1, software=0.1, power=15.0 + 92.5)
    found = await reset.measure(stand(lab, device=lab, power=lab, reset_repeats=2), Pps(10_000))
    assert found.figures["power/reset_ns"] == pytest.approx(92.5e9)
    assert lab.cuts == [(15.0, False), (15.0, True), (15.0, True)], "once before, to see how long the load must go on"
    assert [row["without_power_ns"] for row in found.rows] == [0.0] * 4 + [15e9] * 2
    assert "90.0 s" in found.notes[0] and "0.5 s" in found.notes[0]


async def test_a_dut_that_does_not_come_back_or_never_went_has_no_time():
    lab = Resetting(process=0.1, software=0.1, power=1000.0)
    found = await reset.measure(stand(lab, device=lab, power=lab), Pps(10_000))
    assert "power/reset_ns" not in found.figures and "within 240 s" in found.notes[1]
    lab.out_s["power"] = 14.0
    found = await reset.measure(stand(lab, device=lab, power=lab), Pps(10_000))
    assert "power/reset_ns" not in found.figures and "outlet" in found.notes[1]


async def test_a_dut_that_is_back_before_the_switch_was_sure_to_be_off_came_back_at_once():
    lab = Resetting(process=0.1, software=0.1, power=14.6)  # of 15 s, of which the command to switch off took 0.5
    found = await reset.measure(stand(lab, device=lab, power=lab), Pps(10_000))
    assert found.figures["power/reset_ns"] == 0


async def test_a_black_box_whose_power_is_switched_has_that_reset_alone():
    lab = Resetting(power=20.0)
    found = await reset.measure(stand(lab, power=lab), Pps(10_000))
    assert found.figures == {"power/reset_ns": pytest.approx(5e9)}
