"""Parser of iperf3's text, from clients and servers on Linux, the BSDs and Windows, with one or several streams.

It knows the differences between versions and systems. The column is `Bandwidth` or `Bitrate`. Windows reports no retransmissions. Before
3.2 the summary of UDP names no receiver and has the sent rate, and servers print 0 for the other side, which they do not know. The
requested settings are from `-V`, or from the command line if the text has it. Lines may begin with a time (`--timestamps`). Rates have
the printed three digits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime

from dutlab.interop.imported_run import BACK, LINK
from dutlab.interop.iperf3_report import FORWARD, REVERSE, Iperf3Report, ids_of, places_of
from dutlab.methods.ports import Row
from dutlab.spec.workloads.setting import Value
from dutlab.tools.iperf3.text_line import SUM, TextLine, lines_of, unstamped
from dutlab.tools.json_text import UnreadableError

_TEST = re.compile(
    r"^(?:iperf 3\.\S+[^\n]*\n[^\n]*\n)?(?:Control connection MSS[^\n]*\n)?(?:Time: [^\n]*\n)?"
    r"(?:Connecting to host |Accepted connection from |-{20,}$)",
    re.MULTILINE,
)
_SERVER_OUTPUT = re.compile(r"^Server output:\n.*?(?=^iperf Done\.|^Connecting to host |\Z)", re.MULTILINE | re.DOTALL)
_STREAM = re.compile(r"^\[ *(\d+)\](?:\[\S+\])? local (\S+) port (\d+) connected to (\S+) port (\d+)", re.MULTILINE)
_ERROR = re.compile(r"^iperf3(?:\.exe)?: (?:error - |interrupt - |(?=the (?:client|server) has ))(?P<what>.*)$", re.MULTILINE)
_COMMAND = re.compile(r"\biperf3(?:\.exe)?[ \t]+((?:\S+[ \t]+)*(?:-c|--client)\b[^\n]*)$", re.MULTILINE)
_COMMAND_IS_WITHIN = 600
_VERBOSE = re.compile(
    r"^Starting Test: protocol: (?P<protocol>\w+), (?P<streams>\d{1,9}) streams, (?P<length>\d{1,9}) byte blocks, "
    r"omitting (?P<omit>\d{1,9}) seconds, "
    r"(?P<seconds>\d{1,9}) second test",
    re.MULTILINE,
)
_SAID = {
    name: re.compile(rf"^[ \t]*{form}", re.MULTILINE)
    for name, form in {
        "version": r"(iperf 3\.\S+)", "time": r"Time: (\S[^\n]*)", "cookie": r"Cookie: (\S+)", "rate": r"Target Bitrate: (\d{1,18})",
        "congestion": r"snd_tcp_congestion (\S+)", "server": r"Connecting to host (\S+?), port",
        "client": r"Accepted connection from (\S+?), port",
        "sender_cpu": r"CPU Utilization: .*?(?:local|remote)/sender (\d+(?:\.\d+)?)%",
        "receiver_cpu": r"CPU Utilization: .*?(?:local|remote)/receiver (\d+(?:\.\d+)?)%",
    }.items()
}  # fmt: skip
_OPTIONS = {
    "-b": "rate_bps", "--bitrate": "rate_bps", "--bandwidth": "rate_bps", "-l": "length_bytes", "--length": "length_bytes",
    "-C": "congestion", "--congestion": "congestion", "--linux-congestion": "congestion", "-w": "window", "--window": "window",
    "-S": "tos", "--tos": "tos", "-M": "mss_bytes", "--set-mss": "mss_bytes",
}  # fmt: skip
_POWERS = "_kmgt"
_MEGABIT_A_SECOND = 1048576
"""Rate of UDP without `-b` (iperf.h, UDP_RATE)."""


@dataclass(frozen=True)
class _Total:
    """Summary of one side, for all streams together."""

    bps: float
    to_s: float
    retransmits: int | None
    jitter_ns: float | None
    counted_lost: int = 0
    datagrams: int = 0


def reports_of(text: str) -> tuple[list[Iperf3Report], list[str]]:
    """Return the tests of a text in order, and the faults of tests without a result."""
    text = unstamped(text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _SERVER_OUTPUT.sub("", text)
    early = _ERROR.match(text)  # in a file with both streams, standard error of a single test comes before its lines
    begins = [reports.start() for reports in _TEST.finditer(text)]
    begins = [0, *begins] if not begins or begins[0] > 0 else begins
    begins += [b + more for b, end in zip(begins, [*begins[1:], len(text)], strict=True) for more in _further(text[b:end])]
    begins.sort()
    parts = [(before, begin, text[begin:end]) for before, begin, end in zip([0, *begins], begins, [*begins[1:], len(text)], strict=False)]
    whole = {begin for _, begin, part in parts if any(lines_of(part))}
    reports, faults = list[Iperf3Report](), list[str]()
    for before, begin, part in parts:
        if begin not in whole:
            # A server that is stopped between two tests does not cut a test short.
            faults += [f"it reports: {e['what'].strip()}" for e in [_ERROR.search(part)] if e and not (whole and _is_cut_short(e))]
            continue
        commands = _COMMAND.findall(text[max(before, begin - _COMMAND_IS_WITHIN) : begin])
        error = early if early and len(whole) == 1 and _is_cut_short(early) else _ERROR.search(part)
        try:
            reports.append(_report(part, _options(commands[-1]) if commands else {}, error))
        except UnreadableError as unreadable:
            faults.append(str(unreadable))
    return reports, faults


def _further(text: str) -> Iterator[int]:
    """Yield the positions where tests without iperf3's introduction begin: after the sums of another test."""
    sums, end = dict[tuple[str, str, str], TextLine](), 0
    for line in lines_of(text):
        own, head = (line.stream, line.role, line.side), text.find("[ ID]", end, line.at)
        if own in sums and head < 0 and replace(sums[own], at=line.at) == line:
            continue  # a script printed this sum again
        if sums and (head >= 0 or not line.side or own in sums):
            yield head if head >= 0 else line.at
            sums = {}
        if line.side:
            sums[own] = line
            end = line.at + 1


