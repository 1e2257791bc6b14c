"""The sweep against a DUT whose capacity is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError, MeasurementError
from dutlab.methods import sweep
from dutlab.methods.flow import Flow, Latency
from dutlab.methods.ports import Bench, Outcome, ToolReading
from dutlab.spec.mixes import frame_mix
from dutlab.units import BpsL1

LATENCY = Latency(count=1000, min_ns=8, p50_ns=10, p90_ns=20, p99_ns=30, p999_ns=40, max_ns=50, mean_ns=12.5)


class SimulatedDut:
    """A generator that reaches `reach_pps` before a DUT that forwards `capacity_pps` and drops the rest, on every link alike."""

    def __init__(self, *, reach_pps=2e6, capacity_pps=1e6, latency=LATENCY, doubts=(), change=lambda flow: flow):
        self.reach_pps, self.capacity_pps, self.latency, self.doubts, self.change = reach_pps, capacity_pps, latency, doubts, change
        self.offers = []

    async def offer(self, offer):
        self.offers.append(offer)
        flows = tuple(self.change(self._flow(offer, name)) for name in offer.flow_names)
        return Outcome(flows, self.doubts, {"raw.json": b"{}"}, {"engine_version": "1"}, (ToolReading(1.0, "a", "received_pps", 5.0),))

    def _flow(self, offer, link):
        asked = int((offer.rate or self.reach_pps) * offer.duration)
        sent = min(asked, int(self.reach_pps * offer.duration))
        received = min(sent, int(self.capacity_pps * offer.duration))
        return Flow.counted(
            link, asked=asked, sent=sent, received=received, seconds=float(offer.duration), frame_bytes=offer.mix.mean, reordered_frames=0,
            latency=self.latency if received else None,
        )  # fmt: skip


def cell(links=("a",), **params):
    return cell_of("sweep", links=links, **({"frame_size": 64, "duration_s": 60.0} | params))


async def measured_by(generator, cell):
    return await sweep.measure(Bench(generator), cell)


def kinds(measured):
    return [d.kind for d in measured.doubts]


async def test_above_its_capacity_the_dut_yields_its_capacity_and_the_rest_is_loss():
    measured = await measured_by(SimulatedDut(), cell())
    figures = measured.figures["a"]
    assert (figures["offered_pps"], figures["received_pps"], figures["loss_ratio"]) == (2e6, 1e6, 0.5)
    assert "intended_pps" not in figures
    assert measured.doubts == ()
    assert (measured.raw, measured.facts) == ({"raw.json": b"{}"}, {"engine_version": "1"})
    assert [f.link for f in measured.flows] == ["a"]
    assert measured.readings == (ToolReading(1.0, "a", "received_pps", 5.0),)


async def test_a_rate_that_was_asked_for_is_in_the_figures_and_in_the_offer():
    dut = SimulatedDut()
    figures = (await measured_by(dut, cell(rate_pps=1e5))).figures["a"]
    assert figures["intended_pps"] == figures["offered_pps"] == figures["received_pps"] == 1e5
    assert figures["loss_ratio"] == 0.0
    # RFC 2544 appendix B: 14 880 frames of 64 bytes fill 10 Mb/s, so a frame takes 672 bits of the wire, 512 of them its own
    assert figures["received_bps_l2"] == 1e5 * 512
    assert figures["received_bps_l1"] == figures["offered_bps_l1"] == 1e5 * 672
    await measured_by(dut, cell(warmup_s=0, drain_s=2.0))
    first, second = ((o.rate, o.duration, o.warmup, o.drain) for o in dut.offers)
    assert first == (1e5, 60.0, 0.5, 0.5) and second == (None, 60.0, 0.0, 2.0)


async def test_a_share_of_the_links_speed_is_one_of_its_line_rate():
    dut = SimulatedDut()
    share = cell(links=("a", "b"), rate_percent=80.0)
    await sweep.measure(Bench(dut, {"a": BpsL1(1e9), "b": BpsL1(1e9)}), share)
    assert dut.offers[0].rate == pytest.approx(0.8 * 1_488_095.238), "RFC 5180 appendix A"
    with pytest.raises(InputError, match=r"80%.*: a, b"):
        await sweep.measure(Bench(dut, {"a": BpsL1(1e9), "b": BpsL1(1e10)}), share)
    with pytest.raises(InputError, match=r"80%.*: link b"):
        await sweep.measure(Bench(dut, {"a": BpsL1(1e9)}), share)


async def test_traffic_and_directions_are_what_the_cell_says():
    dut = SimulatedDut()
    measured = await measured_by(dut, cell(traffic={"transport": "tcp"}, directions="both", rate_pps=1e5))
    (offer,) = dut.offers
    assert (offer.traffic.transport, offer.flow_names) == ("tcp", ("a", "a.back"))
    assert set(measured.figures) == {"a", "a.back", "a+a.back"}
    assert measured.figures["a+a.back"]["received_pps"] == 2e5
    with pytest.raises(ValueError, match=r"traffic\.transport"):
        cell(traffic={"transport": "smoke"})


async def test_latency_is_told_when_it_is_known_and_absent_when_not():
    figures = (await measured_by(SimulatedDut(), cell())).figures["a"]
    assert {k: v for k, v in figures.items() if k.startswith("latency")} == {
        "latency_min_ns": 8, "latency_mean_ns": 12.5, "latency_p50_ns": 10, "latency_p90_ns": 20, "latency_p99_ns": 30, "latency_p999_ns": 40,
        "latency_max_ns": 50,
    }  # fmt: skip
    unknown = (await measured_by(SimulatedDut(latency=None), cell(links=("a", "b")))).figures
    assert not [k for link in unknown.values() for k in link if k.startswith("latency")]


async def test_a_dut_that_forwards_nothing_has_rates_of_nought_and_no_nan():
    figures = (await measured_by(SimulatedDut(capacity_pps=0), cell())).figures["a"]
    assert figures["received_pps"] == 0.0
    assert figures["loss_ratio"] == 1.0
    assert all(math.isfinite(v) for v in figures.values())


async def test_several_links_have_their_sum_under_their_joint_name():
    def uneven(flow):
        return (
            replace(flow, received_frames=flow.sent_frames, lost_frames=0, latency=replace(LATENCY, max_ns=90))
            if flow.link == "b"
            else flow
        )

    measured = await measured_by(SimulatedDut(change=uneven), cell(links=("a", "b")))
    assert list(measured.figures) == ["a", "b", "a+b"]
    assert measured.figures["a+b"]["offered_pps"] == 4e6
    assert measured.figures["a+b"]["received_pps"] == 3e6
    assert measured.figures["a+b"]["loss_ratio"] == 0.25
    assert measured.figures["a+b"]["latency_max_ns"] == 90
    assert "latency_p50_ns" not in measured.figures["a+b"]
    assert "intended_pps" not in measured.figures["a+b"]


async def test_a_generator_that_misses_the_rate_by_half_a_percent_is_a_doubt_on_its_link():
    measured = await measured_by(SimulatedDut(reach_pps=2e6), cell(rate_pps=3e6))
    (doubt,) = measured.doubts
    assert (doubt.kind, doubt.about) == (DoubtKind.TX_STARVED, "a") and "3 Mpps" in doubt.detail and "2 Mpps" in doubt.detail
    assert measured.figures["a"]["intended_pps"] == 3e6
    assert kinds(await measured_by(SimulatedDut(reach_pps=0.996e6), cell(rate_pps=1e6))) == []
    assert kinds(await measured_by(SimulatedDut(reach_pps=0.994e6), cell(rate_pps=1e6))) == [DoubtKind.TX_STARVED]


async def test_a_trial_below_sixty_seconds_is_told_once():
    measured = await measured_by(SimulatedDut(), cell(links=("a", "b"), duration_s=59.9))
    assert measured.doubts == (Doubt(DoubtKind.SHORT_TRIAL, "59.9 s"),)


@pytest.mark.parametrize(
    "tampered", [{"lost_frames": 1}, {"received_frames": 1}, {"intended_frames": 1}, {"refused_frames": 1}, {"duplicated_frames": 1}]
)
async def test_frames_that_are_not_conserved_are_the_gravest_doubt(tampered):
    measured = await measured_by(SimulatedDut(change=lambda f: replace(f, **tampered)), cell())
    assert kinds(measured) == [DoubtKind.LEDGER_OPEN]
    assert measured.doubts[0].kind.grade.value == "severe"


async def test_foreign_frames_and_the_generators_own_doubts_come_along():
    own = Doubt(DoubtKind.RX_DROPPED, "3 frames", "a")
    measured = await measured_by(SimulatedDut(doubts=(own,), change=lambda f: replace(f, foreign_frames=7)), cell())
    assert measured.doubts == (own, Doubt(DoubtKind.FOREIGN_FRAMES, "7 frames", "a"))


async def test_a_link_on_which_nothing_was_sent_has_no_figures():
    def idle(flow):
        return replace(flow, sent_frames=0, lost_frames=0, received_frames=0) if flow.link == "b" else flow

    with pytest.raises(MeasurementError, match="nothing on link b"):
        await measured_by(SimulatedDut(change=idle), cell(links=("a", "b")))


def test_imix_is_seven_four_one_and_sizes_count_the_fcs():
    assert frame_mix("imix").parts == ((64, 7), (594, 4), (1518, 1))
    assert frame_mix("imix").mean == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)
    assert frame_mix(1518).parts == ((1518, 1),)
    assert frame_mix("64") == frame_mix(64) == frame_mix(64.0)


async def test_a_mix_of_the_users_own_has_its_parts_and_one_that_has_none_is_refused():
    dut = SimulatedDut()
    await measured_by(dut, cell(frame_size={"name": "web", "parts": {64: 7, 1518: 5}}))
    assert (dut.offers[0].mix.name, dut.offers[0].mix.parts) == ("web", ((64, 7), (1518, 5)))
    for parts in ({}, {"64": 0}, {"12": 1}, {"x": 1}, {"64": "7:1"}):
        with pytest.raises(ValueError, match="frame_size"):
            cell(frame_size={"name": "web", "parts": parts})


def test_what_is_no_frame_size_is_refused_with_what_would_be_one():
    for size in (63, 9235, 64.5, "63", "jumbo", "", "nan", -64, 0):
        with pytest.raises(InputError, match=r"frame size"):
            frame_mix(size)
    for params in ({"frame_size": None}, {"duration_s": 0.0}, {"duration_s": None}, {"duration_s": float("inf")}):
        with pytest.raises(ValueError, match=next(iter(params))):
            cell(**params)


@given(
    reach=st.floats(1e3, 1e8),
    capacity=st.floats(0, 1e8),
    rate=st.none() | st.floats(1e3, 1e8),
    size=st.sampled_from([64, 128, 1518, "imix"]),
    duration=st.floats(0.1, 100),
)
async def test_no_load_makes_a_figure_that_is_no_number_or_a_received_rate_above_the_sent(reach, capacity, rate, size, duration):
    measured = await measured_by(
        SimulatedDut(reach_pps=reach, capacity_pps=capacity), cell(links=("a", "b"), frame_size=size, rate_pps=rate, duration_s=duration)
    )
    for figures in measured.figures.values():
        assert all(math.isfinite(v) and v >= 0 for v in figures.values())
        assert figures["received_pps"] <= figures["offered_pps"]
        assert 0 <= figures["loss_ratio"] <= 1
        assert figures["received_bps_l2"] <= figures["received_bps_l1"]
