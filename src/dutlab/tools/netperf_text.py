"""Output of netperf: streams and requests for people, with or without CPU (`-c -C`), and omni output (netperf_omni.py).

The formats are those of netperf 2.4 to 2.7 (nettest_bsd.c; nettest_omni.c prints the same after `MIGRATED`). A UDP test has two lines:
data sent, and data received. Throughput is in 10^6 bits a second unless `-f` asks for another unit, which the headline names: bits in
powers of 1000, bytes in powers of 1024 (netlib.c, calc_thruput()). A value that was not measured is -1. `-D` prints interim rates.

With `-P 0` a result consists of numbers only. After a headline, further numbers are results of that test. Without a headline, their format
shows a stream, UDP or requests; the command, if the text has it, shows the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dutlab.bounds import LARGEST_NUMBER
from dutlab.methods.ports import Row
from dutlab.tools.netperf_omni import omni_number, omni_of

_TEST = re.compile(
    r"(?:^[ \t]{0,80}|MIGRATED )(?P<name>(?:TCP|UDP|SCTP|OMNI)(?:[ _][A-Za-z/|_ ]{1,60}?)? (?:TEST|Test)"
    r"|(?:TCP|UDP|SCTP)[ _][A-Z/_ ]{1,60}?) "
    r"(?:from [^\n]{0,300}?(?:\n[ \t]{0,80}port [^\n]{0,300}?)?\s{1,80})?to (?P<host>\S{1,300})(?P<rest>[^\n]*)",
    re.MULTILINE,
)
"""Headline of a test. `MIGRATED` may follow a shell's prompt in its line."""
_UNIT = re.compile(r"(10\^3|10\^6|10\^9)bits */s(?:ec)?\b|([KMG]?)Bytes */s(?:ec)?\b|per sec|Trans/s")
_NUMBERS = re.compile(r"^ *-?\d{1,18}(?:\.\d+)?(?: +-?\d{1,18}(?:\.\d+)?)*(?= |$)", re.MULTILINE)
_INTERIM = re.compile(r"^Interim result: +(\d+(?:\.\d+)?) +(\S+) over (\d+(?:\.\d+)?) seconds.*\n?", re.MULTILINE)
_CONFIDENCE = re.compile(r"^!!! Confidence intervals: Throughput *: *(\d+(?:\.\d+)?)%", re.MULTILINE)
_SCALES = {"10^3": 1e3, "10^6": 1e6, "10^9": 1e9, "": 8.0, "K": 1024 * 8.0, "M": 1024**2 * 8.0, "G": 1024**3 * 8.0}
_STREAM, _SENT, _CAME, _PAIRS = 5, 6, 4, 6
"""Count of numbers in a line: of a stream, of data that UDP sent, of data that UDP received, of requests."""
_WORDS = {"REQUEST/RESPONSE": "RR", "Connect/Request/Response": "CRR", "Connect/Close": "CC", "UNIDIRECTIONAL SEND": "STREAM"}
_DIRECTIONS = {"Send": "STREAM", "Receive": "MAERTS", "Recv": "MAERTS", "Send|Recv": "RR", "Send|Receive": "RR"}
_INT, _TIME, _FLOAT = r"-?\d{1,18}", r"\d{1,9}\.\d\d", r"-?\d{1,18}\.\d{1,3}"
_BARE = re.compile(
    rf"^ *(?:(?P<UDP_STREAM>{_INT} +{_INT} +{_TIME} +{_INT} +{_INT} +{_FLOAT}(?: +{_FLOAT}){{0,2}} *\n"
    rf" *{_INT} +{_TIME} +{_INT} +{_FLOAT}(?: +{_FLOAT}){{0,2}})"
    rf"|(?P<RR>{_INT} +{_INT} +{_INT} +{_INT} +{_TIME} +{_FLOAT}(?: +{_FLOAT}){{0,4}} *\n *{_INT} +{_INT})"
    rf"|(?P<STREAM>{_INT} +{_INT} +{_INT} +{_TIME} +{_FLOAT}(?: +{_FLOAT}){{0,4}}))[ \t]*$",
    re.MULTILINE,
)
"""Result of numbers only, with or without CPU load (nettest_bsd.c: tput_fmt_1, cpu_fmt_1)."""
_COMMAND = re.compile(r"\bnetperf\b(?=[^\n]* -)([^\n]*)")
_FORMATS = {"k": "10^3bits/s", "m": "10^6bits/s", "g": "10^9bits/s", "B": "Bytes/s", "K": "KBytes/s", "M": "MBytes/s", "G": "GBytes/s"}
"""Units of `-f`."""
_LATENCIES = {"MIN": "min", "MEAN": "mean", "P50": "p50", "P90": "p90", "P99": "p99", "MAX": "max"}


