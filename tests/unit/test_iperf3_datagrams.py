"""`iperf3 -u` by what real ones printed: 3.12 over a veth pair, `-u -l 16 -b 0 -t 1` and `-u -l 64 -b 4096000 -P 2 -t 2`."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import cell_of
from dutlab.errors import SpecRefused
from dutlab.hosts.host import Done
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.spec.loader import experiment_of
from dutlab.tools.engine.load import Direction
from dutlab.tools.generators.iperf3_udp import flow_of
from dutlab.tools.iperf3.datagrams import Datagrams, read_ends
from dutlab.tools.iperf3.lengths import packets_of, step_of
from dutlab.tools.json_text import Unreadable, UnreadableError
from dutlab.tools.path_counters import PortCount
from generator_files import direction
from import_files import CASES

SUM = {"packets": 163340, "lost_packets": 93389, "lost_percent": 57.17, "jitter_ms": 0.179}
CLIENT = {
    "start": {"version": "iperf 3.12"},
    "end": {
        "streams": [{"udp": {"packets": 163340, "lost_packets": 93389, "out_of_order": 3, "sender": True}}],
        "sum": {"seconds": 1.058601, "bytes": 2613440, **SUM},
        "sum_sent": {"seconds": 1.057923, "bytes": 2613440, "packets": 163340, "lost_packets": 0},
        "sum_received": {"seconds": 1.058601, "bytes": 1119216, **SUM},
    },
}
SERVER = {"end": {"sum": {"bytes": 0, "packets": 163340}, "sum_received": {"bytes": 1119216}}}
OLD_CLIENT, OLD_SERVER = (json.loads((CASES / f"51-datagrams-iperf3-3.9/{end}.json").read_text()) for end in ("client", "server"))
NEITHER = (None, None, None, None)


def ended(document):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Done("source", ("iperf3",), 0, text, b"", 0.0, 1.0)


def test_what_arrived_is_the_payload_that_the_server_counted():
    found = read_ends(ended(CLIENT), ended(SERVER), 16, {})
    assert (found.sent, found.received, found.out_of_order, found.seconds) == (163340, 163340 - 93389, 3, 1.057923)


def with_sum(document, **changed):
    document = deepcopy(document)
    document["end"]["sum"] |= changed
    return ended(document)


def test_before_3_11_what_arrived_is_what_was_sent_less_what_the_server_missed():
    found = read_ends(ended(OLD_CLIENT), ended(OLD_SERVER), 1460, {})
    assert (found.sent, found.received, found.seconds, found.repairs) == (1711, 1711 - 43, pytest.approx(1.000096), [])
    # The link broke half way: the gap at the end is in no count of lost datagrams.
    found = read_ends(ended(OLD_CLIENT), with_sum(OLD_SERVER, packets=900, lost_packets=20), 1460, {})
    assert (found.sent, found.received) == (1711, 880)
    # 3.1: the packets of the client's sum are those that the server saw.
    found = read_ends(with_sum(OLD_CLIENT, packets=900, lost_packets=20), with_sum(OLD_SERVER, packets=900, lost_packets=20), 1460, {})
    assert (found.sent, found.received) == (1711, 880)
    found = read_ends(with_sum(OLD_CLIENT, packets=0, lost_packets=0), with_sum(OLD_SERVER, packets=0, lost_packets=0), 1460, {})
    assert (found.sent, found.received) == (1711, 0)
    # A client with -O counts what was lost in the warm-up; the server does not.
    assert read_ends(with_sum(OLD_CLIENT, lost_packets=500), ended(OLD_SERVER), 1460, {}).received == 1668


@pytest.mark.parametrize(("client", "server"), [(OLD_CLIENT, OLD_SERVER), (CLIENT, SERVER)])
def test_with_a_warm_up_both_ends_leave_out_other_seconds_and_the_share_that_the_server_missed_is_lost(client, server):
    """iperf3 3.21 to 3.9 through a router counted 998 datagrams sent, 1037 received and none lost."""
    client = {**client, "start": {**client["start"], "test_start": {"omit": 1, "blksize": 1460}}}
    seen = with_sum(server, packets=1_000_000, lost_packets=100_000)
    found = read_ends(ended(client), seen, 1460, {})
    assert found.received == pytest.approx(found.sent * 0.9, abs=1)


def test_before_3_11_without_the_servers_report_the_clients_counts_and_that_is_said():
    found = read_ends(ended(OLD_CLIENT), ended(b""), 1460, {})
    assert (found.sent, found.received, len(found.repairs)) == (1711, 1668, 1)


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (b"", Unreadable.EMPTY),
        (b"Segmentation fault", Unreadable.NOT_JSON),
        (json.dumps(CLIENT).encode()[:200], Unreadable.CUT),
        ({"error": "error - unable to connect to server: Connection refused"}, Unreadable.REPORTED),
        ({"end": {"sum_sent": {"packets": "many", "seconds": 1}, "sum_received": {"bytes": 16}}}, Unreadable.LACKING),
        ({"end": {"sum_sent": {"packets": 5, "seconds": 0}, "sum_received": {"bytes": 16}}}, Unreadable.LACKING),
        ({"end": {"sum": {"bytes": 160, "seconds": 1}}}, Unreadable.LACKING),
        ({"end": {}}, Unreadable.LACKING),
    ],
)
def test_a_report_without_the_three_numbers_has_no_result(client, why):
    with pytest.raises(UnreadableError) as unreadable:
        read_ends(ended(client), ended(SERVER), 16, {})
    assert unreadable.value.why is why


def test_whole_seconds_are_at_least_those_asked_for():
    assert [Datagrams(16, None, s).whole_seconds for s in (0.25, 1.0, 1.5)] == [1, 1, 2]


def test_what_the_sending_port_dropped_was_refused_and_without_counters_all_was_lost():
    said = read_ends(ended(CLIENT), ended(SERVER), 16, {})
    before = (PortCount(0, 0, 0), None, None, PortCount(0, 0, 0))
    flow = flow_of(
        direction(), said, 64, asked=200_000, before=before, after=(PortCount(73_380, 90_000, 0), None, None, PortCount(0, 0, 69_990))
    )
    assert flow.balances
    assert (flow.intended_frames, flow.sent_frames, flow.backpressure_frames) == (200_000, 73_340, 90_000)
    assert (flow.received_frames, flow.lost_frames, flow.received_bytes) == (69_951, 3_389, 69_951 * 64)
    # Without counters all that is missing was lost.
    flow = flow_of(direction(), read_ends(ended(CLIENT), ended(SERVER), 16, {}), 64, asked=None, before=NEITHER, after=NEITHER)
    assert isinstance(direction(), Direction) and flow.balances
    assert (flow.intended_frames, flow.sent_frames, flow.lost_frames, flow.places) == (163_340, 163_340, 93_389, {})


# ---- Datagrams of many lengths: where fragments begin, how many there are, and what is said of the step


@pytest.mark.parametrize(
    ("length", "mtu", "version", "packets"),
    [
        (1472, 1500, 4, 1),  # 20 + 8 + 1472 = 1500
        (1473, 1500, 4, 2),
        (2952, 1500, 4, 2),  # 8 + 2952 = 2 x 1480, the data of two packets
        (2953, 1500, 4, 3),
        (1452, 1500, 6, 1),  # 40 + 8 + 1452
        (1453, 1500, 6, 2),
        (2888, 1500, 6, 2),  # 8 + 2888 = 2 x 1448, the multiple of 8 below 1500 - 48
        (2889, 1500, 6, 3),
        (8972, 9000, 4, 1),
        (16, 576, 4, 1),
    ],
)
def test_a_datagram_goes_in_as_many_packets_as_the_path_mtu_makes_it(length, mtu, version, packets):
    assert packets_of(length, mtu, version) == packets


@settings(max_examples=40)
@given(length=st.integers(16, 65507), mtu=st.integers(576, 9216))
def test_fragments_hold_the_whole_datagram_and_none_is_spare(length, mtu):
    count, each = packets_of(length, mtu, 4), (mtu - 20) // 8 * 8
    if count > 1:
        assert (count - 1) * each < length + 8 <= count * each
    assert count == max(1, math.ceil((length + 8) / (mtu - 20))) or each < mtu - 20, "only rounding to 8 bytes makes more of them"


def row(length, sent, received, packets=1.0):
    return {
        "link": "a", "length_bytes": float(length), "packets_per_datagram": packets, "offered_pps": float(sent), "received_pps": float(received),
        "goodput_bps": received * length * 8.0, "loss_ratio": 1 - received / sent if sent else 0.0,
    }  # fmt: skip


ROWS = [row(512, 100e3, 90e3), row(1472, 98e3, 80e3), row(1473, 49e3, 40e3, 2.0), row(1500, 48e3, 39e3, 2.0)]


def test_the_step_is_between_the_lengths_next_to_the_limit_and_says_why():
    step = step_of(ROWS, 1472)
    assert step is not None
    assert step.figures == {"offered_step_ratio": 0.5, "received_step_ratio": 0.5}
    said = step.words("a", 1500, 4)
    assert all(fact in said for fact in ("link a", "1500 bytes", "1472 bytes", "28 bytes", "98 kpps", "49 kpps", "-50 %", "40 kpps"))


@pytest.mark.parametrize("rows", [ROWS[:2], ROWS[2:], [], [row(1472, 98e3, 0), ROWS[2]]])
def test_lengths_on_one_side_of_the_limit_have_no_step(rows):
    assert step_of(rows, 1472) is None


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("{lengths: [15]}", "at least 16"),
        ("{lengths: [65508]}", "at most 65507"),
        ("{lengths: []}", "lengths: empty"),
        ("{lengths: [64, 64]}", "lengths.1: duplicate"),
        ("{duration: 1500ms}", "iperf3 takes whole seconds"),
    ],
)
def test_lengths_that_iperf3_does_not_send_are_refused(tmp_path, body, what):
    text = f"experiment: d\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n  - datagrams: {body}\n"
    with pytest.raises(SpecRefused) as refused:
        experiment_of(text.encode(), tmp_path / "e.yaml")
    assert what in str(refused.value)


def test_the_report_has_a_row_a_length_and_a_line_where_fragments_begin(tmp_path):
    params = {"lengths_bytes": (512, 1472, 1473, 1500), "rate_pps": None, "streams": 1, "duration_s": 1}
    cell = cell_of("datagrams", **params)
    measured = Measured(
        figures={"a": {"path_mtu_bytes": 1500.0, "whole_bytes": 1472.0}}, tables={"lengths": ROWS}, notes=["link a: a step"]
    )
    folder = write_imported(tmp_path, "d", [Imported(cell, measured, {})], command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    report = gather(folder, folder)
    assert not any("TCP goodput" in words for words in report.deviations)
    (section,) = report.sections
    rows = [[c.median if isinstance(c, Figure) else c for c in r.cells] for r in section.tables[0].rows]
    assert rows[2][:5] == ["a", "1473", 2.0, 49e3, 40e3] and len(rows) == 4
    (words,) = section.words
    assert words.startswith("router: link a")
    (curve,) = section.curves
    assert [(m.x, m.words) for m in curve.moments] == [(1472.0, "whole up to 1472")]
    assert curve.slug in {plot.name for plot in plots_of(report)}
