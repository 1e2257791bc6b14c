"""`iperf3 -u` by what real ones printed: 3.12 over a veth pair, `-u -l 16 -b 0 -t 1` and `-u -l 64 -b 4096000 -P 2 -t 2`."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from dutlab.hosts.host import Done
from dutlab.tools.engine.load import Direction
from dutlab.tools.generators.iperf3_udp import flow_of
from dutlab.tools.iperf3.datagrams import Datagrams, read_ends
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
