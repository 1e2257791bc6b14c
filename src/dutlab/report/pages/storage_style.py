"""Tables as in storage tests: arrays side by side with a row per parameter, or a row per workload with drives, value and latency.

Each row has its own unit, so cells are text: the published digits, or the figure in the unit of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dutlab.measures import MeasureUnit, bare_name, measure_unit
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Column, Figure, Row, Table, number_text
from dutlab.report.model.words import alike_names, better_of, in_order, setting_words, unit_of
from dutlab.report.pages.array_rows import HEALTHY, column_of, load_of, summary_rows
from dutlab.report.pages.publication import Contents, label_words, run_words
from dutlab.report.pages.specification import diagrams_of, specification_tables
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.plot import Plot
from dutlab.report.sections.headline import compared
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.on_drives import options_of
from dutlab.store.record import PUBLISHED
from dutlab.subject import FigureName, figure_name

_WORKLOADS = frozenset({"fio", "storage-limit", "storage-latency", "pts", "steps", "figures"})
_SYMBOLS = {MeasureUnit.BYTES: "B", MeasureUnit.BYTES_PER_S: "B/s"}
_SCALES: Mapping[object, str] = {
    1.0: "", 1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T", 2.0**10: "Ki", 2.0**20: "Mi", 2.0**30: "Gi", 2.0**40: "Ti",
}  # fmt: skip
_TIME_SCALES: Mapping[object, str] = {1.0: "ns", 1e3: "µs", 1e6: "ms"}
_Text = tuple[str, tuple[str, str]]
"""Digits, and (parameter, unit) from the figure's name."""
_CURVES, _GRID = ("fio-depth-", "fio-jobs-"), "fio-grid"
"""Slugs of the curves and shaded tables over depth and jobs (dutlab.report.sections.fio)."""
_NONE: _Text = ("", ("", ""))
_RATES = {MeasureUnit.IOPS, MeasureUnit.BYTES_PER_S}
_TIMES = ("latency_ns", "lat_p99_ns", "clat_p99_ns", "clat_mean_ns")
"""Latencies to show next to a rate, in order of preference."""
_TOLD = {
    *_TIMES,
    "clat_p50_ns",
    "clat_p999_ns",
    "clat_p9999_ns",
    "lat_p50_ns",
    "lat_p999_ns",
    "lat_p9999_ns",
    "capacity_bytes",
    "fio_cpu_cores",
    "host_cpu_cores",
}
"""Further figures that such tests print."""
_HEADS = {"clat_mean_ns": "mean latency", "clat_p99_ns": "latency of 99 %", "lat_p99_ns": "latency of 99 %"}
_OF_ROWS = (MeasureUnit.IOPS, MeasureUnit.BYTES_PER_S)
"""Rates that tests of drives print: of random access, and of sequential access."""


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return tables of each run: arrays with the same settings side by side; arrays with different settings in a row each."""
    tables, fast, plots = list[Table](), list[str](), dict[str, tuple[Plot, ...]]()
    for read, report in zip(reads, reports, strict=True):
        prefix = f"{read.run.name}-" if len(reads) > 1 else ""
        groups = [g for g in sorted(read.groups, key=lambda g: g.planned[0]) if g.cell.workload in _WORKLOADS and g.measured and _names(g)]
        alike = [(asked, [g for g in groups if _asked(g, groups) == asked]) for asked in dict.fromkeys(_asked(g, groups) for g in groups)]
        comparable = [(asked, same) for asked, same in alike if len({g.label for g in same}) > 1]
        tables += [_arrays(prefix, comparable, read)] if comparable else []
        fast += [f"{run_words(report, reports)}{line}" for line in _fastest(comparable, read) or report.answer.fast]
        rest = [g for g in groups if not any(g in same for _, same in comparable)]
        if rest:
            tables.append(_workloads(prefix, rest, read))
            tables += [
                replace(t, slug=f"{prefix}{t.slug}") for s in report.sections for t in s.tables if t.shaded and t.slug.startswith(_GRID)
            ]
            curves = [c for s in report.sections for c in s.curves if c.slug.startswith(_CURVES)]
            plots[tables[-1].slug] = tuple(plot for c in curves if (plot := curve_plot(c, report.labels)) is not None)
        specification = specification_tables(prefix, report) if tables else ()
        tables += specification
        plots |= {specification[-1].slug: diagrams_of(report)} if specification else {}
    words = [f"{label_words(r, reports)}{line}" for r in reports for s in r.sections if s.workload in _WORKLOADS for line in s.words]
    return Contents((*fast, *words), tuple(tables), plots)


def _fastest(comparable: Sequence[tuple[str, Sequence[Group]]], read: ReadRun) -> list[str]:
    """Return a sentence per rate of the arrays with the same settings and in the same state."""
    labels, sentences = {g.label for _, same in comparable for g in same}, []
    for asked, same in sorted(comparable, key=lambda of: in_order(of[0])):
        states = {g.label: column_of(g, labels)[1] for g in same}
        for state in dict.fromkeys(states.values()):
            of = [g for g in same if states[g.label] == state]
            for name in dict.fromkeys(
                name for g in of for name in _names(g) if better_of(name) == "higher" and measure_unit(name) in _RATES
            ):
                named = [(g.label, value_of(g, g.cell.link_label, name, read.book)) for g in of]
                about = ", ".join(word for word in (asked, (bare_name(name) or name).replace("_", " "), state) if word)
                if len(named) > 1 and (line := compared(about, named, name, read.book)) is not None:
                    sentences.append(f"{line.about}: {line.sentence}")
    return sentences


def _arrays(prefix: str, comparable: Sequence[tuple[str, Sequence[Group]]], read: ReadRun) -> Table:
    """Return a row for each figure of the same settings and state; then capacity and processor time of each array."""
    labels = {g.label for _, same in comparable for g in same}
    places = {g.planned[0]: column_of(g, labels) for _, same in comparable for g in same}
    shown = [label for label in read.labels if any(label == column for column, _ in places.values())]
    rows = []
    for asked, same in sorted(comparable, key=lambda of: in_order(of[0])):
        for state in sorted({places[g.planned[0]][1] for g in same}):  # the healthy state is the empty text
            of = {column: g for g in same if (column := places[g.planned[0]][0]) and places[g.planned[0]][1] == state}
            for name in dict.fromkeys(name for g in of.values() for name in _names(g)):
                texts = [_text(of[label], name, read) if label in of else _NONE for label in shown]
                parameter, unit = next((heading for _, heading in texts if heading[0]), ("", ""))
                about = ", ".join(filter(None, (asked, state)))
                words = parameter.replace("_", " ").replace("clat mean", "mean latency")
                row_label = f"{about}: {words}" if about else parameter
                rows.append(Row("", (row_label, *(text for text, _ in texts), unit)))
    healthy = {label: [g for _, same in comparable for g in same if places[g.planned[0]] == (label, HEALTHY)] for label in shown}
    rows += [Row("", (parameter, *texts, unit)) for parameter, texts, unit in summary_rows(healthy, read.facts)]
    columns = (Column("parameter"), *(Column(label, align="right") for label in shown), Column("unit"))
    return Table(f"{prefix}arrays", "Arrays side by side", columns, tuple(rows), first="")


def _workloads(prefix: str, groups: Sequence[Group], read: ReadRun) -> Table:
    """Return a table with a row for each rate of the same drives, and its latency."""
    common = alike_names(g.cell.setting for g in groups) if len(groups) > 1 else set[str]()
    asked = [k for k in dict.fromkeys(k for g in groups for k in g.cell.params) if k not in common]
    several = len({g.cell.links for g in groups}) > 1
    if several:
        groups = sorted(groups, key=lambda g: ([in_order(str(g.cell.params.get(k, ""))) for k in asked], len(g.cell.links), g.cell.links))
    loads = {g.planned[0]: load_of(g, read.facts) for g in groups}
    loaded = any(load is not None for load in loads.values())
    rows, times = [], set[str]()
    for g in groups:
        load = loads[g.planned[0]]
        texts = {name: _text(g, name, read) for name in _names(g)}
        for name, (text, (_, unit)) in texts.items():
            if measure_unit(name) in _RATES:
                time, (text_later, (_, unit_later)) = _later(name, texts)
                times |= {time} - {""}
                params = (str(g.cell.params.get(k, "")) for k in asked)
                drives = (g.cell.link_label,) if several else ()
                busy = ("" if load is None else f"{load * 100:.3g}",) if loaded else ()
                rows.append(Row("", (*params, *drives, g.label, text, unit, *busy, text_later, unit_later)))
    heads = (*(Column(k.replace("_", " "), name=k) for k in asked), *([Column("drives")] if several else []), Column("array"))
    of_times = {str(row.cells[-1]) for row in rows} - {""}
    alike = len(of_times) == 1  # then the head has the unit; tables for programs keep a column of it
    head = _HEADS.get(times.pop(), "latency") if len(times) == 1 else "latency"
    latency = Column(f"{head}, {of_times.pop()}" if alike else head, name="latency", align="right")
    cpu = (Column("CPU, %", name="cpu_percent", align="right"),) if loaded else ()
    columns = (*heads, Column("value", align="right"), Column("unit"), *cpu, latency, Column("latency unit", shown=not alike))
    return Table(f"{prefix}workloads", "Each workload", columns, tuple(rows), first="")


def _later(rate: str, texts: Mapping[str, _Text]) -> tuple[str, _Text]:
    """Return measure and text of the latency of a rate's part and way, else of the whole."""
    own = figure_name(rate)
    of_rate = [(time, str(name)) for time in _TIMES for name in (own._replace(measure=time), FigureName("", time))]
    return next(((time, texts[name]) for time, name in of_rate if name in texts), ("", _NONE))


