"""Latency of drives at given rates: the open loop, the closed loop, and the error of the second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of, value_or_dash
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Table
from dutlab.report.model.words import in_order
from dutlab.report.sections.headline import compared, first_of
from dutlab.report.sections.storage_limit import mix_words
from dutlab.spec.workloads.storage_latency import StorageLatencySetting, part_of, share_of
from dutlab.stats.summary import median
from dutlab.subject import part_figure

_PERCENTILES = (("p50", "50 %"), ("p99", "99 %"), ("p999", "99.9 %"), ("p9999", "99.99 %"))
_OPEN = (Column("rate", "iops"), *(Column(head, f"lat_{name}_ns") for name, head in _PERCENTILES), Column("max", "lat_max_ns"))
_CLOSED = (
    *(Column(head, f"clat_{name}_ns") for name, head in _PERCENTILES),
    *(Column(f"error at {head}", f"closed_error_{name}_percent") for name, head in _PERCENTILES),
)
_HEADLINES = ("lat_p999_ns", "lat_p99_ns", "lat_p50_ns")


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table for each loop with a row per mode, set of drives, mix, block size and rate, and curves over the rate."""
    groups = sorted(groups, key=lambda g: (_place(g), in_order(_setting(g).bs), labels.index(g.label)))
    tables = (
        ("storage-latency-open", "Open loop: from the instant at which an I/O was due", _OPEN),
        ("storage-latency-closed", "Closed loop (fio): from the call, and its error", _CLOSED),
    )
    return Section(
        slug="storage-latency",
        workload="storage-latency",
        title="Latency at a rate",
        lead="I/Os arrive at random instants, as from many independent users. In the open loop each begins at its instant, also while the "
        "drive stalls. In a closed loop an I/O waits for those before it, and that wait is not counted: its error is shown.",
        tables=tuple(_table(slug, title, columns, groups, book) for slug, title, columns in tables),
        curves=tuple(_curves(groups)),
        words=tuple(sentence for g in groups for sentence in _errors(g)),
        headlines=_headline(groups, labels, book),
    )


def _table(slug: str, title: str, columns: Sequence[Column], groups: Sequence[Group], book: NoteBook) -> Table:
    rows = [
        g.row(
            (*_heads(g), rate, *(value_or_dash(g, part_figure(part_of(rate), column.figure), book) for column in columns)),
            link=g.cell.link_label, size=_setting(g).bs,
        )
        for g in groups
        for rate in _setting(g).rates
    ]  # fmt: skip
    heads = (Column("drives"), Column("mix"), Column("block"), Column("intended"))
    return book.table(slug, title, (*heads, *columns), rows)


def _errors(group: Group) -> Iterator[str]:
    """Yield a sentence for each rate: the highest percentile that both loops have, and the error of the closed one."""
    for rate in _setting(group).rates:
        for name, words in reversed(_PERCENTILES):
            opened, closed = _values(group, rate, f"lat_{name}_ns"), _values(group, rate, f"clat_{name}_ns")
            if opened and closed:
                true, shown = median(opened), median(closed)
                at = f"{_about(group)}, at {rate if share_of(rate) is not None else f'{rate} IOPS'}"
                signed = f"{100 * (shown / true - 1):+.0f} %".replace("-", "−")
                error = f"a closed loop shows {shown / 1e6:.3g} ms ({signed})"
                yield f"{at}: {words} of the I/Os take at most {true / 1e6:.3g} ms; {error}."
                break


def _curves(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield one plot per set of drives, mix and block size: latency at 99 % of both loops over the rate."""
    for g in groups:
        lines = []
        for words, figure in (("open loop", "lat_p99_ns"), ("closed loop", "clat_p99_ns")):
            points = [
                (median(rates), median(values))
                for rate in _setting(g).rates
                if (rates := _values(g, rate, "iops")) and (values := _values(g, rate, figure))
            ]
            lines.append(Line(words, tuple(sorted(points))))
        if all(len(line.points) > 1 for line in lines):
            yield Curve(
                slug="-".join(("storage-latency", g.label, *_heads(g))).replace(" ", "-").replace("%", "percent"),
                title=f"Latency at 99 % over the rate: {_about(g)}",
                x_title="IOPS",
                x="iops",
                y_title="latency at 99 %",
                y="lat_p99_ns",
                lines=tuple(lines),
                scale="log",
            )


def _values(group: Group, rate: str, figure: str) -> list[float]:
    name = part_figure(part_of(rate), figure)
    return [value for r in group.measured if (value := r.figures.get(group.cell.link_label, {}).get(name)) is not None]


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Headline, ...]:
    """Return the comparison of modes at the first place, block size and rate that several have."""
    headlines = []
    for (place, block), same in groupby(groups, key=lambda g: (_place(g), _setting(g).bs)):
        cells = {g.label: g for g in same}
        for rate in next(iter(cells.values())).cell.setting_as(StorageLatencySetting).rates:
            having = [name for name in _HEADLINES if all(_values(g, rate, name) for g in cells.values())]
            if having:
                figure = part_figure(part_of(rate), having[0])
                named = [(label, value_of(cells[label], place[1], figure, book)) for label in labels if label in cells]
                headlines.append(compared(f"{place[2]}, {block}, {rate}, {place[1]}", named, figure, book))
    return first_of([h for h in headlines if h is not None])


def _place(group: Group) -> tuple[int, str, str]:
    return len(group.cell.links), group.cell.link_label, mix_words(_setting(group))


def _setting(group: Group) -> StorageLatencySetting:
    return group.cell.setting_as(StorageLatencySetting)


def _heads(group: Group) -> tuple[str, str, str]:
    return group.cell.link_label, mix_words(_setting(group)), _setting(group).bs


def _about(group: Group) -> str:
    links, mix, block = _heads(group)
    return f"{group.label}, {mix}, {block}, {links}"
