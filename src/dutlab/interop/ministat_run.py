"""Import of files with one measurement per line, as for ministat(1). Each line is a repeat.

    2.25 Gbits/sec              329 MBytes   276 Mbits/sec              144

The device is named after the file, or after its folder if the file has a general name such as `output`, as in the results of
github.com/freebsd-net/netperf. With several columns, the last one with the unit of a rate counts, else the first one, as in ministat. A
number without a unit becomes the figure `value`.
"""

from __future__ import annotations

import re
from pathlib import Path

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, AssumedUnit, Imported, ImportOptions, Omission, imported_cell, left_out_of
from dutlab.methods.ports import Measured

_NUMBER = re.compile(r"(?<![\w.])([-+]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][-+]?\d{1,3})?)(?:[ \t]*([A-Za-z][A-Za-z/.]*))?(?![\w.])")
_COLUMNS = re.compile(rf"[ \t]*{_NUMBER.pattern}(?:[ \t,;]+{_NUMBER.pattern})*[ \t]*")
_GENERIC = frozenset({"output", "out", "result", "results", "data", "values"})
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_UNIT = re.compile(r"([kmgt]?)(?:(bits?(?:/s(?:ec)?)?|bps)|(bytes?/s(?:ec)?)|(pps|(?:packet|frame)s?/s(?:ec)?))", re.IGNORECASE)
_BARE = "value"


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`. Raises InputError."""
    del options
    values, unread, further = list[tuple[str, float]](), list[str](), list[str]()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _COLUMNS.fullmatch(line):
            values.append(_measured(line))
            further += [f"column {n} of line {number}" for n in range(2, len(_NUMBER.findall(line)) + 1) if values[-1][0] == _BARE]
        else:
            unread.append(f"line {number}")
    if not values or len(unread) >= len(values):
        raise InputError(f"{name}: is not a file of one measurement a line", remedy="write a number a line, followed by its unit")
    path = Path(name)
    device = path.absolute().parent.name if path.stem.lower() in _GENERIC else path.stem
    cell = imported_cell(device, workload="figures", tool="ministat", params={})
    bare = any(figure == _BARE for figure, _ in values)
    trials = [Imported(cell, Measured({LINK: {figure: value}})) for figure, value in values]
    first = Imported(
        cell,
        trials[0].measured,
        left_out=(*left_out_of("lines", Omission.UNREADABLE, unread), *left_out_of("columns", Omission.NO_MEASURE, further)),
        assumed=(AssumedUnit(_BARE, "none", "the file names none"),) if bare else (),
    )
    return [first, *trials[1:]]


def _measured(line: str) -> tuple[str, float]:
    columns = [(float(value), unit) for value, unit in _NUMBER.findall(line)]
    rates = [(figure, value * scale) for value, unit in columns if (of := _figure(unit)) and (figure := of[0]) and (scale := of[1])]
    return rates[-1] if rates else (_BARE, columns[0][0])


def _figure(unit: str) -> tuple[str, float] | None:
    """Return the figure and factor of a unit: `goodput_bps` and 10⁹ for `Gbits/sec`; None if it is not the unit of a rate."""
    match = _UNIT.fullmatch(unit.rstrip("."))
    if match is None:
        return None
    scale = _SCALES[match[1].lower()]
    return ("received_pps", scale) if match[4] else ("goodput_bps", scale * (8 if match[3] else 1))
