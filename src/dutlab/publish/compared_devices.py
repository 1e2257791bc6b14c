"""Devices of a site side by side: the best and worst cell of each, and every result by workload and mode, with prices and watts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dutlab.measures import MeasureUnit, bare_name, direction_of, is_speed, measure_unit
from dutlab.publish.devices import DeviceSheet
from dutlab.publish.site_run import SiteRun
from dutlab.report.model.ends import EndWords, end_words, value_words
from dutlab.report.model.words import unit_for, with_two_digits
from dutlab.store.results import BestAndWorst, CellResult, best_and_worst
from dutlab.subject import apart, figure_name

MOST_ROWS = 300
"""Most rows of a table; the best are shown."""
_PRICE = re.compile(r"\d[\d.,'\u202f ]*")

Label = tuple[str, str, str]
"""Place, figure and label of a result."""


@dataclass(frozen=True)
class DeviceEnds:
    """Best and worst cell of a device at one workload, each with its run."""

    words: EndWords
    best: SiteRun
    worst: SiteRun


@dataclass(frozen=True)
class ComparedRow:
    """One result of one device."""

    device: str
    result: CellResult
    run: SiteRun
    price: str
    watts: float | None
    """Mean power of the DUT in these trials; else the most that any run of the device measured."""
    watts_of: str
    """Mode or phase of that highest power; empty if it was measured in these trials."""

    @property
    def label(self) -> str:
        """Mode and levels."""
        return self.result.label(self.result.factors)

    @property
    def what(self) -> str:
        """Load: number of links at once, and settings."""
        links = len({subject.removesuffix(".back") for subject in apart(self.result.link)})
        return ", ".join(filter(None, (f"{links} links at once" if links > 1 else "", self.result.setting)))

    @property
    def value(self) -> str:
        """Result with its unit."""
        return value_words(self.result)

    @property
    def spread(self) -> str:
        """Range of the repeats; empty for one."""
        r = self.result
        if r.repeats == 1:
            return ""
        unit = with_two_digits(unit_for(r.figure, [r.median]), r.median)
        return f"{unit.number(r.low)} to {unit.number(r.high)}"

    @property
    def amount(self) -> float | None:
        """Price as a number, for sorting."""
        return amount_of(self.price)


@dataclass(frozen=True)
class ComparedTable:
    """All devices at one workload by one figure."""

    slug: str
    workload: str
    figure: str
    rows: tuple[ComparedRow, ...]
    left_out: int

    @property
    def lower(self) -> bool:
        """True if less is better."""
        return direction_of(self.figure) == "lower"

    @property
    def title(self) -> str:
        """Workload and figure in words."""
        return f"{self.workload}: {(bare_name(self.figure) or self.figure).replace('_', ' ')}"

    @cached_property
    def has(self) -> Mapping[str, bool]:
        """Column → whether any row has something in it."""
        return {
            "frames": any(r.result.frame_size for r in self.rows),
            "what": any(r.what for r in self.rows),
            "spread": any(r.spread for r in self.rows),
            "price": any(r.price for r in self.rows),
            "watts": any(r.watts is not None for r in self.rows),
        }


def amount_of(price: str) -> float | None:
    """Return the first number of a price, `1079.0` of `1,079 USD (May 2020)`; None without one."""
    if (match := _PRICE.search(price)) is None:
        return None
    digits = re.sub(r"[,.](?=\d{3}(?!\d))|['\u202f ]", "", match[0].strip(" .,"))
    try:
        return float(digits.replace(",", "."))
    except ValueError:
        return None


def newest_results(runs: Iterable[SiteRun]) -> dict[Label, tuple[CellResult, SiteRun]]:
    """Return the results of a device. Of several runs of a cell it is the newest; `runs` are newest first."""
    out: dict[Label, tuple[CellResult, SiteRun]] = {}
    for run in runs:
        for result in run.results:
            out.setdefault(_label(result), (result, run))
    return out


def _label(result: CellResult) -> Label:
    return result.place, result.figure, result.label(sorted(result.factors))


def ends_of(runs: Sequence[SiteRun]) -> tuple[DeviceEnds, ...]:
    """Return the best and worst cell of a device at each workload, over its runs, newest first."""
    newest = newest_results(runs)

    def shown(ends: BestAndWorst) -> DeviceEnds:
        best, worst = (newest[_label(of)][1] for of in (ends.best, ends.worst))
        return DeviceEnds(end_words(ends), best, worst)

    return tuple(map(shown, best_and_worst(result for result, _ in newest.values())))


def highest_watts(runs: Iterable[SiteRun]) -> tuple[float, str] | None:
    """Return the highest power that the runs of a device state, with its mode and phase; None without any."""
    known = [
        (row[13], " ".join(filter(None, (row[5], figure_name(row[12]).part))))
        for run in runs
        for row in run.figures
        if measure_unit(row[12]) is MeasureUnit.WATTS
    ]
    return max(known, default=None)


def compared_devices(by_device: Mapping[str, Sequence[SiteRun]], sheets: Mapping[str, DeviceSheet]) -> tuple[ComparedTable, ...]:
    """Return a table for each workload and main figure with a better direction: speeds first, the best result of a table first."""
    rows: dict[tuple[str, str], list[ComparedRow]] = defaultdict(list)
    for device, runs in by_device.items():
        most = highest_watts(runs)
        price = sheets[device].price if device in sheets else ""
        for result, run in newest_results(runs).values():
            own = run.watts.get((result.place, result.label(sorted(result.factors))))
            watts, watts_of = (own, "") if own is not None else most or (None, "")
            if direction_of(result.figure):
                rows[result.workload, result.figure].append(ComparedRow(device, result, run, price, watts, watts_of))
    tables = []
    for n, ((workload, figure), of) in enumerate(
        sorted(rows.items(), key=lambda item: (not is_speed(item[0][1]), -len(item[1]), item[0])), 1
    ):
        sign = 1 if direction_of(figure) == "lower" else -1
        best = sorted(of, key=lambda r: sign * r.result.median)
        tables.append(ComparedTable(f"compared-{n}", workload, figure, tuple(best[:MOST_ROWS]), max(0, len(best) - MOST_ROWS)))
    return tuple(tables)
