"""The two tables of figures: modes × links for goodput, modes × frame sizes for a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, groupby
from typing import Any

from dutlab.report.model.figures import ceiling_of, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.loads import BACKPRESSURE, DELIVERED, load_value
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Column, Matrix, MatrixRow, Sweep, SweepPoint, SweepSeries
from dutlab.report.model.value import Figure
from dutlab.report.model.words import asked_words
from dutlab.stats.summary import median
from dutlab.store.record import TrialRecord
from dutlab.workloads import plug_of

SWEEP_FIGURES = (
    "intended_pps", "refused_ratio", "offered_pps", "offered_bps_l1", "received_pps", "received_bps_l1", "received_bps_l2", "loss_ratio",
    "latency_p50_ns", "latency_p99_ns", "latency_max_ns", "headroom_ratio",
)  # fmt: skip
SWEEP_LOADS = (BACKPRESSURE, DELIVERED)
SWEEP = "sweep"
_ASKED_APART = ("frame_size", "frame_mix")
"""What varies inside one sweep."""


def matrices(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Matrix, ...]:
    """One matrix a workload and set of parameters, of everything that is no sweep and has no section of its own."""
    kept = [g for g in groups if g.cell.workload != SWEEP and not plug_of(g.cell.workload).section]
    out: list[Matrix] = []
    for same in _alike(kept, with_links=False):
        out.append(_matrix(same, labels, book, [m.slug for m in out]))
    return tuple(out)


def sweeps(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Sweep, ...]:
    """One sweep a workload, set of parameters, and link; of several links driven at once the sum comes first."""
    kept = [g for g in groups if g.cell.workload == SWEEP]
    out: list[Sweep] = []
    slugs: list[str] = []
    for same in _alike(kept, with_links=True):
        links = same[0].cell.links
        slugs.append(_slug(f"{same[0].cell.workload}-{'+'.join(links)}", slugs))
        out += [_sweep(slugs[-1], same, link, labels, book) for link in dict.fromkeys(["+".join(links), *links])]
    return tuple(out)


def _matrix(groups: Sequence[Group], labels: Sequence[str], book: NoteBook, taken: Sequence[str]) -> Matrix:
    cell = groups[0].cell
    figure = _figure_of(groups)
    links = sorted({g.cell.links for g in groups}, key=lambda of: (len(of), of))
    columns = [Column(of, link) for of in links for link in ([*of, "+".join(of)] if len(of) > 1 else of)]
    by_place = {(g.label, g.cell.links): g for g in groups}
    rows = [
        MatrixRow(label, tuple(value_of(by_place.get((label, c.links)), c.link, figure, book) for c in columns))
        for label in _present(labels, groups)
    ]
    return Matrix(
        slug=_slug(f"{cell.workload}-{figure.removesuffix('_bps')}", taken),
        workload=cell.workload,
        asked=asked_words(cell.params, cell.tool),
        figure=figure,
        columns=tuple(columns),
        rows=tuple(rows),
        ceilings=tuple(_first_ceiling([g for g in groups if g.cell.links == c.links], c.link, figure) for c in columns),
        common_marks=book.common([v.marks for row in rows for v in row.values if isinstance(v, Figure)]),
    )


def _sweep(slug: str, groups: Sequence[Group], link: str, labels: Sequence[str], book: NoteBook) -> Sweep:
    cell = groups[0].cell
    sizes = sorted({str(g.cell.params["frame_size"]) for g in groups}, key=size_order)
    by_place = {(g.label, str(g.cell.params["frame_size"])): g for g in groups}
    series = tuple(
        SweepSeries(label, tuple(_point(by_place.get((label, size)), size, link, book) for size in sizes))
        for label in _present(labels, groups)
    )
    of_size = {size: [g for g in groups if str(g.cell.params["frame_size"]) == size] for size in sizes}
    limits = {
        size: {figure: limit for figure in SWEEP_FIGURES if (limit := _first_ceiling(same, link, figure)) is not None}
        for size, same in of_size.items()
    }
    return Sweep(
        slug=slug,
        workload=cell.workload,
        asked=asked_words(cell.params, cell.tool, without=_ASKED_APART),
        links=cell.links,
        link=link,
        sizes=tuple(sizes),
        series=series,
        ceilings={size: of for size, of in limits.items() if of},
        mixes={size: str(mix) for size, same in of_size.items() if not size.isdigit() and (mix := same[0].cell.params.get("frame_mix"))},
        common_marks=book.common([p.marks for s in series for p in s.points if any(isinstance(v, Figure) for v in p.values.values())]),
    )


def _point(group: Group | None, size: str, link: str, book: NoteBook) -> SweepPoint:
    values = {figure: value_of(group, link, figure, book) for figure in SWEEP_FIGURES}
    values |= {figure: load_value(group, link, figure, book) for figure in SWEEP_LOADS}
    marks = tuple(sorted({mark for v in values.values() if isinstance(v, Figure) for mark in v.marks}))
    return SweepPoint(
        size=size,
        mean_frame=_mean_frame(group.measured if group else [], link, size),
        values=values,
        trials=tuple(group.planned) if group else (),
        marks=marks,
        severe=book.severe(marks),
    )


def _mean_frame(records: Iterable[TrialRecord], link: str, size: str) -> float | None:
    if size.isdigit():
        return float(size)
    means = [f.mean_frame_bytes for r in records for f in r.flows if f.link in link.split("+")]
    return median(means) if means else None


def _first_ceiling(groups: Sequence[Group], link: str, figure: str) -> float | None:
    return next((limit for g in groups if (limit := ceiling_of(g, link, figure)) is not None), None)


def _figure_of(groups: Sequence[Group]) -> str:
    """goodput_bps where there is one, else whatever a record has first."""
    names = [name for g in groups for r in g.measured for of_link in r.figures.values() for name in of_link]
    return "goodput_bps" if not names or "goodput_bps" in names else names[0]


def _present(labels: Sequence[str], groups: Sequence[Group]) -> list[str]:
    there = {g.label for g in groups}
    return [label for label in labels if label in there]


def _alike(groups: Sequence[Group], *, with_links: bool) -> list[list[Group]]:
    """Groups that belong into one table: same workload and parameters, whatever the mode, the frame size and (unless asked) the links."""

    def key(group: Group) -> tuple[str, tuple[str, ...], str]:
        params: dict[str, Any] = {k: v for k, v in group.cell.params.items() if k not in _ASKED_APART}
        return (group.cell.workload, group.cell.links if with_links else (), repr(sorted(params.items())))

    ordered = sorted(groups, key=lambda g: (g.cell.workload, len(g.cell.links) if with_links else 0, key(g)))
    return [list(same) for _, same in groupby(ordered, key=key)]


def _slug(base: str, taken: Sequence[str]) -> str:
    """A name for files, with a number from the second of the same name on."""
    return next(slug for n in count(1) if (slug := base if n == 1 else f"{base}-{n}") not in taken)


def size_order(size: str) -> tuple[int, float, str]:
    """Numbers by size, then mixes by name."""
    return (0, float(size), "") if size.isdigit() else (1, 0.0, size)
