"""Phases of load, idleness and power off: watts, joules and heat of each, on a simulated clock with meters of known answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cells import cell_of
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError, MeasurementError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.measures import direction_of
from dutlab.methods.dut_ports import SensedValue
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Bench, Measured, Offer, Outcome
from dutlab.methods.power_figures import with_readings
from dutlab.methods.soak_power import measure
from dutlab.report.gather import gather
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.questions.per import divided, per_of
from dutlab.report.questions.sides import open_run
from dutlab.report.write import write_publication, write_report
from dutlab.spec import shape
from dutlab.spec.lab_files import description
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.sensors import CommandSensor, MeterSensor, ProcessorSensor
from dutlab.spec.workloads.soak_power import PowerPhase, SoakPowerWorkload, cut_ports
from dutlab.stats.series import settled_after, stands_still
from dutlab.units import Seconds
from refusal import faults_of

SENSORS = {
    "package": ProcessorSensor(name="package", host="dut"),
    "wall": MeterSensor(name="wall", url="http://192.0.2.1", model="shelly", resolution=1.0),
    "heat": CommandSensor(name="heat", host="dut", command="true", unit="degC"),
}
NOW = datetime(2026, 11, 21, tzinfo=UTC)
PHASES = (
    PowerPhase(name="idle", duration=Seconds(60.0)),
    PowerPhase(name="half", share=0.5, duration=Seconds(60.0)),
    PowerPhase(name="full", share=1.0, duration=Seconds(600.0), until="stable"),
    PowerPhase(name="one-link", share=1.0, links=("a",), duration=Seconds(60.0)),
    PowerPhase(name="off", off=True, duration=Seconds(60.0)),
)


@dataclass
class Device:
    """70 W idle, 20 W more by heat at full load, which comes slowly; 15 W when off. The clock is what is waited for."""

    now: float = 0.0
    load: float = 0.0
    is_on: bool = True
    celsius: float = 44.0
    told: list[SensedValue] = field(default_factory=list)
    switched: list[tuple[float, bool]] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    in_unit: tuple[str, float] = ("W", 1.0)
    silent: Callable[[float], bool] = lambda _: False
    throttles: bool = False

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now + 1.0 <= until + 1e-9:
            self.now += 1.0
            end = 44.0 + 20.0 * self.load if self.is_on else 30.0
            self.celsius += (end - self.celsius) * (1 - math.exp(-1 / 20))
            watts = (70.0 + 20.0 * self.load) if self.is_on else 15.0
            unit, factor = self.in_unit
            if not self.silent(self.now):
                self.told.append(SensedValue(self.now, "dut", "wall", "wall", unit, round(watts) * factor))
            self.told.append(SensedValue(self.now, "dut", "heat", "heat", "degC", round(self.celsius, 1)))
            self.told.append(SensedValue(self.now, "dut", "package", "package_watts", "W", 5.0))
            if self.throttles:
                self.told.append(SensedValue(self.now, "dut", "package", "throttled", "", float(self.celsius > 60)))
        self.now = until

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    def now_s(self) -> float:
        return self.now

    def since(self, from_s: float) -> list[SensedValue]:
        return [r for r in self.told if r.t_s >= from_s]

    async def off(self) -> None:
        self.is_on = False
        self.switched.append((self.now, False))

    async def on(self) -> None:
        self.is_on = True
        self.switched.append((self.now, True))

    async def offer(self, offer: Offer) -> Outcome:
        self.offers.append(offer)
        rate = float(offer.rate or 0.0)
        self.load = rate / 1000.0 * len(offer.links) / 2
        self.pass_time(offer.duration)
        self.load = 0.0
        frames = round(rate * offer.duration)
        flows = tuple(
            Flow.counted(name, asked=frames, sent=frames, received=frames, seconds=offer.duration, frame_bytes=1000.0, reordered_frames=0)
            for name in offer.flow_names
        )
        return Outcome(flows)


def cell(**given: Any) -> Any:
    said = {"frame_size": 1000, "rate_pps": 1000.0, "directions": "both", "phases": PHASES, "window_s": 30.0, "drain_s": 0.0, **given}
    return cell_of("soak-power", links=("a", "b"), **said)


def carried(device: Device, of: Any = None, sensors: Any = SENSORS) -> Any:
    of = of or cell()
    bench = Bench(device, readings=device, power=device)
    return with_readings(asyncio.run(measure(bench, of, sleep=device.sleep)), of, device.told, sensors)


def test_each_phase_has_its_watts_joules_and_heat():
    found = carried(device := Device())
    figures = found.figures["a+b"]
    rows = {row["phase"]: row for row in found.tables["phases"]}
    assert (figures["idle/watts"], figures["full/watts"], figures["off/watts"], figures["one-link/watts"]) == (70.0, 90.0, 15.0, 80.0)
    assert figures["heaviest_load/watts"] == 90.0
    assert (figures["full/above_idle_w"], figures["off/above_idle_w"]) == (20.0, -55.0)
    assert figures["full/received_pps"] == 4000.0, "two links, both ways"
    assert figures["full/j_per_mpkt"] == pytest.approx(90.0 / 4000 * 1e6)
    assert figures["full/j_per_gb"] == pytest.approx(90.0 / (4000 * 1000) * 1e9)
    assert figures["100%/pps_per_w"] == pytest.approx(4000 / 90) and figures["50%/pps_per_w"] == pytest.approx(2000 / 80)
    assert {row["error_w"] for row in rows.values()} == {1.0}
    assert rows["full"]["stable"] == "yes" and rows["full"]["to_s"] - rows["full"]["from_s"] < 300
    assert found.facts["meter"] == "wall", "what a processor says of itself is never the wall"
    (heat,) = found.tables["temperatures"]
    assert heat["peak_in"] == "full" and 63 < heat["peak_c"] <= 64
    assert figures["steady_heat_s"] == pytest.approx(20 * math.log(10), abs=3), "of 10 degrees more, by 20 s, 1 is left then"
    assert device.switched[0][1] is False and device.switched[-1][1] is True and len(device.switched) == 2
    assert all(offer.once for offer in device.offers)


def test_a_device_that_never_stands_still_is_held_for_its_time_and_no_longer():
    device = Device()
    told = cell(phases=(PowerPhase(name="warm", share=1.0, duration=Seconds(50.0), until="stable"),))
    found = carried(device, told)
    assert found.tables["phases"][0]["stable"] == "no" and device.now == pytest.approx(50.0, abs=2)
    assert any("phase warm" in note and "50 s" in note for note in found.notes)
    assert "steady_heat_s" not in found.figures["a+b"], "it still rose when the phase ended"


def test_watts_may_be_told_in_other_units_and_their_error_is_a_step_and_what_the_meter_allows_of_the_reading():
    for unit, factor in (("mW", 1000.0), ("kW", 0.001)):
        sensors = {**SENSORS, "wall": MeterSensor(name="wall", url="http://192.0.2.1", model="shelly", unit=unit, resolution=factor)}
        found = carried(Device(in_unit=(unit, factor)), sensors=sensors)
        assert found.figures["a+b"]["full/watts"] == pytest.approx(90.0)
        assert found.tables["phases"][0]["error_w"] == pytest.approx(1.0)
    true = {**SENSORS, "wall": MeterSensor(name="wall", url="http://192.0.2.1", model="shelly", resolution=0.5, accuracy="2%")}
    found = carried(Device(), sensors=true)
    errors = {row["phase"]: row["error_w"] for row in found.tables["phases"]}
    assert errors["full"] == pytest.approx(0.5 + 0.02 * 90.0) and errors["off"] == pytest.approx(0.5 + 0.02 * 15.0)
    assert "0.5 W" in found.facts["meter_error"] and "2 %" in found.facts["meter_error"]
    with pytest.raises(ValidationError, match="above 0%"):
        MeterSensor(name="wall", url="http://192.0.2.1", model="shelly", accuracy="200%")


def test_a_phase_without_a_reading_has_no_watts_and_keeps_its_traffic():
    found = carried(Device(silent=lambda now: 60 < now <= 120))
    figures = found.figures["a+b"]
    assert "half/watts" not in figures and "50%/pps_per_w" not in figures
    assert figures["half/received_pps"] == 2000.0 and figures["full/watts"] == 90.0
    assert any(note.startswith("phase half: ") and "wall" in note for note in found.notes)
    course = [row for row in found.tables["course"] if 70 < row["at_s"] < 110]
    assert all(row["watts"] is None for row in course), "a hole is no line"
    found = carried(Device(), sensors={"package": SENSORS["package"]})
    assert any("no sensor" in note for note in found.notes)
    assert found.figures["a+b"]["full/received_pps"] == 4000.0 and not [name for name in found.figures["a+b"] if name.endswith("/watts")]


def test_throttling_is_said_with_when_it_began():
    found = carried(Device(throttles=True))
    (said,) = [note for note in found.notes if "throttled" in note]
    assert "in phase full" in said and "heat throttled dut" in said
    assert {row["phase"] for row in found.tables["phases"] if row["throttled"]} == {"full", "one-link"}


def test_a_temperature_has_its_distance_to_its_limit():
    device, of = Device(), cell()
    measured = asyncio.run(measure(Bench(device, readings=device, power=device), of, sleep=device.sleep))
    limit = [SensedValue(1.0, "dut", "hw", "core_limit_celsius", "degC", 100.0)]
    warm = [SensedValue(r.t_s, "dut", "hw", "core_celsius", "degC", r.value) for r in device.told if r.name == "heat"]
    found = with_readings(measured, of, [*device.told, *limit, *warm], SENSORS)
    row = next(row for row in found.tables["temperatures"] if row["what"] == "hw: core_celsius")
    assert row["limit_c"] == 100.0 and row["headroom_c"] == pytest.approx(100.0 - row["peak_c"])
    assert found.figures["a+b"]["heat_headroom_c"] == row["headroom_c"]


def test_what_the_report_says_of_it(tmp_path):
    of = cell()
    measured = carried(Device(), of)
    folder = write_imported(tmp_path, "x", [Imported(of, measured, {})], command=(), now=NOW).path
    (section,) = [s for s in gather(folder, folder).sections if s.slug == "soak-power"]
    states = section.tables[0]
    assert [row.cells[0] for row in states.rows] == [phase.name for phase in PHASES]
    assert [row.cells[1] for row in states.rows][2:] == ["100 %, until stable", "100 %, link a only", "off"]
    assert "in steps of 1 W" in states.title
    assert any("90.0 W in phase full" in words and "15.0 W in phase off" in words for words in section.words)
    course = section.curves[0]
    panels = [course]
    while panels[-1].below is not None:
        panels.append(panels[-1].below)
    assert [panel.y for panel in panels] == ["watts", "celsius"], "one figure over the whole course"
    assert len({panel.x_span for panel in panels}) == 1
    assert [band.words for band in course.bands] == [phase.name for phase in PHASES]
    assert [band.load for band in course.bands] == [phase.share for phase in PHASES]
    assert all(before.end <= after.start for before, after in pairwise(course.bands))
    plot = curve_plot(course, ["router"])
    assert plot is not None
    assert all(phase.name in str(plot.drawing.inline(plot.box, "")) for phase in PHASES)


def test_what_is_made_up_is_said_before_every_figure(tmp_path):
    of = cell()
    measured = carried(Device(), of)
    measured = replace(
        measured, doubts=(*measured.doubts, *(Doubt(DoubtKind.SIMULATED_READINGS, detail=name) for name in ("wall", "heat")))
    )
    folder = write_imported(tmp_path, "x", [Imported(of, measured, {})], command=(), now=NOW).path
    report = gather(folder, folder)
    assert report.simulated == ("wall", "heat")
    assert any(words.startswith("Simulated: ") and "wall, heat" in words for words in report.answer.sure)
    (section,) = [s for s in report.sections if s.slug == "soak-power"]
    assert all("(simulated)" in title for title in (section.title, *(t.title for t in section.tables)))
    assert all("simulated" in words for words in (c.title for c in section.curves if c.y in ("watts", "celsius")))
    for page in write_report([folder], formats=["html", "md"], out=tmp_path / "pages"):
        said = page.read_text(encoding="utf-8")
        assert "Simulated readings" in said and "wall, heat" in said


def test_what_cannot_be_done_is_said_before_anything_is_sent():
    device, silent = Device(), cell(phases=(PHASES[0],))
    for bench, of, error, why in (
        (Bench(device, readings=device), cell(phases=(PHASES[-1], PHASES[0])), InputError, "nothing switches this DUT"),
        (Bench(device), cell(), InputError, "no sensor readings"),
        (Bench(device, readings=device), silent, MeasurementError, "sent nothing"),
    ):
        with pytest.raises(error, match=why):
            asyncio.run(measure(bench, of, sleep=device.sleep))
    assert not device.offers


def test_a_schedule_that_cannot_be_kept_is_refused(golden):
    schedules = (
        [{"name": "x", "share": "120%"}], [{"name": "x", "share": "10%"}, {"name": "x", "share": "20%"}], [{"name": "x"}], [],
        [{"name": "x", "share": "10%", "off": "yes"}], [{"name": "x", "off": "yes"}, {"name": "y", "share": "10%"}],
        [{"name": "x", "links": ["a"]}, {"name": "y", "share": "1%"}], [{"name": "x", "share": "1%", "duration": "1s"}],
        [{"name": "x", "share": "1%", "until": "stable", "duration": "60s"}], [{"name": "x", "share": "1%", "until": "ever"}],
        [{"name": "x", "share": "1%"}, {"name": "y", "down": ["a", "a"]}], [{"name": "x", "share": "1%"}, {"name": "y", "off": "yes", "down": ["a"]}],
    )  # fmt: skip
    said = [*({"phases": phases} for phases in schedules), {"directions": "answers"}, {"window": "1s"}, {"meter": "The Wall"}]
    refused = [faults_of(partial(SoakPowerWorkload.model_validate, {"rate": "10kpps", **keys}, context=FILE_CONTEXT)) for keys in said]
    golden.check("refusals-soak-power.txt", "\n".join(refused) + "\n")


@pytest.mark.parametrize(
    ("lab", "dark", "part"),
    [
        ("three-node", {"down": ["c"]}, "no link 'c'"),
        ("three-node", {"down": ["b"], "share": "100%"}, "loaded"),
        ("three-node", {"down": ["b"], "share": "100%", "links": ["a"]}, ""),
        ("three-node", {"down": ["a", "b"]}, ""),
        ("fan-in", {"down": ["b"], "share": "100%", "links": ["a"]}, "shares a port"),
        ("back-to-back", {"down": ["a"]}, "does not go through the DUT"),
    ],
)
def test_a_link_that_cannot_be_down_is_named(lab, dark, part):
    keys = {"rate": "1kpps", "phases": [{"name": "x", "share": "1%"}, {"name": "y", **dark}]}
    workload = SoakPowerWorkload.model_validate(keys, context=FILE_CONTEXT)
    bed = shape.TestbedShape.of_lab(lab)
    faults = [*workload.incompatibilities(bed.bounds), *workload.unfit({}, bed)]
    assert [at for at, _ in faults] == ([("phases", 1, "down")] if part else []) and all(part in what for _, what in faults)


def test_links_of_a_dut_that_is_not_linux_go_down_at_the_ends_if_those_are():
    link = description("three-node").testbed.links["b"]
    for dut, ends, ports in (
        ("linux", "freebsd", ["dut:in-b", "dut:out-b"]),
        ("openbsd-pf", "linux", ["source:eth-b", "sink:eth-b"]),
        (None, "linux", ["source:eth-b", "sink:eth-b"]),
        ("openbsd-pf", "freebsd", []),
    ):
        families = {"source": ends, "sink": ends, **({"dut": dut} if dut else {})}
        assert [str(port) for port in cut_ports(link, families)] == ports


def test_the_usual_schedule_drives_all_links_at_once():
    workload = SoakPowerWorkload.model_validate({"rate": "10kpps"}, context=FILE_CONTEXT)
    (drive,) = workload.drives(["a", "b"])
    assert drive.links == ("a", "b")
    assert [phase.share for phase in drive.setting.phases] == [0.0, 0.1, 0.5, 0.9, 1.0, 0.0]
    assert [direction_of(f) for f in ("idle/watts", "full/j_per_gb", "100%/pps_per_w")] == ["lower", "lower", "higher"]


def test_what_stands_still_and_when_it_settled():
    rising = [(float(t), 40.0 + t) for t in range(100)]
    assert not stands_still(rising, from_s=0, to_s=100, within=lambda _: 1.0)
    assert stands_still([(t, 50.0) for t, _ in rising], from_s=0, to_s=100, within=lambda _: 0.5)
    assert not stands_still(rising[:3], from_s=0, to_s=100, within=lambda _: 99.0), "too few to tell"
    assert settled_after(rising, 0.0, 99.0, within=1.0) is None
    assert settled_after([(t, 50.0 if t > 20 else 40.0) for t, _ in rising], 0.0, 99.0, within=1.0) == 20.0
    assert settled_after([], 0.0, 99.0, within=1.0) is None


def test_rates_are_compared_per_watt_of_the_heaviest_load(tmp_path):
    of = cell()
    runs = []
    for name, device in (("a", Device()), ("b", Device(in_unit=("W", 0.5)))):
        imported = [Imported(of, carried(device, of), {})]
        runs.append(open_run(write_imported(tmp_path / name, name, imported, command=(), now=NOW).path))
    per = per_of("watt", runs)
    assert per.amounts == (90.0, 45.0)
    (record,) = divided(runs[0], per.amounts[0]).records
    figures = record.figures["a+b"]
    assert figures["full/received_pps"] == pytest.approx(4000 / 90) == figures["100%/pps_per_w"], "what is per watt already stays"
    assert figures["full/watts"] == 90.0


def test_a_review_prints_the_watts_of_each_state_as_the_published_one_did(tmp_path):
    head, *printed = [line.split(",") for line in (Path(__file__).parents[1] / "data" / "e302-9d-power.csv").read_text().split()]
    states = (
        PowerPhase(name="bmc-only", off=True, duration=Seconds(60.0)),
        PowerPhase(name="idle", duration=Seconds(60.0)),
        PowerPhase(name="full-load", share=1.0, duration=Seconds(60.0)),
        PowerPhase(name="light-traffic", share=0.01, duration=Seconds(60.0)),
    )
    of = cell(phases=states)
    imported = [Imported(of, carried(Device(), of), {})]
    folder = write_imported(tmp_path, "x", imported, command=(), now=NOW).path
    made = {path.name: path for path in write_publication([folder], style="review", formats=("csv", "html"), out=tmp_path / "out")}
    path = made["review-soak-power.csv"]
    assert "heat" in made["review-soak-power-heat.csv"].read_text()
    assert "The whole course" in made["review.html"].read_text()
    assert [line.split(",")[:2] for line in path.read_text().split()] == [head, *printed]


def test_heat_of_the_dut_is_what_limited_it_and_heat_elsewhere_forbids_a_verdict(tmp_path):
    of = cell_of("sweep", rate_pps=None, frame_size=64)
    for host, words in (("dut", "limited by heat or power (heat)"), ("source", "limit unknown")):
        figures = {"a": {"offered_pps": 9e5, "received_pps": 5e5, "loss_ratio": 0.4}}
        measured = Measured(figures=figures, doubts=(Doubt(DoubtKind.THROTTLED, f"{host}: 3 times", host),))
        run = write_imported(tmp_path / host, "x", [Imported(of, measured, {})], command=(), now=NOW)
        assert [row.words for row in gather(run.path, run.path).limits] == [words]
