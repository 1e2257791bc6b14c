"""Cores and network counters of Linux: the scripts, and the values in their output. Pure: text in, numbers out.

Columns: proc(5) for stat and softirqs, net/core/net-procfs.c (softnet_seq_show) for softnet_stat, RFC 4293 and RFC 1213 names in snmp. A
counter's name begins with its place: `cpu0_softnet_dropped`, `in-a_rx_dropped`, `ip_forwarded_datagrams`. Counters that a host lacks are
missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dutlab.systems import polled
from dutlab.systems.card_counters import lost_at_cards
from dutlab.systems.watched import (
    CARRIER_CHANGES,
    CONNTRACK_ENTRIES,
    Counting,
    CpuReading,
    CpuTimes,
    CpuWatch,
    Softnet,
    loop_of,
    sections,
    shell_times_s,
)

_CPU_LINE = re.compile(r"cpu(\d+)\s+(.+)")
_PRESSURE = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)
DEVICE_VARIABLE = "DUTLAB_DEVICE"
"""Environment variable of every program that dutlab starts as a DUT: the folder of the device. Descendants inherit it."""
_STAT_COLUMNS = 8
"""Number of columns: user nice system idle iowait irq softirq steal; user includes guest time."""

_SOFTNET_CPU_COLUMN = 12  # since Linux 5.10; earlier there is only the line number
_BODY = r"""
  printf '\036uptime\n'; cat /proc/uptime
  printf '\036stat\n'; cat /proc/stat
  printf '\036softnet\n'; cat /proc/net/softnet_stat
"""
SCRIPT = (
    r"""
