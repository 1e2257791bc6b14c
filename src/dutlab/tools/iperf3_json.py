"""Reads what `iperf3 -J` prints, from any version, whole or not.

The format is made in iperf3's src/iperf_api.c. What has been seen in the wild and is read here: `-nan` as a number (esnet/iperf#613), text
before or after the object (#1143), a cut object (#1776), no output at all, an `error` beside figures that look real, and exit status 0
with an error (3.12 says "unable to connect" that way), which is why the status is not looked at.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_OUTPUT = 64 * 2**20
"""Bytes; an hour of 32 streams stays below it. More is no report that should be taken apart in memory."""
_NOT_JSON_NUMBER = re.compile(r"(?P<before>[:\[,]\s*)[-+]?(?:nan|inf(?:inity)?)(?:\([^)]*\))?(?=\s*[,}\]])", re.IGNORECASE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class UnreadableError(Exception):
    """The output holds no result; the text is the part of a sentence that says why."""


@dataclass(frozen=True)
class Interval:
    """One line of the report: all streams together, `end_s` after the test began, omitted seconds included."""

    end_s: float
    goodput_bps: float
    retransmits: int | None


@dataclass(frozen=True)
class Result:
    """One test's end. Rates are payload bits per second over the time that was not omitted; None is what this iperf3 does not tell."""

    received_bps: float
    sent_bps: float
    received_bytes: int
    sent_bytes: int
    seconds: float
    retransmits: int | None
    sender_cpu_percent: float | None
    receiver_cpu_percent: float | None
    congestion: str | None
    version: str
    intervals: tuple[Interval, ...] = ()
    repairs: tuple[str, ...] = field(default=())
    """What had to be mended or left out before the output could be read."""


def parse(output: bytes) -> Result:
    """The result of a TCP test from the client's output.

    Raises UnreadableError when it holds none.
    """
    document, repairs = read_object(output)
    if (error := document.get("error")) is not None:
        raise UnreadableError(f"it reports: {str(error).removeprefix('error - ')}")
    start, end = _object(document, "start"), _object(document, "end")
    if not end:
        raise UnreadableError("it ended early: its report has no end")
    received, sent = _object(end, "sum_received"), _object(end, "sum_sent")
    cpu = _object(end, "cpu_utilization_percent")
    if not isinstance(intervals := document.get("intervals", []), list):
        intervals, repairs = [], [*repairs, "the list of intervals is none and was left out"]
    received_bps = _number(received, "bits_per_second")
    if received_bps is None:
        raise UnreadableError("its report says nothing of what was received (sum_received.bits_per_second)")
    sent_bps = _number(sent, "bits_per_second")
    if sent_bps is None:
        raise UnreadableError("its report says nothing of what was sent (sum_sent.bits_per_second)")
    return Result(
        received_bps=received_bps,
        sent_bps=sent_bps,
        received_bytes=int(_number(received, "bytes") or 0),
        sent_bytes=int(_number(sent, "bytes") or 0),
        seconds=_number(received, "seconds") or 0.0,
        retransmits=_count(sent, "retransmits"),
        sender_cpu_percent=_number(cpu, "host_total"),
        receiver_cpu_percent=_number(cpu, "remote_total"),
        congestion=str(end["sender_tcp_congestion"]) if "sender_tcp_congestion" in end else None,
        version=str(start.get("version", "unknown")),
        intervals=_intervals(intervals),
        repairs=tuple(repairs),
    )


def error_in(output: bytes) -> str | None:
    """The `error` that iperf3 reports, or None; never raises."""
    try:
        document, _ = read_object(output)
    except UnreadableError:
        return None
    error = document.get("error")
    return None if error is None else str(error).removeprefix("error - ")


def read_object(output: bytes) -> tuple[dict[str, Any], list[str]]:
    """The one JSON object in `output`, and what was mended to get at it.

    Raises UnreadableError.
    """
    if len(output) > LONGEST_OUTPUT:
        raise UnreadableError(f"it printed {len(output)} bytes, more than any report has")
    text = output.decode("utf-8", "replace").strip()
    if not text:
        raise UnreadableError("it printed nothing")
    begin = text.find("{")
    if begin < 0:
        raise UnreadableError(f"it printed no JSON but {text[:80]!r}")
    repairs = [f"text before the report: {text[:begin].strip()[:80]!r}"] if begin else []
    text = text[begin:]
    try:
        document, length = _decode(text)
    except ValueError:
        mended = _without_nan(text)
        if mended == text:
            raise UnreadableError(_why_not_json(text)) from None
        try:
            document, length = _decode(mended)
        except ValueError:
            raise UnreadableError(_why_not_json(mended)) from None
        text, repairs = mended, [*repairs, "numbers that are none (nan, inf) were left out"]
    if rest := text[length:].strip():
        repairs.append(f"text after the report: {rest[:80]!r}")
    return document, repairs


def _decode(text: str) -> tuple[dict[str, Any], int]:
    """The object that `text` begins with and its length. Raises ValueError, also for NaN and Infinity, which are no JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        document, length = json.JSONDecoder(parse_constant=refuse).raw_decode(text)
    except RecursionError:
        raise UnreadableError("its report is nested too deep to be one") from None
    return document, length  # an object, because `text` begins with `{`


def _why_not_json(text: str) -> str:
    if not text.endswith("}"):
        return f"its report is cut after {len(text)} characters"
    try:
        json.loads(text)
    except json.JSONDecodeError as e:
        return f"its report is no JSON ({e.msg} at character {e.pos})"
    except ValueError as e:
        return f"its report is no JSON ({e})"
    return "its report is no JSON"


def _without_nan(text: str) -> str:
    """`-nan` and its kin as null, outside of strings only."""
    pieces, at = [], 0
    for string in _STRING.finditer(text):
        pieces += [_NOT_JSON_NUMBER.sub(r"\g<before>null", text[at : string.start()]), string[0]]
        at = string.end()
    return "".join([*pieces, _NOT_JSON_NUMBER.sub(r"\g<before>null", text[at:])])


def _intervals(raw: list[Any]) -> tuple[Interval, ...]:
    """Those that count: not omitted, at least half a second long (the last may be a sliver), with a rate."""
    intervals, begun_s = [], 0.0
    for entry in raw:
        total = _object(entry, "sum") if isinstance(entry, Mapping) else {}
        seconds, rate = _number(total, "seconds"), _number(total, "bits_per_second")
        begun_s += seconds or 0.0
        if seconds is not None and rate is not None and seconds >= 0.5 and not total.get("omitted"):  # noqa: PLR2004 - see above
            intervals.append(Interval(begun_s, rate, _count(total, "retransmits")))
    return tuple(intervals)


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _number(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(document: Mapping[str, Any], key: str) -> int | None:
    """A counter; old builds without TCP_INFO leave it out or say -1."""
    number = _number(document, key)
    return None if number is None else int(number)
