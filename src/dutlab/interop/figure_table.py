"""Import of a table of figures, published or from a spreadsheet. Each row has the figures of one link in one trial.

The first line names the columns. `mode`, `workload`, `tool`, `links` and `link` determine the cell and link of a row. A column whose name
ends in a unit of figures is a figure (`goodput_gbps`, `received_kpps`, `latency_p99_us`). Every other column is a parameter of the
workload, and so are requested values (`duration_s`). Rows with equal settings and link are repeats. A column that numbers or dates repeats
(`run`, `date`) is not a setting if no two rows of equal settings share its value. The record of each trial then states this. An empty field
is a figure that was not published.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from dutlab.errors import InputError
from dutlab.interop.figure_checks import line_ceilings
from dutlab.interop.imported_run import LINK, Imported, ImportOptions
from dutlab.measures import MeasureUnit, measure_of, measure_unit
from dutlab.methods.loadtest import REFERENCE_LINE
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.stats.summary import median
from dutlab.store.record import PUBLISHED
from dutlab.subject import WAYS_OF_DRIVES, FigureName, by_part, joined, places_in
from dutlab.units import BpsL1, number_or_text, si

_PLACE = ("mode", "workload", "tool", "links", "link")
_ASKED = ("duration_s", "omit_s", "warmup_s", "drain_s", "rampup_s", "hold_s", "rate_pps", "rate_percent", "target_percent")
"""Parameters whose names end in a unit too."""
_KNOWN_SETTINGS = ("mtu", "frame_size", "protocol", "streams")
"""Settings that determine ceilings, or the style of a report."""
_COUNTS = frozenset({"run", "repeat", "repetition", "iteration", "attempt", "trial", "sample", "nr", "no", "number", "id"})
_DATES = frozenset({"date", "time", "timestamp", "datetime", "started", "ended", "when"})
"""Names of columns that distinguish repeats and are not settings, even if their values are not dates."""
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
"""Binary prefixes (IEC 80000-13). Some tools print such units as MB/s or MByte/s."""
_RATES = {"pps": "pps", "bps_l1": "bps_l1", "bps_l2": "bps_l2", "bps": "bps"}
_OTHERS = {
    "percent": ("ratio", 0.01), "ratio": ("ratio", 1.0), "frames": ("frames", 1.0), "watts": ("watts", 1.0), "w": ("watts", 1.0),
    "c": ("c", 1.0),
    "iops": ("iops", 1.0), "kiops": ("iops", 1e3), "miops": ("iops", 1e6), "gbytes": ("bytes", 1e9), "tbytes": ("bytes", 1e12),
    "ns": ("ns", 1.0), "us": ("ns", 1e3), "ms": ("ns", 1e6), "s": ("s", 1.0), "retransmits": ("retransmits", 1.0),
}  # fmt: skip
_SUFFIXES: Mapping[str, tuple[str, float]] = (
    {f"{prefix}{rate}": (base, scale) for prefix, scale in _PREFIX.items() for rate, base in _RATES.items()}
    | {f"{prefix}bytes_per_s": ("bytes_per_s", scale) for prefix, scale in (_PREFIX | _BINARY).items()}
    | _OTHERS
)
"""Ending of a figure's name in a file → ending in our records, and the factor between them."""
_FIGURE_OF_UNIT = {**{rate: f"rate_{rate}" for rate in (*_RATES.values(), "bytes_per_s")}, "iops": "iops", "watts": "watts"}
"""Figure of a column whose name is a unit alone: `gbps` and `gbytes_per_s` are rates."""
_BARE = frozenset({*_RATES, "bytes_per_s", "watts"})
"""Measures whose name is a unit only. A column name with this ending may also mean lost frames, so its measure is not known."""
_SHARES = ("", "received_", "max_", "saturation_")
"""Prefixes of names of shares of the line rate."""
_ADDED = frozenset({MeasureUnit.BPS, MeasureUnit.PPS})
_DECIMAL_COMMA = re.compile(r"^\s*(-?\d{1,18}),(\d{1,18})\s*$")
_SAME_LINE = 0.02
"""Largest relative difference of two equal line rates. Published bits and percentages have three digits."""
Columns = Mapping[str, tuple[str, float]]
"""Column → its figure, and the factor to our unit."""
_Links = dict[str, dict[str, float]]
_Published = list[dict[str, int | float | str | None]]
_Trials = dict[str, tuple[Cell, list[tuple[_Links, _Published]]]]
"""Cell as JSON → the cell, and for each repeat: link → figures, and the published texts of these figures."""


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the CSV file `name`: one trial for each cell and repeat. Raises InputError with every faulty line."""
    try:
        rows = _rows(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name}: not a CSV file: {error}") from error
    if len(rows) < 2:  # noqa: PLR2004 -- a header and a row
        raise InputError(f"{name}: has no rows", remedy="the first line names the columns, each further one is a measurement")
    head = [_named(column.strip()) for column in rows[0]]
    columns = {column: name_and_factor for column in head if column not in (*_PLACE, *_ASKED) and (name_and_factor := _figure(column))}
    faults = [*_head_faults(head, columns)]
    if faults:
        raise InputError(f"{name}:1: {'; '.join(faults)}")
    trials: _Trials = {}
    counting = _repeat_columns(head, rows[1:], columns)
    for number, row in enumerate(rows[1:], 2):
        if any(field.strip() for field in row):
            faults += _add(trials, f"{name}:{number}", head, row, columns, counting=counting)
    if faults:
        raise InputError("; ".join(faults))
    line = _line(name, trials, options.line_rate)
    return [
        Imported(
            cell,
            Measured(whole, tables={PUBLISHED: published}, facts=_facts_of(counting), notes=_notes_of(counting) if first else []),
            ceilings={} if line is None else line_ceilings(cell, whole, line),
        )
        for number, (cell, repeats) in enumerate(trials.values())
        for nth, (figures, published) in enumerate(repeats)
        for first in (number == nth == 0,)
        for whole in (_with_sum(cell, {link: _as_asked(cell, of, line) for link, of in figures.items()}),)
    ]


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a table, separated by commas, tabs or semicolons; with semicolons, decimal commas become points.

    Spreadsheets of countries with a decimal comma write semicolons. Raises csv.Error.
    """
    first = text.partition("\n")[0]
    separator = "," if "," in first else next((s for s in ("\t", ";") if s in first), ",")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True))
    return [[_DECIMAL_COMMA.sub(r"\1.\2", field) for field in row] for row in rows] if separator == ";" else rows


