"""Counters of a Linux host, read before and after a trial.

Names carry their place: `cpu0_softnet_dropped`, `in-a_rx_dropped`, `ip_forwarded_datagrams`. What a host does not have is not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dutlab.sensors import procfs
from dutlab.sensors.sensor import CONNTRACK_ENTRIES

_MARK = "\x1e"
SCRIPT = r"""
part() { printf '\036%s\n' "$1"; }
part softnet; cat /proc/net/softnet_stat
part softirqs; cat /proc/softirqs
part snmp; cat /proc/net/snmp
part netstat; cat /proc/net/netstat
part link; ip -s -j link
part carrier; (cd /sys/class/net && grep . /dev/null */carrier_changes)
part conntrack_count; cat /proc/sys/net/netfilter/nf_conntrack_count
part conntrack
if [ -r /proc/net/stat/nf_conntrack ]; then cat /proc/net/stat/nf_conntrack
elif command -v conntrack >/dev/null; then conntrack -S; fi
exit 0
"""

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
_INTERFACE = ("packets", "bytes", "dropped", "errors")
_SOFTNET = ("processed", "dropped", "squeezed")
_WRAPS_AT = 2**32
CARRIER_CHANGES = "_carrier_changes"
"""Behind an interface's name: how often its link went down or came up (sysfs-class-net)."""


def parse_counters(text: str) -> dict[str, float]:
    """The output of the script above; parts that a kernel lacks are empty."""
    part = procfs.sections(text, _MARK)
    found: dict[str, float] = {}
    for cpu, counts in procfs.softnet(part.get("softnet", "")).items():
        for name in _SOFTNET:
            found[f"cpu{cpu}_softnet_{name}"] = getattr(counts, name)
    for softirq, by_cpu in procfs.softirqs(part.get("softirqs", "")).items():
        for cpu, count in by_cpu.items():
            found[f"cpu{cpu}_{softirq.lower()}_softirqs"] = count
    protocols = {**procfs.protocol_counters(part.get("snmp", "")), **procfs.protocol_counters(part.get("netstat", ""))}
    for protocol, wanted in _PROTOCOLS.items():
        for theirs, ours in wanted.items():
            if theirs in protocols.get(protocol, {}):
                found[ours] = protocols[protocol][theirs]
    found.update(_interfaces(part.get("link", "")))
    found.update(_carriers(part.get("carrier", "")))
    if (entries := part.get("conntrack_count", "").strip()).isdigit():
        found[CONNTRACK_ENTRIES] = int(entries)
    for name, value in procfs.conntrack_counters(part.get("conntrack", "")).items():
        found[f"conntrack_{name}"] = value
    return found


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was counted in between, and `softnet_dropped` etc. as sums over the cores.

    A counter that is in one reading only, or went backwards because its interface was made anew, is left out: it tells nothing.
    32-bit counters that wrapped are put right.
    """
    found: dict[str, float] = {}
    for name in before.keys() & after.keys():
        change = after[name] - before[name]
        if name == CONNTRACK_ENTRIES:
            found[name] = after[name]
        elif change < 0 and "_softnet_" in name:
            found[name] = change + _WRAPS_AT
        elif change >= 0:
            found[name] = change
    for name in _SOFTNET:
        if parts := [value for key, value in found.items() if key.startswith("cpu") and key.endswith(f"_softnet_{name}")]:
            found[f"softnet_{name}"] = sum(parts)
    return dict(sorted(found.items()))


def _interfaces(text: str) -> dict[str, float]:
    try:
        links = json.loads(text or "[]")
    except ValueError:  # an ip without JSON: iproute2 before 4.14, busybox
        return {}
    return {
        f"{link['ifname']}_{direction}_{name}": counts[direction][name]
        for link in links
        if (counts := link.get("stats64"))
        for direction in ("rx", "tx")
        for name in _INTERFACE
        if name in counts.get(direction, {})
    }


def _carriers(text: str) -> dict[str, float]:
    lines = (line.partition("/carrier_changes:") for line in text.splitlines())
    return {f"{interface}{CARRIER_CHANGES}": int(count) for interface, found, count in lines if found and count.isdigit()}
