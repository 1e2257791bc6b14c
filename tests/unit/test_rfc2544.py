"""Each test of the suite on a simulated DUT whose answer is known: capacity, buffer, time to recover, time to come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_address

import pytest

from cells import cell_of, setting_of
from dutlab.choices import USUAL_TESTS, Benchmark
from dutlab.cli.one_workload import given_workload
from dutlab.cli.rfc2544 import QUICK
from dutlab.errors import MeasurementError, ToolFailed
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544 import frame_loss, latency, recovery, reset, suite, throughput
from dutlab.methods.rfc2544.deviations import deviations
from dutlab.plan.trials import make_plan
from dutlab.report.gather import read_run, report_of
from dutlab.report.model.words import KPPS
from dutlab.spec import loader
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.units import BpsL1, Pps, Seconds
from rfc2544_context import MAX, MIX, Resetting, Sleeper, stand
from run_records import new_run, trial_record
from simulated import Dut, Simulation


async def test_throughput_is_the_capacity_within_the_width_and_whoever_looks_on_is_told_its_bounds():
    told = list[dict[str, float]]()
    looked_on = stand(Simulation(Dut(400_000)), width_ratio=0.005)
    looked_on = replace(looked_on, tell=lambda where, who, values: told.append({"where": where, "who": who, **values}))
    found = await throughput.measure(looked_on)
    assert 400_000 * 0.995 <= found.rows[0]["lower_pps"] <= 400_000 < found.rows[0]["upper_pps"]
    assert found.figures["throughput_share_ratio"] == pytest.approx(0.4, rel=0.005)
    assert found.rows[0]["trial_s"] == 60.0
    assert {t["who"] for t in told} == {"search"} and {t["where"] for t in told} == {"a"}
    lows = [t["throughput/lower_pps"] for t in told if "throughput/lower_pps" in t]
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


async def test_a_rate_that_was_not_made_has_no_loss_and_does_not_end_the_frame_loss_test(golden):
    always = await frame_loss.measure(stand(Simulation(Dut(50_000))))
    assert len(always.rows) == 10, "tried down to a tenth"
    found = await frame_loss.measure(stand(Simulation(Dut(500_000), reach_pps=600_000)))
    assert not found.figures, "of a million frames a second half are lost, and of the 600 000 that were made a sixth"
    assert [row["loss_ratio"] for row in found.rows[:4]] == [None] * 4
    assert found.rows[4]["loss_ratio"] == pytest.approx(1 / 6, abs=1e-6)
    slow = await frame_loss.measure(stand(Simulation(Dut(1e9), reach_pps=300_000)))
    assert [row["loss_ratio"] for row in slow.rows] == [None] * 7 + [0.0, 0.0]
    golden.check("rfc2544-frame-loss.txt", "".join(f"{note}\n" for of in (always, found, slow) for note in of.notes))


async def test_no_test_of_the_suite_has_a_figure_of_a_rate_that_was_not_made():
    generator = Simulation(Dut(1e9), reach_pps=MAX * 0.5)
    of = stand(generator)
    assert not (await recovery.measure(of, Pps(900_000))).figures
    with pytest.raises(MeasurementError, match="throughput"):
        await latency.measure(of, Pps(900_000))
    lab = Resetting(process=0.125, software=2.5)
    lab.reach_pps = 4000
    found = await reset.measure(stand(lab, device=lab), Pps(10_000))
    assert not found.figures
    assert "generator" in found.notes[0]


def cell(**params):
    said = {
        "frame_size": 64, "tests": "throughput,frame-loss,back-to-back", "scale": 0.05, "directions": "forward", "width_ratio": 0.005,
        "latency_repeats": 20, "burst_repeats": 2,
    }  # fmt: skip
    return cell_of("rfc2544", **{**said, **params})


async def test_the_suite_uses_the_throughput_that_it_found_and_lists_its_deviations():
    bench = Bench(Simulation(Dut(400_000, buffer_frames=512)), {"a": BpsL1(1e9)}, addresses={"a": (ip_address("198.18.0.2"),)})
    found = await suite.measure(bench, cell(), sleep=Sleeper())
    assert found.figures["a"]["max_pps"] == pytest.approx(1_488_095, abs=1)  # RFC 5180 appendix A, 64 bytes at 1 Gbit/s
    assert found.figures["a"]["buffer_corrected_ns"] / 1e9 * 1_488_095 == pytest.approx(512, rel=0.05)
    assert list(found.tables) == ["throughput", "frame_loss", "back_to_back", "arrivals", "deviations"]
    assert found.tables["arrivals"][0]["duplicated_frames"] == 0 and found.tables["arrivals"][0]["trials"] > 10
    assert not [row for row in found.tables["deviations"] if row["text"].startswith("§20")]
    assert [d.kind.name for d in found.doubts] == ["SHORT_TRIAL"]


async def test_without_a_line_rate_the_highest_rate_is_what_was_reached(golden):
    bench = Bench(Simulation(Dut(400_000), reach_pps=800_000), addresses={"a": (ip_address("198.18.0.2"),)})
    found = await suite.measure(bench, cell(tests="frame-loss"), sleep=Sleeper())
    assert found.tables["frame_loss"][0]["intended_pps"] == pytest.approx(800_000)
    # As it departs from RFC 2544: without a line rate, by the book, and with less of everything on networks of the testbed's own.
    whole = setting_of("rfc2544", frame_size=MIX, tests=tuple(Benchmark), recovery_repeats=3, reset_repeats=3, directions=Directions.BOTH)
    book = list(deviations(whole, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("198.19.0.2")]))
    less = whole.model_copy(update={"scale": 0.01, "latency_repeats": 2})
    shorter = list(deviations(less, ["a"], maximum_is="x", addresses=[ip_address("10.0.0.1")]))
    pages = ([row["text"] for row in found.tables["deviations"]], book, shorter)
    golden.check("rfc2544-deviations.txt", "\n".join("".join(f"{text}\n" for text in page) for page in pages))


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
    assert "throughput_pps" not in found.figures["a"] and found.notes
    assert found.figures["a"]["loss_at_max_ratio"] == 1.0


async def test_doubts_of_any_trial_are_counted_once_a_kind():
    def leaky(number, flow):
        return replace(flow, lost_frames=flow.lost_frames + 1) if number == 0 else flow

    found = await suite.measure(Bench(Simulation(Dut(4e5), change=leaky), {"a": BpsL1(1e9)}), cell(tests="frame-loss"), sleep=Sleeper())
    assert ("LEDGER_OPEN", "in 1 of 10 trials") in [(d.kind.name, d.detail) for d in found.doubts]


async def test_a_generator_that_fails_and_a_cell_that_lacks_a_word_are_errors():
    with pytest.raises(MeasurementError):
        await suite.measure(Bench(Simulation(Dut(4e5), dumb_from=0), {"a": BpsL1(1e9)}), cell(), sleep=Sleeper())
    with pytest.raises(ValueError, match="tests"):
        cell(tests="thruput")


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
    alone = Bench(Begins(Dut(2e6)), {"a": BpsL1(1e9)})
    found = await suite.measure(alone, cell(tests="frame-loss", modifiers="management"), sleep=Sleeper())
    assert any(note.startswith("management: left out") for note in found.notes)
    assert found.tables["modifiers"] == []


def test_what_departs_from_rfc_5180_is_said_over_ipv6_only():
    asked = setting_of("rfc2544", frame_size=84, tests=tuple(Benchmark))
    over6 = list(deviations(asked, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("2001:2::2")]))
    assert [t for t in over6 if t.startswith("RFC 5180 §5: 84 bytes replace 64")] and any("hop-by-hop" in t for t in over6)
    over4 = deviations(asked, ["a"], maximum_is=throughput.LINE_RATE, addresses=[ip_address("198.18.0.2")])
    assert not [t for t in over4 if t.startswith("RFC 5180")]


def test_only_the_shortest_frames_have_the_reset_test():
    """RFC 2544 section 26.6: the throughput for the minimum sized frames."""
    asked = Rfc2544Workload.model_validate({"frame_sizes": [128, 64, 1518], "links": [["a"]]})
    tests = {drive.setting.frame_size.size: [test.value for test in drive.setting.tests] for drive in asked.drives(["a"])}
    assert {size: "reset" in of for size, of in tests.items()} == {128: False, 64: True, 1518: False}
    assert all("recovery" in of for of in tests.values())
    assert setting_of("rfc2544", tests=(), scale=0.05).seconds(60.0) == Seconds(3.0)


async def test_rfc2544_offers_its_throughput_once_more_with_the_waits_of_the_text():
    simulation = Simulation(Dut(400_000))
    (drive,) = Rfc2544Workload.model_validate({"tests": ["throughput"], "frame_sizes": [64], "links": [["a"]]}).drives(["a"])
    of = cell_of("rfc2544", links=("a",)).model_copy(update={"setting": drive.setting})
    measured = await suite.measure(Bench(simulation, {"a": BpsL1(1e9)}), of, sleep=Sleeper())
    before = len(simulation.offers)
    await measured.at_limit()
    (offer,) = simulation.offers[before:]
    assert (offer.rate, offer.duration, offer.drain) == (measured.figures["a"]["throughput_pps"], 60.0, 2.0)


async def test_the_report_states_both_bounds_of_the_throughput(tmp_path):
    measured = [await suite.measure(Bench(Simulation(Dut(pps)), {"a": BpsL1(1e9)}), cell(tests="throughput"), sleep=Sleeper())
                for pps in (4e5, 4.2e5)]  # fmt: skip
    run = new_run(tmp_path, [cell(tests="throughput", repeat=n) for n in (1, 2)])
    for n, found in enumerate(measured, 1):
        tables = {name: [dict(row) for row in rows] for name, rows in found.tables.items()}
        run.write_trial(trial_record(n, cell(tests="throughput", repeat=n), found.figures, tables=tables), {}, [])
    run.write_manifest()
    (section,) = report_of(read_run(run.path), run.path).sections
    low, high = (f(float(m.tables["throughput"][0][key]) for m in measured) for f, key in ((min, "lower_pps"), (max, "upper_pps")))
    assert low <= 4e5 and high > 4.2e5
    assert any(f"(no loss at {KPPS.text(low)}, loss at {KPPS.text(high)})" in sentence for sentence in section.words), section.words


def test_the_quick_suite_has_all_tests_and_takes_minutes():
    data = {"experiment": "rfc2544", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]}, "repeats": 1, "order": "shuffled"}
    given = given_workload(data, "rfc2544", QUICK, ())
    plan = make_plan(given.experiment, loader.testbed_of(given))
    assert plan.estimate_s < 15 * 60, "of all links of the lab, one after another"
    assert {test for trial in plan.trials for test in trial.cell.setting.tests} == {*USUAL_TESTS}
    slow = given_workload(data, "rfc2544", {"scale": 0.05}, ())
    assert make_plan(slow.experiment, loader.testbed_of(slow)).estimate_s > 3600, "as the help of --scale says"
