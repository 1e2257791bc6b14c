"""Several streams at once: a table per stream, and for the answer the modes that let no frame of a stream through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dutlab.report.model.figures import value_of, value_or_dash
from dutlab.report.model.groups import Group, alike, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Table
from dutlab.report.model.words import asked_of_all, slug_of
from dutlab.report.sections.headline import compared, link_words
from dutlab.spec.workloads.multi_stream import MultiStreamSetting, StreamSpec
from dutlab.subject import part_figure

_COLUMNS = (
    ("offered", "offered_pps"),
    ("received", "received_pps"),
    ("lost", "loss_ratio"),
    ("latency, median", "latency_p50_ns"),
    ("latency, 99 %", "latency_p99_ns"),
)


@dataclass(frozen=True)
class _StreamOfGroup:
    """One stream of one cell."""

    group: Group
    spec: StreamSpec

    def figure(self, measure: str) -> str:
        """Return the name of a measure's figure in the records."""
        return part_figure(self.spec.name, measure)


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table per stream, with a row per mode and link."""
    groups = sorted(groups, key=lambda g: (labels.index(g.label), len(g.cell.links), g.cell.links))
    by_stream: dict[str, list[_StreamOfGroup]] = {}
    for group in groups:
        for spec in group.cell.setting_as(MultiStreamSetting).streams:
            by_stream.setdefault(spec.name, []).append(_StreamOfGroup(group, spec))
    tables = list[Table]()
    for streams in by_stream.values():
        tables.append(_table(streams, book, [t.slug for t in tables]))
    headlines = [headline for cells in alike(groups, with_links=True) for headline in _headlines(cells, book)]
    asked = asked_of_all([g.cell for g in groups], without=groups[0].cell.setting_as(MultiStreamSetting).words_of_streams)
    return Section(
        slug="multi-stream",
        workload="multi-stream",
        title="Several streams",
        lead=f"Each stream has a separate account. Its rates are over the whole trial, pauses counted: {asked}.",
        tables=tuple(tables),
        words=tuple(trial_notes(groups)),
        headlines=tuple(sorted(headlines, key=lambda h: bool(h.reason))),
        answer=tuple(_blocked(groups, book)),
    )


def _table(streams: Sequence[_StreamOfGroup], book: NoteBook, taken: Sequence[str]) -> Table:
    """Return the table of a stream, without latency columns if none of its frames arrived."""
    name, asked = streams[0].spec.name, list(dict.fromkeys(s.spec.words() for s in streams))
    have = {figure for s in streams for r in s.group.measured for of in r.figures.values() for figure in of}
    columns = [Column(head, figure) for head, of in _COLUMNS if (figure := streams[0].figure(of)) in have or not have]
    several = _have_several_links([s.group for s in streams])
    own = [*([Column("link")] if several else []), *([Column("asked")] if len(asked) > 1 else [])]
    rows = [
        s.group.row(
            (
                *([_link_of(s.group, link)] if several else []), *([s.spec.words()] if len(asked) > 1 else []),
                *(value_or_dash(s.group, c.figure, book, link) for c in columns),
            ),
            link=link,
        )
        for s in streams
        for link in s.group.cell.links
    ]  # fmt: skip
    title = f"stream {name}" if len(asked) > 1 else f"stream {name}: {asked[0]}"
    return book.table(slug_of(f"multi-stream-{name}", taken), title, (*own, *columns), rows)


def _have_several_links(groups: Sequence[Group]) -> bool:
    return len({link for g in groups for link in g.cell.links}) > 1


def _link_of(group: Group, link: str) -> str:
    """Return the link: `a`, or `a of a+b` if several were driven at once."""
    return link if len(group.cell.links) == 1 else f"{link} of {group.cell.link_label}"


def _headlines(cells: Sequence[Group], book: NoteBook) -> Iterator[Headline]:
    """Yield a headline per stream and link: modes by the received frames of the stream."""
    for spec in cells[0].cell.setting_as(MultiStreamSetting).streams:
        for link in cells[0].cell.links:
            figure = _StreamOfGroup(cells[0], spec).figure("received_pps")
            about = f"multi-stream, stream {spec.name} through {link_words(cells[0].cell.links, link)}"
            if headline := compared(about, [(g.label, value_of(g, link, figure, book)) for g in cells], figure, book):
                yield headline


def _blocked(groups: Sequence[Group], book: NoteBook) -> Iterator[str]:
    """Yield the modes and streams of which no frame was received in any repeat."""
    several = _have_several_links(groups)
    for group in groups:
        streams = [_StreamOfGroup(group, spec) for spec in group.cell.setting_as(MultiStreamSetting).streams]
        for link in group.cell.links:
            values = {s.spec.name: value_of(group, link, s.figure("loss_ratio"), book) for s in streams}
            lost = [name for name, value in values.items() if isinstance(value, Figure) and value.low >= 1]
            if lost:
                where = f"{group.label}, link {_link_of(group, link)}" if several else group.label
                named = "any stream" if len(lost) == len(streams) > 1 else f"stream{'s' if len(lost) > 1 else ''} {' and '.join(lost)}"
                yield f"{where}: nothing of {named} came through."