@dataclass(frozen=True)
class NetperfTest:
    """A test: its figures by our names, and the requested settings. A truncated test has no figures."""

    name: str
    """Name of the test, as in `-t`: TCP_STREAM, UDP_STREAM, TCP_RR."""
    figures: Mapping[str, float]
    asked: Mapping[str, str | int]
    host: str = ""
    lost: float = 0.0
    """Lost messages of UDP; negative if more arrived than were sent."""
    confidence_percent: float | None = None
    """Half the width of its interval, if netperf warns that it is wider than requested."""
    seconds: Sequence[Row] = ()
    assumed: str = ""
    """Assumed unit, if the text has none."""
    alike: Sequence[str] = ()
    """Tests with this output, if nothing in the text says which one it was."""


def tests_of(text: str) -> list[NetperfTest]:
    """Return every test in a text, in order. A result without a headline (`-P 0`) is recognised only after one with a headline."""
    heads = list(_TEST.finditer(text))
    before = text[: heads[0].start()] if heads else text
    tests = [_omni("", columns, "") for columns in omni_of(before)]
    ends = [*(head.start() for head in heads), len(text)][1:]
    for head, end in zip(heads, ends, strict=True):
        results = _tests(head, text[head.end() : end])
        for _ in results[1:]:  # of tests that ran at the same time, the headlines come first
            if tests and not tests[-1].figures and (tests[-1].name, tests[-1].host) == (results[0].name, results[0].host):
                tests.pop()
        tests += results
    return tests


def bare_tests_of(text: str) -> list[NetperfTest]:
    """Return every test of a text without headlines."""
    commands, tests = list(_COMMAND.finditer(text)), list[NetperfTest]()
    for result in _BARE.finditer(text):
        form = str(result.lastgroup)
        options = next((c[1].split() for c in reversed(commands) if c.start() < result.start()), [])
        value_by_option = dict(pairwise(options))
        name = value_by_option.get("-t", "TCP_STREAM" if options else "").upper()
        is_told = bool(name) and _form_of(name) == form
        unit = _FORMATS.get(value_by_option.get("-f", "")) if is_told else None
        figures, asked, lost = _figures(name if is_told else form, "per sec" if form == "RR" else unit or "10^6bits/s", result[0])
        tests.append(
            NetperfTest(
                name if is_told else form, figures, asked, value_by_option.get("-H", "").partition(",")[0] if is_told else "", lost,
                assumed="" if unit or form == "RR" else "10^6bits/s", alike=() if is_told else _ALIKE.get(form, ()),
            )
        )  # fmt: skip
    return tests


_ALIKE = {"STREAM": ("TCP_STREAM", "TCP_MAERTS", "TCP_SENDFILE", "SCTP_STREAM"), "RR": ("TCP_RR", "TCP_CRR", "UDP_RR", "SCTP_RR")}


def _form_of(name: str) -> str:
    if name.endswith(("RR", "CC")):
        return "RR"
    return "UDP_STREAM" if name.startswith("UDP") else "STREAM"


def _tests(head: re.Match[str], body: str) -> list[NetperfTest]:
    name, host = _name(head["name"]), head["host"]
    body, seconds = _INTERIM.sub("", body), list(_rows(body))
    if omni := omni_of(body):
        return [_omni(name, columns, host, seconds) for columns in omni]
    width = float(match[1]) if (match := _CONFIDENCE.search(body)) else None
    ip: dict[str, str | int] = {"ip": "6"} if head["rest"].count("AF_INET6") else {}
    unit, form = _UNIT.search(body), _form_of(name)
    results = [m for m in _BARE.finditer(body) if m.lastgroup == form]
    parts = [body[: results[1].start()], *(m[0] for m in results[1:])] if len(results) > 1 else [body]
    outcomes = [_figures(name, unit[0] if unit else "", part) for part in parts]
    first, *more = [NetperfTest(name, figures, asked | ip, host, lost) for figures, asked, lost in outcomes]
    return [replace(first, confidence_percent=width, seconds=() if more else seconds), *more]


def _name(words: str) -> str:
    words = re.sub(r" (?:TEST|Test)$", "", words.strip())
    for long, short in _WORDS.items():
        words = words.replace(long, short)
    return words.replace(" ", "_")


def _figures(name: str, units: str, body: str) -> tuple[dict[str, float], dict[str, str | int], float]:
    """Return figures, requested settings, and lost messages; no figures for a truncated test or one without a unit."""
    lines = [[float(word) for word in line.split()] for line in _NUMBERS.findall(body)]
    lines = [line for line in lines if max(map(abs, line)) <= LARGEST_NUMBER]
    unit = _UNIT.match(units)
    if not lines or unit is None:
        return {}, {}, 0.0
    first, rest, is_udp, is_pairs = lines[0], lines[1:], name.startswith("UDP"), unit[0] == "per sec"
    if len(first) < (_PAIRS if is_pairs else _SENT if is_udp else _STREAM):
        return {}, {}, 0.0
    if is_pairs:
        sizes = {"request_bytes": int(first[2]), "response_bytes": int(first[3])}
        return {"transactions_per_s": first[5]}, {**sizes, "duration_s": round(first[4])}, 0.0
    scale = _SCALES[unit[1] or unit[2] or ""]
    if not is_udp:
        return {"goodput_bps": first[4] * scale}, {"message_bytes": int(first[2]), "duration_s": round(first[3])}, 0.0
    if not rest or len(rest[0]) < _CAME:
        return {}, {}, 0.0
    sent, came = first[3], rest[0][2]
    figures = {"sent_bps": first[5] * scale, "goodput_bps": rest[0][3] * scale}
    figures |= {"loss_ratio": max(0.0, (sent - came) / sent)} if sent else {}
    return figures, {"message_bytes": int(first[1]), "duration_s": round(first[2])}, sent - came


