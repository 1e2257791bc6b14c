"""Counters before and after a trial, from literal text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.sensors.totals import difference
from dutlab.systems.card_counters import BUFFER_LATE, MISSED, NO_BUFFER, NO_MEMORY, OVER_ALLOWANCE, TX_FULL
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


@pytest.mark.parametrize(
    ("driver", "said", "found"),
    [
        ("igb", {"rx_missed_errors": 7, "rx_no_buffer_count": 3, "rx_queue_0_drops": 1, "rx_queue_1_drops": 2, "rx_crc_errors": 9},
         {MISSED: 7, BUFFER_LATE: 3, NO_BUFFER: 3}),
        ("e1000e", {"rx_missed_errors": 7, "alloc_rx_buff_failed": 2}, {MISSED: 7, NO_MEMORY: 2}),
        ("ixgbe", {"rx_missed_errors": 1, "rx_no_dma_resources": 5, "alloc_rx_page_failed": 2, "alloc_rx_buff_failed": 1},
         {MISSED: 1, NO_BUFFER: 5, NO_MEMORY: 3}),
        ("i40e", {"rx_dropped": 50, "port.rx_dropped": 6, "rx_alloc_fail": 1}, {MISSED: 6, NO_MEMORY: 1}),
        ("ice", {"rx_dropped": 4, "rx_dropped.nic": 9}, {NO_BUFFER: 4, MISSED: 9}),
        ("mlx5_core", {"rx_out_of_buffer": 8, "rx_discards_phy": 2, "tx_queue_dropped": 1}, {NO_BUFFER: 8, MISSED: 2, TX_FULL: 1}),
        ("bnxt_en", {"[0]: rx_discards": 1, "[1]: rx_discards": 2, "rx_total_discard_pkts": 3, "rx_stat_discard": 4}, {NO_BUFFER: 3, MISSED: 4}),
        ("r8169", {"rx_missed": 12, "rx_errors": 1}, {MISSED: 12}),
        ("virtio_net", {"rx0_hw_drop_overruns": 2, "rx1_hw_drop_overruns": 3, "rx_hw_drop_overruns": 5, "rx0_drops": 1}, {NO_BUFFER: 5}),
        ("vmxnet3", {"  pkts rx OOB": 4, "Rx Queue#": 0, "     fcs": 2}, {NO_BUFFER: 4}),
        ("ena", {"pps_allowance_exceeded": 40, "bw_in_allowance_exceeded": 2, "queue_0_rx_empty_rx_ring": 1}, {OVER_ALLOWANCE: 42, BUFFER_LATE: 1}),
        ("driver_of_tomorrow", {"rx_missed_errors": 7}, {}),
    ],
)  # fmt: skip
def test_a_driver_tells_in_its_own_words_where_its_card_lost_frames(driver: str, said: dict[str, int], found: dict[str, float]) -> None:
    lines = "".join(f"     {name}: {count}\n" for name, count in said.items())
    text = f"\x1ecards\ncard e0 {driver}\nNIC statistics:\n{lines}card e1 {driver}\nNIC statistics:\n     rx_packets: 1\n"
    assert parse_counters(text) == {f"e0_{place}": count for place, count in found.items()}


def test_what_no_table_knows_of_a_driver_the_kernel_tells() -> None:
    link = '[{"ifname": "e0", "stats64": {"rx": {"packets": 5, "missed_errors": 3}, "tx": {"packets": 5}}}]'
    assert parse_counters(f"\x1elink\n{link}")["e0_rx_missed"] == 3
    own = parse_counters(f"\x1elink\n{link}\n\x1ecards\ncard e0 r8169\n     rx_missed: 4\n")
    assert own["e0_rx_missed"] == 4
