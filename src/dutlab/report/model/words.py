"""Numbers and parameters as text for the page: fixed digits within a column, so that figures can be compared by eye."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from dutlab.choices import RATES
from dutlab.measures import BIT_RATES, Better, MeasureUnit, direction_of, measure_of, measure_unit
from dutlab.subject import figure_name, joined

if TYPE_CHECKING:  # a table of text, which every command may print, does not need the settings
    from dutlab.plan.cell import Cell
    from dutlab.spec.generators import GeneratorModel
    from dutlab.spec.workloads.setting import Setting, Value

SIZES = ("frame_size", "frame_mix")
"""Settings that vary inside one table of frame sizes."""
NARROW_SPACE = "\u202f"
MINUS = "\u2212"


@dataclass(frozen=True)
class Unit:
    """Format of a figure: value / scale with `digits` decimals, then `name`."""

    name: str
    scale: float
    digits: int

    def number(self, value: float) -> str:
        """Return the number without the unit; thousands are separated as in grouped()."""
        rounded = round(value / self.scale, self.digits)
        return f"{MINUS if rounded < 0 else ''}{grouped(f'{abs(rounded):.{max(self.digits, 0)}f}')}"

    def text(self, value: float) -> str:
        """Return the number with the unit."""
        return f"{self.number(value)} {self.name}"


PPS = Unit("pps", 1.0, 1)
KPPS = Unit("kpps", 1e3, 1)
_FINE_KPPS = Unit("kpps", 1e3, 3)
MPPS = Unit("Mpps", 1e6, 3)
MBPS = Unit("Mb/s", 1e6, 1)
MICROSECONDS = Unit("µs", 1e3, 1)
PERCENT = Unit("%", 0.01, 2)
PERCENT_WHOLE = Unit("%", 1.0, 0)
COUNT = Unit("", 1.0, 0)
TIMES = Unit("×", 1.0, 2)
SECONDS = Unit("s", 1.0, 2)
PER_SECOND = Unit("/s", 1.0, 0)
IOPS = Unit("IOPS", 1.0, 0)
BYTE_RATE = Unit("MB/s", 1e6, 1)
_GBPS = Unit("Gb/s", 1e9, 2)
MILLISECONDS = Unit("ms", 1e6, 2)
_CAPACITIES = (Unit("TB", 1e12, 1), Unit("GB", 1e9, 1), Unit("MB", 1e6, 1))
_WATTS = Unit("W", 1.0, 1)
_PRINTED = {
    MeasureUnit.PPS_PER_W: Unit("kpps/W", 1e3, 2),
    MeasureUnit.J_PER_GB: Unit("J/GB", 1.0, 2),
    MeasureUnit.J_PER_MPKT: Unit("J/Mpkt", 1.0, 2),
    MeasureUnit.PER_CPU_S: Unit("a CPU second", 1.0, 0),
    MeasureUnit.PER_WORK: Unit("a piece of work", 1.0, 1),
    MeasureUnit.PER_FRAME: Unit("a frame", 1.0, 1),
    MeasureUnit.BYTES_PER_S: BYTE_RATE,
    MeasureUnit.BPS_L1: MBPS,
    MeasureUnit.BPS_L2: MBPS,
    MeasureUnit.BPS: MBPS,
    MeasureUnit.PPS: KPPS,
    MeasureUnit.IOPS: IOPS,
    MeasureUnit.PER_S: PER_SECOND,
    MeasureUnit.PER_MIN: Unit("/min", 1.0, 0),
    MeasureUnit.PERCENT: PERCENT_WHOLE,
    MeasureUnit.RATIO: PERCENT,
    MeasureUnit.NS: MICROSECONDS,
    MeasureUnit.S: SECONDS,
    MeasureUnit.BYTES: Unit("bytes", 1.0, 0),
    MeasureUnit.FRAMES: COUNT,
    MeasureUnit.CORES: Unit("", 1.0, 2),
    MeasureUnit.WATTS: _WATTS,
    MeasureUnit.W: _WATTS,
    MeasureUnit.C: Unit("°C", 1.0, 1),
    MeasureUnit.ONE: COUNT,
}

RATE_UNITS = dict(zip(RATES, (MBPS, Unit("Gb/s", 1e9, 2), Unit("MB/s", 8e6, 1), Unit("MiB/s", 8 * 2.0**20, 1)), strict=True))
"""Unit that a reader may choose for rates of bits and bytes: MB/s is 10⁶ bytes a second, MiB/s is 2²⁰; the scale is in bits."""
_CHOSEN: ContextVar[Unit | None] = ContextVar("chosen unit of rates", default=None)

_KILO = 1e3
_MANY_NS = 10e6
"""Time from which milliseconds are printed: 10 ms, in ns."""
_NUMBERS = r"(?a)\d+(?:\.\d+)?|[^\d]+"
_LONG = 10_000
_MOST_RUNS = 40
"""Largest number of ranges that numbers_words() prints."""


def with_two_digits(unit: Unit, value: float) -> Unit:
    """Return the unit with enough decimals for two significant digits of `value`, fewer if those are exact, never fewer than before."""
    size = abs(value) / unit.scale
    if not size or not math.isfinite(size):
        return unit
    needed = 1 - math.floor(math.log10(size))
    exact = (digits for digits in range(unit.digits, needed) if math.isclose(round(size, digits), size, rel_tol=1e-9))
    return replace(unit, digits=max(unit.digits, next(exact, needed)))


@contextmanager
def rates_in(unit: str | None) -> Iterator[None]:
    """Print rates of bits and bytes in a unit of RATE_UNITS inside this context; None changes nothing."""
    token = _CHOSEN.set(RATE_UNITS[unit] if unit else _CHOSEN.get())
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_rate() -> Unit | None:
    """Return the unit that the reader chose for rates of bits; None without a choice."""
    return _CHOSEN.get()


def bit_rate_unit(values: Iterable[float]) -> Unit:
    """Return one unit for a table of bit rates: the chosen one; else Gb/s with two decimals, or Mb/s for small rates.

    Small means that one is below 0.2 Gb/s, or all are below 1 Gb/s.
    """
    if (chosen := chosen_rate()) is not None:
        return chosen
    sizes = [abs(v) for v in values if v]
    if max(sizes, default=0.0) < 1e9 or min(sizes) < 0.2e9:  # noqa: PLR2004 -- 1 Gb/s; below 0.2 Gb/s two decimals are too few
        return MBPS
    return _GBPS


def frame_rate_unit(values: Iterable[float]) -> Unit:
    """Return one unit for a table of frame rates: Mpps with three decimals if none is small, pps if all are small, else kpps."""
    sizes = [abs(v) for v in values if v]
    if not sizes:
        return KPPS
    if max(sizes) >= 1e6 and min(sizes) >= 0.1e6:  # noqa: PLR2004 -- 1 Mpps; below 0.1 Mpps digits are lost
        return MPPS
    if min(sizes) >= 100:  # noqa: PLR2004 -- 0.1 kpps, the last digit
        return KPPS
    return PPS if max(sizes) < _KILO else _FINE_KPPS


def pps_text(rate: float) -> str:
    """Return a single frame rate as text: `346.3 kpps`, or `20.0 pps` if it is very small."""
    return (KPPS if not rate or abs(rate) >= 100 else PPS).text(rate)  # noqa: PLR2004 -- as above


def unit_of(figure: str) -> Unit:
    """Return the unit in which a figure is printed."""
    measure = measure_of(figure)
    if measure is not None and measure.is_factor:
        return TIMES
    kind, chosen = measure_unit(figure), chosen_rate()
    if chosen is not None and kind is MeasureUnit.BYTES_PER_S:
        return replace(chosen, scale=chosen.scale / 8)
    return chosen if chosen is not None and kind in BIT_RATES else _PRINTED[kind]


def unit_for(figure: str, values: Iterable[float]) -> Unit:
    """Return the common unit of a figure's `values`: by size for rates, times and capacities, else the usual one."""
    if figure == "capacity_bytes":
        return next((unit for unit in _CAPACITIES if max(values, default=0.0) >= unit.scale), _CAPACITIES[-1])
    match measure_unit(figure):
        case MeasureUnit.PPS:
            return frame_rate_unit(values)
        case MeasureUnit.PPS_PER_W:
            return unit_of(figure) if max(values, default=0.0) >= _KILO else Unit("pps/W", 1.0, 1)
        case MeasureUnit.NS if max(values, default=0.0) >= _MANY_NS:
            return MILLISECONDS
        case unit:
            return bit_rate_unit(values) if unit in BIT_RATES else unit_of(figure)


