"""What must be found of known devices: by simulations that behave, and by such as do not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest
from click.testing import CliRunner

from dutlab.choices import METHODS
from dutlab.cli.verify import verify
from dutlab.methods.flow import Latency
from dutlab.methods.known import CASES, Known
from dutlab.methods.known.case import MethodResult
from dutlab.methods.known.counts import BURST
from dutlab.methods.known.rates import POLICED_PPS
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544.suite import measure
from simulated import Dut, Simulation

BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
def no_rests(monkeypatch):
    """The seconds between two trials pass at once, as the trials of a simulation do."""
    monkeypatch.setitem(measure.__kwdefaults__, "sleep", lambda _: asyncio.sleep(0))


class Count:
    def __init__(self, frames):
        self.frames = frames

    async def altered_frames(self):
        return self.frames


def measured(name, simulation, altered_frames=0):
    return asyncio.run(BY_NAME[name].measure(Bench(simulation), Count(altered_frames)))


def loses(frames):
    return Simulation(Dut(1e12), change=lambda _, f: replace(f, lost_frames=frames, received_frames=f.sent_frames - frames))


@pytest.mark.parametrize(
    ("lost", "counted", "holds"),
    [(1428, 1428, [True, True]), (1429, 1428, [False, True]), (1427, 1428, [False, True]), (1428, 1427, [True, False])],
)
def test_of_ten_thousand_frames_a_device_that_drops_every_seventh_loses_1428_and_not_one_more_or_less(lost, counted, holds):
    found = measured("drops", loses(lost), counted)
    assert [(k.figure, k.expected) for k in found] == [("lost_frames", 1428), ("wronged_frames", 1428)]
    assert [k.holds for k in found] == holds


@pytest.mark.parametrize(
    ("name", "field", "frames"),
    [("duplicates", "duplicated_frames", 909), ("swaps", "reordered_frames", 1000), ("corrupts", "corrupted_frames", 2000)],
)
def test_each_wrong_is_read_from_its_own_count(name, field, frames):
    right = Simulation(Dut(1e12), change=lambda _, f: replace(f, **{field: frames}))
    assert [k.holds for k in measured(name, right, frames)] == [True, True]
    assert not measured(name, Simulation(Dut(1e12)), frames)[0].holds


@pytest.mark.parametrize(("median_ns", "holds"), [(300_000, True), (320_000, True), (320_001, False), (279_999, False)])
def test_a_delay_holds_within_20_microseconds(median_ns, holds):
    latency = Latency(500, median_ns, median_ns, median_ns, median_ns, median_ns, median_ns, median_ns)
    assert [k.holds for k in measured("holds", Simulation(Dut(1e12), change=lambda _, f: replace(f, latency=latency)))] == [holds]


def test_without_a_latency_or_a_generator_that_can_fill_the_queue_nothing_is_proven():
    for name, simulation in (("holds", Simulation(Dut(1e12))), ("burst", Simulation(Dut(1e12), reach_pps=1000.0))):
        (known,) = measured(name, simulation)
        assert (known.holds, known.found) == (False, None)
        assert known.why


def test_a_burst_holds_to_the_frame():
    queue = Simulation(Dut(0.0, buffer_frames=BURST), reach_pps=1e6)
    assert [(k.found, k.holds) for k in measured("burst", queue)] == [(BURST, True)]
    larger = Simulation(Dut(0.0, buffer_frames=BURST + 1), reach_pps=1e6)
    assert not measured("burst", larger)[0].holds


def test_a_search_finds_the_rate_of_a_policer_with_its_bucket():
    (known,) = measured("polices", Simulation(Dut(POLICED_PPS, buffer_frames=200)))
    assert known.expected == 2100  # 2000 a second, and 200 frames spread over trials of 2 s
    assert known.holds, known
    (wrong,) = measured("polices", Simulation(Dut(POLICED_PPS * 0.98, buffer_frames=200)))
    assert not wrong.holds


def test_a_device_through_which_nothing_comes_is_off_not_an_accident():
    assert not measured("polices", Simulation(Dut(1e12), deaf_from=0))[0].holds


def test_what_was_not_found_never_holds():
    assert not Known("d", "m", "f", 0, None, 1e9).holds


def test_a_suite_finds_throughput_loss_and_burst_of_one_policer():
    found = measured("policed-suite", Simulation(Dut(POLICED_PPS, buffer_frames=200)))
    # T = 0.02 x 60 s: 2000 + 200 / 1.2 pass whole, of 4000 a second the rest is lost; B - 2000 x B / 4000 = 200
    assert [(k.figure, round(k.expected, 4)) for k in found] == [
        ("throughput_pps", 2166.6667),
        ("loss_at_max_ratio", 0.4583),
        ("burst_max_frames", 400.0),
    ]
    assert all(k.holds for k in found), found
    assert not any(k.holds for k in measured("policed-suite", Simulation(Dut(POLICED_PPS * 0.97, buffer_frames=180))))


def test_a_ramp_saturates_where_the_policer_begins_to_drop():
    found = measured("policed-ramp", Simulation(Dut(POLICED_PPS, buffer_frames=200)))
    # 150 pps more each second: over from 13.33 s on, 200 too many at 14.97 s; until 18 s 400² / 300 + 800 - 200 of 24 000 are lost
    assert found[1].expected == pytest.approx((400**2 / 300 + 400 * 2 - 200) / (2400 * (16 / 2 + 2)))
    assert [k.holds for k in found] == [True, True], found
    assert not any(k.holds for k in measured("policed-ramp", Simulation(Dut(POLICED_PPS * 0.9, buffer_frames=200))))


@dataclass
class Forgets(Simulation):
    """Loses one frame in each of some seconds, and counts it then."""

    seconds: tuple[int, ...] = (3, 6, 9)

    async def offer(self, offer):
        outcome = await super().offer(offer)
        began = min(r.at_s for r in outcome.readings)
        readings = [replace(r, value=float(round(r.at_s - began) in self.seconds)) if r.name == "lost_pps" else r for r in outcome.readings]
        (flow,) = outcome.flows
        count = len(self.seconds)
        return replace(outcome, readings=readings, flows=(replace(flow, lost_frames=count, received_frames=flow.sent_frames - count),))


@pytest.mark.parametrize(("seconds", "events"), [((3, 6, 9), 3), ((3, 4, 9), 2), ((6,), 1)])
def test_loss_events_are_counted_and_so_are_their_frames(seconds, events):
    found = measured("loses-now-and-then", Forgets(Dut(1e12), seconds=seconds))
    assert [(k.figure, k.expected, k.found) for k in found] == [("loss_events", 3, events), ("lost_frames", 3, len(seconds))]


def test_a_delay_is_found_at_each_load():
    latency = Latency(500, 300_000, 310_000, 310_000, 310_000, 310_000, 310_000, 310_000)
    found = measured("holds-at-each-load", Simulation(Dut(1e12), change=lambda _, f: replace(f, latency=latency)))
    assert [(k.figure, k.error, k.holds) for k in found] == [("50%/tl_ns", 10_000, True), ("100%/tl_ns", 10_000, True)]
    (unknown,) = measured("holds-at-each-load", Simulation(Dut(1e12)))
    assert unknown.found is None and "no latency" in unknown.why


def test_every_method_has_a_device_and_those_that_take_long_come_last():
    assert {case.method for case in CASES} == set(METHODS)
    assert sorted(CASES, key=lambda case: not case.quick) == list(CASES)


@pytest.mark.parametrize(
    "words",
    [
        ["--lab", "uml-truth", "--quick"],
        ["--lab", "uml-truth", "--method", "sweep"],
        ["--lab", "uml-truth", "--storage"],
        ["--storage", "--quick"],
        ["--lab", "raid"],
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_built(words: list[str]) -> None:
    done = CliRunner().invoke(verify, words)
    assert (done.exit_code, "Usage:" in done.output) == (2, True), done.output


def test_what_a_path_delays_without_the_device_does_not_count() -> None:
    (held,) = MethodResult("latency", {"100%/tl_ns": 5_060_000.0}, "").against("delay 5 ms", [("100%/tl_ns", 5e6, 1e5)], beyond=50_000)
    assert (held.found, held.holds) == (5_010_000.0, True)
    (none,) = MethodResult("latency", {}, "nothing came").against("delay 5 ms", [("100%/tl_ns", 5e6, 1e5)], beyond=50_000)
    assert (none.found, none.holds, none.why) == (None, False, "nothing came")
