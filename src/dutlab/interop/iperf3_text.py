"""What iperf3 prints for people, of a client or of a server, as trials: of Linux, the BSDs and Windows, of one stream and of several.

What differs between versions and systems is read too: `Bandwidth` or `Bitrate`, no retransmissions where the system does not tell them
(Windows), UDP before 3.2, whose summary names no receiver and has the rate that was sent. Servers before 3.2 print 0 for the other side,
which they do not know. A record holds rates as they were printed, in three digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.methods.ports import Row
from dutlab.tools.iperf3.text_line import SUM, TextLine, lines_of, mean_bps
from dutlab.tools.json_text import UnreadableError

_TEST = re.compile(r"^(?=Connecting to host |Accepted connection from )", re.MULTILINE)
_STREAM = re.compile(r"^\[ *(\d+)\] local \S+ port \d+ connected to ", re.MULTILINE)
_ERROR = re.compile(r"^iperf3(?:\.exe)?: (?:error - |interrupt - )(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class TextResult:
    """One test: figures by our names, a row a second, and what was asked for as far as the text tells."""

    figures: Mapping[str, float]
    seconds: list[Row]
    params: Mapping[str, str | int | None]
    repairs: tuple[str, ...]


def is_text(data: bytes) -> bool:
    """Whether this is not JSON: what is printed for people holds no brace."""
    return b"{" not in data


def results_of(data: bytes) -> list[TextResult]:
    """Every test of a file, in its order: several in one file are repeats. Raises UnreadableError when none has a result."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    parts = [part for part in _TEST.split(text) if any(lines_of(part)) or _ERROR.search(part)]
    found, faults = [], []
    for part in parts:
        try:
            found.append(_result(part))
        except UnreadableError as error:
            faults.append(str(error))
    if not found:
        raise UnreadableError(faults[0] if faults else "it holds neither JSON nor lines of iperf3")
    if faults:
        found[0] = TextResult(found[0].figures, found[0].seconds, found[0].params, (*found[0].repairs, *faults))
    return found


def _result(text: str) -> TextResult:
    if (error := _ERROR.search(text)) is not None:
        raise UnreadableError(f"it reports: {error[1].strip()}")
    if "[TX-" in text or "[RX-" in text:
        raise UnreadableError("it measured both directions at once (--bidir), which its text does not separate; use `iperf3 -J`")
    lines = list(lines_of(text))
    streams = len(set(_STREAM.findall(text)))
    whole = SUM if any(line.stream == SUM for line in lines) else None
    if whole is None and streams > 1:
        raise UnreadableError("it has several streams and no line of their sum")
    ours = [line for line in lines if whole is None or line.stream == whole]
    sums = list(_summaries(text, ours))
    sent = next((line for line in reversed(sums) if line.side == "sender"), None)
    came = next((line for line in reversed(sums) if line.side == "receiver"), None)
    last = came or next((line for line in reversed(sums) if line.datagrams is not None), None)
    if last is None:
        why = "it says nothing of what was received" if sent is not None else "it ended early: it has no summary"
        raise UnreadableError(why)
    intervals = [line for line in ours if line not in sums and not line.is_omitted]
    is_server = "Accepted connection from " in text
    if came is not None and came.bps == 0 and sent is not None and sent.bps > 0 and is_server:
        raise UnreadableError("it is of a server that sent, which is not told what was received; use the client's output")
    figures = _figures(sent, last, intervals, of_receiver=came is not None)
    seconds = [_row(line, sent=last.datagrams is not None and line.datagrams is None) for line in intervals]
    omitted = sum(line.is_omitted for line in ours)
    udp = any(line.datagrams is not None for line in sums)
    params: dict[str, str | int | None] = {
        "protocol": "udp" if udp else "tcp",
        "streams": streams or None,
        "omit_s": omitted,
        "duration_s": round((sent or last).to_s),
    }
    return TextResult(figures, seconds, params, _below_zero(last))


def _summaries(text: str, lines: list[TextLine]) -> Iterator[TextLine]:
    """Lines below the last rule of dashes and a headline; between seconds of several streams there are rules, but no headlines."""
    below = text.rfind("- - - - -")
    is_end = below >= 0 and "[ ID] Interval" in text[below:]
    yield from [line for line in lines if line.side] or [line for line in lines if is_end and line.at > below]


def _figures(sent: TextLine | None, last: TextLine, intervals: Sequence[TextLine], *, of_receiver: bool) -> dict[str, float]:
    datagrams = last.datagrams
    loss = datagrams.lost / datagrams.total if datagrams and datagrams.total else None
    if of_receiver:
        found = {"goodput_bps": last.bps}
        if sent is not None and (sent.bps > 0 or last.bps == 0):  # a server of 3.1 prints 0 for what it does not know
            found["sent_bps"] = sent.bps
    elif last.bps == 0 and datagrams and datagrams.total > datagrams.lost:  # before 3.2, a server that received
        if (came := mean_bps(intervals)) is None:
            raise UnreadableError("it says nothing of what was received")
        found = {"goodput_bps": came}
    else:  # before 3.2, the one line of UDP has the rate that was sent, and what the receiver told of datagrams
        found = {"goodput_bps": last.bps * (1 - (loss or 0.0)), "sent_bps": last.bps}
    if sent is not None and sent.retransmits is not None:
        found["retransmits"] = float(sent.retransmits)
    if datagrams and loss is not None:
        found |= {"loss_ratio": loss, "jitter_ns": datagrams.jitter_ns}
    return found


def _below_zero(last: TextLine) -> tuple[str, ...]:
    counted = last.datagrams.counted_lost if last.datagrams is not None else 0
    return (f"its count of lost datagrams is below zero ({counted}): some arrived twice or late",) if counted < 0 else ()


def _row(line: TextLine, *, sent: bool) -> Row:
    """`sent`: of UDP at the sender, whose last column is a count of datagrams."""
    rate = "sent_bps" if sent else "goodput_bps"
    return {"at_s": line.to_s, rate: line.bps, "retransmits": None if sent else line.retransmits}
