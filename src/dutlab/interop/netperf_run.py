"""What netperf prints for people, as trials of ours: TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, UDP_STREAM, and the request/response tests.

The forms are those of netperf 2.4 to 2.7 (nettest_bsd.c; nettest_omni.c prints the same, behind `MIGRATED`). A test of UDP has two lines,
of what was sent and of what came. Throughput is in 10^6 bits a second unless `-f` asked for another unit, which the headline names.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell
from dutlab.methods.ports import Measured

_TEST = re.compile(r"^(?:MIGRATED )?(?P<kind>TCP|UDP|SCTP)[ _](?P<what>[A-Z/ ]+?) (?:TEST )?(?:from|to) ", re.MULTILINE)
_UNIT = re.compile(r"(10\^3|10\^6|10\^9)bits/sec|([KMG])Bytes/sec|per sec")
_NUMBERS = re.compile(r"^ *(\d+(?:\.\d+)?(?: +\d+(?:\.\d+)?)*) *$", re.MULTILINE)
_SCALES = {"10^3": 1e3, "10^6": 1e6, "10^9": 1e9, "K": 1024 * 8.0, "M": 1024**2 * 8.0, "G": 1024**3 * 8.0}
_STREAM, _SENT, _CAME, _PAIRS = 5, 6, 4, 6
"""How many numbers the line of a stream has, that of what UDP sent, that of what came of it, and that of requests."""


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`, a trial a test: its name without ending stands for the device. Raises InputError."""
    del options
    text = data.decode("utf-8", "replace").replace("\r", "")
    heads = list(_TEST.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    trials = [trial for head, end in zip(heads, ends, strict=True) if (trial := _trial(name, head, text[head.end() : end])) is not None]
    if not trials:
        raise InputError(
            f"{name}: no test of netperf in it reached its end", remedy="keep what netperf prints, its headline included (without -P 0)"
        )
    return trials


def _trial(name: str, head: re.Match[str], body: str) -> Imported | None:
    lines = [[float(word) for word in line.split()] for line in _NUMBERS.findall(body)]
    unit = _UNIT.search(body)
    if not lines or unit is None:
        return None
    first, rest = lines[0], lines[1:]
    if unit[0] == "per sec":
        if len(first) < _PAIRS:
            return None
        figures = {"transactions_per_s": first[5]}
        params: dict[str, str | float | int | None] = {"request_bytes": int(first[2]), "response_bytes": int(first[3])}
        duration = first[4]
    else:
        scale = _SCALES[unit[1] or unit[2]]
        if head["kind"] == "UDP":
            if len(first) < _SENT or not rest or len(rest[0]) < _CAME:
                return None
            sent, came = first[3], rest[0][2]
            figures = {"sent_bps": first[5] * scale, "goodput_bps": rest[0][3] * scale}
            figures |= {"loss_ratio": max(0.0, (sent - came) / sent)} if sent else {}
            params, duration = {"message_bytes": int(first[1])}, first[2]
        elif len(first) >= _STREAM:
            figures, duration = {"goodput_bps": first[4] * scale}, first[3]
            params = {"message_bytes": int(first[2])}
        else:
            return None
    test = f"{head['kind']}_{head['what'].strip()}".replace(" ", "_").replace("REQUEST/RESPONSE", "RR")
    cell = imported_cell(
        PurePath(name).stem, workload="netperf", tool="netperf", params={"test": test, **params, "duration_s": round(duration)}
    )
    return Imported(cell, Measured(figures={LINK: figures}))
