"""The report as one HTML file: no script, nothing loaded, both colour schemes, everything from outside escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.report.model.grid import Grid
from dutlab.report.model.run_report import CheckLine, Column, FactRow, LimitRow, Matrix, Note, RunReport, Sweep
from dutlab.report.model.value import Figure, Missing, Value
from dutlab.report.model.words import (
    COUNT,
    KPPS,
    MBPS,
    MICROSECONDS,
    PERCENT,
    TIMES,
    Unit,
    bit_rate_unit,
    duration_words,
    mix_words,
    numbers_words,
    plural,
    unit_of,
)
from dutlab.report.pages.method_words import method_words
from dutlab.report.plots.palette import DARK, SERIES, dark_rules
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.row_plots import matrix_words
from dutlab.report.plots.size_plot import sweep_plot_names

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def html(runs: Sequence[RunReport], plots: Mapping[str, Sequence[Plot]]) -> str:
    """The page of `runs`; `plots` by the run's name."""
    made = environment()
    place = {r.name: n for n, r in enumerate(runs, 1)}

    def prefix(r: RunReport) -> str:
        """Keeps the anchors of several runs apart."""
        return f"r{place[r.name]}-" if len(runs) > 1 else ""

    groups = {(r.name, t.number): t.group for r in runs for t in r.trials}
    notes = {(r.name, n.number): n for r in runs for n in r.notes}

    def anchor(r: RunReport, value: Figure | Missing) -> str:
        """Where the trials behind a value are listed with their files."""
        return f"{prefix(r)}g{groups[r.name, value.trials[0]]}"

    def note_of(r: RunReport, number: int) -> Note:
        return notes[r.name, number]

    def severe_marks(r: RunReport, marks: Sequence[int]) -> list[int]:
        return [m for m in marks if notes[r.name, m].grade == "severe"]

    limit_rows = {(r.name, row.label, trial): row for r in runs for row in r.limits for trial in row.trials}

    def limit_of(r: RunReport, label: str, trials: Sequence[int]) -> LimitRow | None:
        return next((limit_rows[r.name, label, t] for t in trials if (r.name, label, t) in limit_rows), None)

    made.globals |= {
        "limit_of": limit_of, "method_words": method_words,
        "prefix": prefix, "anchor": anchor, "note_of": note_of, "severe_marks": severe_marks, "colour_place": _colour_place,
        "counts": _counts, "checks_by_mode": _checks_by_mode,
        "all_ranges": _all_ranges, "matrix_unit": matrix_unit, "matrix_words": matrix_words, "mix_words": mix_words,
        "column_groups": _column_groups, "grid_units": grid_units, "figure_text": figure_text,
        "sweep_plot_names": sweep_plot_names, "has": _has, "one_repeat": _one_repeat, "same": _same,
        "numbers_words": numbers_words, "duration_words": duration_words,
        "limit_value": _limit_value, "kpps": KPPS, "mbps": MBPS, "percent": PERCENT, "us": MICROSECONDS, "count": COUNT, "times": TIMES,
    }  # fmt: skip
    return made.get_template("report.html.j2").render(runs=runs, plots=plots, style=style_sheet())


def environment() -> Environment:
    """Where templates are rendered: everything from outside is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 60 ms that only reports need

    made = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    made.filters |= {"safe_svg": _ours, "safe_css": _ours, "code": _code}
    made.globals |= {"plural": plural}
    return made


def matrix_unit(matrix: Matrix) -> Unit:
    """One unit for the whole matrix."""
    return _common_unit(matrix.figure, [v for row in matrix.rows for v in row.values])


def grid_units(grid: Grid) -> list[Unit]:
    """The unit of each column; bit rates of one column share theirs, and those of a heat map all."""
    alone = [[i] for i in range(len(grid.columns))]
    together = [[i for i, other in enumerate(grid.columns) if other.figure == column.figure] for column in grid.columns]
    read = alone if grid.shaded == "no" else together
    return [_common_unit(c.figure, [row.cells[i] for row in grid.rows for i in of]) for c, of in zip(grid.columns, read, strict=True)]


def _common_unit(figure: str, cells: Sequence[Value | str]) -> Unit:
    """Of bit rates the one that all of them were published in, else one that suits the largest."""
    if not figure.endswith(("_bps", "_bps_l1", "_bps_l2")):
        return unit_of(figure)
    found = [cell for cell in cells if isinstance(cell, Figure)]
    published = {cell.published_scale for cell in found if cell.published}
    return MBPS if published == {MBPS.scale} else bit_rate_unit([cell.median for cell in found])


def figure_text(value: Figure, unit: Unit) -> str:
    """In its own digits where it was published in this unit."""
    return value.published_in(unit.scale) or unit.number(value.median)


def _limit_value(row: LimitRow) -> str:
    return (bit_rate_unit([row.value]) if row.figure.endswith("_bps") else unit_of(row.figure)).text(row.value)


def _ours(text: str) -> Markup:
    """For what this package made itself, with every outside text already escaped: drawings and the style."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    return Markup(text)  # noqa: S704 - see above


def _code(text: str) -> Markup:
    """Words between backticks as code, all of it escaped."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - as above

    parts = text.split("`")
    if len(parts) % 2 == 0:  # a lone backtick is itself
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in enumerate(parts))


def style_sheet() -> str:
    """Of every page: rules, the colours of modes, and the dark scheme's."""
    modes = "".join(f".m{n}{{color:{light}}}" for n, light in enumerate(SERIES))
    dark_modes = "".join(f".m{n}{{color:{DARK[light]}}}" for n, light in enumerate(SERIES))
    css = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return f"{css}{modes}\n@media (prefers-color-scheme:dark){{{dark_modes}\n{dark_rules('figure')}}}"


def _colour_place(r: RunReport, label: str) -> int:
    """Checks name a mode, not a label: it gets the colour of the first label it begins."""
    return r.places.get(label, 0) % len(SERIES)


def _checks_by_mode(r: RunReport) -> list[tuple[str, list[CheckLine]]]:
    return [(mode, [c for c in r.checks if c.mode == mode]) for mode in dict.fromkeys(c.mode for c in r.checks)]


def _counts(r: RunReport) -> list[tuple[str, int]]:
    statuses = sorted(t.status for t in r.unsuccessful)
    return [(status, len(list(same))) for status, same in groupby(statuses)]


def _all_ranges(r: RunReport) -> bool:
    values = [v for m in r.matrices for row in m.rows for v in row.values]
    values += [v for s in r.sweeps for series in s.series for p in series.points for v in p.values.values()]
    values += [v for s in r.sections for g in s.grids for row in g.rows for v in row.cells if not isinstance(v, str)]
    return not any(isinstance(v, Figure) and v.interval for v in values)


def _column_groups(matrix: Matrix) -> list[tuple[tuple[str, ...], list[Column]]]:
    """Columns of single links under one head, those of links driven at once under theirs."""
    return [(links, list(same)) for links, same in groupby(matrix.columns, key=lambda c: () if c.alone else c.links)]


def _has(sweep: Sweep, figure: str) -> bool:
    return any(isinstance(p.values[figure], Figure) for s in sweep.series for p in s.points)


def _one_repeat(sweep: Sweep) -> bool:
    return all(v.n == 1 for s in sweep.series for p in s.points for v in p.values.values() if isinstance(v, Figure))


def _same(row: FactRow, hosts: Sequence[str]) -> bool:
    return len(hosts) > 1 and len({row.by_host.get(h) for h in hosts}) == 1