def _omni(name: str, columns: Mapping[str, str], host: str, seconds: Sequence[Row] = ()) -> NetperfTest:
    """Return the test of a set of columns. `name` and `host` are those of the headline, empty if there is none."""
    direction = _DIRECTIONS.get(columns.get("DIRECTION", ""), "")
    protocol = columns.get("PROTOCOL", "")
    if not name or name.startswith("OMNI"):
        name = "_".join(filter(None, (protocol, direction))) or "OMNI"
    is_pairs = name.endswith(("RR", "CC")) or "Trans" in columns.get("THROUGHPUT_UNITS", "")
    figures, assumed = _omni_rates(name, columns, is_pairs=is_pairs)
    if is_pairs:
        figures |= {
            f"latency_{of}_ns": us * 1e3 for word, of in _LATENCIES.items() if (us := omni_number(columns, f"{word}_LATENCY")) is not None
        }
        if "latency_mean_ns" not in figures and (us := omni_number(columns, "RT_LATENCY")) is not None:
            figures["latency_mean_ns"] = us * 1e3
    own, far = ("REMOTE", "LOCAL") if "MAERTS" in name else ("LOCAL", "REMOTE")
    again = [n for end in ((own, far) if is_pairs else (own,)) if (n := omni_number(columns, f"{end}_TRANSPORT_RETRANS")) is not None]
    figures |= {"retransmits": sum(again)} if again and name.startswith("TCP") else {}
    sizes = {
        "request_bytes": "REQUEST_SIZE", "response_bytes": "RESPONSE_SIZE", "burst": "BURST_SIZE", "message_bytes": f"{own}_SEND_SIZE",
        "duration_s": "ELAPSED_TIME",
    }  # fmt: skip
    wanted = {k: column for k, column in sizes.items() if (k in {"request_bytes", "response_bytes", "burst"}) <= is_pairs}
    asked: dict[str, str | int] = {k: round(n) for k, column in wanted.items() if (n := omni_number(columns, column)) is not None}
    if congestion := columns.get("LOCAL_CONG_CONTROL"):
        asked["congestion"] = congestion
    return NetperfTest(name, figures, asked, host or columns.get("DEST_ADDR", ""), seconds=seconds, assumed=assumed)


def _omni_rates(name: str, columns: Mapping[str, str], *, is_pairs: bool) -> tuple[dict[str, float], str]:
    rate, units = omni_number(columns, "THROUGHPUT"), columns.get("THROUGHPUT_UNITS", "")
    if is_pairs:
        rate = rate if rate is not None and (not units or "Trans" in units) else omni_number(columns, "TRANSACTION_RATE")
        return ({} if rate is None else {"transactions_per_s": rate}), ""
    unit = _UNIT.match(units)
    scale = _SCALES[unit[1] or unit[2] or ""] if unit else 1e6
    ways = {"sent_bps": ("LOCAL_SEND", "REMOTE_SEND"), "goodput_bps": ("REMOTE_RECV", "LOCAL_RECV")}
    if "MAERTS" in name:
        ways = {key: (b, a) for key, (a, b) in ways.items()}
    figures: dict[str, float] = {}
    for key, ends in ways.items():
        known = [n for end in ends if (n := omni_number(columns, f"{end}_THROUGHPUT"))]
        figures |= {key: known[0] * scale} if known else {}
    if rate is not None:
        figures.setdefault("goodput_bps", rate * scale)
    if name == "UDP_STREAM" and (sent := figures.get("sent_bps")) and "goodput_bps" in figures:
        figures["loss_ratio"] = 1 - figures["goodput_bps"] / sent
    return figures, "" if unit or not figures else "10^6bits/s"


def _rows(body: str) -> Iterator[Row]:
    at_s = 0.0
    for match in _INTERIM.finditer(body):
        at_s = round(at_s + float(match[3]), 3)
        unit = _UNIT.match(match[2])
        if unit is not None:
            rates = unit[0] == "Trans/s"
            yield {
                "at_s": at_s,
                "transactions_per_s" if rates else "goodput_bps": float(match[1]) * (1 if rates else _SCALES[unit[1] or unit[2] or ""]),
            }
