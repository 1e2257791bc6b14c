"""Each test of the suite on a simulated DUT whose answer is known: capacity, buffer, time to recover, time to come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_address

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cells import cell_of, setting_of
from dutlab.errors import MeasurementError, ToolFailed
from dutlab.methods.ports import Bench, Latency, Outcome, ResetKind, ToolReading
from dutlab.methods.rfc2544 import back_to_back, frame_loss, latency, recovery, reset, suite, throughput
from dutlab.methods.rfc2544.context import Paced, SuiteContext
from dutlab.methods.rfc2544.deviations import deviations
from dutlab.spec.mixes import Mix, frame_mix
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.rfc2544 import Benchmark, Rfc2544Workload
from dutlab.units import BpsL1, Pps, Seconds
from simulated import Dut, Simulation
from simulated_memory import Remembering

MIX = Mix(name="64", parts=((64, 1),))
MAX = Pps(1_000_000.0)
SIMULATED = ("a",)


class Sleeper:
    """Notes how long it was told to sleep, and does not."""

    def __init__(self):
        self.slept = []

    async def __call__(self, seconds):
        self.slept.append(seconds)


def stand(generator, *, maximum=MAX, device=None, sleep=None, **asked):
    wanted = setting_of("rfc2544", **{"frame_size": MIX, "tests": tuple(Benchmark), "burst_repeats": 3, "latency_repeats": 4, **asked})
    return SuiteContext(
        SIMULATED, wanted, Paced(generator, wanted.seconds(5.0), sleep or Sleeper()), maximum, throughput.LINE_RATE, device=device
    )


async def test_throughput_is_the_capacity_within_the_width():
    found = await throughput.measure(stand(Simulation(Dut(400_000)), width_ratio=0.005))
    assert 400_000 * 0.995 <= found.rows[0]["lower_pps"] <= 400_000 < found.rows[0]["upper_pps"]
    assert found.figures["throughput_share_ratio"] == pytest.approx(0.4, rel=0.005)
    assert found.rows[0]["trial_s"] == 60.0


async def test_whoever_looks_on_is_told_the_bounds_as_they_move():
    told = list[dict[str, float]]()
    looked_on = replace(
        stand(Simulation(Dut(400_000))), tell=lambda where, who, values: told.append({"where": where, "who": who, **values})
    )
    found = await throughput.measure(looked_on)
    assert {t["who"] for t in told} == {"search"} and {t["where"] for t in told} == {"a"}
    lows = [t["throughput_lower_pps"] for t in told if "throughput_lower_pps" in t]
    assert lows == sorted(lows) and lows[-1] == pytest.approx(found.rows[0]["lower_pps"])


async def test_both_directions_are_asked_of_the_generator_and_added_up():
    generator = Simulation(Dut(400_000))
    found = await throughput.measure(stand(generator, directions=Directions.BOTH))
    assert {o.directions for o in generator.offers} == {Directions.BOTH}
    assert {o.links for o in generator.offers} == {("a",)}
    assert found.figures["throughput_pps"] == pytest.approx(800_000, rel=0.006)
    assert found.figures["max_pps"] == 2 * MAX


async def test_a_scale_shortens_trials_and_waits_alike():
    generator, sleeper = Simulation(Dut(400_000)), Sleeper()
    found = await throughput.measure(stand(generator, sleep=sleeper, scale=0.05))
    assert found.rows[0]["trial_s"] == pytest.approx(3.0)
    assert max(o.duration for o in generator.offers) == pytest.approx(3.0)
    assert set(sleeper.slept) == {0.25}
    assert {o.drain for o in generator.offers} == {0.2}  # no shorter than the least


@pytest.mark.parametrize("held_back", [False, True])
async def test_frame_loss_follows_the_formula_and_ends_after_two_clean_rates(held_back):
    found = await frame_loss.measure(stand(Simulation(Dut(650_000), held_back=held_back)))
    assert [round(row["offered_share_ratio"], 1) for row in found.rows] == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]
    # RFC 2544 section 26.3: (input - output) / input; a refused frame was offered and did not come out
    assert [row["loss_ratio"] for row in found.rows] == pytest.approx([0.35, 1 - 65 / 90, 1 - 65 / 80, 1 - 65 / 70, 0, 0], abs=1e-6)
    assert found.figures == {"loss_at_max_ratio": pytest.approx(0.35)}
    assert not found.notes


async def test_a_dut_that_always_loses_is_tried_down_to_a_tenth_and_said_so():
    found = await frame_loss.measure(stand(Simulation(Dut(50_000))))
    assert len(found.rows) == 10
    assert found.notes == ["down to a tenth of the highest rate no two rates in a row were without loss"]


@settings(max_examples=25)
@given(buffer=st.integers(64, 60_000), capacity=st.floats(100_000, 900_000), held_back=st.booleans())
def test_the_corrected_buffer_time_is_that_of_the_buffer(buffer, capacity, held_back):
    """RFC 9004: a burst of n frames at rate R leaves n (1 - C/R) frames in the buffer, so corrected time x R is the buffer."""
    generator = Simulation(Dut(capacity, buffer_frames=buffer), held_back=held_back)
    found = asyncio.run(back_to_back.measure(stand(generator), Pps(capacity)))
    frames = found.figures["buffer_corrected_ns"] / 1e9 * MAX
    assert frames == pytest.approx(buffer, rel=back_to_back.RESOLUTION * 2, abs=2)
    assert found.figures["burst_stddev_frames"] == 0
    assert found.figures["burst_mean_frames"] == pytest.approx(buffer / (1 - capacity / MAX), rel=0.02, abs=2)


async def test_bursts_are_not_preceded_by_load():
    generator = Simulation(Dut(500_000, buffer_frames=100))
    await back_to_back.measure(stand(generator), Pps(500_000))
    assert {o.warmup for o in generator.offers} == {0.0}


async def test_back_to_back_is_left_out_at_line_rate():
    found = await back_to_back.measure(stand(Simulation(Dut(2e6))), MAX)
    assert not found.rows
    assert "RFC 9004 section 6.1" in found.notes[0]


async def test_a_buffer_larger_than_the_longest_burst_is_a_lower_limit():
    found = await back_to_back.measure(stand(Simulation(Dut(500_000, buffer_frames=1e9)), scale=0.01), Pps(500_000))
    assert found.rows[0] == {"repeat": 1, "burst_frames": 1_200_000, "lost_from_frames": None}
    assert found.notes == [
        "bursts of 0.3 s came through, so the limit was raised to 1.2 s",
        "bursts of 1.2 s came through: the buffer is larger than found",
    ]


@pytest.mark.parametrize("seconds", [0.5, 2.0, 4.0, 40.0])
async def test_a_buffer_is_found_however_long_it_takes_to_empty(seconds):
    """Corrected time is that of the buffer at the highest rate; half of that rate empties it, in twice as long as that."""
    generator = Remembering(Dut(MAX / 2, buffer_frames=seconds * MAX))
    found = await back_to_back.measure(stand(generator, burst_repeats=1), Pps(MAX / 2))
    assert found.figures["buffer_corrected_ns"] == pytest.approx(seconds * 1e9, rel=2 * back_to_back.RESOLUTION)
    assert bool(found.notes) == (seconds > 15.0), "a burst of 30 s fills a buffer of 15 s; larger ones need the higher limit"


async def test_bursts_of_several_frame_sizes_have_no_back_to_back_test():
    of = stand(Simulation(Dut(400_000)))
    found = await back_to_back.measure(replace(of, setting=of.setting.model_copy(update={"frame_size": frame_mix("imix")})), Pps(400_000))
    assert not found.rows and not found.figures
    assert "frames of one size" in found.notes[0]


@pytest.mark.parametrize("made", [0.8, 0.51, 0.49])
async def test_a_burst_that_was_not_made_is_no_whole_burst(made):
    """Half of the frames are forwarded, so bursts of a thousand are whole; slower ones never fill the buffer."""
    generator = Simulation(Dut(MAX / 2, buffer_frames=500), reach_pps=MAX * made)
    with pytest.raises(MeasurementError, match="the generator made"):
        await back_to_back.measure(stand(generator), Pps(MAX / 2))


async def test_a_burst_that_the_generator_missed_once_is_offered_again():
    def short(number, flow):
        less = flow.sent_frames // 2
        return (
            replace(flow, sent_frames=less, received_frames=less, refused_frames=less) if number % 5 == 3 and not flow.lost_frames else flow
        )

    generator = Simulation(Dut(MAX / 2, buffer_frames=500), change=short)
    found = await back_to_back.measure(stand(generator), Pps(MAX / 2))
    assert found.figures["burst_mean_frames"] == pytest.approx(1000, rel=0.02)


async def test_a_rate_that_was_not_made_has_no_loss():
    found = await frame_loss.measure(stand(Simulation(Dut(500_000), reach_pps=600_000)))
    assert not found.figures, "of a million frames a second half are lost, and of the 600 000 that were made a sixth"
    assert [row["loss_ratio"] for row in found.rows[:4]] == [None] * 4
    assert found.rows[4]["loss_ratio"] == pytest.approx(1 / 6, abs=1e-6)
    assert "no loss is known at 100% of the highest rate, which the generator did not make" in found.notes[0]


async def test_rates_without_loss_that_were_not_made_do_not_end_the_frame_loss_test():
    found = await frame_loss.measure(stand(Simulation(Dut(1e9), reach_pps=300_000)))
    assert [row["loss_ratio"] for row in found.rows] == [None] * 7 + [0.0, 0.0]


async def test_no_test_of_the_suite_has_a_figure_of_a_rate_that_was_not_made():
    generator = Simulation(Dut(1e9), reach_pps=MAX * 0.5)
    of = stand(generator)
    assert not (await recovery.measure(of, Pps(900_000))).figures
    with pytest.raises(MeasurementError, match="did not make the throughput"):
        await latency.measure(of, Pps(900_000))
    lab = Resetting(process=0.125, software=2.5)
    lab.reach_pps = 4000
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert not found.figures
    assert "a load that the generator did not make" in found.notes[0]


async def test_a_dut_without_buffer_has_no_burst():
    found = await back_to_back.measure(stand(Simulation(Dut(1000))), Pps(1000))
    assert found.figures["burst_mean_frames"] <= 1
    assert found.figures["buffer_corrected_ns"] < 1001


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
        "latency_mean_ns": 1151.0,
        "latency_p50_ns": 250.0,
        "latency_p999_ns": 257.0,
        "latency_min_ns": 95,
        "latency_max_ns": 4009,
    }
    assert [row["repeat"] for row in found.rows] == [1, 2, 3, 4]
    assert {(o.warmup, o.duration, o.rate) for o in generator.offers} == {(60.0, 60.0, 1000.0)}


async def test_no_latency_is_made_up_where_none_was_measured():
    with pytest.raises(MeasurementError, match="no frame could be timed"):
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
@given(after_s=st.floats(0.0, 20.0), drop_at=st.floats(50.0, 65.0), lag=st.floats(0, 1e9))
@example(after_s=1.03125, drop_at=50.96875, lag=0.0)
def test_recovery_is_found_to_within_one_reading(after_s, drop_at, lag):
    found = recovery.recovered(readings(after_s, drop_at=drop_at, lag=lag), high=Pps(110.0), low=Pps(55.0))
    late_s = 2.0 * found.resolution_s * 0.02 + 1e-3  # a reading within 2 % of the higher rate is not taken for the drop
    assert after_s - late_s <= found.seconds <= after_s + found.resolution_s + late_s
    assert found.resolution_s == pytest.approx(1.0)
    assert not found.ongoing


def test_a_dut_that_never_recovers_has_no_time():
    assert recovery.recovered(readings(100.0), high=Pps(110.0), low=Pps(55.0)).ongoing


def test_a_drop_that_nobody_saw_is_an_error():
    with pytest.raises(MeasurementError, match="is not to be seen"):
        recovery.recovered(readings(1.0, drop_at=1000.0), high=Pps(110.0), low=Pps(55.0))


async def test_the_overload_is_110_percent_and_never_above_the_highest_rate():
    generator = Simulation(Dut(500_000))
    found = await recovery.measure(stand(generator), Pps(500_000))
    (offer,) = generator.offers
    assert [(s.duration, s.from_rate, s.to_rate) for s in offer.profile] == [(60, 550_000, 550_000), (30, 275_000, 275_000)]
    assert found.figures["recovery_ns"] <= 1e9
    await recovery.measure(stand(generator), Pps(950_000))
    assert generator.offers[1].profile[0].from_rate == MAX


class Resetting:
    """A device that is out of service for `out_s` when it is reset, and a generator that sees it."""

    resets = (ResetKind.PROCESS, ResetKind.SOFTWARE)
    reach_pps = 1e12

    def __init__(self, **out_s):
        self.out_s, self.kinds, self.was_reset = out_s, [], asyncio.Event()

    async def reset(self, kind):
        self.kinds.append(kind)
        self.was_reset.set()
        return 0.25

    async def offer(self, offer):
        self.was_reset.clear()
        offer.begun()
        await self.was_reset.wait()
        outcome = await Simulation(Dut(1e9), reach_pps=self.reach_pps).offer(offer)
        lost = round(offer.rate * min(self.out_s[self.kinds[-1].value], offer.duration - 15))
        return Outcome(tuple(replace(f, lost_frames=lost, received_frames=f.sent_frames - lost) for f in outcome.flows))


async def test_reset_time_is_lost_frames_over_offered_rate():
    lab = Resetting(process=0.125, software=2.5)
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert found.figures == {"reset_process_ns": 125e6, "reset_software_ns": 2.5e9}
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
    assert found.figures == {"reset_process_ns": pytest.approx(325e6), "reset_software_ns": 2.5e9}
    generator = Simulation(Dut(500_000))
    found = await recovery.measure(stand(generator, recovery_repeats=3), Pps(500_000))
    assert len(generator.offers) == len(found.rows) == 3
    assert found.figures["recovery_ns"] == pytest.approx(sum(row["recovery_ns"] for row in found.rows) / 3)


async def test_a_dut_that_stays_away_has_no_reset_time():
    lab = Resetting(process=1000.0, software=0.1)
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert list(found.figures) == ["reset_software_ns"]
    assert found.notes == ["after the process reset the DUT did not forward again within 45 s"]


async def test_a_reset_that_nobody_saw_has_no_time():
    lab = Resetting(process=0.0, software=0.1)
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert list(found.figures) == ["reset_software_ns"]
    assert "no frame was lost" in found.notes[0]


async def test_reset_without_a_device_is_left_out_in_words():
    assert "cannot be reset" in (await reset.measure(stand(Simulation(Dut(1e6))), Pps(1000))).notes[0]


def cell(**params):
    return cell_of(
        "rfc2544",
        **(
            {
                "frame_size": 64,
                "tests": "throughput,frame-loss,back-to-back",
                "scale": 0.05,
                "directions": "forward",
                "width_ratio": 0.005,
                "latency_repeats": 20,
                "burst_repeats": 2,
            }
            | params
        ),
    )


async def test_the_suite_uses_the_throughput_that_it_found_and_lists_its_deviations():
    bench = Bench(Simulation(Dut(400_000, buffer_frames=512)), {"a": BpsL1(1e9)}, addresses={"a": (ip_address("198.18.0.2"),)})
    found = await suite.measure(bench, cell(), sleep=Sleeper())
    assert found.figures["a"]["max_pps"] == pytest.approx(1_488_095, abs=1)  # RFC 5180 appendix A, 64 bytes at 1 Gbit/s
    assert found.figures["a"]["buffer_corrected_ns"] / 1e9 * 1_488_095 == pytest.approx(512, rel=0.05)
    assert list(found.tables) == ["throughput", "frame_loss", "back_to_back", "arrivals", "deviations"]
    assert found.tables["arrivals"][0]["duplicated_frames"] == 0 and found.tables["arrivals"][0]["trials"] > 10
    texts = [row["text"] for row in found.tables["deviations"]]
    assert "§24, §26: every duration is 0.05 of what is prescribed; a trial takes 3 s, not 60 s" in texts
    assert "appendix C.2: no departure, the addresses are of the networks for benchmarks: 198.18.0.2" in texts
    assert not [text for text in texts if text.startswith("§20")]
    assert [d.kind.name for d in found.doubts] == ["SHORT_TRIAL"]


async def test_without_a_line_rate_the_highest_rate_is_what_was_reached():
    found = await suite.measure(Bench(Simulation(Dut(400_000), reach_pps=800_000)), cell(tests="frame-loss"), sleep=Sleeper())
    assert found.tables["frame_loss"][0]["intended_pps"] == pytest.approx(800_000)
    assert any(row["text"].startswith("§20, §26") for row in found.tables["deviations"])


async def test_a_test_that_fails_leaves_the_others():
    class Fails(Simulation):
        async def offer(self, offer):
            if offer.profile:
                raise ToolFailed("broke", tool="simulation", host="source")
            return await super().offer(offer)

    found = await suite.measure(Bench(Fails(Dut(400_000)), {"a": BpsL1(1e9)}), cell(tests="throughput,recovery,reset"), sleep=Sleeper())
    assert "throughput_pps" in found.figures["a"]
    assert found.notes[0].startswith("recovery: ")


async def test_a_dut_that_forwards_nothing_has_loss_but_no_throughput():
    bench = Bench(Simulation(Dut(400_000), deaf_from=0), {"a": BpsL1(1e9)})
    found = await suite.measure(bench, cell(tests="throughput,latency,frame-loss"), sleep=Sleeper())
    assert "throughput_pps" not in found.figures["a"]
    assert found.figures["a"]["loss_at_max_ratio"] == 1.0
    assert "latency needs the throughput, and none was found" in found.notes


async def test_doubts_of_any_trial_are_counted_once_a_kind():
    def leaky(number, flow):
        return replace(flow, lost_frames=flow.lost_frames + 1) if number == 0 else flow

    found = await suite.measure(Bench(Simulation(Dut(4e5), change=leaky), {"a": BpsL1(1e9)}), cell(tests="frame-loss"), sleep=Sleeper())
    assert ("LEDGER_OPEN", "in 1 of 10 trials") in [(d.kind.name, d.detail) for d in found.doubts]


async def test_a_generator_that_fails_is_an_error():
    with pytest.raises(MeasurementError):
        await suite.measure(Bench(Simulation(Dut(4e5), dumb_from=0), {"a": BpsL1(1e9)}), cell(), sleep=Sleeper())


def test_a_cell_that_lacks_a_word_is_refused():
    with pytest.raises(ValueError, match="tests"):
        cell(tests="thruput")


def test_a_suite_by_the_book_deviates_only_where_it_cannot_do_otherwise():
    whole = setting_of("rfc2544", frame_size=MIX, tests=tuple(Benchmark), recovery_repeats=3, reset_repeats=3, directions=Directions.BOTH)
    said = list(deviations(whole, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("198.19.0.2")]))
    assert not [text for text in said if text.startswith(("§24", "§23", "§20", "§14", "§9.1")) or "repeats:" in text]
    assert [text for text in said if text.startswith("appendix")] == [
        "appendix C.2: no departure, the addresses are of the networks for benchmarks: 198.19.0.2"
    ]
    shorter = list(
        deviations(
            whole.model_copy(update={"scale": 0.01, "latency_repeats": 2}), ["a"], maximum_is="x", addresses=[ip_address("10.0.0.1")]
        )
    )
    assert {"§26.2: repeats: 2, not 20"} <= set(shorter)
    assert any("those of the testbed, 10.0.0.1, not of 198.18.0.0/15" in text for text in shorter)
    assert len(shorter) > len(said) + 4


class Steps:
    """Somebody beside the trials who notes what was asked, and says the same twice and then something else."""

    def __init__(self):
        self.asked = []

    async def step(self, link, number):
        self.asked.append((link, number))
        return "processed" if number < 2 else "refused"


class Begins(Simulation):
    """Tells that it has begun, and lets others work."""

    async def offer(self, offer):
        offer.begun()
        await asyncio.sleep(0.01)
        return await super().offer(offer)


async def test_modifiers_go_on_beside_every_trial_and_what_came_of_them_is_counted():
    queries, updates = Steps(), Steps()
    generator = Begins(Dut(2e6))
    bench = Bench(generator, {"a": BpsL1(1e9)}, management=queries, updates=updates)
    found = await suite.measure(bench, cell(tests="frame-loss", modifiers="broadcast,management,routing"), sleep=Sleeper())
    trials = len(generator.offers)
    assert {o.broadcast_ratio for o in generator.offers} == {0.01}
    assert queries.asked == updates.asked == [("a", n) for n in range(trials)], (
        "each trial begins with one, and they are numbered throughout"
    )
    assert {"modifier": "routing", "outcome": "processed", "count": 2.0} in found.tables["modifiers"]
    assert sum(row["count"] for row in found.tables["modifiers"]) == 2 * trials
    assert f"routing updates: 2 processed, {trials - 2} refused" in found.notes or trials == 2
    # 1 488 095 frames/s at 1 Gbit/s (RFC 5180 appendix A), of which 1 in 101 is a broadcast frame
    assert found.tables["frame_loss"][0]["intended_pps"] == pytest.approx(1_488_095 / 1.01, rel=1e-6)
    texts = [row["text"] for row in found.tables["deviations"]]
    assert any(t.startswith("§11.1: 1 broadcast") for t in texts) and any("every 1.5 s" in t for t in texts)


async def test_a_modifier_that_nobody_can_do_is_left_out_in_words():
    bench = Bench(Begins(Dut(2e6)), {"a": BpsL1(1e9)})
    found = await suite.measure(bench, cell(tests="frame-loss", modifiers="management"), sleep=Sleeper())
    assert "management: left out, nobody on this testbed can do it" in found.notes
    assert found.tables["modifiers"] == []


def test_what_departs_from_rfc_5180_is_said_over_ipv6_only():
    asked = setting_of("rfc2544", frame_size=84, tests=tuple(Benchmark))
    over6 = list(deviations(asked, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("2001:2::2")]))
    assert [t for t in over6 if t.startswith("RFC 5180 §5: 84 bytes stand for 64")] and any("hop-by-hop" in t for t in over6)
    over4 = deviations(asked, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("198.18.0.2")])
    assert not [t for t in over4 if t.startswith("RFC 5180")]


def test_seconds_are_scaled():
    assert setting_of("rfc2544", tests=(), scale=0.05).seconds(60.0) == Seconds(3.0)


def test_only_the_shortest_frames_have_the_reset_test():
    """RFC 2544 section 26.6: the throughput for the minimum sized frames."""
    asked = Rfc2544Workload.model_validate({"frame_sizes": [128, 64, 1518], "links": [["a"]]})
    tests = {drive.setting.frame_size.size: [test.value for test in drive.setting.tests] for drive in asked.drives(["a"])}
    assert {size: "reset" in of for size, of in tests.items()} == {128: False, 64: True, 1518: False}
    assert all("recovery" in of for of in tests.values())
