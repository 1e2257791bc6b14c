"""Counters before and after a trial, from literal text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dutlab.sensors.totals import difference
from dutlab.systems.linux_proc import parse_counters
from dutlab.systems.watched import CONNTRACK_ENTRIES

OUTPUT = """\
\x1esoftnet
00000064 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
000000c8 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000
\x1esoftirqs
                    CPU0       CPU1
      NET_TX:          3          4
      NET_RX:         50         60
\x1esnmp
Ip: Forwarding ForwDatagrams InHdrErrors InAddrErrors InDiscards OutDiscards OutNoRoutes
Ip: 1 1000 1 2 3 4 5
Tcp: RetransSegs
Tcp: 7
Udp: NoPorts RcvbufErrors SndbufErrors
Udp: 8 9 10
\x1enetstat
IpExt: InNoRoutes InTruncatedPkts
IpExt: 11 12
\x1elink
[{"ifname":"in-a","stats64":{"rx":{"bytes":6400,"packets":100,"errors":1,"dropped":2},"tx":{"bytes":64,"packets":1,"errors":0,"dropped":0}}}]
\x1ecarrier
in-a/carrier_changes:4
out-a/carrier_changes:1
\x1econntrack_count
42
\x1econntrack
entries  found drop
0000002a  00000001 00000002
0000002a  00000001 00000003
"""


def test_every_part_has_its_names() -> None:
    found = parse_counters(OUTPUT)
    assert found["cpu0_softnet_processed"] == 100
    assert (found["cpu0_softnet_dropped"], found["cpu1_softnet_squeezed"]) == (1, 0)
    assert (found["cpu1_net_rx_softirqs"], found["cpu0_net_tx_softirqs"]) == (60, 3)
    assert (found["ip_forwarded_datagrams"], found["ip_out_no_routes"], found["ip_in_no_routes"]) == (1000, 5, 11)
    assert (found["tcp_retransmitted_segments"], found["udp_receive_buffer_errors"]) == (7, 9)
    assert (found["in-a_rx_packets"], found["in-a_rx_dropped"], found["in-a_tx_bytes"]) == (100, 2, 64)
    assert (found["in-a_carrier_changes"], found["out-a_carrier_changes"]) == (4, 1)
    assert (found[CONNTRACK_ENTRIES], found["conntrack_found"], found["conntrack_drop"]) == (42, 2, 5)


def test_a_host_without_conntrack_json_or_anything_yields_what_it_has() -> None:
    assert parse_counters("") == {}
    assert parse_counters('\x1esoftnet\n\x1elink\nObject "link" is unknown\n\x1econntrack_count\n') == {}


def test_the_difference_is_what_was_counted_in_between() -> None:
    before = parse_counters(OUTPUT)
    after = {**before, "in-a_rx_packets": 150.0, "cpu0_softnet_dropped": 4.0, "cpu1_softnet_dropped": 5.0, CONNTRACK_ENTRIES: 40.0}
    change = difference(before, after)
    assert (change["in-a_rx_packets"], change["in-a_rx_bytes"]) == (50, 0)
    assert change["softnet_dropped"] == 3 + 5
    assert change[CONNTRACK_ENTRIES] == 40  # a level stays one


def test_a_32_bit_counter_that_wrapped_is_put_right() -> None:
    assert difference({"cpu0_softnet_processed": 2**32 - 10}, {"cpu0_softnet_processed": 5})["softnet_processed"] == 15


def test_what_began_again_or_came_or_went_tells_nothing() -> None:
    assert difference({"in-a_rx_packets": 10, "gone": 1}, {"in-a_rx_packets": 3, "new": 1}) == {}


values = st.dictionaries(
    st.sampled_from(["cpu0_softnet_dropped", "cpu1_softnet_dropped", "in-a_rx_packets", "ip_in_discards", CONNTRACK_ENTRIES]),
    st.integers(0, 2**32 - 1).map(float),
)


@given(before=values, after=values)
def test_a_difference_is_never_negative_and_of_nothing_is_nothing(before: dict[str, float], after: dict[str, float]) -> None:
    assert all(value >= 0 for value in difference(before, after).values())
    assert all(value == 0 for name, value in difference(before, before).items() if name != CONNTRACK_ENTRIES)
