"""Counters of FreeBSD, of what is made of it, of OpenBSD and of macOS, by the names of the Linux counters where they mean the same.

Words: netstat(1), pfctl(8), vmstat(8) of both systems. Their columns differ; each table says its own in its first line. macOS has
FreeBSD's netstat of long ago, and cuts names of interfaces after five characters (if.c of network_cmds).
Read in the sources of FreeBSD 14, OpenBSD 7.6 and Apple's network_cmds, tried against transcripts that follow them; never run on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dutlab.systems.watched import CONNTRACK_ENTRIES, Counting, sections

# pfctl needs root; a login that is none asks doas or sudo, which fail rather than ask for a password.
SCRIPT = r"""
part() { printf '\036%s\n' "$1"; }
asroot() { "$@" 2>/dev/null || doas -n "$@" 2>/dev/null || sudo -n "$@" 2>/dev/null; }
part interfaces
case $(uname -s) in
  FreeBSD) netstat -i -b -d -n -W ;;
  Darwin) netstat -i -b -d -n ;;
  *) netstat -i -b -n; part errors; netstat -i -n -e; part drops; netstat -i -n -d ;;
esac
part ip; netstat -s -p ip
part tcp; netstat -s -p tcp
part udp; netstat -s -p udp
part pf; asroot pfctl -s info
part interrupts; vmstat -i
exit 0
"""

_COLUMNS = {
    "Ipkts": "rx_packets", "Ierrs": "rx_errors", "Idrop": "rx_dropped", "Ibytes": "rx_bytes",
    "Opkts": "tx_packets", "Oerrs": "tx_errors", "Drop": "tx_dropped", "Odrop": "tx_dropped", "Obytes": "tx_bytes",
}  # fmt: skip
# OpenBSD adds errors and queue drops up into one column, Ifail and Ofail, unless it is asked for one of them, by -e or -d (netstat(1), if.c
# 1.81). So it is asked for each, and the columns behind the packets are what was asked for, whatever their headline.
_ONE_KIND = {"errors": "errors", "drops": "dropped"}
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
_USUAL_HZ = 127
_STATHZ = re.compile(r"stathz = ([1-9]\d*)")
_INTERRUPT = re.compile(r"^(\S.*?)\s+(\d+)\s+\d+\s*$")


def parse(text: str) -> dict[str, float]:
    """The output of the script above; what a system does not say is not there."""
    part = sections(text)
    counters = interfaces(part.get("interfaces", ""))
    for section, kind in _ONE_KIND.items():
        counters.update(interfaces(part.get(section, ""), kind))
    for section, name, sentence in _SENTENCES:
        if m := sentence.search(part.get(section, "")):
            counters[name] = float(m[1])
    counters.update(pf(part.get("pf", "")))
    for line in part.get("interrupts", "").splitlines():
        if (m := _INTERRUPT.match(line)) and m[1] != "Total":
            counters[f"interrupts_{_word(m[1])}"] = float(m[2])
    return counters


def interfaces(text: str, kind: str = "") -> dict[str, float]:
    """Tables of `netstat -i`: the line of each interface's link, read from the right, since its address may be missing.

    `kind` is what the table was asked for, `errors` or `dropped`; a table that was asked for nothing says it in its headline, or not.
    """
    counters: dict[str, float] = {}
    columns: list[str] = []
    names = _COLUMNS
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["Name"] and "Address" in words:
            columns = words[words.index("Address") + 1 :]
            names = _COLUMNS | ({after: f"{packets}_{kind}" for packets, after in _behind(columns)} if kind else {})
        elif columns and len(words) > len(columns) and words[2].startswith("<Link"):
            for column, value in zip(columns, words[-len(columns) :], strict=True):
                if column in names and value.isdigit():
                    counters[f"{words[0].rstrip('*')}_{names[column]}"] = float(value)
    return counters


def _behind(columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`rx` and `tx`, each with the column behind its packets."""
    for direction, packets in (("rx", "Ipkts"), ("tx", "Opkts")):
        if packets in columns[:-1]:
            yield direction, columns[columns.index(packets) + 1]


def pf(text: str) -> dict[str, float]:
    """`pfctl -s info`: the state table and the counters, as `pf_state_mismatch`. Its `current entries` are what Linux calls conntrack's."""
    counters: dict[str, float] = {}
    section = ""
    for line in text.splitlines():
        if line[:1] not in ("", " "):
            section = line.split("  ")[0].strip()
        elif section in ("State Table", "Counters") and (m := _PF_LINE.match(line)):
            name = CONNTRACK_ENTRIES if m[1] == "current entries" else f"pf_{_word(m[1])}"
            counters[name] = float(m[2])
    return counters


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def ticks_per_s(clockrate: str) -> int:
    """Ticks per second of the statistics clock, from kern.clockrate of any BSD."""
    match = _STATHZ.search(clockrate)
    return int(match[1]) if match else _USUAL_HZ


BSD_COUNTERS = Counting(SCRIPT, parse)
