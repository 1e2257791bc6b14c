r"""Figures in the output of a step, found by the format of the output, whatever the command was.

    iperf3 -J    its report (src/iperf_api.c)                    goodput_bps, sent_bps, retransmits, loss_ratio, jitter_ns
    iperf3       `[SUM] 0.00-10.00 sec 2.62 GBytes 2.25 Gbits/sec 12 sender` (src/iperf_locale.c); iperf 2 without the last word
    pkt-gen      see pkt_gen_log.py                              offered_pps, received_pps
    ipgen        a line of JSON a second (ipgen_log.py)          offered_pps, received_pps
    netperf      see netperf_text.py                             goodput_bps, sent_bps, loss_ratio, transactions_per_s
    ping         `rtt min/avg/max/mdev = …` and `… packet loss`  rtt_min_ns, rtt_avg_ns, rtt_max_ns, loss_ratio
    pmcstat      `# p/EVENT p/EVENT`, then counts                EVENT_count
    time         sh, bash, FreeBSD's and GNU time                real_s, user_s, sys_s

Rates are payload bits per second as these programs count them. Other output has no figure. A program that ran several times in one step has
a figure for each run, as `goodput_bps`, `run_2/goodput_bps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from statistics import fmean
from typing import Any

from dutlab.subject import Way, part_figure, run_part, way_figure
from dutlab.tools import netperf_text
from dutlab.tools.generators import ipgen_log, pkt_gen_log
from dutlab.tools.iperf3.json_output import BACK as OF_BACK
from dutlab.tools.iperf3.json_output import has_back, sums_of
from dutlab.tools.iperf3.text_line import SUM, TextLine, lines_of, mean_bps, unstamped
from dutlab.tools.json_text import UnreadableError, number, pieces_of

Found = tuple[str, float]

MOST_BYTES = 2**22
"""Size above which only the beginning and the end of an output are read: figures are in the summary."""
MOST_FIGURES = 40
"""Most figures of one step, also of a server that hundreds of clients used."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_RTT = re.compile(rf"(?:rtt|round-trip) min/avg/max(?:/\w+)? = {_NUMBER}/{_NUMBER}/{_NUMBER}(?:/{_NUMBER})? ms")
_BREAK = re.compile(r"^(?=- - -|-----|Accepted|Connecting)", re.MULTILINE)
"""Start of another test, or of another part of one, in iperf's output."""
_LOSS = re.compile(rf"^\d+ packets transmitted, .*?{_NUMBER}% packet loss", re.MULTILINE)
_PMC_HEAD = re.compile(r"^#((?:\s+[ps](?:/\d+)?/\S+)+)\s*$")
_TIMES = (
    re.compile(r"^(?P<name>real|user|sys)\s+(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?P<s>\d+[.,]\d+)s?$", re.MULTILINE),  # sh, bash, -p
    re.compile(r"(?P<s>\d+\.\d+)\s+(?P<name>real|user|sys)\b"),  # FreeBSD
    re.compile(r"(?P<s>\d+\.\d+)(?P<name>user|system)\b|(?:(?P<h>\d+):(?=\d+:))?(?P<m>\d+):(?P<s2>\d+\.?\d*)(?P<elapsed>elapsed)"),  # GNU
)


