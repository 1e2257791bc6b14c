"""Counters before and after a trial, from literal text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.sensors.totals import difference
from dutlab.systems.linux_proc import parse_counters
from dutlab.systems.watched import CONNTRACK_ENTRIES
from outputs import output

OUTPUT = output("sensors_counters", "output")


def test_every_part_has_its_names_and_a_host_yields_what_it_has() -> None:
    found = parse_counters(OUTPUT)
    assert found["cpu0_softnet_processed"] == 100
    assert (found["cpu0_softnet_dropped"], found["cpu1_softnet_squeezed"]) == (1, 0)
    assert (found["cpu1_net_rx_softirqs"], found["cpu0_net_tx_softirqs"]) == (60, 3)
    assert (found["ip_forwarded_datagrams"], found["ip_out_no_routes"], found["ip_in_no_routes"]) == (1000, 5, 11)
    assert (found["tcp_retransmitted_segments"], found["udp_receive_buffer_errors"]) == (7, 9)
    assert (found["in-a_rx_packets"], found["in-a_rx_dropped"], found["in-a_tx_bytes"]) == (100, 2, 64)
    assert (found["in-a_carrier_changes"], found["out-a_carrier_changes"]) == (4, 1)
    assert (found[CONNTRACK_ENTRIES], found["conntrack_found"], found["conntrack_drop"]) == (42, 2, 5)
    # A host without conntrack json or anything yields what it has.
    assert parse_counters("") == {}
    assert parse_counters('\x1esoftnet\n\x1elink\nObject "link" is unknown\n\x1econntrack_count\n') == {}


def test_the_difference_is_what_was_counted_in_between() -> None:
    before = parse_counters(OUTPUT)
    after = {**before, "in-a_rx_packets": 150.0, "cpu0_softnet_dropped": 4.0, "cpu1_softnet_dropped": 5.0, CONNTRACK_ENTRIES: 40.0}
    change = difference(before, after)
    assert (change["in-a_rx_packets"], change["in-a_rx_bytes"]) == (50, 0)
    assert change["softnet_dropped"] == 3 + 5
    assert change[CONNTRACK_ENTRIES] == 40  # a level stays one
    # A 32 bit counter that wrapped is put right.
    assert difference({"cpu0_softnet_processed": 2**32 - 10}, {"cpu0_softnet_processed": 5})["softnet_processed"] == 15
    # What began again or came or went tells nothing.
    assert difference({"in-a_rx_packets": 10, "gone": 1}, {"in-a_rx_packets": 3, "new": 1}) == {}


values = st.dictionaries(
    st.sampled_from(["cpu0_softnet_dropped", "cpu1_softnet_dropped", "in-a_rx_packets", "ip_in_discards", CONNTRACK_ENTRIES]),
    st.integers(0, 2**32 - 1).map(float),
)


@settings(max_examples=40)
@given(before=values, after=values)
def test_a_difference_is_never_negative_and_of_nothing_is_nothing(before: dict[str, float], after: dict[str, float]) -> None:
    assert all(value >= 0 for value in difference(before, after).values())
    assert all(value == 0 for name, value in difference(before, before).items() if name != CONNTRACK_ENTRIES)