_SPACED = str.maketrans("_/", "  ")


def name_words(figure: str) -> str:
    """Return a figure's name as text, as `read clat mean` for `clat_mean_ns.read`: part, way, then the name without its printed unit."""
    (part, measure, way), unit = figure_name(figure), measure_unit(figure)
    is_printed = _PRINTED[unit].name and unit not in {MeasureUnit.RATIO, MeasureUnit.WATTS}
    bare = measure.removesuffix(f"_{unit.ending}") if is_printed else measure
    return " ".join(filter(None, (part, way.value if way else "", bare))).translate(_SPACED)


def better_of(figure: str) -> Better:
    """Return the better direction of a figure or column; empty if there is none, or if it is unknown."""
    return (figure and direction_of(figure)) or ""


def asked_words(setting: Setting, tool: str, *, without: Collection[str] = ()) -> str:
    """Return a workload's settings as text, as `iperf3, 30 s, first 5 s left out, 4 streams`; `without` names params to leave out."""
    generator = None if "generator" in without else setting.made_by
    words = [
        phrase.format(_Value(value))
        for name, value, words in setting.sentence
        if name not in without and (phrase := words.instead.get(value, "" if value is None else words.text))
    ]
    return ", ".join([by_words(tool, generator), *words])


def setting_words(setting: Setting, *, without: Collection[str] = ()) -> str:
    """Return a setting's words without its tool and the params in `without`, to distinguish it from settings that share these."""
    return asked_words(setting, "", without=without).removeprefix(", ").strip()


