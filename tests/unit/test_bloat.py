"""Latency under load on simulated queues: what is found, what is not known, and a load that does not last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.cli.one_workload import as_yaml
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError, SpecRefused
from dutlab.methods.bloat import increases, measure, of_share, responsiveness
from dutlab.methods.connection_ports import ConnectionLoad, ConnectionReport, Percentiles
from dutlab.methods.flow import Latency, TimedFlow
from dutlab.methods.ports import Bench, Offer, Outcome, ToolReading
from dutlab.methods.transfer_ports import TransferLoad, TransferReading, TransferReport
from dutlab.spec.loader import given_experiment
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.bloat import LoadWay

BEGAN_S, MS = 1_795_266_456.0, 1_000_000
BASE_NS = 1 * MS
UP, DOWN, BOTH = "a", "a.back", "a+a.back"


@dataclass
class Home:
    """A link whose queues are `queue_ns` long while TCP fills them; `drains_s` after the load they are empty."""

    queue_ns: dict[str, int]
    drains_s: float = 0.5
    ends_early: bool = False
    one_clock: bool = True
    lost: float = 0.0
    answers: bool = True
    """Whether anything comes back."""
    now_s: float = BEGAN_S
    load: TransferLoad | None = None
    load_ends_s: float = 0.0
    offers: list[Offer] = field(default_factory=list)
    after: asyncio.Event = field(default_factory=asyncio.Event)

    def late_ns(self, flow: str, at_s: float) -> int:
        filled = {DOWN if back else UP for back in self.load.ways.backs} if self.load else set()
        is_full = flow in filled and at_s < self.load_ends_s + self.drains_s
        return BASE_NS + (self.queue_ns.get(flow, 0) if is_full else 0)

    async def offer(self, offer: Offer) -> Outcome:
        self.offers.append(offer)
        await asyncio.sleep(0)
        began_s = self.now_s = self.now_s + float(offer.warmup)
        self.now_s += float(offer.duration)
        flows = [self.flow(flow, offer, self.late_ns(flow, began_s + 0.01)) for flow in offer.flow_names]
        at = [began_s + n * 0.1 for n in range(1, int(offer.duration * 10) + 1)] if self.one_clock else []
        readings = [ToolReading(t, flow, "latency_mean_ns", float(self.late_ns(flow, t))) for flow in offer.flow_names for t in at]
        if len(self.offers) == 5:  # two looks, without load, under load, after it
            self.after.set()
        doubts = () if self.one_clock else (Doubt(DoubtKind.LATENCY_ROUGH, "", UP), Doubt(DoubtKind.LATENCY_ROUGH, "", DOWN))
        return Outcome(tuple(flows), doubts=doubts, readings=readings, began_s=began_s)

    def flow(self, name: str, offer: Offer, ns: int) -> TimedFlow:
        sent = round(float(offer.rate or 0) * offer.duration)
        came = round(sent * (1 - self.lost)) if self.answers or name == UP else 0
        spread = ((ns, came - came // 20), (ns + MS, came // 20))
        latency = Latency(came, ns, ns, ns, ns + MS, ns + MS, ns + MS, float(ns))
        return TimedFlow(
            link=name, intended_frames=sent, sent_frames=sent, refused_frames=0, received_frames=came, lost_frames=sent - came,
            duplicated_frames=0, reordered_frames=0, foreign_frames=9, sent_seconds=float(offer.duration), mean_frame_bytes=128.0,
            received_bytes=128 * came, latency=latency, latency_histogram=spread, sources=("198.51.100.9",),
        )  # fmt: skip

    async def carry_out(self, load):
        if isinstance(load, ConnectionLoad):
            return self.connections(load)
        self.load, began_s = load, self.now_s
        self.load_ends_s = began_s + (0.5 if self.ends_early else load.seconds)
        if not self.ends_early:
            await self.after.wait()
        flows = [DOWN if back else UP for back in load.ways.backs]
        times = [began_s + n for n in range(1, load.seconds + 1)]
        return TransferReport(
            began_s, self.load_ends_s, {flow: [TransferReading(t, 10e6) for t in times] for flow in flows},
            {flow: [(t, 2.0 * BASE_NS + self.queue_ns.get(flow, 0)) for t in times] for flow in flows},
        )  # fmt: skip

    def connections(self, load: ConnectionLoad) -> ConnectionReport:
        ns = float(sum(self.late_ns(flow, self.now_s) for flow in (UP, DOWN)))
        made = Percentiles(ns, ns, ns)
        twice = Percentiles(2 * ns, 2 * ns, 2 * ns)
        return ConnectionReport(
            load.count, load.count, load.count, load.count, {}, 1, load.count, 0, 1.0, 1.0, handshake=made, first_byte=twice
        )


def run(home: Home, load: LoadWay = LoadWay.UP, **setting):
    asked = {"idle_s": 2.0, "ramp_s": 2, "duration_s": 4, "settle_s": 3.0, "probe_pps": 100.0, "connections_per_s": 10.0}
    cell = cell_of("bloat", load=load, **{**asked, **setting})
    return asyncio.run(measure(Bench(home, connections=home, transfers=home), cell))


def test_each_queue_is_found_in_the_direction_that_tcp_fills():
    found = run(Home({UP: 98 * MS, DOWN: 19 * MS}))
    up, down, both = (found.figures[place] for place in (UP, DOWN, BOTH))
    assert (up["idle/latency_p50_ns"], up["latency_increase_p50_ns"], up["latency_increase_p99_ns"]) == (BASE_NS, 98 * MS, 99 * MS)
    assert down["latency_increase_p50_ns"] == 0 and "goodput_bps" not in down and "load/rtt_p50_ns" not in down
    assert (both["latency_increase_p95_ns"], both["idle/latency_p50_ns"], both["goodput_bps"]) == (98 * MS, 2 * BASE_NS, 10e6)
    assert up["load/rtt_p99_ns"] == 100 * MS
    assert both["loaded/handshake_p50_ns"] == both["idle/handshake_p50_ns"] + 98 * MS
    assert up["settle_s"] == pytest.approx(0.5, abs=0.1) == both["settle_s"]
    assert {row["link"] for row in found.tables["course"]} == {UP, DOWN}
    assert not [d for d in found.doubts if d.kind is DoubtKind.FOREIGN_FRAMES], "the load is ours"


def test_both_at_once_fill_both_queues():
    found = run(Home({UP: 40 * MS, DOWN: 20 * MS}), LoadWay.BOTH)
    assert found.figures[BOTH]["latency_increase_p50_ns"] == 60 * MS
    assert found.figures[BOTH]["goodput_bps"] == 20e6


def test_a_queue_that_never_drains_has_no_time_and_a_note():
    found = run(Home({UP: 98 * MS}, drains_s=1e6))
    assert "settle_s" not in found.figures[UP] and "settle_s" not in found.figures[BOTH]
    assert [note for note in found.notes if note.startswith("a: ") and "not empty" in note]


def test_a_load_that_ends_early_has_no_result():
    with pytest.raises(MeasurementError, match="did not send throughout"):
        run(Home({UP: 98 * MS}, ends_early=True))


def test_where_clocks_differ_latencies_are_there_and_back():
    found = run(Home({UP: 98 * MS}, one_clock=False))
    assert not [name for name in found.figures[UP] if "latency_" in name]
    assert found.figures[BOTH]["latency_increase_p50_ns"] == 98 * MS
    assert "settle_s" not in found.figures[BOTH]


def test_probes_that_go_back_are_answers_to_the_address_that_the_sink_sees():
    home = Home({UP: 98 * MS})
    run(home)
    assert [(o.directions, o.back_answers, str(o.answered)) for o in home.offers] == [
        (Directions.FORWARD, False, "None"), *[(Directions.BOTH, True, "198.51.100.9")] * 4,
    ]  # fmt: skip


def test_where_nothing_comes_back_latency_is_one_way():
    home = Home({UP: 98 * MS}, answers=False)
    found = run(home)
    assert {o.directions for o in home.offers[2:]} == {Directions.FORWARD}
    assert found.figures[UP]["latency_increase_p50_ns"] == 98 * MS and DOWN not in found.figures
    assert not [name for name in found.figures[BOTH] if "latency_" in name] and found.notes


def test_no_connections_and_no_iperf3_are_said():
    found = run(Home({UP: 98 * MS}), connections_per_s=0.0)
    assert not [name for name in found.figures[BOTH] if "handshake" in name or name == "round_trips_per_min"]
    with pytest.raises(MeasurementError, match="nothing sends TCP"):
        asyncio.run(measure(Bench(Home({})), cell_of("bloat", load="up", connections_per_s=0.0)))
    with pytest.raises(MeasurementError, match="the probe"):
        run(Home({}, lost=1.0))


def test_responsiveness_is_the_mean_of_new_and_of_loaded_connections():
    """Section 5.3.1: 60 s over 50 ms are 1200 for new connections, over 100 ms 600 for the load's own."""
    half = Percentiles(50 * MS, 50 * MS, 50 * MS)
    report = ConnectionReport(1, 1, 1, 1, {}, 1, 1, 0, 1.0, 1.0, handshake=half, first_byte=Percentiles(100 * MS, 100 * MS, 100 * MS))
    assert responsiveness(report, [100.0 * MS]) == pytest.approx((1200 + 600) / 2)
    assert responsiveness(report, []) is None and responsiveness(None, [1.0]) is None


@given(st.lists(st.integers(0, 1000), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, share):
    found = of_share(values, share)
    assert sum(v <= found for v in values) >= share * len(values) > sum(v < found for v in values) - 1e-9


def test_no_increase_is_known_without_an_idle_latency():
    assert increases({}, {"latency_p50_ns": 1.0}) == {}


def test_settings_that_no_trial_can_keep_are_refused(experiment_of):
    with pytest.raises(SpecRefused) as refused:
        experiment_of({"loads": ["up", "up"], "ramp": "1.5s", "links": [["a", "b"]], "probe": "1pps"})
    assert {fault.path.rpartition("bloat.")[2].partition(".")[0] for fault in refused.value.faults} >= {"loads", "ramp", "links", "probe"}


@pytest.fixture
def experiment_of(tmp_path: Path):
    def made(body):
        data = {"experiment": "x", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]}, "workloads": [{"bloat": body}]}
        return given_experiment(as_yaml(data), tmp_path / "experiment.yaml")

    return made


def test_ways_of_a_load_are_those_of_links():
    assert [way.directions for way in LoadWay] == [Directions.FORWARD, Directions.BACK, Directions.BOTH]
