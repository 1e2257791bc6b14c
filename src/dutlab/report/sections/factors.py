"""One table, one plot and the effects of a factor experiment: a row for each combination of levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from dutlab.analysis.factors import Analysis, Effect
from dutlab.errors import InputError
from dutlab.report.model.contests import CompareRequest
from dutlab.report.model.effects import effects_of
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.packets import GOODPUT, mtus_of
from dutlab.report.model.run_report import DrawnTable, ReadRun, Section
from dutlab.report.model.table import Cell, Column, Row, Table
from dutlab.report.model.words import SIZES, Unit, better_of, name_words, size_order
from dutlab.report.sections.limits import packets_per_s
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.stats.rank import p_words
from dutlab.workloads import plug_of

FACTORS = "factors"
"""Begin of the slugs of such sections and of their first table."""
EFFECTS = "effects"
FEWEST_CELLS, MOST_CELLS = 4, 64
"""Number of combinations from which on, and up to which, they are shown in one table."""
_OF_LOAD = frozenset(
    {*SIZES, "client", "server", "rw", "block", "bs", "drives", "iodepth", "depth", "streams", "numjobs", "jobs", "cores", "duration_s"}
)
"""Columns of imported tables that describe the load, not the DUT."""
_NS = Unit("ns", 1.0, 0)
_TIMES = Unit("×", 1.0, 3)
_COST = "Cost per packet: a second ÷ the packets a second of the whole box."
_OF_TCP = " Of goodput these are full TCP segments with time stamps; acknowledgements do not count."


def with_factors(read: ReadRun, sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return the sections, with one for each factor experiment before that of its workload.

    The workload's tables are then folded and not drawn, if there is more than one, since the new table has all their figures.
    """
    out = list[Section]()
    for section in sections:
        of_factors = _section(read, [g for g in read.groups if g.cell.workload == section.workload])
        if of_factors is None:
            out.append(section)
            continue
        again = section
        if len(section.drawings) > 1:
            again = replace(section, tables=tuple(replace(t, folded=True) for t in section.tables), drawings=())
        out += [of_factors, again]
    return tuple(out)


def varied_names(groups: Sequence[Group]) -> list[str]:
    """Return the names of the varied factors, the mode first; of an imported table, its settings that describe the DUT."""
    names = dict.fromkeys(name for g in groups for name in _levels(g))
    varied = [name for name in names if len({_levels(g).get(name) for g in groups}) > 1]
    return sorted(varied, key=lambda name: name != "mode")


def _levels(group: Group) -> Mapping[str, str]:
    cell = group.cell
    if not isinstance(cell.setting, ImportedSetting):
        return {"mode": cell.mode, **cell.factors}
    return {"mode": cell.mode, **{name: str(v) for name, v in cell.params.items() if name not in _OF_LOAD and v is not None}}


def _section(read: ReadRun, groups: Sequence[Group]) -> Section | None:
    """Return the section of one workload's cells; None if they are not a factor experiment with one figure."""
    cells = [g for g in groups if g.measured]
    names = varied_names(cells)
    if len(names) < 2 or not FEWEST_CELLS <= len(cells) <= MOST_CELLS:  # noqa: PLR2004 -- one factor alone needs no such table
        return None
    workload, figures = cells[0].cell.workload, {g.main[0] for g in cells}
    figure = next(iter(figures))
    if len(figures) != 1 or not better_of(figure):
        return None
    try:
        analysis = effects_of(read.run.name, [r for g in cells for r in g.records], _order(read), figure, CompareRequest())
    except (InputError, ValueError):
        return None
    cells = sorted(cells, key=lambda g: (size_order(g.cell.setting.size), _place(read, names, g), g.planned[0]))
    main = _table(read, cells, names, figure, workload)
    tables, drawings = [main], [DrawnTable("factors", main.slug, below=main.slug)]
    if analysis.effects:
        tables.append(_effects_table(analysis, figure, workload))
        drawings.append(DrawnTable("effects", tables[-1].slug, below=tables[-1].slug))
    proven = [sentence for e, sentence in zip(analysis.effects, analysis.sentences, strict=False) if e.sure.proven]
    return Section(
        slug=f"{FACTORS}-{workload}",
        workload=workload,
        title=f"{main.title[:1].upper()}{main.title[1:]}: every combination of {', '.join(names[:-1])} and {names[-1]}".replace("_", " "),
        lead="A row for each combination of levels. An effect is the ratio of cells that differ in nothing else.",
        tables=tuple(tables),
        drawings=tuple(drawings),
        words=(*(f"{sentence}." for sentence in analysis.sentences), f"{analysis.rests_on}."),
        answer=tuple(f"{sentence}." for sentence in proven) or ("No effect of a factor is proven.",),
    )


