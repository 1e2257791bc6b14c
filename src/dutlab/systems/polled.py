"""Share of time in which polling threads had frames, by their programs' counters: the core of a polling thread is always busy.

Open vSwitch (userspace datapath): `ovs-appctl dpif-netdev/pmd-stats-show`, printed by pmd_info_show_stats() in lib/dpif-netdev.c. DPDK
23.03 and newer: `/eal/lcore/usage` of its telemetry (rte_lcore_usage, lib/eal/common/eal_common_lcore.c), for every program that reports
its cycles to DPDK, as testpmd does. VPP has separate counters of calls and frames (vpp.py).
"""

from __future__ import annotations

import json
import re

from dutlab.systems.sample_names import CYCLES, CYCLES_WITH_FRAMES, DEVICE_FRAMES
from dutlab.systems.watched import sections

SCRIPT = r"""
part pmd
if command -v ovs-appctl >/dev/null && [ -d /run/openvswitch ]; then ovs-appctl dpif-netdev/pmd-stats-show; fi
part lcores
for socket in /run/dpdk/*/dpdk_telemetry.v2; do
  [ -S "$socket" ] || continue
  folder=${socket%/*}
  echo /eal/lcore/usage | dpdk-telemetry.py --file-prefix "${folder##*/}"
done
"""
"""Parts of a Linux host's script; both are empty if no such program runs."""

OVS_ASKS = r"""
printf '\036pmd\n'; ask dpif-netdev/pmd-stats-show
printf '\036perf\n'; ask dpif-netdev/pmd-perf-show
"""
"""Commands for an Open vSwitch that dutlab has started; `ask` is a function of the shell."""

_THREAD = re.compile(r"^pmd thread numa_id \d+ core_id (\d+):")
_CYCLES = re.compile(r"^\s+(idle|polling|processing) cycles:\s*(\d+)")
_FRAMES = re.compile(r"^\s+packets received:\s*(\d+)")
_LOOKS = re.compile(r"^\s+- (idle|busy) iterations:\s*(\d+)")
_PORT = re.compile(r"NIC statistics for port (\d+)")
_PORT_FRAMES = re.compile(r"^\s*([RT])X-packets:\s*(\d+)(?:\s+RX-missed:\s*(\d+))?")
_BUSY = re.compile(r"(?:busy|total) cycles=(\d+) / total \S+ packets=\d+\) at (\d+) MHz")
_CORES = re.compile(r" - cores=(\d+) - ")


def parse_polled(pmd: str, lcores: str) -> dict[str, float]:
    """Parse the two parts of the script above."""
    counters: dict[str, float] = {}
    thread = ""
    for line in pmd.splitlines():
        if not line.startswith(" "):
            thread = f"pmd{m[1]}" if (m := _THREAD.match(line)) else ""  # the main thread polls no port
        elif thread and (m := _CYCLES.match(line)):
            counters[thread + CYCLES] = counters.get(thread + CYCLES, 0.0) + float(m[2])
            if m[1] == "processing":
                counters[thread + CYCLES_WITH_FRAMES] = float(m[2])
    for line in lcores.splitlines():
        for number, total, busy in _usage(line):
            name = f"lcore{number}"  # programs on the same core share the name
            counters[name + CYCLES] = counters.get(name + CYCLES, 0.0) + total
            counters[name + CYCLES_WITH_FRAMES] = counters.get(name + CYCLES_WITH_FRAMES, 0.0) + busy
    return counters


def _usage(line: str) -> list[tuple[int, float, float]]:
    """Return number, cycles and cycles with frames of each core in an answer of the telemetry; empty for other lines."""
    try:
        document = json.loads(line)
        usage = document["/eal/lcore/usage"]
        columns = (usage["lcore_ids"], usage["total_cycles"], usage["busy_cycles"])
        return [(int(number), float(total), float(busy)) for number, total, busy in zip(*columns, strict=True)]
    except (ValueError, KeyError, TypeError):
        return []


def parse_ovs(text: str) -> dict[str, float]:
    """Parse the output of OVS_ASKS: frames of all threads, cycles of polling threads, and their polls with and without frames.

    Formats of dpif_netdev_pmd_info() and pmd_perf_format_overall_stats() in its lib/dpif-netdev.c and lib/dpif-netdev-perf.c.
    """
    part = sections(text)
    counters = parse_polled(part.get("pmd", ""), "")
    frames = [float(m[1]) for line in part.get("pmd", "").splitlines() if (m := _FRAMES.match(line))]
    if frames:
        counters[DEVICE_FRAMES] = sum(frames)
    thread = ""
    for line in part.get("perf", "").splitlines():
        if m := _THREAD.match(line):
            thread = f"pmd{m[1]}"
        elif thread and (m := _LOOKS.match(line)):
            counters[f"{thread}_{m[1]}_polls"] = float(m[2])
    return counters


def parse_testpmd(text: str, at_s: float) -> dict[str, float]:
    """Parse testpmd's counters of its ports and its threads' cycles (fwd_stats_display() in its testpmd.c), read at `at_s`.

    `at_s` is a time of any clock. testpmd prints the cycles of polls with frames and the clock rate of the cores. The remaining cycles are
    those of polls without frames.
    """
    counters: dict[str, float] = {}
    port = ""
    cores = float(m[1]) if (m := _CORES.search(text)) else 1.0
    for line in text.splitlines():
        if m := _PORT.search(line):
            port = m[1]
        elif port and (m := _PORT_FRAMES.match(line)):
            counters[f"testpmd_port{port}_{m[1].lower()}x_packets"] = float(m[2])
            if m[1] == "R":
                counters[DEVICE_FRAMES] = counters.get(DEVICE_FRAMES, 0.0) + float(m[2])
                counters[f"testpmd_port{port}_rx_missed"] = float(m[3] or 0)
        elif m := _BUSY.search(line):
            counters[f"testpmd{CYCLES}"] = cores * float(m[2]) * 1e6 * at_s
            counters[f"testpmd{CYCLES_WITH_FRAMES}"] = float(m[1])
    return counters


def parse_ethdev(text: str) -> dict[str, float]:
    """Parse answers of DPDK's telemetry to `/ethdev/stats`, one line for each port in the order of their numbers.

    Keys of eth_dev_handle_port_stats() in its lib/ethdev/rte_ethdev.c. A line that is not such an answer gives no counters.
    """
    counters: dict[str, float] = {}
    for port, line in enumerate(text.splitlines()):
        try:
            stats = json.loads(line)["/ethdev/stats"]
            received, sent, missed = (float(stats[key]) for key in ("ipackets", "opackets", "imissed"))
        except (ValueError, KeyError, TypeError):
            continue
        counters[f"dpdk_port{port}_rx_packets"], counters[f"dpdk_port{port}_tx_packets"] = received, sent
        counters[f"dpdk_port{port}_rx_missed"] = missed
        counters[DEVICE_FRAMES] = counters.get(DEVICE_FRAMES, 0.0) + received
    return counters
