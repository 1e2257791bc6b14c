"""Limits of drives: the knee, the least depth near the peak, and the curves over depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of, value_or_dash
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column
from dutlab.report.model.words import in_order
from dutlab.report.sections.headline import compared, first_of
from dutlab.spec.workloads.storage_latency import StorageLatencySetting
from dutlab.spec.workloads.storage_limit import StorageLimitSetting
from dutlab.stats.summary import median

_COLUMNS = (
    Column("peak", "peak/iops"),
    Column("peak rate", "peak/bytes_per_s"),
    Column("depth at the peak", "peak/depth"),
    Column("depth at the knee", "knee/depth"),
    Column("at the knee", "knee/iops"),
    Column("latency at the knee", "knee/clat_mean_ns"),
    Column("least depth for 95 %", "least/depth"),
    Column("there", "least/iops"),
    Column("latency there, mean", "least/clat_mean_ns"),
    Column("p99", "least/clat_p99_ns"),
    Column("cores of fio", "fio_cpu_cores"),
    Column("cores of the host", "host_cpu_cores"),
)
_PLOTS = (("iops", "iops", "IOPS"), ("latency", "clat_mean_ns", "mean latency"))


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, set of drives, mix and block size, and curves of IOPS and latency per set and mix."""
    groups = sorted(groups, key=lambda g: (_place(g), in_order(_block(g)), labels.index(g.label)))
    rows = [
        g.row(
            (g.cell.link_label, _mix(g), _block(g), *(value_or_dash(g, c.figure, book) for c in _COLUMNS)),
            link=g.cell.link_label, size=_block(g),
        )
        for g in groups
    ]  # fmt: skip
    columns = (Column("drives"), Column("mix"), Column("block"), *_COLUMNS)
    return Section(
        slug="storage-limit",
        workload="storage-limit",
        title="I/O over depth",
        lead="Depth is outstanding I/Os of each thread and drive. It is doubled until two steps in a row add less than 5 %. At the "
        "knee IOPS ÷ latency is greatest; beyond it mostly latency grows. Latency is from submission to completion.",
        tables=(book.table("storage-limit", "Peak, knee and least depth", columns, rows),),
        curves=tuple(_curves(groups)),
        words=tuple(dict.fromkeys(f"{_about(g)}: {note}." for g in groups for r in g.measured for note in r.notes)),
        headlines=_headline(groups, labels, book),
    )


def _curves(groups: Sequence[Group]) -> Iterator[Curve]:
    for (_, links, mix), same in groupby(groups, key=_place):
        usable = [g for g in same if g.measured]
        several = len({g.label for g in usable}) > 1
        for slug, figure, words in _PLOTS if usable else ():
            lines = tuple(Line(f"{g.label}, {_block(g)}" if several else _block(g), _points(g, figure)) for g in usable)
            yield Curve(
                slug=f"storage-limit-{slug}-{links}-{mix}".replace(" ", "-").replace("%", "percent"),
                title=f"{words[0].upper()}{words[1:]} over depth: {mix}, {links}",
                x_title="depth",
                x="depth",
                y_title=words,
                y=figure,
                lines=lines,
                scale="log",
                x_scale="log",
                x_ticks=tuple((depth, f"{depth:g}") for depth in sorted({x for line in lines for x, _ in line.points})),
            )


def _points(group: Group, figure: str) -> tuple[tuple[float, float], ...]:
    """Return the median of the repeats at each depth."""
    values_by_depth = defaultdict(list)
    for row in (row for r in group.measured for row in r.tables.get("depths", ())):
        if isinstance(value := row.get(figure), int | float) and isinstance(depth := row.get("depth"), int | float):
            values_by_depth[float(depth)].append(float(value))
    return tuple((depth, median(values)) for depth, values in sorted(values_by_depth.items()))


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Headline, ...]:
    """Return the comparison of modes at the first place and block size that several have, with a summary of the others."""
    headlines = []
    for (place, block), same in groupby(groups, key=lambda g: (_place(g), _block(g))):
        cells = {g.label: g for g in same}
        named = [(label, value_of(cells[label], place[1], "peak/iops", book)) for label in labels if label in cells]
        headlines.append(compared(f"{place[2]}, {block}, {place[1]}", named, "peak/iops", book))
    return first_of([h for h in headlines if h is not None])


def _place(group: Group) -> tuple[int, str, str]:
    return len(group.cell.links), group.cell.link_label, _mix(group)


def _mix(group: Group) -> str:
    return mix_words(group.cell.setting_as(StorageLimitSetting))


def mix_words(setting: StorageLimitSetting | StorageLatencySetting) -> str:
    """Return the mix in words: `random reads`, `random, 70 % reads`."""
    access, reads = setting.access, setting.reads_percent
    return f"{access} {'reads' if reads == 100 else 'writes'}" if reads in (0, 100) else f"{access}, {reads} % reads"  # noqa: PLR2004


def _block(group: Group) -> str:
    return group.cell.setting_as(StorageLimitSetting).bs


def _about(group: Group) -> str:
    return f"{group.label}, {_mix(group)}, {_block(group)}, {group.cell.link_label}"
