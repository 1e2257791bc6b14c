"""Flows that lose frames while a path fails: how long each was without one, when, and what is not made up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.convergence import SAMPLING, measure
from dutlab.methods.dut_ports import DutChange
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Bench, Offer, Outage, Outcome, ToolReading
from dutlab.tools.engine.outage import Look, lost_numbers
from spec_faults import brief, faults_of_experiment

WALL_S, BEFORE_S, AFTER_S, TOOK_S = 1_795_266_456.25, 2.0, 5.0, 0.02
RATE, FLOWS = 4000.0, 4
EACH = RATE / FLOWS

# ---- Numbers of lost frames


@given(first=st.integers(0, 900), length=st.integers(1, 1000), every=st.integers(1, 200), offset=st.integers(1, 200))
def test_an_outage_is_found_between_looks_and_exactly_where_two_see_silence(first, length, every, offset):
    sent, end = 2000, min(first + length, 1999)

    def look(n):
        """When n frames of 1000 a second were sent."""
        return Look(n * 1_000_000, first if first <= n <= end else n, n - max(0, min(n, end) - first))

    looks = [look(n) for n in range(offset, sent, every)]
    found = lost_numbers(looks, sent=sent, lost=end - first, pps=1000.0)
    assert found is not None and found.first_lost[0] <= first <= found.first_lost[1]
    assert found.back is None or found.back[0] <= end <= found.back[1]
    silent = [one for one in looks if one.next_sequence == first]
    if every >= 3 and len(silent) > 1:
        assert found.first_lost == (first, first)
        assert found.back == ((end, end) if looks[-1].missing else None)


def test_a_stream_that_lost_nothing_has_no_outage_and_one_that_never_came_back_no_end():
    looks = [Look(n * 50_000_000, min(50 * n, 400), min(50 * n, 400)) for n in range(1, 20)]
    assert lost_numbers(looks, sent=1000, lost=0, pps=1000.0) is None
    gone = lost_numbers(looks, sent=1000, lost=600, pps=1000.0)
    assert (gone.first_lost, gone.back) == ((400, 400), None)


# ---- The method


@dataclass
class Paths:
    """A DUT whose flows lose frames for so many seconds after each event, from so many seconds after it; and the generator that sees it."""

    failure_s: tuple[float, ...] = (0.0,) * FLOWS
    reversion_s: tuple[float, ...] = (0.0,) * FLOWS
    begins_s: float = 0.1
    never: bool = False
    unreached: bool = False
    made_share: float = 1.0
    too_late: bool = False
    acts: list[str] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    _acted: asyncio.Event = field(default_factory=asyncio.Event)
    _out: tuple[float, ...] = ()

    async def sleep(self, seconds):
        assert seconds == BEFORE_S

    def _act(self, what, out):
        self.acts.append(what)
        self._out = out
        self._acted.set()
        return DutChange(WALL_S + BEFORE_S + (AFTER_S if self.too_late else 0.0), TOOK_S)

    async def prepare(self, event):
        self.acts.append(f"prepare {event.name}")

    async def fail(self, event):
        return self._act(f"fail {event.name}", self.failure_s)

    async def recover(self, event):
        return self._act(f"recover {event.name}", self.reversion_s)

    async def offer(self, offer):
        self.offers.append(offer)
        self._out = (0.0,) * FLOWS
        if offer.begun is not None:
            self._acted.clear()
            offer.begun()
            await self._acted.wait()
        flows, outages, readings = [], {}, []
        for n, (name, out_s) in enumerate(zip(offer.flow_names, self._out, strict=True)):
            sent = round(EACH * offer.duration * self.made_share)
            lost = sent if self.unreached and not n else round(EACH * out_s)
            of = {"seconds": offer.duration, "frame_bytes": 64.0, "reordered_frames": 0}
            flows.append(Flow.counted(name, asked=sent, sent=sent, received=sent - lost, **of))
            begins = WALL_S + BEFORE_S + self.begins_s
            if lost:
                back = None if self.never else (begins + out_s, begins + out_s)
                outages[name] = Outage((begins, begins + 0.001), back)
            for i in range(1, round(offer.duration / SAMPLING)):
                at_s = WALL_S + i * SAMPLING
                without = max(0.0, min(at_s, begins + out_s) - max(at_s - SAMPLING, begins)) / SAMPLING
                readings += [
                    ToolReading(at_s, name, "offered_pps", EACH),
                    ToolReading(at_s, name, "received_pps", EACH * (1 - without)),
                ]
        return Outcome(tuple(flows), readings=readings, began_s=WALL_S, outages=outages)


def cell(**given_):
    said = {"rate_pps": RATE, "flow_count": FLOWS, "before_s": BEFORE_S, "after_s": AFTER_S, "times": 2, **given_}
    return cell_of("convergence", **said)


def run(paths, of=None):
    found = asyncio.run(measure(Bench(paths, device=paths), of or cell(), sleep=paths.sleep))
    return found, found.figures["a"]


def test_each_flow_has_the_time_of_its_own_frames_and_the_last_of_them_ends_the_convergence():
    paths = Paths(failure_s=(0.0, 0.2, 0.5, 1.0), reversion_s=(0.0, 0.0, 0.0, 0.01))
    found, figures = run(paths)
    assert paths.acts == ["prepare cut", *["fail cut", "recover cut"] * 2]
    assert (figures["intended_pps"], figures["resolution_ns"]) == (RATE, 1e6)
    of = {name.removeprefix("failure/"): value for name, value in figures.items() if name.startswith("failure/")}
    assert (of["route_loss_min_ns"], of["route_loss_p50_ns"], of["route_loss_max_ns"]) == (0.2e9, 0.5e9, 1e9)
    assert (of["loss_derived_ns"], of["affected_ratio"], of["lossless_ratio"]) == (pytest.approx(0.425e9), 0.75, 0.0)
    assert of["loss_begins_ns"] == pytest.approx(0.1e9, abs=1e3)
    assert (of["first_route_ns"], of["full_convergence_ns"]) == (pytest.approx(0.3e9, abs=1e3), pytest.approx(1.1e9, abs=1e3))
    assert of["full_rate_ns"] == pytest.approx(1.1e9, abs=SAMPLING * 1e9), "to one sample"
    assert (of["instant_error_ns"], of["command_ns"]) == (pytest.approx(1e6, abs=1e3), pytest.approx(TOOK_S * 1e9))
    assert (of["lost_frames"], of["duplicated_frames"]) == (1700, 0)
    assert (figures["reversion/route_loss_max_ns"], figures["reversion/affected_ratio"]) == (10e6, 0.25)
    assert len(found.tables["flows"]) == 2 * 2 * FLOWS and {row["part"] for row in found.tables["course"]} == {"failure", "reversion"}
    assert found.tables["flows"][0]["destination"] == "10.0.0.1" and found.tables["flows"][1]["destination"] == "10.64.0.1"
    assert not found.notes and not found.doubts


def test_events_without_loss_have_no_time_and_are_counted():
    found, figures = run(Paths())
    assert (figures["failure/lossless_ratio"], figures["failure/affected_ratio"]) == (1.0, 0.0)
    assert not [name for name in figures if "route_loss" in name or "convergence" in name] and not found.notes


@pytest.mark.parametrize(
    "paths",
    [
        Paths(failure_s=(0.0, 0.0, 0.0, AFTER_S - 0.1), never=True),
        Paths(failure_s=(0.2,) * 4, begins_s=-1.0),
        Paths(failure_s=(0.2,) * 4, made_share=0.9),
        Paths(failure_s=(0.2,) * 4, too_late=True),
    ],
    ids=["not back", "lost before", "load not made", "command after the load"],
)
def test_what_is_not_a_time_of_this_event_is_told_in_a_note_and_is_no_figure(paths):
    found, figures = run(paths)
    assert not [name for name in figures if name.startswith("failure/") and ("route_loss" in name or "convergence" in name)]
    assert figures["failure/command_ns"] and found.notes


def test_a_destination_without_a_way_and_a_dut_that_nothing_can_be_done_to_are_refused():
    with pytest.raises(MeasurementError):
        run(Paths(unreached=True))
    with pytest.raises(InputError):
        asyncio.run(measure(Bench(Paths()), cell()))


# ---- The experiment file

EXPERIMENT = """
experiment: e
testbed: {lab: two-paths}
factors: {mode: [router]}
workloads:
  - convergence: {rate: 8kpps, events: {cut: {port: dut:out-2}}, links: [[a]]}
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("{port: dut:out-2}", "{port: dut:out-3}", "events.cut.port"),
        ("{port: dut:out-2}", "{port: other:out-2}", "events.cut.port"),
        ("{port: dut:out-2}", "{host: other, fail: [a], recover: [b]}", "events.cut.host"),
        ("{port: dut:out-2}", "{fail: [a]}", "events.cut.recover"),
        ("{port: dut:out-2}", "{}", "events.cut.fail"),
        ("{port: dut:out-2}", "{port: dut:out-2, fail: [a], recover: [b]}", "events.cut.port"),
        ("rate: 8kpps", "rate: 100pps", "rate"),
        ("rate: 8kpps", "rate: 8kpps, network: 10.0.0.0/30", "network"),
        ("rate: 8kpps", "rate: 8kpps, network: 2001:db8::/32", "network"),
        ("rate: 8kpps", "rate: 8kpps, before: 100ms", "before"),
        ("rate: 8kpps", "rate: 8kpps, frame_size: 9000", "frame_size"),
        ("[[a]]", "[[second]]", "convergence unfit"),
    ],
)
def test_what_cannot_be_measured_is_refused_where_it_is_written(old, new, fault):
    (found, *_) = brief(faults_of_experiment(EXPERIMENT.replace(old, new)))
    assert fault in found