def _report(text: str, options: Mapping[str, Value], error: re.Match[str] | None) -> Iperf3Report:
    lines, fields = list(lines_of(text)), {name: match[1] for name, form in _SAID.items() if (match := form.search(text))}
    is_server = "Accepted connection from " in text
    if error is not None and not _is_cut_short(error):
        raise UnreadableError(f"it reports: {error['what'].strip()}")
    sums = set(map(id, _summaries(text, lines)))
    streams = {stream for stream, *_ in _STREAM.findall(text)}
    ways = _ways(text, lines, sums, is_server=is_server)
    is_both = any(line.role for line in lines)
    figures, seconds, repairs, faults = dict[str, dict[str, float]](), list[Row](), list[str](), list[str]()
    below, totals = "", list[_Total]()
    for way, own in ways.items():  # one of both directions may have no lines
        try:
            of = _Way(own, sums, is_server=is_server)
            figures[way] = of.figures()
        except UnreadableError as fault:
            faults.append(f"{way}: {fault}" if is_both else str(fault))
            continue
        totals += [total for total in (of.sent, of.last) if total]
        below = below or of.below_zero
        seconds += [{**row, "direction": LINK if way == FORWARD else BACK} if is_both else row for row in of.rows]
    if error is not None and (faults or not any(of["goodput_bps"] for of in figures.values())):
        raise UnreadableError(f"it reports: {error['what'].strip()}")
    if not figures:
        raise UnreadableError("; ".join(faults))
    repairs += [f"it was cut short: {error['what'].strip()}"] if error is not None else []
    repairs += [f"half of a test in both directions is missing: {fault}" for fault in faults]
    direction = "bidir" if is_both else next(iter(ways))
    first = next(own for own in ways.values() if own)
    cpu = {
        f"{side}_cpu_percent": float(percent)
        for side in ("sender", "receiver")
        if (percent := fields.get(f"{side}_cpu")) and not (is_server and f"remote/{side} 0.0% (0.0%u/0.0%s)" in text)  # not known there
    }
    each = {way: of | cpu for way, of in figures.items()}
    whole = places_of(each, is_both=is_both)
    omitted = len({line.to_s for line in first if line.is_omitted})
    lasted_s = min(total.to_s for total in totals)
    asked = {
        "protocol": "udp" if any(total.jitter_ns is not None for total in totals) else "tcp",
        "direction": direction,
        "streams": len(streams) // len(ways) or None,
        "omit_s": omitted,
        "duration_s": round(lasted_s) or round(lasted_s, 1),
    } | _settings_of(text, fields, options)
    ends = [end for _, *of in _STREAM.findall(text)[:1] for end in ((of[0], of[1]), (of[2], of[3]))]
    return Iperf3Report(
        whole, asked, is_server, ids_of(fields.get("cookie"), ends), seconds, tuple(repairs), below,
        facts={"iperf3_version": fields["version"]} if "version" in fields else {},
        started=_moment(fields.get("time")),
        apart={k: v for k in ("client", "server", "congestion") if (v := fields.get(k) or str(options.get(k) or ""))},
        omitted=omitted,
    )  # fmt: skip