def _named(column: str) -> str:
    """Return the name of a column, in lower case if it has a meaning then."""
    lower = column.lower()
    return lower if lower in (*_PLACE, *_ASKED, *_KNOWN_SETTINGS) or _figure(lower) else column


def _line(name: str, trials: _Trials, given: BpsL1 | None) -> BpsL1 | None:
    """Return the given line rate, else the one that the table's percentages and rates imply.

    For percentages without rates, return the reference of 1 Gbit/s.

    Return None where it is not known; then no figure has a ceiling. Raises InputError where the table contradicts the given one.
    """
    line_rates, asked = list[float](), False
    for _, repeats in trials.values():
        for of in (of for links, _ in repeats for figures in links.values() for of in by_part(figures).values()):
            shares = {name: share for name in _SHARES if (share := of.get(f"{name}line_ratio", 0.0)) > 0}
            asked = asked or bool(shares)
            bits = [(share, of.get(f"{name}received_bps_l1", of.get(f"{name}bps_l1"))) for name, share in shares.items()]
            line_rates += [rate / share for share, rate in bits if rate]
    table_rate = median(line_rates) if line_rates else None
    if table_rate is not None and given is not None and abs(table_rate / given - 1) > _SAME_LINE:
        raise InputError(
            f"{name}: its percentages are of {si(table_rate, 'bit/s')}, which --line-rate {si(given, 'bit/s')} contradicts",
            remedy="leave --line-rate out",
        )
    return given or (BpsL1(table_rate) if table_rate is not None else REFERENCE_LINE if asked else None)


def _as_asked(cell: Cell, figures: dict[str, float], line: BpsL1 | None) -> dict[str, float]:
    """Return the figures with the intended rate, if frames were received at a set rate. Such a result is not the highest possible rate."""
    setting = cell.setting_as(ImportedSetting)
    asked, share = setting.rate_pps, setting.rate_percent
    if asked is None and share is not None and line is not None:
        most = line_ceilings(cell, {LINK: figures}, line)[LINK].get("received_pps")
        asked = None if most is None else most * share / 100
    if asked is None or "received_pps" not in figures:
        return figures
    return {"intended_pps": float(asked), **figures}


