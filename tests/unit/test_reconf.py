"""A change of mode under load takes as long as the frames say that it lost; what the frames cannot say is not made up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.errors import HostError, InputError, MeasurementError, SpecRefused
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.dut_ports import DutChange
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Bench, Offer, Outcome, ToolReading
from dutlab.methods.reconf import measure
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.spec.loader import load_experiment
from refusal import refusals

WALL_S = 1_795_266_456.25
RATE = 10_000.0


def cell(mode="router", **params):
    said = {
        "frame_size": 64, "frame_mix": "64:1", "rate_pps": RATE, "to": "nat", "changes": 3, "before_s": 2.0, "after_s": 5.0, "warmup_s": 1.0,
        "drain_s": 0.5, **params,
    }  # fmt: skip
    return cell_of("reconf", mode=mode, **said)


@dataclass
class Box:
    """A DUT that forwards nothing for `out_s` when it is changed into a mode, and the generator that sees it."""

    out_s: dict[str, float]
    loses_anyway: int = 0
    takes_s: float = 0.04
    begins_late_s: float = 0.0
    holds: bool = True
    breaks: bool = False
    made_share: float = 1.0
    passes: bool = True
    entered: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    resets = ()
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _out: float = 0.0

    async def sleep(self, seconds):
        self.waited.append(seconds)

    async def change_mode(self, name):
        if self.breaks:
            raise HostError("gone", host="dut")
        self.entered.append(name)
        self._out = self.out_s[name]
        self._changed.set()
        return DutChange(WALL_S + 2.0, self.takes_s)

    async def faults_of_mode(self, name):
        self.verified.append(name)
        return [] if self.holds else ["link a: a permitted flow passes: 0 of 10 probe frames arrived"]

    async def passing_links(self):
        return frozenset({"a"} if self.passes else ())

    async def offer(self, offer: Offer) -> Outcome:
        self._out = 0.0
        if offer.begun is not None:
            self._changed.clear()
            offer.begun()
            await self._changed.wait()
        asked = round(float(offer.rate) * offer.duration)
        sent = round(asked * self.made_share)
        lost = min(round(float(offer.rate) * self._out), round(float(offer.rate) * 5.0)) + self.loses_anyway
        of = {"seconds": float(offer.duration), "frame_bytes": 64.0, "reordered_frames": 0}
        flow = Flow.counted("a", asked=asked, sent=sent, received=sent - lost, **of)
        dark = range(3, 3 + int(self._out))
        readings = [ToolReading(WALL_S + n, "a", "received_pps", 0.0 if n in dark else RATE) for n in range(1, 8)]
        return Outcome((flow,), readings=readings, began_s=WALL_S + self.begins_late_s)


def run(box, of=None):
    return asyncio.run(measure(Bench(box, device=box), of or cell(), sleep=box.sleep))


def test_time_out_of_service_is_lost_frames_over_offered_rate_each_way():
    box = Box({"nat": 0.125, "router": 2.5})
    found = run(box)
    figures = found.figures["a"]
    assert (figures["into/outage_ns"], figures["into/outage_max_ns"]) == (125e6, 125e6)
    assert (figures["back/outage_ns"], figures["back/lossless_ratio"]) == (2.5e9, 0)
    assert (figures["into/command_ns"], figures["resolution_ns"]) == (pytest.approx(40e6), 100_000)
    assert figures["back/silence_s"] == 2.0 and "into/silence_s" not in figures, "only whole readings without a frame tell"
    assert box.entered == ["nat", "router"] * 3 and set(box.waited) == {2.0}
    assert box.verified == ["nat", "router"], "each way once"
    assert not found.doubts and not found.notes
    assert [row["change"] for row in found.tables["changes"]] == [1, 1, 2, 2, 3, 3]


@given(st.floats(0.0, 4.0))
def test_any_time_is_found_to_within_a_frame(out_s):
    figures = run(Box({"router": out_s}), cell(to="reload", changes=1)).figures["a"]
    assert figures.get("reload/outage_ns", 0.0) == pytest.approx(out_s * 1e9, abs=1e9 / RATE)


@pytest.mark.parametrize("to", ["reload", "router"])
def test_the_same_rules_again_is_one_way_and_without_loss_has_no_time(to):
    box = Box({"router": 0.0})
    figures = run(box, cell(to=to)).figures["a"]
    assert box.entered == ["router"] * 3
    assert figures["reload/lossless_ratio"] == 1.0
    assert not [name for name in figures if name.startswith("outage")]


def test_a_dut_that_does_not_come_back_has_no_time_and_a_note():
    found = run(Box({"nat": 100.0, "router": 0.1}))
    assert "into/outage_ns" not in found.figures["a"] and found.figures["a"]["back/outage_ns"] == 100e6
    assert found.notes[0].startswith("change 1, into: ") and "within 5 s" in found.notes[0]


@pytest.mark.parametrize(("out_s", "passes", "outage"), [(0.125, True, 125e6), (100.0, False, None), (100.0, True, None)])
def test_a_device_that_fails_is_open_if_frames_pass_before_anybody_has_mended_it(out_s, passes, outage):
    box = Box({"dead": out_s, "router": 0.0}, passes=passes)
    found = run(box, cell(to="dead", failure=True, changes=2))
    figures = found.figures["a"]
    assert (figures["failure/open_ratio"], figures.get("failure/outage_ns")) == (float(passes), outage)
    assert box.entered == ["dead", "router"] * 2 and box.verified == ["router"] * 2, "it is mended without load, and verified each time"
    assert {row["direction"] for row in found.tables["changes"]} == {"failure"} and len(found.tables["changes"]) == 2
    assert bool(found.notes) == (outage is None)


def test_a_change_that_missed_the_load_has_no_time():
    found = run(Box({"nat": 0.5, "router": 0.5}, begins_late_s=3.0))
    assert "into/outage_ns" not in found.figures["a"]
    assert "1.0 s before its first" in found.notes[0]
    assert "after its last" in run(Box({"nat": 0.5, "router": 0.5}, takes_s=5.5)).notes[0]


def test_loss_without_any_change_is_a_doubt():
    (doubt,) = run(Box({"nat": 0.5, "router": 0.5}, loses_anyway=3)).doubts
    assert (doubt.kind.name, doubt.detail, doubt.about) == ("LOSS_WITHOUT_CHANGE", "3 of 70000 frames", "a")


def test_a_mode_that_does_not_hold_a_lost_host_and_no_device_are_no_result():
    with pytest.raises(MeasurementError, match=r"mode nat\b.*link a"):
        run(Box({"nat": 0.1, "router": 0.1}, holds=False))
    with pytest.raises(HostError, match="gone"):
        run(Box({"nat": 0.1}, breaks=True))
    with pytest.raises(InputError, match="cannot be changed"):
        asyncio.run(measure(Bench(Box({})), cell()))


def test_a_generator_that_never_begins_is_said():
    class Mute(Box):
        async def offer(self, offer):
            self._changed.set()
            return await super().offer(Offer(offer.links, offer.mix, offer.rate, offer.duration))

    with pytest.raises(MeasurementError, match="before the generator reported"):
        run(Mute({"nat": 0.1}))


def test_the_report_says_what_is_shorter_than_a_gap(tmp_path):
    outages = {"nat": 0.125, "router": 0.0}
    of = cell()
    trials = [Imported(of, run(Box(outages), of), {})]
    folder = write_imported(tmp_path, "reconf", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC))
    (section,) = gather(folder.path, folder.path).sections
    (grid,) = section.tables
    into, back = grid.rows
    assert into.cells[2] == "into nat" and isinstance(into.cells[4], Figure) and into.cells[4].median == 125e6
    assert back.cells[4] == back.cells[5] and "100.0 µs" in str(back.cells[4])
    (curve,) = section.curves
    assert [line.label for line in curve.lines] == ["a, into"] and len(curve.lines[0].points) == 3


def experiment(tmp_path, *, modes="", to="[own]", levels="[router]"):
    path = tmp_path / "e.yaml"
    path.write_text(
        f"experiment: e\ntestbed: {{lab: three-node}}\nfactors: {{mode: {levels}}}\nworkloads:\n  - reconf: {{rate: 1kpps, to: {to}}}\n{modes}"
    )
    return path


def test_a_change_that_nothing_carries_out_is_refused_with_its_place(tmp_path, golden):
    said = (
        {"to": "[natt]"}, {"modes": "modes: {own: {}}\n"}, {"modes": "modes: {own: {}}\n", "levels": "[own]", "to": "[nat]"}, {"to": "[]"},
        {"to": "[nat, nat]"}, {"to": "[reload], failure: yes"},
    )  # fmt: skip
    calls = [lambda of=of: load_experiment(experiment(tmp_path, **of)) for of in said]
    golden.check("refusals-reconf.txt", refusals(SpecRefused, calls, tmp_path))


def test_modes_of_the_family_and_written_ones_can_be_changed_into(tmp_path):
    own = "modes: {own: {apply: ['true'], restore: ['true']}}\n"
    assert load_experiment(experiment(tmp_path, modes=own, to="[own, nat, reload]", levels="[router, own]")).workloads


def test_a_load_that_was_not_made_times_no_change():
    found = run(Box({"nat": 0.125, "router": 2.5}, made_share=0.9))
    assert not [name for name in found.figures["a"] if name.startswith(("outage", "lossless"))]
    assert "generator" in found.notes[0]
