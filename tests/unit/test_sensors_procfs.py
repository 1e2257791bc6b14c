"""What /proc says, read from literal text of several kernels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.systems import linux_proc
from dutlab.systems.watched import CpuTimes, Softnet, sections

STAT = """\
cpu  13010 5 6300 259117 830 3 663 19 7 0
cpu0 4661 2 2548 132255 78 1 383 6 7 0
cpu12 8349 3 3752 126862 752 2 280 13 0 0
intr 623539 0 0 0
ctxt 1
"""


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