def _with_sum(cell: Cell, figures: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the figures with the sum over links that were driven at once, if the table has all links but not their sum."""
    if cell.link_label in figures or not all(link in figures for link in cell.links):
        return figures
    rates = [name for name in figures[cell.links[0]] if measure_unit(name) in _ADDED and all(name in figures[x] for x in cell.links)]
    return {**figures, cell.link_label: {name: sum(figures[link][name] for link in cell.links) for name in rates}}


def _figure(column: str) -> tuple[str, float] | None:
    """Return the figure and factor of a column: `goodput_gbps` → `goodput_bps` and 10⁹; None for a column that is not a figure.

    Goodput is always kept in bits.
    """
    if (name_and_factor := _suffixed(column)) and name_and_factor[0] == "goodput_bytes_per_s":
        return "goodput_bps", name_and_factor[1] * 8
    return None if name_and_factor is None else (_figure_name(name_and_factor[0]), name_and_factor[1])


def _figure_name(name: str) -> str:
    """Return our name of a figure: `random_read_iops` → `random/iops.read`. The words before a measure are a part and a direction."""
    if measure_of(name) is not None:
        return name
    words = name.split("_")
    for n in range(1, len(words)):
        before, end = words[:n], "_".join(words[n:])
        way = WAYS_OF_DRIVES.get(before[-1])
        if measure_of(end) is not None and (way is not None or end not in _BARE):
            return str(FigureName("_".join(before if way is None else before[:-1]), end, way))
    return name


def _suffixed(column: str) -> tuple[str, float] | None:
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        base, factor = _SUFFIXES[suffix]
        if column == suffix and (base in _FIGURE_OF_UNIT or suffix == base):
            return _FIGURE_OF_UNIT.get(base, base), factor
        if column.endswith(f"_{suffix}"):
            return f"{column.removesuffix(suffix)}{base}", factor
    return None


def _head_faults(head: Sequence[str], columns: Columns) -> Iterator[str]:
    if twice := sorted({column for column in head if head.count(column) > 1}):
        yield f"duplicate columns: {', '.join(twice)}"
    if not columns:
        yield f"no column is a figure: a figure's name ends in a unit, as in goodput_gbps (here: {', '.join(head)})"
    if "workload" not in head:
        yield "no column workload, which names the test (iperf3, sweep, loadtest, matrix)"


def _repeat_columns(head: Sequence[str], rows: Sequence[Sequence[str]], columns: Columns) -> tuple[str, ...]:
    """Return the columns named as a count or a date, if they number repeats; else an empty tuple.

    They do if rows of equal other settings all have different values in them, and some settings have several rows. So a `run` may restart
    for each setting, and an `id` may continue from one setting to the next.
    """
    named = [c for c in head if c.lower().strip("#_ ") in _COUNTS | _DATES and c not in _PLACE and c not in columns]
    settings = [n for n, c in enumerate(head) if c not in columns and c not in named]
    if not named:
        return ()
    counts_by_setting: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    places = [head.index(c) for c in named]
    for row in rows:
        if len(row) == len(head) and any(field.strip() for field in row):
            counts_by_setting.setdefault(tuple(row[n].strip() for n in settings), []).append(tuple(row[n].strip() for n in places))
    is_repeat = any(len(values) > 1 for values in counts_by_setting.values()) and all(
        len(set(v)) == len(v) for v in counts_by_setting.values()
    )
    return tuple(named) if is_repeat else ()


def _facts_of(counting: Sequence[str]) -> dict[str, str]:
    """Return the fact for the record: the columns that distinguish repeats and are not settings."""
    return {"repeat_columns": ", ".join(counting)} if counting else {}


def _notes_of(counting: Sequence[str]) -> list[str]:
    return [f"rows that differ only in {' and '.join(counting)} are repeats: these columns are not settings"] if counting else []


def _add(trials: _Trials, where: str, head: Sequence[str], row: Sequence[str], columns: Columns, *, counting: Sequence[str]) -> list[str]:
    """Add a row to the first repeat of its cell without figures of its link. Return the faults of the row."""
    if len(row) != len(head):
        return [f"{where}: has {len(row)} fields, the first line {len(head)}"]
    of = dict(zip(head, (field.strip() for field in row), strict=True))
    figures, faults = _figures(where, of, columns)
    try:
        links = places_in(of.get("links") or of.get("link") or "a").places
        link = places_in(of.get("link") or joined(links)).place
    except ValueError as error:
        return [f"{where}: {error}"]
    cell = Cell(
        mode=of.get("mode", ""),
        factors={"mode": of["mode"]} if of.get("mode") else {},
        tool=of.get("tool") or of["workload"],
        links=links,
        setting=ImportedSetting(
            of=of["workload"],
            said={k: number_or_text(v) for k, v in of.items() if k not in _PLACE and k not in columns and k not in counting},
        ),
        repeat=1,
    )
    repeats = trials.setdefault(cell.model_dump_json(), (cell, []))[1]
    free = next((repeat for repeat in repeats if link not in repeat[0]), None)
    if free is None:
        repeats.append(free := ({}, []))
    free[0][link] = figures
    free[1].extend(
        {"link": link, "figure": figure, "column": column, "text": of[column], "scale": factor}
        for column, (figure, factor) in columns.items()
        if figure in figures and of[column]
    )
    return faults


def _figures(where: str, of: Mapping[str, str], columns: Columns) -> tuple[dict[str, float], list[str]]:
    figures, faults = dict[str, float](), list[str]()
    for column, (figure, factor) in columns.items():
        if not (text := of[column]):
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            figures[figure] = value * factor
        else:
            faults.append(f"{where}: {column} is {text[:40]!r}, which is not a number")
    return figures, faults