part() { printf '\036%s\n' "$1"; }
part softnet; cat /proc/net/softnet_stat
part softirqs; cat /proc/softirqs
part snmp; cat /proc/net/snmp
part netstat; cat /proc/net/netstat
part link; ip -s -s -j link
part cards; for at in /sys/class/net/*/device; do
  [ -e "$at/driver" ] && of=$(readlink "$at/driver") && at=${at%/device} && echo "card ${at##*/} ${of##*/}" && ethtool -S "${at##*/}"
done
part carrier; (cd /sys/class/net && grep . /dev/null */carrier_changes)
part conntrack_count; cat /proc/sys/net/netfilter/nf_conntrack_count
part conntrack
if [ -r /proc/net/stat/nf_conntrack ]; then cat /proc/net/stat/nf_conntrack
elif command -v conntrack >/dev/null; then conntrack -S; fi
"""
    + polled.SCRIPT
    + "exit 0\n"
)

_PROTOCOLS = {
    "Ip": {
        "ForwDatagrams": "ip_forwarded_datagrams",
        "InHdrErrors": "ip_in_header_errors",
        "InAddrErrors": "ip_in_address_errors",
        "InDiscards": "ip_in_discards",
        "OutDiscards": "ip_out_discards",
        "OutNoRoutes": "ip_out_no_routes",
    },
    "IpExt": {"InNoRoutes": "ip_in_no_routes", "InTruncatedPkts": "ip_in_truncated"},
    "Tcp": {"RetransSegs": "tcp_retransmitted_segments"},
    "Udp": {"NoPorts": "udp_no_ports", "RcvbufErrors": "udp_receive_buffer_errors", "SndbufErrors": "udp_send_buffer_errors"},
}
_INTERFACE = {"packets": "packets", "bytes": "bytes", "dropped": "dropped", "errors": "errors", "missed_errors": "missed"}
"""Name in ip(8) → our name; `missed` is the driver's rx_missed_errors, for which its own counters (card_counters) are better."""
_SOFTNET = ("processed", "dropped", "squeezed")


def parse_counters(text: str) -> dict[str, float]:
    """Parse the output of the script above; parts that a kernel lacks are empty."""
    part = sections(text)
    counters: dict[str, float] = {}
    for cpu, counts in softnet(part.get("softnet", "")).items():
        for name in _SOFTNET:
            counters[f"cpu{cpu}_softnet_{name}"] = getattr(counts, name)
    for softirq, by_cpu in softirqs(part.get("softirqs", "")).items():
        for cpu, count in by_cpu.items():
            counters[f"cpu{cpu}_{softirq.lower()}_softirqs"] = count
    protocols = {**protocol_counters(part.get("snmp", "")), **protocol_counters(part.get("netstat", ""))}
    for protocol, wanted in _PROTOCOLS.items():
        for theirs, ours in wanted.items():
            if theirs in protocols.get(protocol, {}):
                counters[ours] = protocols[protocol][theirs]
    counters.update(_interfaces(part.get("link", "")))
    counters.update(lost_at_cards(part.get("cards", "")))  # a driver's counters replace the kernel's summary of them
    counters.update(_carriers(part.get("carrier", "")))
    if (entries := part.get("conntrack_count", "").strip()).isdigit():
        counters[CONNTRACK_ENTRIES] = int(entries)
    for name, value in conntrack_counters(part.get("conntrack", "")).items():
        counters[f"conntrack_{name}"] = value
    return counters | polled.parse_polled(part.get("pmd", ""), part.get("lcores", ""))


def _interfaces(text: str) -> dict[str, float]:
    try:
        links = json.loads(text or "[]")
    except ValueError:  # an ip without JSON: iproute2 before 4.14, busybox
        return {}
    return {
        f"{link['ifname']}_{direction}_{ours}": counts[direction][name]
        for link in links
        if (counts := link.get("stats64"))
        for direction in ("rx", "tx")
        for name, ours in _INTERFACE.items()
        if name in counts.get(direction, {})
    }


def _carriers(text: str) -> dict[str, float]:
    lines = (line.partition("/carrier_changes:") for line in text.splitlines())
    return {f"{interface}{CARRIER_CHANGES}": int(count) for interface, separator, count in lines if separator and count.isdigit()}


def parse_reading(text: str) -> CpuReading:
    """Parse the output of one turn."""
    part = sections(text)
    return CpuReading(
        uptime_s(part["uptime"]),
        cpu_times(part["stat"]),
        softnet(part["softnet"]),
        shell_times_s(part["own"]),
    )


def cpu_times(stat: str) -> dict[int, CpuTimes]:
    """Return core → times, from /proc/stat; columns that a kernel lacks are 0."""
    times = {}
    for line in stat.splitlines():
        if m := _CPU_LINE.fullmatch(line.strip()):
            columns = [int(c) for c in m[2].split()[:_STAT_COLUMNS]]
            user, nice, system, idle, iowait, irq, softirq, steal = columns + [0] * (_STAT_COLUMNS - len(columns))
            times[int(m[1])] = CpuTimes(user + nice, system, idle + iowait, irq, softirq, steal)
    return times


def softnet(text: str) -> dict[int, Softnet]:
    """Return core → counters, from /proc/net/softnet_stat of any kernel: 9 to 15 hexadecimal columns."""
    counters = {}
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        columns = [int(c, 16) for c in line.split()]
        cpu = columns[_SOFTNET_CPU_COLUMN] if len(columns) > _SOFTNET_CPU_COLUMN else number
        counters[cpu] = Softnet(*columns[:3])
    return counters


def softirqs(text: str, names: tuple[str, ...] = ("NET_RX", "NET_TX")) -> dict[str, dict[int, int]]:
    """Return softirq → core → count, from /proc/softirqs, whose first line names the cores."""
    lines = text.splitlines()
    if not lines:
        return {}
    cpus = [int(word.removeprefix("CPU")) for word in lines[0].split()]
    by_softirq = {}
    for line in lines[1:]:
        name, _, counts = line.partition(":")
        if name.strip() in names:
            by_softirq[name.strip()] = dict(zip(cpus, (int(c) for c in counts.split()), strict=False))
    return by_softirq


def protocol_counters(text: str) -> dict[str, dict[str, int]]:
    """Return protocol → counter → value, from /proc/net/snmp or /proc/net/netstat: pairs of lines, names then values."""
    counters: dict[str, dict[str, int]] = {}
    for names, values in _pairs(text):
        protocol, _, keys = names.partition(":")
        counters[protocol] = dict(zip(keys.split(), (int(v) for v in values.partition(":")[2].split()), strict=False))
    return counters


def conntrack_counters(text: str) -> dict[str, int]:
    """Return counter → sum over cores, from /proc/net/stat/nf_conntrack (names, then hexadecimal lines) or `conntrack -S`."""
    total: dict[str, int] = {}
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and "=" not in lines[0]:
        names = lines[0].split()
        rows = [dict(zip(names, (int(c, 16) for c in line.split()), strict=False)) for line in lines[1:]]
    else:
        rows = [{k: int(v) for k, v in (word.split("=", 1) for word in line.split()) if v.isdigit()} for line in lines]
    for row in rows:
        for name, value in row.items():
            if name not in ("cpu", "entries"):  # `entries` is the size of the whole table on each line
                total[name] = total.get(name, 0) + value
    return total


def cpu_pressure_s(text: str) -> float | None:
    """Return the seconds since boot in which a thread waited for a CPU, from /proc/pressure/cpu (psi.rst); None without it."""
    match = _PRESSURE.search(text)
    return int(match[1]) / 1e6 if match else None


def uptime_s(text: str) -> float:
    """Return the seconds since boot, from /proc/uptime."""
    return float(text.split(maxsplit=1)[0])


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if ":" in line]
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.partition(":")[0] == values.partition(":")[0]:
            yield names, values


LINUX_COUNTERS = Counting(SCRIPT, parse_counters)
LINUX_CPU = CpuWatch(loop_of(_BODY), parse_reading)
