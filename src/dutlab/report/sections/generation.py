"""Frames that a generator makes without sending them: a table by frame size and number of streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Cell, Column, Row
from dutlab.report.model.words import size_order
from dutlab.spec.workloads.generation import GenerationSetting

_FIGURE = "made_pps"
_WORK = {"frames": "frames", "copies": "frames and copies", "checksums": "frames, copies and checksums"}


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, link, kind of work and frame size, a column per number of streams."""
    counts = sorted({_asked(g)[1] for g in groups})
    rows = [row for label in labels for row in _rows([g for g in groups if g.label == label], counts, book)]
    columns = [Column("link"), Column("work"), Column("frames")]
    columns += [Column(f"{n} stream{'s' if n > 1 else ''}", _FIGURE, name=f"made_{n}_streams_pps") for n in counts]
    if len(counts) > 1:
        columns.append(Column(f"{counts[-1]} ÷ {counts[0]}", name="streams_ratio", align="right"))
    return Section(
        slug="generation",
        workload="generation",
        title="Frames made, none sent",
        lead=(
            "The generator's own benchmark: each stream is a process that makes frames and sends none, and the rates of processes at once "
            "are added up. It is the most that a generator with these cores could ever send."
        ),
        tables=(book.table("generation", "Frames made a second by size and streams", columns, rows),),
    )


def _rows(groups: Sequence[Group], counts: Sequence[int], book: NoteBook) -> Iterator[Row]:
    by_place: dict[tuple[str, str, str], dict[int, Group]] = {}
    for group in sorted(groups, key=_place):
        work, size = _asked(group)[0], group.cell.setting.size
        by_place.setdefault((group.cell.link_label, work, size), {})[_asked(group)[1]] = group
    for (link, work, size), by_streams in by_place.items():
        label = next(iter(by_streams.values())).label
        values: list[Cell] = [value_of(by_streams.get(n), link, _FIGURE, book) for n in counts]
        if len(counts) > 1:
            values.append(_gain(by_streams, link, (counts[0], counts[-1])))
        yield Row(label, (link, _WORK.get(work, work), size, *values), links=link, link=link, size=size)


def _gain(by_streams: Mapping[int, Group], link: str, ends: tuple[int, int]) -> str:
    """Return the ratio of the most streams to the fewest, by medians over repeats; empty if either has no figure."""
    values = [[r.figures[link][_FIGURE] for r in by_streams[n].measured] if n in by_streams else [] for n in ends]
    fewest, most = values
    return f"{median(most) / median(fewest):.2f}" if fewest and most and median(fewest) else ""


def _asked(group: Group) -> tuple[str, int]:
    """Return the kind of work and the number of streams."""
    setting = group.cell.setting
    work = setting.work.value if isinstance(setting, GenerationSetting) else getattr(setting, "work", "")
    return work or "", getattr(setting, "streams", None) or 1


def _place(group: Group) -> tuple[str, int, tuple[int, float, str]]:
    work, _ = _asked(group)
    return (
        group.cell.link_label,
        list(_WORK).index(work) if work in _WORK else len(_WORK),
        size_order(group.cell.setting.size),
    )