def _asked(group: Group, groups: Sequence[Group]) -> str:
    """Return the settings of this group that not all groups share, in words."""
    words = setting_words(group.cell.setting, without=alike_names(g.cell.setting for g in groups))
    return ", ".join(w for w in (words, group.cell.link_label if len({g.cell.links for g in groups}) > 1 else "") if w)


def _names(group: Group) -> list[str]:
    """Return the group's printed figures: all published ones, and those measured ones that storage tests print.

    Those with a mean latency have one rate, I/Os or bytes a second, and that latency; the full report has the others.
    """
    names = dict.fromkeys(name for r in group.measured for name in r.figures.get(group.cell.link_label, ()))
    setting = group.cell.setting
    means = [n for n in names if figure_name(n)[:2] == ("", "clat_mean_ns")]
    if means and not isinstance(setting, ImportedSetting):
        rate = _OF_ROWS[not options_of(setting).get("rw", "").startswith("rand")]
        return [n for n in names if measure_unit(n) is rate or n in means]
    return [n for n in names if _published(group, n) or measure_unit(n) in _RATES or figure_name(n).measure in _TOLD]


def _published(group: Group, name: str) -> Mapping[str, object] | None:
    return next((row for r in group.measured for row in r.tables.get(PUBLISHED, ()) if row.get("figure") == name), None)


def _text(group: Group, name: str, read: ReadRun) -> _Text:
    """Return a figure's digits, and (parameter, unit) from its name."""
    value = value_of(group, group.cell.link_label, name, read.book)
    if not isinstance(value, Figure):
        return _NONE
    row = _published(group, name)
    if value.published and row is not None:
        return value.published, (bare_name(name) or name, _printed_in(name, row.get("scale")))
    unit = unit_of(name)
    return number_text(value, unit), (bare_name(name) or name, unit.name)


def _printed_in(name: str, scale: object) -> str:
    """Return the name of a published column's unit, which is `scale` base units of the figure."""
    unit = measure_unit(name)
    if unit is MeasureUnit.RATIO:
        return "ratio" if scale == 1 else "percent"
    prefix, symbol = _SCALES.get(scale, ""), _SYMBOLS.get(unit, unit.symbol)
    return _TIME_SCALES.get(scale, "") if unit is MeasureUnit.NS else "bytes" if prefix + symbol == "B" else prefix + symbol
