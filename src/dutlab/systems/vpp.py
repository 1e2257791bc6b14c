"""VPP, a router in user space on a Linux, with its own ports and counters.

Words: `show interface`, `show errors` and `show runtime` of VPP's CLI, as in VPP 26.10.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dutlab.systems import linux_proc
from dutlab.systems.linux import LINUX
from dutlab.systems.modes import FILTER_OWN, FIREWALL, IPSEC, NAT_OPEN
from dutlab.systems.plain import plain
from dutlab.systems.sample_names import CALLS, VECTORS
from dutlab.systems.watched import CONNTRACK_ENTRIES, Counting, sections

SCRIPT = r"""
ask() { vppctl "$@" 2>/dev/null || sudo -n vppctl "$@" 2>/dev/null; }
part vpp_interfaces; ask show interface
part vpp_errors; ask show errors
part vpp_runtime; ask show runtime
part vpp_sessions; ask show acl-plugin sessions; ask show nat44 summary
"""
"""Lines for the end of a Linux host's script, which defines part()."""

_COUNTERS = {
    "rx packets": "rx_packets", "rx bytes": "rx_bytes", "tx packets": "tx_packets", "tx bytes": "tx_bytes", "drops": "rx_dropped",
    "rx-miss": "rx_missed", "rx-error": "rx_errors", "tx-error": "tx_errors", "rx-no-buf": "rx_no_buffers", "punt": "punted",
}  # fmt: skip
_LACKING = (FILTER_OWN, NAT_OPEN)
"""Modes that VPP lacks: it loads no lists automatically, and nat44 drops packets from outside without a session (nat44_ed_out2in.c)."""
_NAME = re.compile(r"^(\S+)\s+\d+\s+(?:up|down)\b")
_COUNTER = re.compile(r"\s(" + "|".join(_COUNTERS) + r")\s+(\d+)\s*$")
_ERROR = re.compile(r"^\s*(\d+)\s+(\S+)\s+(\S.*?)(?:\s+(?:error|info|warn|none)\s*)?$")
_POLLING = re.compile(r"^\s*(\S+)\s+polling\s+(\d+)\s+(\d+)\s")
"""Name, Calls and Vectors of a polling input node (format_vlib_node_stats in vlib/cli.c); a vector has the frames of one call."""
MOST_A_CALL = 256
"""Most frames in a vector (VLIB_FRAME_SIZE)."""
_SESSIONS = re.compile(r"^(?:Sessions total: .*= |total sessions: )(\d+)", re.MULTILINE)


def parse_counters(text: str) -> dict[str, float]:
    """Parse the parts of the script above."""
    part = sections(plain(text))
    counters: dict[str, float] = {}
    name = ""
    for line in part.get("vpp_interfaces", "").splitlines():
        if m := _NAME.match(line):
            name = m[1]
        if name and (m := _COUNTER.search(line)):
            counters[f"{name}_{_COUNTERS[m[1]]}"] = float(m[2])
    for line in part.get("vpp_errors", "").splitlines():
        if m := _ERROR.match(line):
            key = re.sub(r"[^a-z0-9]+", "_", f"{m[2]} {m[3]}".lower()).strip("_")
            counters[f"vpp_{key}"] = counters.get(f"vpp_{key}", 0.0) + float(m[1])
    for line in part.get("vpp_runtime", "").splitlines():
        if m := _POLLING.match(line):  # a node has a line for each thread
            for what, number in ((CALLS, m[2]), (VECTORS, m[3])):
                counters[f"vpp_{m[1]}{what}"] = counters.get(f"vpp_{m[1]}{what}", 0.0) + float(number)
    if sessions := _SESSIONS.findall(part.get("vpp_sessions", "")):
        counters[CONNTRACK_ENTRIES] = float(max(map(int, sessions)))
    return counters


VPP_COUNTERS = Counting(
    linux_proc.SCRIPT.removesuffix("exit 0\n") + SCRIPT + "exit 0\n",
    lambda text: {**linux_proc.parse_counters(text), **parse_counters(text)},
)
VPP = replace(
    LINUX,
    name="vpp",
    title="VPP",
    modes=(*(mode for mode in FIREWALL if mode not in _LACKING), *IPSEC),
    ports=(),
    kernel_tables=False,
    runs_engine=False,
    counters_path="dutlab.systems.vpp:VPP_COUNTERS",
)
