"""What iperf3 prints for people, of a client or of a server, as trials: of Linux, the BSDs and Windows, of one stream and of several.

The lines are those of iperf3's src/iperf_locale.c and iperf_api.c (2.0 to 3.17). What differs is read too: `Bandwidth` or `Bitrate`, no
retransmissions where the system does not tell them (Windows), UDP before 3.1, whose summary names no receiver. Rates are printed in three
digits, bits in powers of 1000 and bytes in powers of 1024 (units.c, unit_snprintf()), and a record holds them as they were printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dutlab.methods.ports import Row
from dutlab.tools.json_text import UnreadableError

_TEST = re.compile(r"^(?=Connecting to host |Accepted connection from )", re.MULTILINE)
_STREAM = re.compile(r"^\[ *(\d+)\] local \S+ port \d+ connected to ", re.MULTILINE)
_LINE = re.compile(
    r"^\[ *(?P<id>\d+|SUM)\] +(?P<from>\d+\.\d+)- *(?P<to>\d+\.\d+) +sec +(?P<amount>[\d.]+) (?P<bytes>[KMGT]?)Bytes +"
    r"(?P<rate>[\d.]+) (?P<prefix>[KMGT]?)(?P<unit>bits|Bytes)/sec(?P<rest>.*)$",
    re.MULTILINE,
)
_DATAGRAMS = re.compile(r"(?P<jitter>[\d.]+) ms +(?P<lost>\d+)/ *(?P<total>\d+) +\(")
_RETRANSMITS = re.compile(r"^ +(\d+)(?= )")
_ERROR = re.compile(r"^iperf3(?:\.exe)?: (?:error - |interrupt - )(.*)$", re.MULTILINE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class TextResult:
    """One test: figures by our names, a row a second, and what was asked for as far as the text tells."""

    figures: Mapping[str, float]
    seconds: list[Row]
    params: Mapping[str, str | int | None]
    repairs: tuple[str, ...]


def is_text(data: bytes) -> bool:
    """Whether this is no JSON: what is printed for people holds no brace."""
    return b"{" not in data


def results_of(data: bytes) -> list[TextResult]:
    """Every test of a file, in its order: several in one file are repeats. Raises UnreadableError when none has a result."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    parts = [part for part in _TEST.split(text) if _LINE.search(part) or _ERROR.search(part)]
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
        raise UnreadableError("it went both ways at once (--bidir), which its text does not tell apart here; use `iperf3 -J`")
    lines = list(_LINE.finditer(text))
    streams = len(set(_STREAM.findall(text)))
    whole = "SUM" if any(m["id"] == "SUM" for m in lines) else None
    if whole is None and streams > 1:
        raise UnreadableError("it has several streams and no line of their sum")
    ours = [m for m in lines if whole is None or m["id"] == whole]
    sums = list(_summaries(text, ours))
    sent = next((m for m in reversed(sums) if m["rest"].rstrip().endswith("sender")), None)
    came = next((m for m in reversed(sums) if m["rest"].rstrip().endswith("receiver")), None)
    last = came or next((m for m in reversed(sums) if _DATAGRAMS.search(m["rest"])), None)
    if last is None:
        why = "it says nothing of what was received" if sent is not None else "it ended early: it has no summary"
        raise UnreadableError(why)
    figures = _figures(sent, last, of_receiver=came is not None)
    seconds = [_row(m) for m in ours if m not in sums and "(omitted)" not in m["rest"]]
    omitted = sum("(omitted)" in m["rest"] for m in ours)
    udp = any(_DATAGRAMS.search(m["rest"]) for m in sums)
    params: dict[str, str | int | None] = {
        "protocol": "udp" if udp else "tcp",
        "streams": streams or None,
        "omit_s": omitted,
        "duration_s": round(float((sent or last)["to"])),
    }
    return TextResult(figures, seconds, params, ())


def _summaries(text: str, lines: list[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Lines below the last rule of dashes and a headline; between seconds of several streams there are rules, but no headlines."""
    below = text.rfind("- - - - -")
    ends = [m for m in lines if m["rest"].rstrip().endswith(("sender", "receiver"))]
    is_end = below >= 0 and "[ ID] Interval" in text[below:]
    yield from ends or [m for m in lines if is_end and m.start() > below]


def _figures(sent: re.Match[str] | None, last: re.Match[str], *, of_receiver: bool) -> dict[str, float]:
    datagrams = _DATAGRAMS.search(last["rest"])
    loss = int(datagrams["lost"]) / total if datagrams and (total := int(datagrams["total"])) else None
    rate = _bits(last)
    # Before 3.1 the one line of UDP has the rate that was sent, and what the receiver told of datagrams.
    found = {"goodput_bps": rate if of_receiver or loss is None else rate * (1 - loss)}
    found["sent_bps"] = _bits(sent) if sent is not None else rate
    if sent is not None and (again := _RETRANSMITS.match(sent["rest"])):
        found["retransmits"] = float(again[1])
    if datagrams and loss is not None:
        found |= {"loss_ratio": loss, "jitter_ns": float(datagrams["jitter"]) * 1e6}
    if sent is None and of_receiver:
        del found["sent_bps"]  # a server's text: nobody told it
    return found


def _row(m: re.Match[str]) -> Row:
    again = _RETRANSMITS.match(m["rest"])
    return {"at_s": float(m["to"]), "goodput_bps": _bits(m), "retransmits": int(again[1]) if again else None}


def _bits(m: re.Match[str]) -> float:
    bits = m["unit"] == "bits"
    scale = float(1000 if bits else 1024) ** _POWERS[m["prefix"]]
    return float(m["rate"]) * float(scale) * (1 if bits else 8)
