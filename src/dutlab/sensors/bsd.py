"""Counters of FreeBSD, of what is made of it, and of OpenBSD, by the names of the Linux counters where they mean the same.

Words: netstat(1), pfctl(8), vmstat(8) of both systems. Their columns differ; each table says its own in its first line.
Tried against transcripts of documented outputs only, never on a machine.
"""

from __future__ import annotations

import re

from dutlab.sensors import procfs
from dutlab.sensors.names import CONNTRACK_ENTRIES

# pfctl needs root; a login that is none asks doas or sudo, which fail rather than ask for a password.
SCRIPT = r"""
part() { printf '\036%s\n' "$1"; }
asroot() { "$@" 2>/dev/null || doas -n "$@" 2>/dev/null || sudo -n "$@" 2>/dev/null; }
part interfaces; case $(uname -s) in FreeBSD) netstat -i -b -d -n -W ;; *) netstat -i -n; netstat -i -b -n ;; esac
part ip; netstat -s -p ip
part tcp; netstat -s -p tcp
part udp; netstat -s -p udp
part pf; asroot pfctl -s info
part interrupts; vmstat -i
exit 0
"""

_COLUMNS = {
    "Ipkts": "rx_packets", "Ierrs": "rx_errors", "Ifail": "rx_errors", "Idrop": "rx_dropped", "Ibytes": "rx_bytes",
    "Opkts": "tx_packets", "Oerrs": "tx_errors", "Ofail": "tx_errors", "Drop": "tx_dropped", "Odrop": "tx_dropped", "Obytes": "tx_bytes",
}  # fmt: skip
_SENTENCES = (
    ("ip", "ip_forwarded_datagrams", re.compile(r"(\d+) packets? forwarded\b")),
    ("ip", "ip_in_header_errors", re.compile(r"(\d+) bad header checksums?")),
    ("ip", "ip_out_no_routes", re.compile(r"(\d+) output packets? discarded due to no route")),
    ("ip", "ip_out_discards", re.compile(r"(\d+) output packets? dropped due to no bufs")),
    ("tcp", "tcp_retransmitted_segments", re.compile(r"(\d+) data packets? \(\d+ bytes?\) retransmitted")),
    ("udp", "udp_no_ports", re.compile(r"(\d+) dropped due to no socket")),
    ("udp", "udp_receive_buffer_errors", re.compile(r"(\d+) dropped due to full socket buffers")),
)
_PF_LINE = re.compile(r"^  (\S[^\d]*?)\s+(\d+)(?:\s+[\d.]+/s)?\s*$")
_INTERRUPT = re.compile(r"^(\S.*?)\s+(\d+)\s+\d+\s*$")


def parse(text: str) -> dict[str, float]:
    """The output of the script above; what a system does not say is not there."""
    part = procfs.sections(text, "\x1e")
    found = interfaces(part.get("interfaces", ""))
    for section, name, sentence in _SENTENCES:
        if m := sentence.search(part.get(section, "")):
            found[name] = float(m[1])
    found.update(pf(part.get("pf", "")))
    for line in part.get("interrupts", "").splitlines():
        if (m := _INTERRUPT.match(line)) and m[1] != "Total":
            found[f"interrupts_{_word(m[1])}"] = float(m[2])
    return found


def interfaces(text: str) -> dict[str, float]:
    """Tables of `netstat -i`: the line of each interface's link, read from the right, since its address may be missing."""
    found: dict[str, float] = {}
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["Name"] and "Address" in words:
            columns = words[words.index("Address") + 1 :]
        elif columns and len(words) > len(columns) and words[2].startswith("<Link"):
            for column, value in zip(columns, words[-len(columns) :], strict=True):
                if column in _COLUMNS and value.isdigit():
                    found[f"{words[0].rstrip('*')}_{_COLUMNS[column]}"] = float(value)
    return found


def pf(text: str) -> dict[str, float]:
    """`pfctl -s info`: the state table and the counters, as `pf_state_mismatch`. Its `current entries` are what Linux calls conntrack's."""
    found: dict[str, float] = {}
    section = ""
    for line in text.splitlines():
        if line[:1] not in ("", " "):
            section = line.split("  ")[0].strip()
        elif section in ("State Table", "Counters") and (m := _PF_LINE.match(line)):
            name = CONNTRACK_ENTRIES if m[1] == "current entries" else f"pf_{_word(m[1])}"
            found[name] = float(m[2])
    return found


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
