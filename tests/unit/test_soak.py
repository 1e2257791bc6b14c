"""A soak: what is lost is placed in time, drift is seen, and what cannot be known is said."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.errors import InputError, MeasurementError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Bench, LostSoFar, Offer, Outcome, ToolReading
from dutlab.methods.soak import MOST_PIECES, measure
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.stats.events import LossEvent, longest_clean, loss_events
from dutlab.stats.rescore import RampSecond
from dutlab.units import BpsL1

WALL_S = 1_795_266_456.25


def cell(**params):
    said = {
        "frame_size": 64, "frame_mix": "64:1", "rate_pps": 1000.0, "share_percent": 90.0, "duration_s": 100.0, "threshold_percent": 0.0,
        "warmup_s": 1.0, "drain_s": 0.5, **params,
    }  # fmt: skip
    return cell_of("soak", **said)


@dataclass
class Forgetful:
    """Loses `lost_in` (second → frames), read by counters `skew_s` apart, and `late` more after the last reading; its latency rises by 10 ns a second."""

    lost_in: dict[int, int] = field(default_factory=dict)
    counts_losses: bool = True
    silent: bool = False
    skew_s: float = 0.0
    late: int = 0
    read_s: int | None = None
    """Both ends are read for so long; None is to the end."""
    offers: list[Offer] = field(default_factory=list)

    async def offer(self, offer: Offer) -> Outcome:
        self.offers.append(offer)
        rate, seconds = float(offer.rate or 0.0), int(offer.duration)
        readings = []
        for n in range(self.read_s or seconds):
            at, lost = WALL_S + n + 1, self.lost_in.get(n, 0)
            readings += [ToolReading(at, "a", "offered_pps", rate), ToolReading(at + self.skew_s, "a", "received_pps", rate - lost)]
            readings += [ToolReading(at + self.skew_s, "a", "lost_pps", float(lost))] if self.counts_losses else []
            readings.append(ToolReading(at, "a", "latency_mean_ns", 1000.0 + 10 * n))
        sent, known = round(rate * seconds), sum(self.lost_in.values())
        lost, lost_by = known + self.late, LostSoFar(WALL_S + (self.read_s or seconds) + self.skew_s, known)
        flow = Flow.counted("a", asked=sent, sent=sent, received=sent - lost, seconds=seconds, frame_bytes=64.0, reordered_frames=0)
        told = {"a": lost_by} if self.counts_losses else {}
        return Outcome((flow,), readings=[] if self.silent else readings, lost_by=told, began_s=WALL_S)


def run(generator, of=None, speed=None):
    return asyncio.run(measure(Bench(generator, {"a": speed}), of or cell()))


def test_losses_are_placed_in_time_and_seconds_in_a_row_are_one_event():
    found = run(Forgetful({10: 5, 11: 7, 50: 1}))
    assert found.tables["events"] == [
        {"link": "a", "at_s": 10.0, "lasted_s": 2.0, "lost_frames": 12},
        {"link": "a", "at_s": 50.0, "lasted_s": 1.0, "lost_frames": 1},
    ]
    figures = found.figures["a"]
    assert (figures["intended_pps"], figures["loss_events"], figures["longest_clean_s"]) == (900.0, 2, 49.0)
    assert figures["loss_ratio"] == pytest.approx(13 / 90_000)


def test_losses_after_the_last_reading_are_an_event_up_to_the_end_of_the_drain():
    found = run(Forgetful({10: 5}, late=3, read_s=98))
    assert found.tables["events"] == [
        {"link": "a", "at_s": 10.0, "lasted_s": 1.0, "lost_frames": 5},
        {"link": "a", "at_s": 98.0, "lasted_s": 2.5, "lost_frames": 3},
    ]
    assert sum(row["lost_frames"] for row in found.tables["events"]) == found.flows[0].lost_frames
    assert found.figures["a"]["longest_clean_s"] == pytest.approx(87.0)


def test_an_event_goes_on_after_the_last_reading_and_frames_in_flight_are_none():
    (event,) = run(Forgetful({99: 5}, late=3)).tables["events"]
    assert event == {"link": "a", "at_s": 99.0, "lasted_s": 1.5, "lost_frames": 8}
    assert run(Forgetful(late=3, read_s=90), cell(threshold_percent=1.0)).tables["events"] == [], "3 of 9000 are below the threshold"
    assert len(run(Forgetful(late=300, read_s=90), cell(threshold_percent=1.0)).tables["events"]) == 1
    assert run(Forgetful(late=3, counts_losses=False)).tables["events"] == [], "nobody knows when"


def test_a_clean_soak_has_no_event_and_shows_the_drift_of_its_latency():
    found = run(Forgetful())
    figures = found.figures["a"]
    assert (figures["loss_events"], figures["longest_clean_s"], found.tables["events"]) == (0, 100.0, [])
    assert figures["latency_first_ns"] == pytest.approx(1045.0) and figures["latency_last_ns"] == pytest.approx(1945.0)


@pytest.mark.parametrize("skew_s", [0.0, 0.02])
def test_without_counted_losses_small_ones_are_not_placed_and_it_is_said(skew_s):
    found = run(Forgetful({10: 1, 50: 9000}, counts_losses=False, skew_s=skew_s), cell(rate_pps=1e6))
    (event,) = found.tables["events"]
    assert event["at_s"] == pytest.approx(50.0)
    assert found.figures["a"]["loss_ratio"] == pytest.approx(9001 / 90e6), "the ledger knows them all"
    assert any("counts no losses" in note for note in found.notes)


def test_hours_become_a_course_of_a_bounded_number_of_pieces():
    found = run(Forgetful({3500: 90}), cell(duration_s=7_200.0))
    course = found.tables["course"]
    assert len(course) == MOST_PIECES and course[-1]["at_s"] == 7_200.0
    (lossy,) = [row for row in course if row["loss_ratio"]]
    assert lossy["loss_ratio"] == pytest.approx(90 / (12 * 900)) and lossy["at_s"] - 12 <= 3500 < lossy["at_s"]


def test_a_soak_without_a_load_above_the_line_rate_or_of_a_blind_generator_is_refused():
    for params in ({"rate_pps": None}, {"share_percent": 0.0}, {"duration_s": 0.0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            cell(**params)
    with pytest.raises(InputError, match="link a carries"):
        run(Forgetful(), cell(rate_pps=2e6), BpsL1(1e9))
    with pytest.raises(MeasurementError, match="placed in time"):
        run(Forgetful(silent=True))


def test_the_report_has_the_figures_the_events_and_both_curves(tmp_path):
    of = cell()
    trials = [Imported(of, run(Forgetful({10: 5}), of), {})]
    folder = write_imported(tmp_path, "soak", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    (section,) = gather(folder, folder).sections
    whole, events = section.tables
    assert isinstance(whole.rows[0].cells[2], Figure) and whole.rows[0].cells[5].median == 1
    assert events.rows[0].cells == ("1", "a", "10.00 s", "1.00 s", "5")
    assert [curve.y for curve in section.curves] == ["loss_ratio", "latency_mean_ns"]


SECONDS = st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 1)), max_size=40).map(
    lambda rows: [RampSecond(float(n), sent, sent * (1 - lost), sent * lost) for n, (sent, lost) in enumerate(rows, 1)]
)


@given(SECONDS, st.floats(0, 0.9))
def test_events_hold_every_bad_second_once_and_nothing_else(seconds, threshold):
    events = loss_events(seconds, threshold)
    bad = [s for s in seconds if s.loss_ratio > threshold]
    assert sum(e.lasted_s for e in events) == len(bad)
    assert sum(e.lost_frames for e in events) == pytest.approx(sum(s.lost_pps for s in bad))
    assert all(a.to_s < b.from_s for a, b in itertools.pairwise(events))
    assert 0 <= longest_clean(events, float(len(seconds))) <= len(seconds)


def test_a_gap_between_readings_parts_events():
    assert loss_events([RampSecond(1.0, 10, 5), RampSecond(9.0, 10, 5)]) == (LossEvent(0.0, 1.0, 5.0), LossEvent(8.0, 9.0, 5.0))