def alike_names(settings: Iterable[Setting]) -> set[str]:
    """Return the names of params that have the same value in all settings."""
    return {name for name, _ in set.intersection(*(set(setting.params.items()) for setting in settings))}


def asked_of_all(cells: Collection[Cell], *, without: Collection[str] = ()) -> str:
    """Return the settings that all `cells` of a workload share as text, as `iperf3, 30 s`."""
    first, alike = next(iter(cells)), alike_names(cell.setting for cell in cells)
    return asked_words(first.setting, first.tool, without={*(first.params.keys() - alike), *without})


@dataclass(frozen=True)
class _Value:
    """A setting's value, formatted by the text of its field (dutlab.spec.workloads.setting)."""

    value: Value

    def __format__(self, spec: str) -> str:
        if spec == "pps":
            return pps_text(float(self.value or 0))
        if spec == "bps":
            return unit_for("goodput_bps", [float(self.value or 0)]).text(float(self.value or 0))
        if not isinstance(self.value, float):
            return str(self.value)
        return grouped(f"{self.value:.0f}") if abs(self.value) >= _LONG else f"{self.value:g}"


def in_order(words: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key that compares numbers in texts by value: `depth 2` comes before `depth 16`."""
    return tuple((0, float(part), "") if part[0].isdecimal() else (1, 0.0, part) for part in re.findall(_NUMBERS, words))


_AMOUNT = r"(?a)(?<![\w.:-])\d+(?:\.\d+)?(?!\d|\.\d|[\w.:-]*:)"
"""A number, but not one within a name, an address, a version or a time of day."""


def folded(texts: Iterable[str]) -> list[str]:
    """Merge texts that differ only in their numbers into one with ranges: `took 46–72% of the CPU time`. The order is kept."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        alike.setdefault(re.sub(_AMOUNT, "#", text), []).append(text)
    return [same[0] if len(same) == 1 else _with_ranges(same) for same in alike.values()]


def _with_ranges(alike: Sequence[str]) -> str:
    columns = iter(list(zip(*(re.findall(_AMOUNT, text) for text in alike), strict=True)))

    def span(_: re.Match[str]) -> str:
        column = next(columns)
        low, high = min(column, key=float), max(column, key=float)
        return low if low == high else f"{low}–{high}"

    return re.sub(_AMOUNT, span, alike[0])


def grouped(digits: str) -> str:
    """Return a number with thousands separators, if it has five or more digits before the point."""
    whole, point, rest = digits.partition(".")
    return f"{int(whole):,}".replace(",", NARROW_SPACE) + point + rest if whole.isdigit() and len(whole) >= len(str(_LONG)) else digits


def by_words(tool: str, generator: GeneratorModel | None, *, without: Collection[str] = ()) -> str:
    """Return the tool's name, with the settings of a generator: `trafgen (streams 2)`."""
    words = "" if generator is None else generator.words(without=without)
    return f"{tool} ({words})" if words else tool


def mix_words(mix: str) -> str:
    """Return a frame mix such as `64:7,594:4,1518:1` as text: sizes, weights and the average. Other text is returned unchanged."""
    parts = [part.split(":") for part in mix.replace(" ", ",").split(",") if part]
    if not parts or not all(len(p) == 2 and p[0].isdigit() and p[1].isdigit() for p in parts):  # noqa: PLR2004 - a size and a weight
        return mix
    pairs = [(int(size), int(weight)) for size, weight in parts]
    mean = sum(size * weight for size, weight in pairs) / (sum(weight for _, weight in pairs) or 1)
    sizes = ", ".join(f"{size} bytes × {weight}" for size, weight in pairs)
    return f"{sizes} (with FCS), {mean:.2f} bytes on average"


def duration_words(seconds: float) -> str:
    """Return a duration as text: `2 h 05 min`, `3 min 20 s`, `42 s`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def latency_text(ns: float) -> str:
    """Return a latency in microseconds, or in milliseconds from 10 ms on."""
    return (MILLISECONDS if ns >= _MANY_NS else MICROSECONDS).text(ns)


def column_words(links: tuple[str, ...], link: str, place: str = "link") -> str:
    """Return the phrase for a column: its link, and whether other links were driven too."""
    if len(links) == 1:
        return f"{place} {link} alone"
    together = "both" if len(links) == 2 else "all"  # noqa: PLR2004 - two are "both"
    return f"sum, {together} driven" if link == joined(links) else f"{place} {link}, {together} driven"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return the count with its noun: `1 trial`, `2 trials`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def numbers_words(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: `1–4, 7`; of very many, the first ranges and how many more."""
    out, more = list[list[int]](), 0
    for n in sorted(set(numbers)):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        elif len(out) < _MOST_RUNS:
            out.append([n, n])
        else:
            more += 1
    parts = [str(a) if a == b else f"{a}–{b}" if b > a + 1 else f"{a}, {b}" for a, b in out]
    return ", ".join([*parts, *([f"and {more} more"] if more else [])])


def size_order(size: str) -> tuple[int, float, str]:
    """Return a sort key of frame sizes: numbers by value, then mixes by name."""
    return (0, float(size), "") if size.isdigit() else (1, 0.0, size)


def slug_of(base: str, taken: Collection[str]) -> str:
    """Return a file name: `base`, with a number from 2 on if `base` is taken."""
    return next(slug for n in count(1) if (slug := base if n == 1 else f"{base}-{n}") not in taken)
