"""The ramp: what it asks for, what its seconds say, and what becomes of bad luck, on simulated devices."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError, MeasurementError, SpecRefused
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.loadtest_json import to_bytes
from dutlab.interop.loadtest_run import imported
from dutlab.methods.flow import Flow
from dutlab.methods.loadtest import measure, ramp_of
from dutlab.methods.ports import Bench, Offer, Outcome, Stretch, ToolReading
from dutlab.plan.trials import make_plan, needs_hand
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure, Missing
from dutlab.report.plots.of_report import plots_of
from dutlab.report.write import write_publication, write_report
from dutlab.spec import loader
from dutlab.spec.traffic import Directions
from dutlab.stats.series import Piece, mean_rate, pieces, ramp_mean
from dutlab.units import BpsL1, Pps, line_rate
from loadtest_files import ramp_file
from run_records import new_run, trial_record

GIGABIT = BpsL1(1e9)
WALL_S = 1_795_266_456.25


def cell(**params):
    given_params = {
        "frame_size": 64, "frame_mix": "64:1", "directions": "both", "warmup_pps": 1000.0, "warmup_s": 5.0, "target_percent": 100.0,
        "rampup_s": 50.0, "hold_s": 5.0, "line_rate_bps_l1": None, "threshold_percent": 0.1, "drain_s": 0.5, **params,
    }  # fmt: skip
    links = tuple(given_params.pop("links", ("a",)))
    return cell_of("loadtest", links=links, **given_params)


class Onlooker:
    """A person who answers after `after` more offers."""

    def __init__(self, generator, answer, after=2):
        self._generator, self._answer, self._after = generator, answer, after
        self.questions = []

    async def __call__(self, question):
        self.questions.append(question)
        begun = len(self._generator.offers)
        while len(self._generator.offers) < begun + self._after:
            await asyncio.sleep(0)
        return self._answer


@dataclass
class Ramped:
    """A generator that follows a profile, and a DUT behind it that forwards `capacity_pps` each way and loses or refuses the rest.

    Counters are read `skew_s` apart at both ends, so what was received in a second is not what was sent in it.
    """

    capacity_pps: float
    refuses: bool = False
    skew_s: float = 0.0
    counts_losses: bool = True
    silent: bool = False
    reach_pps: float = 1e12
    lost_shift: int = 0
    offers: list[Offer] = field(default_factory=list)

    async def offer(self, offer: Offer) -> Outcome:
        self.offers.append(offer)
        readings, flows = [], []
        for name in offer.flow_names:
            seconds = [self._second(offer, n) for n in range(int(offer.duration))]
            for n, (asked, sent, received) in enumerate(seconds, 1):
                at = WALL_S + n
                refused = max(min(asked, self.reach_pps) - sent, 0.0)
                readings += [ToolReading(at, name, "offered_pps", sent), ToolReading(at + self.skew_s, name, "received_pps", received)]
                readings.append(ToolReading(at, name, "backpressure_pps", refused))
                readings += [ToolReading(at + self.skew_s, name, "lost_pps", sent - received)] if self.counts_losses else []
            flows.append(self._flow(name, offer, seconds))
        return Outcome(tuple(flows), readings=[] if self.silent else readings, began_s=WALL_S)

    def _second(self, offer: Offer, n: int) -> tuple[float, float, float]:
        asked = ramp_mean([(s.duration, s.from_rate, s.to_rate) for s in offer.profile], n, n + 1)
        made = min(asked, self.reach_pps)
        taken = min(made, self.capacity_pps)
        return asked, taken if self.refuses else made, taken

    def _flow(self, name: str, offer: Offer, seconds: list[tuple[float, float, float]]) -> Flow:
        asked, sent, received = (round(sum(column)) for column in zip(*seconds, strict=True))
        made = round(sum(min(s[0], self.reach_pps) for s in seconds))
        received += self.lost_shift
        return Flow.counted(
            name, asked=asked, sent=sent, received=received, seconds=offer.duration, frame_bytes=offer.mix.mean, reordered_frames=0,
            backpressure_frames=max(made - sent, 0),
        )  # fmt: skip


def ran(generator, of=None, speed=GIGABIT):
    return asyncio.run(measure(Bench(generator, {"a": speed, "b": speed}), of or cell()))


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("skew_s", [0.0, 0.03])
def test_the_ramp_saturates_in_the_first_second_of_more_than_the_dut_forwards(refuses, skew_s):
    # 1 Gbit/s of 64-byte frames is 1 488 095 pps (RFC 5180 appendix A): a ramp of 50 s rises by 29 762 pps a second, so the mean of the
    # second that begins after 16 s is 491 071 pps, that of the next one 520 833 pps
    found = ran(Ramped(500_000.0, refuses=refuses, skew_s=skew_s))
    of_sum = found.figures["a+a.back"]
    assert of_sum["saturation_s"] == pytest.approx(17.0, abs=0.05)
    assert of_sum["max_received_pps"] == pytest.approx(1_000_000)
    assert of_sum["max_received_bps_l1"] == pytest.approx(2 * 500_000 * 84 * 8)
    assert of_sum["max_line_ratio"] == pytest.approx(0.672), "both ways of one link, as a share of its line rate"
    assert found.figures["a"]["max_line_ratio"] == pytest.approx(0.336)
    assert not found.doubts


def test_the_profile_is_warm_up_ramp_and_hold_and_what_has_no_length_is_left_out():
    generator = Ramped(1e9)
    ran(generator)
    one_way = ran(generator, cell(warmup_s=0.0, hold_s=0.0, target_percent=50.0, directions="forward"))
    assert list(one_way.figures) == ["a"] and generator.offers[1].directions is Directions.FORWARD
    target = line_rate(GIGABIT, 64)
    first, second = ([(s.duration, s.from_rate, s.to_rate) for s in o.profile] for o in generator.offers)
    assert first == [(5.0, 1000.0, 1000.0), (50.0, 0.0, target), (5.0, target, target)]
    assert second == [(50.0, 0.0, target / 2)]
    assert [o.duration for o in generator.offers] == [60.0, 50.0]


def test_a_ramp_that_ends_before_the_dut_does_has_no_saturation_and_says_so():
    found = ran(Ramped(1e9))
    assert not any(name.startswith("saturation") for name in found.figures["a+a.back"])
    assert any("no saturation" in note and "2,976,190" in note for note in found.notes)


def test_a_loss_in_the_warm_up_alone_is_no_saturation_and_a_dut_that_loses_everything_is_saturated_from_the_start():
    assert "saturation_s" not in ran(Ramped(1e9, counts_losses=False), cell(warmup_pps=2e9)).figures["a"]
    found = ran(Ramped(0.0)).figures["a+a.back"]
    assert (found["saturation_s"], found["max_received_pps"], found["loss_ratio"]) == (0.0, 0.0, 1.0)


def test_every_second_of_both_ports_is_in_the_table_and_in_the_samples():
    found = ran(Ramped(500_000.0))
    rows = [r for r in found.tables["seconds"] if r["direction"] == "a.back"]
    assert len(rows) == 60 and rows[-1]["at_s"] == 60.0
    hold = rows[-1]
    assert (hold["intended_pps"], hold["offered_pps"], hold["received_pps"]) == pytest.approx((1_488_095.24, 1_488_095.24, 500_000))
    assert hold["offered_line_ratio"] == pytest.approx(1.0)
    named = {(r.link, r.name) for r in found.readings}
    for name in ("offered_pps", "received_pps", "offered_bps_l1", "received_bps_l1", "offered_line_ratio", "received_line_ratio"):
        assert {("a", name), ("a.back", name)} <= named
    assert all(WALL_S < r.at_s <= WALL_S + 61 for r in found.readings)


def test_links_without_a_speed_are_measured_against_a_gigabit_and_it_is_said():
    found = ran(Ramped(500_000.0), speed=None)
    assert found.figures["a"]["max_line_ratio"] == pytest.approx(0.336)
    assert any("1 Gbit/s" in note and "reference" in note for note in found.notes)
    other = ran(Ramped(500_000.0), cell(line_rate_bps_l1=2e9), speed=None)
    assert other.figures["a"]["max_line_ratio"] == pytest.approx(0.168)


@pytest.mark.parametrize("params", [{"target_percent": 101.0}, {"line_rate_bps_l1": 10e9}])
def test_a_ramp_that_cannot_be_is_refused_before_anything_is_sent(params):
    generator = Ramped(1.0)
    with pytest.raises(InputError):
        ran(generator, cell(**params))
    assert not generator.offers


def test_links_of_different_speeds_or_a_generator_that_reads_nothing_give_no_result():
    with pytest.raises(InputError):
        ramp_of(Bench(Ramped(1.0), {"a": BpsL1(1e9), "b": BpsL1(10e9)}), ("a", "b"), cell().setting)
    with pytest.raises(MeasurementError):
        ran(Ramped(1.0, silent=True))


def test_more_received_than_sent_and_too_few_frames_are_marked_and_a_dut_that_refuses_is_not():
    found = ran(replace(Ramped(1e9), lost_shift=7))
    assert DoubtKind.NEGATIVE_LOSS in {d.kind for d in found.doubts}
    assert "saturation_s" not in found.figures["a"], "no negative loss of a second"
    assert {d.kind for d in ran(Ramped(1e9, reach_pps=1e6)).doubts} == {DoubtKind.TX_STARVED}
    assert not ran(Ramped(1e6, refuses=True)).doubts


RATES = st.floats(0, 1e9)
TIMES = st.floats(0.1, 1e3)


@settings(max_examples=30)
@given(st.lists(st.tuples(TIMES, RATES, RATES), min_size=1, max_size=4), st.floats(0.01, 0.99))
def test_the_mean_of_a_profile_is_that_of_its_parts(stretches, share):
    end = sum(s for s, _, _ in stretches)
    whole = ramp_mean(stretches, 0.0, end)
    split = ramp_mean(stretches, 0.0, end * share) * share + ramp_mean(stretches, end * share, end) * (1 - share)
    assert split == pytest.approx(whole, rel=1e-9, abs=1e-3)
    assert whole == pytest.approx(sum(s * (a + b) / 2 for s, a, b in stretches) / end, rel=1e-9, abs=1e-6)


def test_rates_are_taken_over_any_stretch_that_was_read():
    read = pieces([(1.0, 10.0), (3.0, 20.0)], 0.0)
    assert read == (Piece(0.0, 1.0, 10.0), Piece(1.0, 3.0, 20.0))
    assert mean_rate(read, 0.5, 2.0) == pytest.approx((0.5 * 10 + 1.0 * 20) / 1.5)
    assert mean_rate(read, 2.0, 4.0) is None and mean_rate((), 0.0, 1.0) is None
    assert ramp_mean([(10.0, 0.0, 100.0)], 10.0, 12.0) == Pps(100.0), "the last rate goes on"


class Steady(Ramped):
    """Follows a constant rate too."""

    async def offer(self, offer: Offer):
        profile = offer.profile or (Stretch(offer.duration, offer.rate, offer.rate),)
        outcome = await super().offer(replace(offer, rate=None, profile=profile))
        self.offers[-1] = offer
        return outcome


def test_a_ramp_offers_what_was_received_in_the_saturated_second_in_each_direction():
    generator = Steady(500_000.0)

    async def ramp_and_again():
        measured = await measure(Bench(generator, {"a": GIGABIT}), cell())
        return measured, await measured.at_limit()

    measured, trial = asyncio.run(ramp_and_again())
    assert generator.offers[-1].rate == pytest.approx(measured.figures["a+a.back"]["saturation_pps"] / 2)
    assert generator.offers[-1].profile == ()
    assert trial.row["received_pps"] == pytest.approx(1_000_000, rel=1e-3)
    assert trial.row["loss_ratio"] == pytest.approx(0.0)


# ---- The ramp in the report: an answer in a sentence, a row a way, the curve with its moment, and what is said of a ramp without saturation


NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
SATURATED = ((1000, 1000), (2000, 2000), (3000, 3000), (4000, 3200), (5000, 3300))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    files = {
        "vpp": ramp_file(*SATURATED),
        "danos": ramp_file((1000, 1000), (2000, 2000)),
        "one-way": ramp_file(*SATURATED, unidirectional=True),
    }
    trials = [t for name, of in files.items() for t in imported(f"{name}.json", to_bytes(of), ImportOptions())]
    return write_imported(tmp_path_factory.mktemp("runs"), "loadtest-import", trials, command=("dutlab", "import"), now=NOW).path


@pytest.fixture(scope="module")
def section(run):
    found, _ = gather(run, run).sections  # the other says what was imported
    return found


def row(section, label, way):
    (found,) = [r for r in section.tables[0].rows if r.label == label and r.link == way]
    return dict(zip([c.figure for c in section.tables[0].columns], found.cells, strict=True))


def test_each_way_has_its_row_and_both_together_stand_first(section):
    assert [r.link for r in section.tables[0].rows if r.label == "vpp"] == ["a+a.back", "a", "a.back"]
    assert [r.link for r in section.tables[0].rows if r.label == "one-way"] == ["a"]
    of_sum = row(section, "vpp", "a+a.back")
    assert (of_sum["max_received_pps"].median, of_sum["saturation_pps"].median, of_sum["saturation_s"].median) == (6600, 6400, 3.0)
    assert isinstance(row(section, "vpp", "a")["loss_ratio"], Figure)


def test_a_ramp_without_saturation_says_so_instead_of_a_number(section):
    value = row(section, "danos", "a")["saturation_pps"]
    assert isinstance(value, Missing) and "not reached" in value.why
    assert any(words.startswith("danos") and "without saturation" in words for words in section.words)
    assert any(words.startswith("vpp, imix, a, both") and "6.6 kpps" in words and "6.4 kpps" in words for words in section.words)


def test_the_curve_shows_offered_and_received_and_marks_the_saturated_second(section):
    of = {curve.slug: curve for curve in section.curves}["loadtest-1"]
    assert [line.label for line in of.lines] == ["offered", "received"], "a file does not say what was asked"
    assert of.lines[1].points == tuple((float(n), 2.0 * received) for n, (_, received) in enumerate(SATURATED))
    assert [(m.x, m.words) for m in of.moments] == [(3.0, "saturated: 6.4 kpps")]
    assert not section.curves[1].moments


def test_every_form_of_the_report_has_it(run, tmp_path):
    written = {p.suffix: p for p in write_report([run], formats=("html", "md", "csv", "json"), out=tmp_path)}
    for suffix in (".html", ".md"):
        assert "Load test: the ramp" in written[suffix].read_text() and "another tool measured this" in written[suffix].read_text()
    assert "saturation_pps" in written[".csv"].read_text() and "not reached" in written[".csv"].read_text()
    assert {"loadtest-1", "loadtest-2", "loadtest-3"} <= {p.name for p in plots_of(gather(run, run))}


def looked_at(answer):
    device = Ramped(capacity_pps=500e3)
    person = Onlooker(device, answer)
    bench = Bench(device, {"a": GIGABIT}, ask=person)
    return device, person, measure(bench, cell(verify_traffic=True))


def test_traffic_runs_at_the_warm_ups_rate_until_a_person_has_looked_and_changes_no_figure():
    device, person, measuring = looked_at("all ports blink")
    found = asyncio.run(measuring)
    *looks, ramp = device.offers
    assert len(looks) >= 3 and all(of.rate == 1000.0 and not of.profile for of in looks) and ramp.profile
    assert len(person.questions) == 1 and any("all ports blink" in note for note in found.notes)
    plain = asyncio.run(measure(Bench(Ramped(capacity_pps=500e3), {"a": GIGABIT}), cell()))
    assert found.figures == plain.figures
    assert cell(verify_traffic=True).setting.identity == cell().setting.identity, "runs with and without a look can be compared"


def test_a_repeated_trial_does_not_ask_again():
    device = Ramped(capacity_pps=500e3)
    person = Onlooker(device, "fine")
    bench = Bench(device, {"a": GIGABIT}, ask=person)
    first, again = (asyncio.run(measure(bench, cell(verify_traffic=True))) for _ in range(2))
    assert len(person.questions) == 1 and all(any("fine" in note for note in found.notes) for found in (first, again))


def test_a_person_may_stop_the_trial_and_without_one_it_is_refused():
    device, _, measuring = looked_at("stop")
    with pytest.raises(MeasurementError):
        asyncio.run(measuring)
    assert not any(of.profile for of in device.offers)
    with pytest.raises(InputError):
        asyncio.run(measure(Bench(Ramped(capacity_pps=500e3), {"a": GIGABIT}), cell(verify_traffic=True)))


def workload(**body):
    text = json.dumps(
        {
            "experiment": "x",
            "testbed": {"lab": "three-node"},
            "factors": {"mode": ["router"]},
            "workloads": [{"loadtest": body}],
            "repeats": 1,
        }
    )
    return loader.given_experiment(text.encode(), Path("x.yaml"))


def test_each_number_of_flows_is_a_ramp_and_a_look_needs_a_person():
    given_flows = workload(frame_sizes=[64], links=[["a"]], flows=[1, 1000, 100_000], verify_traffic=True)
    plan = make_plan(given_flows.experiment, loader.testbed_of(given_flows))
    assert sorted(trial.cell.setting.traffic.flow_count for trial in plan.trials) == [1, 1000, 100_000]
    assert len({trial.cell.setting.identity for trial in plan.trials}) == 3
    assert needs_hand(plan) and not needs_hand(make_plan((of := workload(frame_sizes=[64])).experiment, loader.testbed_of(of)))


@pytest.mark.parametrize("body", [{"flows": []}, {"flows": [2, 2]}, {"flows": [4], "traffic": {"flows": 5}}, {"traffic": {"burst": 8}}])
def test_flows_and_traffic_that_contradict_one_another_are_refused(body):
    with pytest.raises(SpecRefused):
        workload(frame_sizes=[64], **body)


def test_ramps_that_differ_in_flows_alone_are_told_apart_in_every_sentence_row_and_figure(tmp_path):
    made = workload(frame_sizes=[64], links=[["a"]], flows=[1, 1000], rampup="10s", hold="0s")
    cells = [trial.cell for trial in make_plan(made.experiment, loader.testbed_of(made), seed=1).trials]
    run = new_run(tmp_path, cells)
    for n, one in enumerate(cells, 1):
        run.write_trial(
            trial_record(
                n, one, {"a+a.back": {"max_received_pps": 1e5 * n, "max_received_bps_l1": 67.2e6 * n, "max_line_ratio": 0.07 * n}}
            ),
            {},
        )
    (section,) = [s for s in gather(run.path, run.path).sections if s.workload == "loadtest"]
    profiles = {str(row.cells[0]) for row in section.tables[0].rows}
    assert len(profiles) == 2 and any("1 flow" in p for p in profiles) and any("1000 flows" in p for p in profiles)
    assert len(section.words) == len({words.split(":")[0] for words in section.words}) == 2
    (table,) = write_publication([run.path], style="loadtest", formats=("csv",), out=tmp_path / "out")
    assert "1 flow" in table.read_text() and "1000 flows" in table.read_text()
