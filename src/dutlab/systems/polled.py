"""Share of time in which polling threads had frames to handle, as their programs count it: a core that polls is always busy.

Open vSwitch (userspace datapath): `ovs-appctl dpif-netdev/pmd-stats-show`, whose words are of pmd_info_show_stats() in lib/dpif-netdev.c.
DPDK 23.03 and newer: `/eal/lcore/usage` of its telemetry (rte_lcore_usage, lib/eal/common/eal_common_lcore.c), of every program that
reports its cycles to DPDK, as testpmd does. VPP counts calls and frames in its own words (vpp.py).
"""

from __future__ import annotations

import json
import re

from dutlab.systems.sample_names import CYCLES, CYCLES_WITH_FRAMES

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
"""Parts of a Linux host's script; both are empty where no such program runs."""

_THREAD = re.compile(r"^pmd thread numa_id \d+ core_id (\d+):")
_CYCLES = re.compile(r"^\s+(idle|polling|processing) cycles:\s*(\d+)")


def parse_polled(pmd: str, lcores: str) -> dict[str, float]:
    """The parts of the script above."""
    found: dict[str, float] = {}
    thread = ""
    for line in pmd.splitlines():
        if not line.startswith(" "):
            thread = f"pmd{m[1]}" if (m := _THREAD.match(line)) else ""  # the main thread polls no port
        elif thread and (m := _CYCLES.match(line)):
            found[thread + CYCLES] = found.get(thread + CYCLES, 0.0) + float(m[2])
            if m[1] == "processing":
                found[thread + CYCLES_WITH_FRAMES] = float(m[2])
    for line in lcores.splitlines():
        for number, total, busy in _usage(line):
            name = f"lcore{number}"  # two programs on one core share it
            found[name + CYCLES] = found.get(name + CYCLES, 0.0) + total
            found[name + CYCLES_WITH_FRAMES] = found.get(name + CYCLES_WITH_FRAMES, 0.0) + busy
    return found


def _usage(line: str) -> list[tuple[int, float, float]]:
    """Number, cycles and cycles with frames of each core in an answer of the telemetry; nothing of any other line."""
    try:
        document = json.loads(line)
        usage = document["/eal/lcore/usage"]
        columns = (usage["lcore_ids"], usage["total_cycles"], usage["busy_cycles"])
        return [(int(number), float(total), float(busy)) for number, total, busy in zip(*columns, strict=True)]
    except (ValueError, KeyError, TypeError):
        return []
