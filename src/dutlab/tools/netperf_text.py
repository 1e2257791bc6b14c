"""What netperf prints for people: TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, UDP_STREAM, and the request/response tests.

The forms are those of netperf 2.4 to 2.7 (nettest_bsd.c; nettest_omni.c prints the same, behind `MIGRATED`). A test of UDP has two lines,
of what was sent and of what came. Throughput is in 10^6 bits a second unless `-f` asked for another unit, which the headline names: bits in
powers of 1000, bytes in powers of 1024 (netlib.c, calc_thruput()).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TEST = re.compile(r"^(?:MIGRATED )?(?P<kind>TCP|UDP|SCTP)[ _](?P<what>[A-Z/ ]+?) (?:TEST )?(?:from|to) ", re.MULTILINE)
_UNIT = re.compile(r"(10\^3|10\^6|10\^9)bits */sec|([KMG]?)Bytes */sec|per sec")
_NUMBERS = re.compile(r"^ *(\d+(?:\.\d+)?(?: +\d+(?:\.\d+)?)*) *$", re.MULTILINE)
_SCALES = {"10^3": 1e3, "10^6": 1e6, "10^9": 1e9, "": 8.0, "K": 1024 * 8.0, "M": 1024**2 * 8.0, "G": 1024**3 * 8.0}
_STREAM, _SENT, _CAME, _PAIRS = 5, 6, 4, 6
"""How many numbers the line of a stream has, that of what UDP sent, that of what came of it, and that of requests."""


@dataclass(frozen=True)
class NetperfTest:
    """A test that reached its end: its figures by our names, and the sizes that were asked for."""

    name: str
    """As `-t` has it: TCP_STREAM, UDP_STREAM, TCP_RR."""
    figures: Mapping[str, float]
    sizes: Mapping[str, int]
    duration_s: float


def tests_of(text: str) -> list[NetperfTest]:
    """Every whole test in a text, in its order; one without its headline (`-P 0`) is not recognised."""
    heads = list(_TEST.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    return [test for head, end in zip(heads, ends, strict=True) if (test := _test(head, text[head.end() : end])) is not None]


def _test(head: re.Match[str], body: str) -> NetperfTest | None:
    name = f"{head['kind']}_{head['what'].strip()}".replace(" ", "_").replace("REQUEST/RESPONSE", "RR")
    lines = [[float(word) for word in line.split()] for line in _NUMBERS.findall(body)]
    unit = _UNIT.search(body)
    if not lines or unit is None:
        return None
    first, rest = lines[0], lines[1:]
    if len(first) < (_PAIRS if unit[0] == "per sec" else _SENT if head["kind"] == "UDP" else _STREAM):
        return None
    if unit[0] == "per sec":
        sizes = {"request_bytes": int(first[2]), "response_bytes": int(first[3])}
        return NetperfTest(name, {"transactions_per_s": first[5]}, sizes, first[4])
    scale = _SCALES[unit[1] or unit[2]]
    if head["kind"] != "UDP":
        return NetperfTest(name, {"goodput_bps": first[4] * scale}, {"message_bytes": int(first[2])}, first[3])
    if not rest or len(rest[0]) < _CAME:
        return None
    sent, came = first[3], rest[0][2]
    figures = {"sent_bps": first[5] * scale, "goodput_bps": rest[0][3] * scale}
    figures |= {"loss_ratio": max(0.0, (sent - came) / sent)} if sent else {}
    return NetperfTest(name, figures, {"message_bytes": int(first[1])}, first[2])
