"""Counters of FreeBSD, its derivatives, OpenBSD and macOS, with the names of Linux counters of the same meaning.

Words: netstat(1), pfctl(8), vmstat(8) of both systems. Their columns differ; each table names its columns in its first line. macOS has an
early netstat of FreeBSD, which cuts interface names after five characters (if.c of network_cmds). Written from the sources of FreeBSD 14,
OpenBSD 7.6 and Apple's network_cmds, and tested against transcripts that follow them; never run on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dutlab.systems.watched import CONNTRACK_ENTRIES, Counting, sections

# pfctl needs root. Other logins use doas or sudo, which fail if they need a password.
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
# OpenBSD adds errors and queue drops in one column, Ifail or Ofail, unless -e or -d selects one of them (netstat(1), if.c 1.81). So it is
# called with each, and the columns after the packets have the selected kind, with any headline.
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
    """Parse the output of the script above; counters that a system lacks are missing."""
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
    """Parse tables of `netstat -i`: the link line of each interface, read from the right because its address may be missing.

    `kind` is the selected kind, `errors` or `dropped`; without one, the headline names the columns.
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
    """Yield `rx` and `tx`, each with the name of the column after its packets."""
    for direction, packets in (("rx", "Ipkts"), ("tx", "Opkts")):
        if packets in columns[:-1]:
            yield direction, columns[columns.index(packets) + 1]


def pf(text: str) -> dict[str, float]:
    """Parse `pfctl -s info`: the state table and the counters, such as `pf_state_mismatch`. `current entries` gets Linux's name."""
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
    """Return the ticks per second of the statistics clock, from kern.clockrate of any BSD."""
    match = _STATHZ.search(clockrate)
    return int(match[1]) if match else _USUAL_HZ


BSD_COUNTERS = Counting(SCRIPT, parse)
