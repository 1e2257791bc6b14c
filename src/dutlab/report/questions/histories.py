"""An experiment over all its runs: a history a cell and figure, in words and as a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from dutlab.analysis.history import History, HistoryPoint, LevelChange, history
from dutlab.errors import InputError
from dutlab.measures import Better
from dutlab.report.model.contests import CompareRequest, cell_label
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.words import unit_for, with_two_digits
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.plot import Plot
from dutlab.stats.rank import p_words
from dutlab.store.cell_figures import name_words
from dutlab.store.index import IndexedFigure
from dutlab.subject import apart
from dutlab.workloads import main_figures

_MOST_TICKS = 10


@dataclass(frozen=True)
class CellHistory:
    """One cell's figure over runs."""

    label: str
    figure: str
    found: History
    better: Better
    """Which values are the better ones; empty where that is not known."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """One a change, and what is in the way of one."""
        said = [_change(c, self.better) for c in self.found.changes]
        for run in self.found.apart:
            newest = run == self.found.points[-1].run
            tail = "the runs before it; one more run will tell whether that stays" if newest else "the runs beside it"
            said.append(f"{run} differs from {tail}")
        if self.found.changes and not self.better:
            said.append(f"whether more of it is better is not known: say it with --better {self.figure}=higher, or =lower")
        return (*said, self.found.why) if self.found.why else tuple(said)


def histories(
    found: Iterable[IndexedFigure], figures: Sequence[str] = (), better: Mapping[str, Better] | None = None
) -> tuple[CellHistory, ...]:
    """One a cell and figure; without `figures` those that cells are compared by; `better` as CompareRequest has it.

    Raises InputError when there is none.
    """
    asked = CompareRequest(figures, better=better or {})
    by_cell: dict[str, dict[str, dict[str, list[float]]]] = {}
    workloads: dict[str, str] = {}
    for f in found:
        label = cell_label(f.mode, f.factors, f.workload, f.frame_size, name_words(f.link, apart(f.links), f.workload))
        workloads[label] = f.workload
        by_cell.setdefault(label, {}).setdefault(f.figure, {}).setdefault(f.run, []).append(f.value)
    out = [
        CellHistory(label, name, history([HistoryPoint(run, tuple(values)) for run, values in of_cell[name].items()]), asked.side_of(name))
        for label, of_cell in by_cell.items()
        for name in figures or main_figures(workloads[label], of_cell)
        if name in of_cell
    ]
    known = {name for of_cell in by_cell.values() for name in of_cell}
    if absent := [name for name in figures if name not in known] or ([] if out else ["any figure"]):
        raise InputError(f"no run has {', '.join(absent)}", remedy=f"they have {', '.join(sorted(known)) or 'no results at all'}")
    return tuple(out)


def history_plot(of: CellHistory, place: int) -> Plot | None:
    """Medians run by run, the levels they fall into, and an upright line at each change. `place` makes its name unique."""
    points = of.found.points
    runs = Line("median of a run", tuple((float(n), p.median) for n, p in enumerate(points, 1)))
    levels = [Line(f"level {n}", ((a.first + 1.0, a.value), (a.last + 1.0, a.value)), "asked") for n, a in enumerate(of.found.levels, 1)]
    moments = [Moment(before.last + 1.5, _ratio(change)) for before, change in zip(of.found.levels, of.found.changes, strict=False)]
    curve = Curve(
        slug=f"history-{place}", title=f"{of.label}: {of.figure}", x_title="run, oldest first", x="runs", y_title=_axis(of), y=of.figure,
        lines=(runs, *levels), moments=tuple(moments),
        x_ticks=tuple((float(n), str(n)) for n in range(1, len(points) + 1, ceil(len(points) / _MOST_TICKS))),
    )  # fmt: skip
    ends = " to ".join(dict.fromkeys(p.run for p in (points[0], points[-1])))
    drawn = curve_plot(curve, [runs.label])
    return None if drawn is None else replace(drawn, source=f"{ends} · dutlab")


def level_words(of: CellHistory) -> str:
    """The newest level with its unit."""
    if not of.found.levels:
        return "none"
    value = of.found.levels[-1].value
    return with_two_digits(unit_for(of.figure, [value]), value).text(value).strip()


def _axis(of: CellHistory) -> str:
    return of.figure.rpartition("_")[0].replace("_", " ") or of.figure


def _change(change: LevelChange, better: Better) -> str:
    way = ""
    if better and change.ratio is not None and change.ratio != 1:
        way = ", for the better" if (change.ratio > 1) == (better == "higher") else ", for the worse"
    return f"{_ratio(change)}{way}, between {change.before} and {change.after} ({p_words(change.p)})"


def _ratio(change: LevelChange) -> str:
    return "from or to 0" if change.ratio is None else f"{change.ratio:.3f} ×"