class _Way:
    """Lines of one direction, with its figures and rows."""

    def __init__(self, lines: Sequence[TextLine], of_sums: Collection[int], *, is_server: bool) -> None:
        """Split the lines into intervals and sums. `of_sums` has the ids (id()) of lines that are sums."""
        self._intervals = [line for line in lines if id(line) not in of_sums and not line.is_omitted]
        sums = [line for line in lines if id(line) in of_sums]
        self._is_server = is_server
        self._streams = max(1, len({line.stream for line in lines if line.stream != SUM}))
        self.sent = self._total([line for line in sums if line.side == "sender"])
        self.came = self._total([line for line in sums if line.side == "receiver"])
        self._one_line = None if self.came else self._total([line for line in sums if line.datagrams is not None and not line.side])
        self.last = self.came or self._one_line
        self.below_zero = f"{self.last.counted_lost} datagrams" if self.last and self.last.counted_lost < 0 else ""

    def figures(self) -> dict[str, float]:
        """Return the figures of the direction. Raises UnreadableError."""
        last, sent, came = self.last, self.sent, self.came
        if last is None:
            why = "it does not report what was received" if sent is not None else "it ended early: it has no summary"
            raise UnreadableError(why)
        one_line_sent = came is None and last.bps > 0
        if self._is_server and (one_line_sent or (came is not None and came.bps == 0 and sent is not None and sent.bps > 0)):
            raise UnreadableError("it is from a server that sent, which does not know what was received; use the client's output")
        lost = max(0, last.counted_lost)
        loss = lost / last.datagrams if last.datagrams else None
        if came is not None:
            values = {"goodput_bps": came.bps}
            if came.jitter_ns is not None and not came.datagrams and sent is not None and sent.datagrams:
                values["loss_ratio"] = 1.0  # nothing arrived that a receiver could count
            if sent is not None and (sent.bps > 0 or came.bps == 0):  # a server of 3.1 prints 0 for unknown values
                values["sent_bps"] = sent.bps
        elif last.bps == 0 and last.datagrams > lost:  # before 3.2, a server that received
            values = {"goodput_bps": self._mean()}
        elif last.bps == 0 and not last.datagrams:  # nothing arrived, and what was sent is not known
            values = {"goodput_bps": last.bps}
        else:  # before 3.2, the one line of UDP has the sent rate, and the receiver's count of datagrams
            values = {"goodput_bps": last.bps * (1 - (loss or 0.0)), "sent_bps": last.bps}
        if sent is not None and sent.retransmits is not None:
            values["retransmits"] = float(sent.retransmits)
        if loss is not None and last.jitter_ns is not None:
            values |= {"loss_ratio": loss, "jitter_ns": last.jitter_ns}
        return values

    @property
    def rows(self) -> list[Row]:
        """A row per interval, for all streams together, without the very short interval that a server may have at the end."""
        least_s = max((line.to_s - line.from_s for line in self._intervals), default=0.0) / 2
        intervals = [line for line in self._intervals if line.to_s - line.from_s >= least_s]
        whole = [line for line in intervals if line.stream == SUM]
        groups: dict[float, list[TextLine]] = {}
        for line in whole or intervals:
            groups.setdefault(line.to_s, []).append(line)
        of_udp = self.last is not None and self.last.jitter_ns is not None
        return [_row(to_s, of, sent=of_udp and of[0].datagrams is None) for to_s, of in groups.items() if whole or len(of) == self._streams]

    def _total(self, lines: Sequence[TextLine]) -> _Total | None:
        """Return the total from the line of the sum, else from the lines of all streams; None if streams are missing."""
        whole = [line for line in lines if line.stream == SUM][-1:]
        if not whole:
            whole = list({line.stream: line for line in lines}.values())
            if not whole or len(whole) < self._streams:
                return None
        datagrams = [line.datagrams for line in whole if line.datagrams is not None]
        again = [line.retransmits for line in whole if line.retransmits is not None] if not datagrams else []
        return _Total(
            sum(line.bps for line in whole),
            max(line.to_s for line in whole),
            sum(again) if again else None,
            sum(d.jitter_ns for d in datagrams) / len(datagrams) if datagrams else None,
            sum(d.counted_lost for d in datagrams),
            sum(d.total for d in datagrams),
        )

    def _mean(self) -> float:
        rows = [(float(row["goodput_bps"] or 0.0), float(row["at_s"] or 0.0)) for row in self.rows if "goodput_bps" in row]
        if not rows:
            raise UnreadableError("it does not report what was received")
        spans = [at - before for (_, at), before in zip(rows, [0.0, *(at for _, at in rows)], strict=False)]
        return sum(bps * s for (bps, _), s in zip(rows, spans, strict=True)) / sum(spans)


