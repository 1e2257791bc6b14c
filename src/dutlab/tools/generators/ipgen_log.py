"""What ipgen writes: its log of one JSON object a second (`-L`), and the answer of its RFC 2544 test (`--rfc2544-output-json`).

Known traps, and what is done about them here (line numbers of gen.c):

- packet sizes of the log are of layer 3: frames with FCS are 18 bytes longer (`frame_bytes`); those of the answer are frames with FCS;
- the seconds of a latency are divided by 1000 instead of multiplied (1764), so any latency of a second or more is wrong and is left out;
- its own loss counts gaps in the sequence only, so a lost tail is unseen (3112): loss here is sent less received;
- times are of a monotonic clock, so they say how far apart lines are and not when they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dutlab.spec.generators.ipgen import L2_BYTES

LATENCY_TRUSTED_BELOW_MS = 999.0
RECEIVER, SENDER = 0, 1
"""Places in `statistics` (the RFC 2544 code's: -R first, then -T)."""


@dataclass(frozen=True)
class IpgenSecond:
    """One line: totals so far, and rates of the last second."""

    at_s: float
    frame_bytes: int
    sent: int
    received: int
    offered_pps: int
    received_pps: int
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
    """The throughput that ipgen found for a frame size."""

    frame_bytes: int
    pps: float
    ceiling_pps: float
    bps: float


def parse_log(text: str) -> tuple[list[IpgenSecond], list[str]]:
    """The seconds of a log, and what could not be read, by line."""
    out, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            out.append(_second(json.loads(line)))
        except KeyError as error:
            faults.append(f"line {number}: no {error.args[0]}")
        except (ValueError, TypeError, IndexError) as error:
            faults.append(f"line {number}: {type(error).__name__}: {error}")
    return out, faults


def parse_answer(text: str) -> list[IpgenThroughput]:
    """Sizes in rising order; every value of the file is a text. Raises ValueError that says what is wrong."""
    try:
        sizes = json.loads(text)["framesize"]
        found = [IpgenThroughput(int(size), float(of["curpps"]), float(of["limitpps"]), float(of["bps"])) for size, of in sizes.items()]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"is not an answer of ipgen's RFC 2544 test: {error!r}") from error
    return sorted(found, key=lambda a: a.frame_bytes)


def _second(said: Mapping[str, Any]) -> IpgenSecond:
    receiver, sender = said["statistics"][RECEIVER], said["statistics"][SENDER]
    return IpgenSecond(
        at_s=float(said["time"]),
        frame_bytes=int(sender["packetsize"]) + L2_BYTES,
        sent=int(sender["TX"]),
        received=int(receiver["RX"]),
        offered_pps=int(sender["TXpps"]),
        received_pps=int(receiver["RXpps"]),
        duplicated=int(receiver.get("RXdup", 0)),
        reordered=int(receiver.get("RXreorder", 0)),
        latency_min_ns=_latency(receiver, "latency-min"),
        latency_avg_ns=_latency(receiver, "latency-avg"),
        latency_max_ns=_latency(receiver, "latency-max"),
    )


def _latency(of: Mapping[str, Any], key: str) -> float | None:
    """None when there is none, or where the least digit of a second was mis-scaled: then the whole is not to be trusted."""
    longest = float(of.get("latency-max", 0.0))
    value = of.get(key)
    return None if value is None or longest <= 0 or longest >= LATENCY_TRUSTED_BELOW_MS else float(value) * 1e6
