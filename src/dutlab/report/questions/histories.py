"""Histories of an experiment over all its runs, one for each cell and figure, as text and as plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import ceil

from dutlab.analysis.history import Cause, History, HistoryPoint, LevelChange, SpreadOf, history
from dutlab.errors import InputError
from dutlab.measures import Better, MeasureUnit, bare_name, measure_unit
from dutlab.report.model.contests import CompareRequest, cell_label
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.words import unit_for, with_two_digits
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.plot import Plot
from dutlab.stats.rank import p_words
from dutlab.stats.summary import median
from dutlab.store.cell_figures import name_words
from dutlab.store.index import IndexedFigure
from dutlab.subject import apart
from dutlab.workloads import main_figures

_MOST_TICKS = 10
_YEAR, _DAY, _MINUTE = 4, 10, 16
"""Letters of the start of a run, as `2026-11-21T08:01:00`, up to its year, its day and its minute."""
_MOST_DATES, _MOST_LONG_DATES = 6, 4
"""Largest number of dates at an axis, without and with their year."""
HEADS = ("cell", "figure", "runs", "levels", "newest level", "next run, 95 %")
_HEADROOM = "headroom_ratio"
_HELD_AGAINST_THE_RIG = (("throughput_pps", "reference_pps"), ("received_pps", "max_received_pps"))
"""Rates that headroom refers to: the first of these that a cell has."""
_DIGITS = 9
"""Significant digits to which the rig's rate, computed from headroom and result, agrees in all trials."""


@dataclass(frozen=True)
class NightAlarm:
    """Alarm: the newest run is worse than those before it."""

    before: str
    """Newest run before the change."""
    newest: str
    worse: float
    """Share by which the newest run is worse."""


@dataclass(frozen=True)
class CellHistory:
    """One cell's figure over runs."""

    label: str
    figure: str
    history: History
    better: Better
    """Better direction; empty if not known."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on each change, or on the reason why none can be found."""
        lines = [f"{_change(c, self.better)}{_CAUSES[c.cause]}" for c in self.history.changes]
        if (drift := self.history.drift) is not None:
            ends = f"{self.history.points[0].run} to {self.history.points[-1].run}"
            lines.append(
                f"drifts: {_ratio(drift.ratio)}{_way(drift.ratio, self.better)}, little by little from {ends} ({p_words(drift.p)})"
            )
        lines += [f"the rig changed, measured without the device: {_change(c, '')}" for c in self.history.rig]
        for s in self.history.spreads:
            what = "medians of runs spread" if s.of is SpreadOf.RUNS else "repeats of a run spread"
            lines.append(f"{what} {s.ratio:.2g} times as far, from {s.after} on ({p_words(s.p)})")
        for run in self.history.apart:
            newest = run == self.history.points[-1].run
            tail = "the runs before it; one more run will show whether that lasts" if newest else "the runs around it"
            lines.append(f"{run} differs from {tail}")
        if self.history.changes and not self.better:
            lines.append(f"whether more of it is better is not known: say it with --better {self.figure}=higher, or =lower")
        return (*lines, self.history.why) if self.history.why else tuple(lines)

    @property
    def alarm(self) -> NightAlarm | None:
        """Alarm if the newest run is an outlier for the worse, or if it alone makes a step for the worse; else None."""
        of = self.history
        if not of.points or not of.levels:
            return None
        newest = of.points[-1]
        if newest.run in of.apart and of.levels[-1].value > 0:
            before = next((p.run for p in reversed(of.points) if p.run not in of.apart), "")
            worse = _worse(newest.median / of.levels[-1].value, self.better)
        elif of.changes and len(history(of.points[:-1]).changes) < len(of.changes):
            before, worse = of.changes[-1].before, _worse(of.changes[-1].ratio, self.better)
        else:
            return None
        return NightAlarm(before, newest.run, worse) if before and worse > 0 else None


def _worse(ratio: float | None, better: Better) -> float:
    """Return the share by which it is worse; 0 or less if it is not, or if the better direction is unknown."""
    if ratio is None or not better:
        return 0.0
    return 1 - ratio if better == "higher" else ratio - 1


def histories(
    indexed: Iterable[IndexedFigure], figures: Sequence[str] = (), better: Mapping[str, Better] | None = None
) -> tuple[CellHistory, ...]:
    """Return a history per cell and figure. Default figures: the main ones of each cell; `better` as in CompareRequest.

    Raises InputError if there is none.
    """
    asked = CompareRequest(figures, better=better or {})
    by_cell: dict[str, _Values] = {}
    started: dict[str, str] = {}
    workloads: dict[str, str] = {}
    for f in indexed:
        label = cell_label(f.mode, f.factors, f.workload, f.frame_size, name_words(f.link, apart(f.links), f.workload))
        workloads[label] = f.workload
        started[f.run] = f.started
        by_cell.setdefault(label, {}).setdefault(f.figure, {}).setdefault(f.run, []).append(f.value)
    out = [
        CellHistory(label, name, history(list(_points(of_cell, name, started))), asked.side_of(name))
        for label, of_cell in by_cell.items()
        for name in figures or main_figures(workloads[label], of_cell)
        if name in of_cell
    ]
    known = {name for of_cell in by_cell.values() for name in of_cell}
    if absent := [name for name in figures if name not in known] or ([] if out else ["any figure"]):
        raise InputError(f"no run has {', '.join(absent)}", remedy=f"they have {', '.join(sorted(known)) or 'no results at all'}")
    return tuple(out)


