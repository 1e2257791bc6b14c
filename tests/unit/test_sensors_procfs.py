"""What /proc says, read from literal text of several kernels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.runner.trial import doubts_of
from dutlab.sensors.cores import samples
from dutlab.sensors.sensor import WATCH_COST, Sample, Watched
from dutlab.sensors.totals import difference
from dutlab.systems import linux_proc
from dutlab.systems.card_counters import BUFFER_LATE, MISSED, NO_BUFFER, NO_MEMORY, OVER_ALLOWANCE, TX_FULL
from dutlab.systems.linux_proc import parse_counters, parse_reading
from dutlab.systems.watched import CONNTRACK_ENTRIES, CpuReading, CpuTimes, Softnet, sections
from outputs import output

STAT = output("sensors_procfs", "stat")


def test_cores_are_read_with_nice_as_user_and_disk_waits_as_idle() -> None:
    assert linux_proc.cpu_times(STAT) == {
        0: CpuTimes(user=4663, system=2548, idle=132333, irq=1, softirq=383, steal=6),
        12: CpuTimes(user=8352, system=3752, idle=127614, irq=2, softirq=280, steal=13),
    }
    # A kernel that knows fewer columns leaves the later ones 0.
    # Linux 2.4 had user, nice, system and idle only (proc(5)).
    assert linux_proc.cpu_times("cpu0 10 0 20 70\n") == {0: CpuTimes(user=10, system=20, idle=70, irq=0, softirq=0, steal=0)}


def test_shares_are_of_the_time_between_two_readings() -> None:
    before = CpuTimes(user=100, system=100, idle=1000, irq=0, softirq=50, steal=0)
    after = CpuTimes(user=110, system=120, idle=1040, irq=0, softirq=78, steal=2)
    assert after.percent_since(before) == {"user": 10.0, "system": 20.0, "idle": 40.0, "irq": 0.0, "softirq": 28.0, "steal": 2.0}
    # No time between readings is no sample.
    now = CpuTimes(user=1, system=1, idle=1, irq=1, softirq=1, steal=1)
    assert now.percent_since(now) is None


times = st.builds(CpuTimes, **dict.fromkeys(("user", "system", "idle", "irq", "softirq", "steal"), st.integers(0, 2**40)))


@settings(max_examples=40)
@given(before=times, after=times)
def test_shares_are_never_negative_and_add_up_to_100(before: CpuTimes, after: CpuTimes) -> None:
    shares = after.percent_since(before)
    if shares is not None:
        assert all(0.0 <= share <= 100.0 for share in shares.values())
        assert sum(shares.values()) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        ("2.6.32", "0000272d 00000002 00000014 00000000 00000000 00000000 00000000 00000000 00000000"),
        ("3.2", "0000272d 00000002 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00000000"),
        ("4.19", "0000272d 00000002 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"),
        ("5.10", "0000272d 00000002 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"),
        (
            "6.18",
            (
                "0000272d 00000002 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
                " 00000000 00000000"
            ),
        ),
    ],
)
def test_softnet_counters_are_the_first_three_columns_in_every_kernel(kernel: str, line: str) -> None:
    assert linux_proc.softnet(line + "\n") == {0: Softnet(processed=10029, dropped=2, squeezed=20)}, kernel


def test_softnet_lines_name_their_core_where_the_kernel_does() -> None:
    columns = "00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
    # Core 1 is offline, so its line is missing: the second line is core 2.
    assert list(linux_proc.softnet(f"{columns} 00000000\n{columns} 00000002\n")) == [0, 2]


def test_softirqs_are_read_by_the_cores_their_first_line_names() -> None:
    text = """\
                    CPU0       CPU2
          HI:          0          0
      NET_TX:         23         57
      NET_RX:    5762191     305584
"""
    assert linux_proc.softirqs(text) == {"NET_TX": {0: 23, 2: 57}, "NET_RX": {0: 5762191, 2: 305584}}
    assert linux_proc.softirqs("") == {}
    # Uptime is the first of two numbers.
    assert linux_proc.uptime_s("3021.46 5012.20\n") == 3021.46


def test_protocol_counters_come_as_pairs_of_lines() -> None:
    text = """\
Ip: Forwarding DefaultTTL InReceives ForwDatagrams
Ip: 1 64 14114 9000
Tcp: MaxConn RetransSegs
Tcp: -1 2
"""
    assert linux_proc.protocol_counters(text) == {
        "Ip": {"Forwarding": 1, "DefaultTTL": 64, "InReceives": 14114, "ForwDatagrams": 9000},
        "Tcp": {"MaxConn": -1, "RetransSegs": 2},
    }


def test_conntrack_counters_are_summed_over_cores_from_either_source() -> None:
    proc = """\
entries  found new drop early_drop
00000010  00000001 00000000 0000000a 00000000
00000010  00000002 00000000 00000001 00000000
"""
    tool = """\
