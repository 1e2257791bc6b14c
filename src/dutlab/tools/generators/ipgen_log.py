"""Output of ipgen: its log with one JSON object a second (`-L`), and the result of its RFC 2544 test.

The result is in a file (`--rfc2544-output-json`) and in two printed tables, by bits and by frames (gen.c, rfc2544_showresult):

    rfc2544 tolerable error rate: 0.0000%
    framesize|0G  1G   2G   3G   4G   5G   6G   7G   8G   9G   10Gbps
          64 |##################              3571.43Mbps,  6975446/14880952pps,  46.87%

Known faults of ipgen, and their handling here (line numbers of gen.c):

- packet sizes in the log are of layer 3: frames with FCS are 18 bytes longer (`frame_bytes`); sizes in the result are of frames with FCS;
- the seconds of a latency are divided by 1000 instead of multiplied (1764), so any latency of a second or more is wrong and is left out;
- its own loss counts only gaps in the sequence, so it misses frames lost at the end (3112): loss here is sent less received;
- its total of received frames has also the ARP, ICMP and foreign ones (1618): here they are subtracted, by their own counters;
- times are of a monotonic clock, so they give the distance between lines and not the time of day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.outside import json_of
from dutlab.spec.generators.ipgen import L2_BYTES

LATENCY_TRUSTED_BELOW_MS = 999.0
_FOREIGN = ("RXflowcontrol", "RXarp", "RXother", "RXicmpecho", "RXicmpunreach", "RXicmpredirect", "RXicmpother")
"""Counters of received frames that are not ipgen's. RXicmp is left out, since neighbour solicitations count in it and in RXarp."""
RECEIVER, SENDER = 0, 1
"""Indices in `statistics` (as in the RFC 2544 code: -R first, then -T)."""


@dataclass(frozen=True)
class IpgenSecond:
    """One log line: totals so far, and rates of the last second."""

    at_s: float
    frame_bytes: int
    sent: int
    received: int
    """Frames of ipgen, without the foreign ones."""
    foreign: int
    """ARP, ICMP and all other frames that the receiver counted."""
    offered_pps: int
    received_pps: int
    """Rate of the last second, foreign frames included."""
    duplicated: int
    reordered: int
    latency_min_ns: float | None
    latency_avg_ns: float | None
    latency_max_ns: float | None

    @property
    def lost(self) -> int:
        """Lost frames of all sent so far, frames in flight included."""
        return self.sent - self.received + self.duplicated


@dataclass(frozen=True)
class IpgenThroughput:
    """Throughput that ipgen found for a frame size."""

    frame_bytes: int
    pps: float
    ceiling_pps: float
    trial_s: float | None = None
    """Length of a trial, if printed."""
    tolerated_percent: float | None = None
    """Tolerated loss, in percent."""


def parse_log(text: str) -> tuple[list[IpgenSecond], list[str]]:
    """Return the seconds of a log, and the faults with their lines."""
    out, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            out.append(_second(json_of(line.encode())))
        except KeyError as error:
            faults.append(f"line {number}: no {error.args[0]}")
        except (ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            faults.append(f"line {number}: {type(error).__name__}: {error}")
    return out, faults


def tests_of(seconds: Sequence[IpgenSecond]) -> list[list[IpgenSecond]]:
    """Return the seconds of each test: frames of one size, with totals that do not fall."""
    tests: list[list[IpgenSecond]] = []
    for second in seconds:
        if tests and second.frame_bytes == tests[-1][-1].frame_bytes and second.sent >= tests[-1][-1].sent:
            tests[-1].append(second)
        else:
            tests.append([second])
    return tests


def parse_answer(text: str) -> list[IpgenThroughput]:
    """Return the results in a file, by rising size. Every value in the file is a string. Raises ValueError with the fault."""
    try:
        sizes = json_of(text.encode())["framesize"]
        throughputs = [IpgenThroughput(int(size), float(of["curpps"]), float(of["limitpps"])) for size, of in sizes.items()]
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"is not an answer of ipgen's RFC 2544 test: {error!r}") from error
    return sorted(throughputs, key=lambda a: a.frame_bytes)


def parse_tables(text: str) -> list[list[IpgenThroughput]]:
    """Return the results in printed tables, each in row order; empty if none was printed. Each row is in both tables of a result."""
    answers: list[dict[int, IpgenThroughput]] = []
    conditions: dict[str, float] = {}
    for line in text.splitlines():
        if match := _CONDITION.match(line):
            if match["what"] == _FIRST:
                conditions = {}
                answers.append({})
            conditions[match["what"]] = float(match["value"])
        elif match := _ROW.match(line):
            answers = answers or [{}]
            size, trial_s = int(match["size"]), conditions.get("trial duration")
            answers[-1].setdefault(size, IpgenThroughput(size, float(match["pps"]), float(match["most"]), trial_s, conditions.get(_FIRST)))
    return [list(of.values()) for of in answers if of]


_FIRST = "tolerable error rate"
_CONDITION = re.compile(rf"rfc2544 (?P<what>{_FIRST}|trial duration): (?P<value>\d{{1,9}}(?:\.\d+)?)")
_ROW = re.compile(r"\s*(?P<size>\d{2,5}) \|#*\s+(?:\d+\.\d+Mbps,\s+)?(?P<pps>\d{1,12})/\s*(?P<most>\d{1,12})pps,\s+\d+\.\d+%")


def _second(line: Mapping[str, Any]) -> IpgenSecond:
    receiver, sender = line["statistics"][RECEIVER], line["statistics"][SENDER]
    foreign = sum(int(receiver.get(name, 0)) for name in _FOREIGN)
    return IpgenSecond(
        at_s=float(line["time"]),
        frame_bytes=int(sender["packetsize"]) + L2_BYTES,
        sent=int(sender["TX"]),
        received=int(receiver["RX"]) - foreign,
        foreign=foreign,
        offered_pps=int(sender["TXpps"]),
        received_pps=int(receiver["RXpps"]),
        duplicated=int(receiver.get("RXdup", 0)),
        reordered=int(receiver.get("RXreorder", 0)),
        latency_min_ns=_latency(receiver, "latency-min"),
        latency_avg_ns=_latency(receiver, "latency-avg"),
        latency_max_ns=_latency(receiver, "latency-max"),
    )


def _latency(of: Mapping[str, Any], key: str) -> float | None:
    """Return a latency in ns; None if there is none, or if the longest is a second or more, since ipgen then scales it wrongly."""
    longest = float(of.get("latency-max", 0.0))
    value = of.get(key)
    return None if value is None or longest <= 0 or longest >= LATENCY_TRUSTED_BELOW_MS else float(value) * 1e6