_Values = dict[str, dict[str, list[float]]]
"""Figure → run → value of each trial."""


def _points(of_cell: _Values, name: str, started: Mapping[str, str]) -> Iterator[HistoryPoint]:
    """Yield the runs of a figure; for frames a second, each with the rig's rate computed from headroom."""
    rates = next((names for names in _HELD_AGAINST_THE_RIG if any(n in of_cell for n in names)), ())
    is_rate = measure_unit(name) is MeasureUnit.PPS
    for run, values in of_cell[name].items():
        ratios = of_cell.get(_HEADROOM, {}).get(run, [])
        results = [of for n in rates if n in of_cell and len(of := of_cell[n].get(run, [])) == len(ratios)]
        rigs = [ratio * max(of) for ratio, *of in zip(ratios, *results, strict=True)] if results and is_rate else []
        yield HistoryPoint(run, tuple(values), float(f"{median(rigs):.{_DIGITS}g}") if rigs else None, started[run])


def history_rows(histories: Iterable[CellHistory]) -> list[tuple[str, ...]]:
    """Return the rows of the table with the heads HEADS."""
    return [(h.label, h.figure, str(len(h.history.points)), str(len(h.history.levels)), _level(h), _next(h)) for h in histories]


def history_plot(of: CellHistory, place: int) -> Plot | None:
    """Draw the median of each run, the levels, and a vertical line at each change. `place` makes the plot's name unique."""
    points = of.history.points
    runs = Line("median of a run", tuple((float(n), p.median) for n, p in enumerate(points, 1)))
    levels = [Line(f"level {n}", ((a.first + 1.0, a.value), (a.last + 1.0, a.value)), "asked") for n, a in enumerate(of.history.levels, 1)]
    moments = [
        Moment(before.last + 1.5, _ratio(change.ratio)) for before, change in zip(of.history.levels, of.history.changes, strict=False)
    ]
    curve = Curve(
        slug=f"history-{place}", title=f"{of.label}: {of.figure}",
        x_title=", ".join(filter(None, ("run, oldest first", _common(points)))), x="runs", y_title=_axis(of), y=of.figure,
        lines=(runs, *levels), moments=tuple(moments),
        x_ticks=tuple(_ticks(points)),
    )  # fmt: skip
    ends = " to ".join(dict.fromkeys(p.run for p in (points[0], points[-1])))
    drawn = curve_plot(curve, [runs.label])
    return None if drawn is None else replace(drawn, source=f"{ends} · dutlab")


def _common(points: Sequence[HistoryPoint]) -> str:
    """Return the common part of the start times of all runs, for the title of their axis: the day or the year; empty without either."""
    starts = {p.started for p in points}
    common = next((length for length in (_DAY, _YEAR) if len({start[:length] for start in starts}) == 1), 0)
    return next(iter(starts))[:common] if all(starts) else ""


def _ticks(points: Sequence[HistoryPoint]) -> Iterator[tuple[float, str]]:
    """Yield the place and the text of each tick: the date of the first run of a day, or times of one day; without dates, numbers."""
    if not all(p.started for p in points):
        yield from ((float(n), str(n)) for n in range(1, len(points) + 1, ceil(len(points) / _MOST_TICKS)))
        return
    known = len(_common(points))
    places = dict[str, int]()
    for n, p in enumerate(points, 1):
        places.setdefault(p.started[: _MINUTE if known == _DAY else _DAY], n)
    step = ceil(len(places) / (_MOST_DATES if known else _MOST_LONG_DATES))
    for start, n in list(places.items())[::step]:
        day = date.fromisoformat(start[:_DAY])
        yield float(n), {_DAY: start[_DAY + 1 :], _YEAR: f"{day.day} {day:%b}"}.get(known, start)


def _level(of: CellHistory) -> str:
    """Return the newest level with its unit."""
    return _figure(of.figure, of.history.levels[-1].value) if of.history.levels else "none"


def _next(of: CellHistory) -> str:
    """Return the predicted range of the next run, in words."""
    inside = of.history.next_run
    return "not known" if inside is None else f"{_figure(of.figure, inside.low)} to {_figure(of.figure, inside.high)}"


def _figure(figure: str, value: float) -> str:
    return with_two_digits(unit_for(figure, [value]), value).text(value).strip()


def _axis(of: CellHistory) -> str:
    return bare_name(of.figure).replace("_", " ") or of.figure


def _change(change: LevelChange, better: Better) -> str:
    return f"{_ratio(change.ratio)}{_way(change.ratio, better)}, between {change.before} and {change.after} ({p_words(change.p)})"


def _way(ratio: float | None, better: Better) -> str:
    if not better or ratio is None or ratio == 1:
        return ""
    return ", for the better" if (ratio > 1) == (better == "higher") else ", for the worse"


_CAUSES = {
    Cause.DEVICE: "; the device changed: the rig, measured without it, did not",
    Cause.RIG: "; the rig changed: measured without the device, it did the same",
    Cause.UNKNOWN: "",
}


def _ratio(ratio: float | None) -> str:
    return "from or to 0" if ratio is None else f"{ratio:.3f} ×"