def step_figures(stdout: bytes, stderr: bytes) -> dict[str, float]:
    """Return the figures in both streams: name with its unit → value. Never raises; what cannot be read is not a figure."""
    out: dict[str, float] = {}
    texts = [_text(stdout), _text(stderr)]
    for read in _READERS:
        for text in texts:
            for name, value in read(text):
                if len(out) == MOST_FIGURES:
                    return out
                out[_free(name, out)] = value
    return out


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        data = data[: MOST_BYTES // 2] + b"\n" + data[-MOST_BYTES // 2 :]
    return data.decode("utf-8", "replace").replace("\r", "")


def _free(name: str, taken: Mapping[str, float]) -> str:
    return name if name not in taken else next(own for n in count(2) if (own := part_figure(run_part(n), name)) not in taken)


def _iperf_json(text: str) -> Iterator[Found]:
    """Yield the figures of each report in the text; a server may print a report per client."""
    if '"end"' not in text:
        return
    with suppress(UnreadableError):
        for piece in pieces_of(text.encode(), again=OF_BACK):
            if piece.document is not None:
                yield from _iperf_report(piece.document)


def _iperf_report(document: Mapping[str, Any]) -> Iterator[Found]:
    if "error" in document:  # its sums are of a truncated test
        return
    for way in (None, Way.BACK) if has_back(document) else (None,):
        try:
            sums = sums_of(document, back=way is Way.BACK)
        except UnreadableError:
            return
        for name, value in (
            ("goodput_bps", number(sums.received, "bits_per_second")),
            ("sent_bps", number(sums.sent, "bits_per_second")),
            ("retransmits", number(sums.sent, "retransmits")),
            ("jitter_ns", sums.jitter_ns),
            ("loss_ratio", sums.loss_ratio),
        ):
            if value is not None:
                yield way_figure(way, name), value


def _iperf_text(text: str) -> Iterator[Found]:
    """Yield the summary of each test: the sum of its streams, or its only stream."""
    text = unstamped(text) if "bits/sec" in text or "Bytes/sec" in text else text
    names_sides, has_rules = any(line.side for line in lines_of(text)), "- - - -" in text
    is_server, intervals = False, list[TextLine]()
    for part in _BREAK.split(text):
        if part.startswith(("Accepted", "Connecting")):
            is_server, intervals = part.startswith("Accepted"), []
        test: dict[tuple[str, str], list[TextLine]] = {}
        lines = list(lines_of(part))
        is_end = part.startswith("- - -") and "[ ID] Interval" in part
        for line in lines:
            if line.side or (not names_sides and (is_end if has_rules else _covers_all(line))):
                test.setdefault((line.role, line.side), []).append(line)
        if is_end and not names_sides and any(line.datagrams for line in lines):
            yield from _udp_summary(lines, intervals, is_server=is_server)
        else:
            yield from _iperf_summary(test, is_server=is_server)
        intervals += [line for line in lines if not line.side and not line.is_omitted]


def _udp_summary(lines: Sequence[TextLine], intervals: Sequence[TextLine], *, is_server: bool) -> Iterator[Found]:
    """Yield the summary of iperf3 before 3.2: the sent rate, and the receiver's counts. A server does not know the sent rate."""
    whole = [line for line in lines if line.stream == SUM] or lines
    of_streams = {line.stream for line in whole}
    datagrams = [line.datagrams for line in whole if line.datagrams is not None]
    total, lost, sent_bps = sum(d.total for d in datagrams), sum(d.lost for d in datagrams), sum(line.bps for line in whole)
    if sent_bps > 0:
        yield "sent_bps", sent_bps
        if is_server:  # a sender does not know what arrived
            return
        yield "goodput_bps", sent_bps * (1 - lost / total) if total else 0.0
    elif (came := [mean_bps([i for i in intervals if i.stream == stream]) for stream in of_streams]) and None not in came:
        yield "goodput_bps", sum(bps for bps in came if bps is not None)
    yield "jitter_ns", fmean(d.jitter_ns for d in datagrams)
    if total:
        yield "loss_ratio", lost / total


def _covers_all(line: TextLine) -> bool:
    """Return whether a line of iperf 2, which names no side, may be the summary: from the start, and longer than a second."""
    return not line.is_omitted and line.from_s == 0.0 and line.to_s > 1.5  # noqa: PLR2004 -- an interval is a second unless asked otherwise


def _iperf_summary(test: Mapping[tuple[str, str], list[TextLine]], *, is_server: bool) -> Iterator[Found]:
    named = {key: lines for key, lines in test.items() if key[1]} or test
    sums: dict[str, float] = {}
    for (role, side), lines in named.items():
        whole = [line for line in lines if line.stream == SUM] or lines
        way = Way.BACK if role.startswith("RX") and any(r.startswith("TX") for r, _ in named) else None
        sums[way_figure(way, "sent_bps" if side == "sender" else "goodput_bps")] = sum(line.bps for line in whole)
        again = [line.retransmits for line in whole if line.retransmits is not None]
        if side == "sender" and again:
            sums[way_figure(way, "retransmits")] = float(sum(again))
        datagrams = [line.datagrams for line in whole if line.datagrams is not None]
        if side != "sender" and datagrams:
            sums[way_figure(way, "jitter_ns")] = fmean(d.jitter_ns for d in datagrams)
            if total := sum(d.total for d in datagrams):
                sums[way_figure(way, "loss_ratio")] = sum(d.lost for d in datagrams) / total
    if is_server:  # before 3.2 it prints 0 for the side that it does not know
        for way in (None, Way.BACK):
            one, other = (sums.get(way_figure(way, name)) for name in ("sent_bps", "goodput_bps"))
            if one == 0 and other:
                del sums[way_figure(way, "sent_bps")]
            elif other == 0 and one:
                del sums[way_figure(way, "goodput_bps")]
    yield from sums.items()


def _pkt_gen(text: str) -> Iterator[Found]:
    if "pps" not in text:
        return
    for run in pkt_gen_log.parse(text).runs:
        what = "offered_pps" if (run.direction or ("Sent" if "-f tx" in text else "")) == "Sent" else "received_pps"
        if run.total is not None or run.reports:
            yield what, run.total.pps if run.total is not None else fmean(r.pps for r in run.reports)


def _ipgen(text: str) -> Iterator[Found]:
    if '"statistics"' not in text:
        return
    seconds, _ = ipgen_log.parse_log(text)
    if seconds:
        yield "offered_pps", fmean(s.offered_pps for s in seconds)
        yield "received_pps", fmean(s.received_pps for s in seconds)


def _netperf(text: str) -> Iterator[Found]:
    for test in netperf_text.tests_of(text):
        yield from test.figures.items()


def _ping(text: str) -> Iterator[Found]:
    for match in _LOSS.finditer(text):
        yield "loss_ratio", float(match[1]) / 100
    for match in _RTT.finditer(text):
        yield from zip(("rtt_min_ns", "rtt_avg_ns", "rtt_max_ns"), (float(match[n]) * 1e6 for n in (1, 2, 3)), strict=True)


def _pmcstat(text: str) -> Iterator[Found]:
    """Yield the counts of each event, summed over all intervals."""
    names: list[str] = []
    sums: list[float] = []
    for line in text.split("\n"):
        if head := _PMC_HEAD.match(line):
            if names != (names := head[1].split()):
                sums = [0.0] * len(names)
        elif names and len(row := line.split()) == len(names) and all(word.isdecimal() for word in row):
            sums = [a + float(b) for a, b in zip(sums, row, strict=True)]
    for name, value in zip(names, sums, strict=True):
        yield part_figure(re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"), "count"), value


def _time(text: str) -> Iterator[Found]:
    for form in _TIMES:
        seconds_by_name: dict[str, float] = {}
        for one in form.finditer(text):
            parts = one.groupdict()
            name = {"system": "sys"}.get(parts.get("name") or "real", parts.get("name") or "real")
            seconds = float((parts.get("s") or parts.get("s2") or "0").replace(",", "."))
            seconds_by_name[f"{name}_s"] = seconds + 60 * int(parts.get("m") or 0) + 3600 * int(parts.get("h") or 0)
        if seconds_by_name.keys() == {"real_s", "user_s", "sys_s"}:
            yield from seconds_by_name.items()
            return


_READERS: tuple[Callable[[str], Iterator[Found]], ...] = (_iperf_json, _iperf_text, _pkt_gen, _ipgen, _netperf, _ping, _pmcstat, _time)