cpu=0   \tfound=1 drop=10 early_drop=0\x20
cpu=1   \tfound=2 drop=1 early_drop=0\x20
"""
    assert linux_proc.conntrack_counters(proc) == {"found": 3, "new": 0, "drop": 11, "early_drop": 0}
    assert linux_proc.conntrack_counters(tool) == {"found": 3, "drop": 11, "early_drop": 0}
    assert linux_proc.conntrack_counters("") == {}


@settings(max_examples=40)
@given(st.dictionaries(st.text("abcxyz", min_size=1), st.text("abc \n", max_size=20)))
def test_sections_give_back_what_was_written(parts: dict[str, str]) -> None:
    text = "".join(f"\x1e{name}\n{body}" for name, body in parts.items())
    assert sections(text) == parts


# ---- Readings of one core a second, turned into samples


def turn(uptime: float, *, softirq: int, idle: int, processed: int, own: str = "0m0.0s") -> CpuReading:
    return parse_reading(
        f"\x1euptime\n{uptime:.2f} 0.00\n\x1estat\ncpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 {idle} 0 0 {softirq} 0 0 0\nctxt 5\n"
        f"\x1esoftnet\n{processed:08x} 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n\x1eown\n{own} 0m0.0s\n0m0.0s 0m0.0s\n\x1eend\n"
    )


def test_each_sample_is_the_mean_since_the_reading_before() -> None:
    found = list(samples([turn(100.0, softirq=0, idle=0, processed=0), turn(102.0, softirq=150, idle=50, processed=5000)], host="dut"))
    assert Sample(2.0, "dut", "cpu", "cpu0_softirq_percent", "%", 75.0) in found
    assert Sample(2.0, "dut", "cpu", "cpu0_idle_percent", "%", 25.0) in found
    assert Sample(2.0, "dut", "cpu", "cpu0_softnet_processed_per_s", "/s", 2500.0) in found
    # One reading makes no sample.
    assert list(samples([turn(1.0, softirq=0, idle=0, processed=0)], host="dut")) == []
    assert list(samples([], host="dut")) == []
    # A packet counter that wrapped is put right.
    found = samples([turn(1.0, softirq=0, idle=0, processed=2**32 - 100), turn(2.0, softirq=1, idle=99, processed=100)], host="dut")
    assert next(s.value for s in found if s.name == "cpu0_softnet_processed_per_s") == pytest.approx(200.0)


def test_times_count_from_the_trials_start() -> None:
    readings = [turn(100.0 + s, softirq=50 * s, idle=50 * s, processed=s) for s in range(4)]
    assert sorted({s.t_s for s in samples(readings, host="dut")}) == [1.0, 2.0, 3.0]
    assert sorted({s.t_s for s in samples(readings, host="dut", ahead_s=1.5)}) == [-0.5, 0.5, 1.5]


def test_the_loop_tells_what_it_takes_of_its_core_and_more_than_a_percent_is_a_doubt() -> None:
    first, then = (turn(s, softirq=0, idle=100, processed=0, own=own) for s, own in ((1.0, "1m0.25s"), (3.0, "1m0.29s")))
    (cost,) = [s for s in samples([first, then], host="dut") if s.name == WATCH_COST]
    assert (cost.sensor, cost.value) == ("cpu", pytest.approx(2.0))
    # Watching is a doubt where it costs more than a percent of a core.
    dear, cheap = (Watched([Sample(1.0, "dut", "cpu", WATCH_COST, "%", value)]) for value in (1.5, 0.2))
    assert [d.kind.name for d in doubts_of(dear)] == ["WATCHING_COSTS"]
    assert doubts_of(cheap) == doubts_of(Watched()) == []


# ---- Counters before and after a trial, from literal text


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
        ("bnx2x", {"[0]: rx_discards": 3, "rx_discards": 3, "rx_brb_discard": 2, "rx_brb_truncate": 1}, {NO_BUFFER: 3, MISSED: 2}),
        ("cxgb4", {"rx_bg0_frames_dropped  ": 4, "rx_bg1_frames_dropped  ": 1, "rx_bg0_frames_trunc    ": 9}, {MISSED: 5}),
        ("sfc", {"port_rx_nodesc_drops": 6, "port_rx_overflow": 1, "rx_noskb_drops": 2}, {NO_BUFFER: 6, MISSED: 1, NO_MEMORY: 2}),
        ("be2net", {"rx_drops_no_pbuf": 6, "rx_drops_no_erx_descr": 1, "rx_crc_errors": 2}, {MISSED: 6, NO_BUFFER: 1}),
        ("hv_netvsc", {"rx_no_memory": 6, "tx_no_space": 1, "tx_busy": 2}, {NO_MEMORY: 6, TX_FULL: 1}),
        ("mana", {"hc_rx_discards_no_wqe": 6, "hc_rx_err_vport_disabled": 1}, {NO_BUFFER: 6}),
        ("gve", {"rx_skb_alloc_fail": 6, "rx_buf_alloc_fail": 1}, {NO_MEMORY: 7}),
        ("rk_gmac-dwmac", {"mmc_rx_fifo_overflow": 6}, {MISSED: 6}),
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
