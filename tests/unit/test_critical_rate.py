"""The estimated critical rate against devices whose true one is known, and the loss curves against integrals done by somebody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, ndtr

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.errors import MeasurementError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods import critical_rate
from dutlab.methods.critical_rate import lengths
from dutlab.methods.ports import Bench, Offer
from dutlab.methods.soak import measure
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.spec.mixes import frame_mix
from dutlab.stats.cloud import Cloud
from dutlab.stats.critical_rate import CriticalRate, LoadTrial, capacity_interval, rates_at
from dutlab.stats.loss_curves import CURVES
from dutlab.units import Pps, Seconds
from simulated import Dut, Simulation
from simulated_losses import CLAIMED, LossyDut

RISES = {"stretch": expit, "erf": ndtr}


def arrays(*values):
    return (np.array([v], dtype=float) for v in values)


def rate_of(trials, highest_pps=400e3, target=1e-3):
    estimate = CriticalRate(highest_pps=highest_pps, target=target)
    return [estimate.add(trial) for trial in trials][-1]


@settings(max_examples=20)
@given(st.sampled_from(sorted(CURVES)), st.floats(0.05, 1.2), st.floats(0.3, 1.1), st.floats(0.005, 0.5))
def test_a_curve_is_the_integral_of_its_rise(name, load, capacity, width):
    whole, _ = quad(lambda x: RISES[name]((x - capacity) / width), 0, load, points=[min(capacity, load)], epsabs=0, limit=400)
    assume(whole > 1e-12)
    assert CURVES[name].lost(*arrays(load, capacity, width))[0] == pytest.approx(whole, rel=1e-4, abs=1e-15)


@settings(max_examples=40)
@given(st.sampled_from(sorted(CURVES)), st.floats(0.01, 1.25), st.floats(1e-5, 0.3), st.floats(-6, -1))
def test_at_the_capacity_of_a_rate_that_rate_loses_its_share(name, rate, width, magnitude):
    assume(width <= rate / 4)
    curve, share = CURVES[name], 10**magnitude
    capacity = curve.capacity(*arrays(rate, width, share))
    assert curve.lost(*arrays(rate, capacity[0], width))[0] == pytest.approx(share * rate, rel=1e-3)


@pytest.mark.parametrize("name", sorted(CURVES))
def test_a_curve_has_a_value_wherever_it_is_asked(name):
    loads, capacities, widths = (a.ravel() for a in np.meshgrid([1e-6, 0.5, 1.0], [-10.0, 0.1, 1.0, 61.0], [1e-5, 0.1, 1.0]))
    assert np.all(np.isfinite(CURVES[name].lost(loads, capacities, widths)))


def test_a_cloud_has_the_shape_of_its_posterior_however_narrow_and_bent():
    """A ridge a hundred times as long as wide, seen in two parts; without what is outside the box."""
    cloud = Cloud(np.array([[0.0, 0.0], [1.0, 1.0]]), 2000)

    def first(points):
        return np.zeros(len(points)), -0.5 * ((points[:, 0] - 0.3) / 0.05) ** 2

    def both(points):
        known = first(points)[1]
        return known, -0.5 * ((points[:, 1] - points[:, 0]) / 0.0005) ** 2

    cloud.see(first)
    cloud.see(both)
    assert cloud.points.mean(axis=0) == pytest.approx([0.3, 0.3], abs=0.005)
    assert cloud.points.std(axis=0) == pytest.approx([0.05, 0.05], rel=0.1)
    assert (cloud.points[:, 1] - cloud.points[:, 0]).std() == pytest.approx(0.0005, rel=0.15)


def seen(capacity_pps, loads, seconds=60.0):
    return [LoadTrial(load, seconds, round(max(0.0, load - capacity_pps) * seconds)) for load in loads]


def test_a_hard_limit_is_found_between_two_loads_and_more_loss_allowed_is_a_higher_rate():
    trials = seen(300e3, [200e3, 400e3, 290e3, 310e3, 299e3, 301e3, 299.5e3])
    found = rate_of(trials)
    assert 299e3 <= found.pps <= 300e3 / (1 - 1e-3) * 1.002
    assert found.low_pps <= found.pps <= found.high_pps
    assert rate_of(trials) == found, "chance has no part in it"
    # More loss allowed is a higher rate.
    rates = [rate_of(seen(300e3, [200e3, 400e3, 305e3]), target=t).pps for t in (1e-4, 1e-1)]
    assert rates == sorted(rates) and rates[0] < rates[-1]
    # A device that lost nothing may do more than was tried.
    assert rate_of(seen(1e9, [200e3, 400e3, 400e3])).high_pps > 400e3


def cell(**params):
    said = {
        "frame_size": 64, "frame_mix": "64:1", "rate_pps": 600e3, "share_percent": 100.0, "duration_s": 1800.0, "threshold_percent": 0.0,
        "target_loss_percent": 0.1, "warmup_s": 1.0, "drain_s": 0.5, **params,
    }  # fmt: skip
    return cell_of("soak", **said)


def run(generator, of=None):
    return asyncio.run(measure(Bench(generator), of or cell()))


def soaked(dut):
    offer = Offer(("a",), frame_mix(64), Pps(dut.highest_pps), Seconds(float(dut.trials)))
    return asyncio.run(critical_rate.measure(Bench(dut), cell(), offer, dut.target))


@pytest.fixture(scope="module")
def soft():
    """A soak of 20 s of a device with a hard limit, and what it was offered."""
    generator = Simulation(Dut(300e3))
    return generator, run(generator, cell(duration_s=20.0))


def test_the_interval_holds_the_true_rate_whatever_the_loss_is_like():
    """tests/bench/critical_coverage.py does this with hundreds of devices and longer soaks."""
    held, doubted = {}, 0
    for kind in CLAIMED[::2]:
        dut = LossyDut(kind, seed=3, trials=25)
        found = soaked(dut)
        figures = found.figures["a"]
        held[kind] = figures["critical_low_pps"] <= dut.true_pps <= figures["critical_high_pps"]
        doubted += len(found.doubts)
        assert figures["critical_high_pps"] - figures["critical_low_pps"] < 0.3 * dut.true_pps, kind
    assert all(held.values()), held
    assert not doubted, "these devices are alike from trial to trial"


def test_a_target_that_random_loss_alone_exceeds_is_far_below_the_capacity():
    found = run(Simulation(Dut(300e3, random_loss=1e-4), seed=1), cell(duration_s=15.0, target_loss_percent=1e-5))
    assert found.figures["a"]["critical_pps"] < 290e3
    assert len(found.notes) == 1, "the target allows less than one burst"


def test_rates_go_half_then_all_then_where_the_estimate_is(soft):
    generator, found = soft
    rates = [float(o.rate) for o in generator.offers]
    assert rates[:2] == [300e3, 600e3]
    assert all(abs(rate - 300e3) < 15e3 for rate in rates[12:])
    assert found.figures["a"]["trials"] == len(rates) == len(found.tables["critical"])
    assert not found.notes


def test_what_the_dut_s_port_does_not_take_is_lost(soft):
    held_back = run(Simulation(Dut(300e3), held_back=True), cell(duration_s=20.0))
    assert held_back.figures["a"]["critical_pps"] == pytest.approx(soft[1].figures["a"]["critical_pps"], rel=1e-3)


def test_a_limit_above_the_highest_rate_is_said_and_a_generator_that_sends_nothing_has_none():
    assert len(run(Simulation(Dut(1e9)), cell(duration_s=3.0, target_loss_percent=1.0)).notes) == 1
    # A generator that sends nothing has no rate.
    mute = Simulation(Dut(300e3), change=lambda _, flow: replace(flow, sent_frames=0, intended_frames=0, received_frames=0, lost_frames=0))
    with pytest.raises(MeasurementError):
        run(mute)
    assert len(mute.offers) == 1


@pytest.mark.parametrize(
    ("kind", "seed", "widest", "doubted"),
    [("rare-bursts", 109, 0.04, None), *(("dwell", s, 2, d) for s, d in ((106, True), (121, True), (102, False)))],
)
def test_losses_that_come_seldom_or_for_seconds_are_in_the_interval(kind, seed, widest, doubted):
    """Bursts that come 0.2 times in the soak take up to 30 % of the target. Half of the time 2 to 20 % slower, for 4 to 20 s: the posterior
    alone has the first and third too low, and the second too high."""
    dut = LossyDut(kind, seed=seed)
    found = soaked(dut)
    low, high = (found.figures["a"][f"critical_{end}_pps"] for end in ("low", "high"))
    assert low <= dut.true_pps <= high and high - low < widest * dut.true_pps
    assert doubted is None or (DoubtKind.LOSSES_CLUSTER in {d.kind for d in found.doubts}) is doubted


def test_capacities_of_all_trials_make_a_rate_and_those_of_one_stretch_are_drawn_together():
    """Half of the trials at 100 met a capacity of 80: a load x loses (x - 80) / 2, which is a tenth of 100. One without loss says the load or more."""
    loads, received, once = np.array([100.0, 100.0, 100.0, 100.0]), np.array([80.0, 100.0, 80.0, 100.0]), np.ones((1, 4))
    assert rates_at(loads, received, 0.1, 200.0, once) == pytest.approx([100.0])
    assert rates_at(loads, received, 0.05, 200.0, once) == pytest.approx([80 * 0.5 / 0.45])
    assert rates_at(loads, loads, 0.1, 200.0, once) == pytest.approx([200.0]), "nothing was lost: nothing limits the rate"
    assert rates_at(loads, received, 0.05, 200.0, np.array([[0.0, 1.0, 0.0, 1.0], [2.0, 0.0, 2.0, 0.0]])) == pytest.approx([200, 80 / 0.95])
    # Ten slow trials and then ten fast ones are two independent things, not twenty: the rate may be that of either.
    slow = np.array([80.0] * 10 + [100.0] * 10)
    together = capacity_interval(np.full(20, 100.0), slow, 0.1, 125.0)
    in_turn = capacity_interval(np.full(20, 100.0), np.tile([80.0, 100.0], 10), 0.1, 125.0)
    assert together[1] - together[0] > in_turn[1] - in_turn[0]


@given(st.floats(3.0, 86_400.0))
def test_trials_fill_the_time_and_are_at_least_three(duration):
    found = list(lengths(Seconds(duration)))
    assert len(found) >= 3 and sum(found) <= max(duration, 3.0) + 1e-6
    assert sum(found) >= duration * 0.7 or len(found) == 3
    assert found == sorted(found)
    csit = list(lengths(Seconds(1800.0)))
    assert [round(s, 3) for s in csit[:3]] == [5.1, 5.2, 5.3] and 140 <= len(csit) <= 150


def test_the_report_has_the_rate_its_interval_and_how_it_closed_in(tmp_path):
    of = cell(duration_s=3.0)
    folder = write_imported(
        tmp_path, "soak", [Imported(of, run(Simulation(Dut(3e5)), of), {})], command=(), now=datetime(2026, 11, 21, tzinfo=UTC)
    )
    (section,) = gather(folder.path, folder.path).sections
    (grid,) = section.tables
    assert next(c.median for c in grid.rows[0].cells if isinstance(c, Figure)) == pytest.approx(1e-3)
    (curve,) = section.curves
    assert [line.label for line in curve.lines] == ["offered", "critical rate", "at least", "at most"]
