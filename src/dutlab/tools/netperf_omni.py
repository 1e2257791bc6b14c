"""netperf's omni output (`-k`, `-o`, `-O`): the requested columns as KEY=value, as CSV with a header, or as columns for people.

A column has a name (`-k`) and a title of up to four lines; CSV has the title in one line (nettest_omni.c: print_omni_init_list(),
print_omni_csv(), print_omni_keyword(), print_omni_human()). THROUGHPUT counts received data (send_omni_inner(): in a test that only sends,
the bytes of the other end).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from dutlab.bounds import LARGEST_NUMBER

_TITLES = {
    "Throughput": "THROUGHPUT", "Throughput Units": "THROUGHPUT_UNITS", "Throughput Confidence Width (%)": "THROUGHPUT_CONFID",
    "Elapsed Time (sec)": "ELAPSED_TIME", "Protocol": "PROTOCOL", "Direction": "DIRECTION", "Transaction Rate Tran/s": "TRANSACTION_RATE",
    "Round Trip Latency usec/tran": "RT_LATENCY", "Minimum Latency Microseconds": "MIN_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY", "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY", "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY", "Stddev Latency Microseconds": "STDDEV_LATENCY",
    "Request Size Bytes": "REQUEST_SIZE", "Response Size Bytes": "RESPONSE_SIZE", "Initial Burst Requests": "BURST_SIZE",
    "Local Send Size": "LOCAL_SEND_SIZE", "Remote Send Size": "REMOTE_SEND_SIZE",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Remote Transport Retransmissions": "REMOTE_TRANSPORT_RETRANS", "Local Send Throughput": "LOCAL_SEND_THROUGHPUT",
    "Local Recv Throughput": "LOCAL_RECV_THROUGHPUT", "Remote Send Throughput": "REMOTE_SEND_THROUGHPUT",
    "Remote Recv Throughput": "REMOTE_RECV_THROUGHPUT", "Destination Address": "DEST_ADDR",
    "Local Congestion Control Algorithm": "LOCAL_CONG_CONTROL",
}  # fmt: skip
"""Title → name, of the columns that are read."""
_KEY = re.compile(r"^([A-Z][A-Z0-9_]+)=(.*)$")
_HEAD_LINES = 4
_MOST_COLUMNS = 300


def omni_of(text: str) -> list[dict[str, str]]:
    """Return the columns of each test in a text, by name; empty if the text has no omni output."""
    lines = text.split("\n")
    return list(_of_keys(lines)) or list(_of_csv(lines)) or list(_of_columns(lines))


def _of_keys(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the columns of each test. A name that occurs again begins another test."""
    known, value_by_name = set(_TITLES.values()), dict[str, str]()
    for line in lines:
        match = _KEY.match(line.strip())
        if match is None or match[1] not in known:
            continue
        if match[1] in value_by_name:
            yield value_by_name
            value_by_name = {}
        value_by_name[match[1]] = match[2].strip()
    if value_by_name:
        yield value_by_name


def _of_csv(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield every line that has as many values as the header before it."""
    names: list[str | None] = []
    for line in lines:
        if len(line) > 2**16 or not line.strip():
            continue
        (row,) = csv.reader([line])
        heads = [_TITLES.get(title.strip(), title.strip() if title.strip() in _TITLES.values() else None) for title in row]
        if any(heads) and "=" not in line:
            names = heads
        elif names and len(row) == len(names):
            yield {name: value.strip() for name, value in zip(names, row, strict=True) if name}
        else:
            names = []


def _of_columns(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the columns of each test: one or more blocks (`;` between selectors) of four header lines and one line of values."""
    value_by_name, at = dict[str, str](), 0
    while at + _HEAD_LINES < len(lines):
        titles = _columns(lines[at : at + _HEAD_LINES + 1])
        named = {name: value for title, value in titles if (name := _TITLES.get(title)) and value}
        if named:
            if value_by_name.keys() & named.keys():
                yield value_by_name
                value_by_name = {}
            value_by_name |= named
            at += _HEAD_LINES
        at += 1
    if value_by_name:
        yield value_by_name


def _columns(block: Sequence[str]) -> list[tuple[str, str]]:
    """Return title and value of each column. A column ends where every line has a blank."""
    width = max(map(len, block))
    if width > _MOST_COLUMNS * 20 or not block[0].strip():
        return []
    rows = [line.ljust(width) for line in block]
    blank = [all(row[n] == " " for row in rows) for n in range(width)]
    edges = [n for n in range(width) if not blank[n] and (n == 0 or blank[n - 1])]
    spans = list(zip(edges, [*edges[1:], width], strict=True))
    return [(" ".join(" ".join(row[a:b] for row in rows[:-1]).split()), rows[-1][a:b].strip()) for a, b in spans]


def omni_number(columns: Mapping[str, str], name: str) -> float | None:
    """Return a count or rate, 0 or more; None if it is missing, or negative, which is netperf's sign for unknown."""
    try:
        number = float(columns[name])
    except (KeyError, ValueError):
        return None
    return number if 0 <= number <= LARGEST_NUMBER else None