def _summaries(text: str, lines: Sequence[TextLine]) -> Iterator[TextLine]:
    """Yield the lines of the summary: below the last row of dashes that a headline follows.

    Rows of dashes between seconds of several streams have no headline after them.
    """
    below = text.rfind("- - - - -")
    is_end = below >= 0 and "[ ID]" in text[below:]
    yield from [line for line in lines if line.side] or [line for line in lines if is_end and line.at > below]


def _ways(text: str, lines: Sequence[TextLine], sums: set[int], *, is_server: bool) -> dict[str, list[TextLine]]:
    """Return direction → its lines, with directions as the client names them: forward is from client to server."""
    if any(line.role for line in lines):
        ways: dict[str, list[TextLine]] = {FORWARD: [], REVERSE: []}
        for line in lines:
            if line.role:
                ways[FORWARD if line.role.startswith("TX") != is_server else REVERSE].append(line)
        return ways
    sides = {line.side: line for line in lines if id(line) in sums}
    if is_server:
        came = sides.get("receiver")
        back = ("sender" in sides and (came is None or came.bps == 0 < sides["sender"].bps)) or ("" in sides and sides[""].bps > 0)
    else:
        back = "Reverse mode, remote host " in text
    return {REVERSE if back else FORWARD: list(lines)}


def _settings_of(text: str, found_fields: Mapping[str, str], options: Mapping[str, Value]) -> dict[str, Value]:
    """Return the requested settings: from `-V`, else from the command line."""
    asked: dict[str, Value] = {k: v for k, v in options.items() if k != "congestion"}
    if match := _VERBOSE.search(text):
        asked |= {
            "protocol": match["protocol"].lower(), "streams": int(match["streams"]), "length_bytes": int(match["length"]),
            "omit_s": int(match["omit"]), "duration_s": int(match["seconds"]),
        }  # fmt: skip
    if rate := float(found_fields.get("rate", 0)):
        asked["rate_bps"] = rate
    return asked


def _options(command: str) -> dict[str, Value]:
    """Return the settings in a command line; `-b 1G` and `-b1G` are the same."""
    words, settings = command.split(), dict[str, Value]()
    for n, word in enumerate(words):
        name, is_long, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if key := _OPTIONS.get(name):
            value = value if is_long or value else words[n + 1] if n + 1 < len(words) else ""
            with suppress(ValueError):
                settings[key] = _value(key, value)
        if word == "--sctp":
            settings["protocol"] = "sctp"
    if "-u" in words or "--udp" in words:
        settings.setdefault("rate_bps", float(_MEGABIT_A_SECOND))
    return {key: value for key, value in settings.items() if value}  # -b 0 means no limit


def _value(key: str, value: str) -> Value:
    """Return the value of an option. Rates have powers of 1000, sizes of 1024 (iperf3's units.c). Raises ValueError."""
    if key not in {"rate_bps", "length_bytes", "mss_bytes"}:
        return value
    value = value.partition("/")[0].lower()  # -b 1G/10: bursts
    power = max(0, _POWERS.find(value[-1:]))
    number = float(value.rstrip(_POWERS)) * (1e3 if key == "rate_bps" else 1024.0) ** power
    return number if key == "rate_bps" else int(number)


def _row(to_s: float, lines: Sequence[TextLine], *, sent: bool) -> Row:
    """Return the row of an interval. `sent` marks UDP at the sender, where the last column is a count of datagrams."""
    again = [line.retransmits for line in lines if line.retransmits is not None]
    rate = "sent_bps" if sent else "goodput_bps"
    return {"at_s": to_s, rate: sum(line.bps for line in lines), "retransmits": sum(again) if again and not sent else None}


def _is_cut_short(error: re.Match[str]) -> bool:
    return "has terminated" in error["what"]


def _moment(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError, OverflowError):
        return None