def _place(read: ReadRun, names: Sequence[str], group: Group) -> tuple[int, ...]:
    """Return the place of a cell by the levels of the experiment file, the mode last; empty for an imported table, which has an order."""
    if isinstance(group.cell.setting, ImportedSetting):
        return ()
    factors = read.experiment.get("factors") or {}
    listed = {name: [str(level) for level in of] if isinstance(of := factors.get(name), list | tuple) else [] for name in names}
    levels = _levels(group)
    return tuple(of.index(level) if (level := levels.get(name, "")) in (of := listed[name]) else len(of) for name in (*names[1:], names[0]))


def _order(read: ReadRun) -> Callable[[str], int]:
    named = (read.experiment.get("factors") or {}).get("mode")
    modes = [*named] if isinstance(named, list) else []
    return lambda mode: modes.index(mode) if mode in modes else len(modes)


def _table(read: ReadRun, cells: Sequence[Group], names: Sequence[str], figure: str, workload: str) -> Table:
    links = len({g.cell.links for g in cells}) > 1
    sizes = any(g.cell.setting.size for g in cells) and len({g.cell.setting.size for g in cells}) > 1
    mtus, costs = mtus_of(read.testbed), list[float | None]()
    for g in cells:
        rate = packets_per_s(g, mtus)
        costs.append(1e9 / rate if rate and isfinite(rate) else None)
    has_cost = any(cost is not None for cost in costs)
    place = plug_of(workload).place
    heads = [
        *(Column(name.replace("_", " "), name=name) for name in names),
        *([Column("frames", name="frame_size")] if sizes else []),
        *([Column(place)] if links else []),
    ]
    rows = []
    for g, cost in zip(cells, costs, strict=True):
        words = [_levels(g).get(name, "") for name in names]
        words += ([g.cell.setting.size] if sizes else []) + ([g.cell.link_label] if links else [])
        after: list[Cell] = ["" if cost is None else cost] if has_cost else []
        rows.append(Row(g.label, (*words, value_of(g, g.main[1], figure, read.book), *after), link=g.main[1], size=g.cell.setting.size))
    columns = (*heads, Column(name_words(figure), figure), *([Column("cost per packet, ns", unit=_NS, name="cost_ns")] if has_cost else []))
    title = (figure == GOODPUT and plug_of(workload).table) or name_words(figure)
    notes = (f"{_COST}{_OF_TCP if figure == GOODPUT else ''}",) if has_cost else ()
    return replace(read.book.table(f"{FACTORS}-{workload}", title, columns, rows, notes=notes), first="")


def _effects_table(analysis: Analysis, figure: str, workload: str) -> Table:
    rows = tuple(Row("", _effect_cells(e)) for e in analysis.effects)
    columns = (
        Column("factor"),
        Column("change"),
        Column("ratio, ×", unit=_TIMES, name="ratio"),
        Column("from, ×", unit=_TIMES, name="ratio_low"),
        Column("to, ×", unit=_TIMES, name="ratio_high"),
        Column("proven"),
        Column("only at"),
    )
    of = f"Effects on {name_words(figure)}, with the 95 % interval of each ratio alone"
    return Table(f"{EFFECTS}-{workload}", of, columns, rows, first="")


def _effect_cells(e: Effect) -> tuple[Cell, ...]:
    inside = e.sure.interval
    low, high = (inside.low, inside.high) if inside else ("", "")
    proven = "not tested" if e.sure.p is None else p_words(e.sure.p) if e.sure.proven else f"not proven, {p_words(e.sure.p)}"
    only = ", ".join([*e.only_at, *(f"or {m}" for m in e.mixed_with)])
    return (e.name.replace("_", " "), f"{' + '.join(e.before)} → {' + '.join(e.after)}", e.ratio, low, high, proven, only.replace("_", " "))
