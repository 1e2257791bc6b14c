"""Comparison of generators: made and received frames of each, without the DUT and with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import load_value, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Row
from dutlab.report.model.words import by_words, size_order
from dutlab.report.sections.headline import compared, first_of
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.generators import GeneratorsSetting
from dutlab.store.loads import BACKPRESSURE, DELIVERED
from dutlab.subject import back_of

_FIGURES = (
    ("looped: sent", "rig_offered_pps"),
    ("received", "rig_received_pps"),
    ("DUT: sent", "offered_pps"),
    ("received", "received_pps"),
    ("back-pressure", BACKPRESSURE),
    ("delivered", DELIVERED),
    ("lost", "loss_ratio"),
    ("looped ÷ DUT", "headroom_ratio"),
)
_HEADS = ("generator", "frames", "link")


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per generator, streams, sending host, frame size and link, and curves over frame size by mode and link."""
    groups = sorted(groups, key=_place)
    rows = [_row(g, link, book) for g in groups for link in _flows(g)]
    columns = (*(Column(head) for head in _HEADS), *(Column(head, figure) for head, figure in _FIGURES))
    return Section(
        slug="generators",
        workload="generators",
        title="Generators",
        lead=(
            "Each generator at full speed: looped, directly from source to sink, and through the DUT. Where both agree the "
            "generator or the sink is the limit, and the DUT may do more; a generator that makes less than another measures itself, "
            "not the DUT."
        ),
        tables=(book.table("generators", "Frames a second of each generator", columns, rows),),
        curves=tuple(curve for label in labels for curve in _curves([g for g in groups if g.label == label], label)),
        headlines=tuple(h for label in labels for h in _headlines([g for g in groups if g.label == label], label, book)),
    )


def _setting(group: Group) -> GeneratorsSetting:
    return group.cell.setting_as(GeneratorsSetting)


def _place(group: Group) -> tuple[int, str, str, int, bool, tuple[int, float, str]]:
    """Return the sort key: the engine first, then generators by name, with ascending sizes."""
    cell = group.cell
    streams, size = _setting(group).streams, cell.setting.size
    return int(cell.tool != "engine"), _generator(group), cell.link_label, streams, _is_back(group), size_order(size)


def _flows(group: Group) -> list[str]:
    """Return the flows of a cell as its figures name them, without sums of several links."""
    return [back_of(link) if _is_back(group) else link for link in group.cell.links]


def _is_back(group: Group) -> bool:
    return _setting(group).directions is Directions.BACK


def _row(group: Group, link: str, book: NoteBook) -> Row:
    size = group.cell.setting.size
    words = (_line_name(group), size, link)
    values = ((load_value if figure in (BACKPRESSURE, DELIVERED) else value_of)(group, link, figure, book) for _, figure in _FIGURES)
    return group.row((*words, *values), link=link, size=size)


def _generator(group: Group) -> str:
    return by_words(group.cell.tool, group.cell.generator, without=("streams",))


def _curves(groups: Sequence[Group], label: str) -> Iterator[Curve]:
    """Yield curves of the received rate over frame size, a line per generator; dashed lines are without the DUT."""
    for link in dict.fromkeys(link for g in groups for link in _flows(g)):
        of_link = [g for g in groups if link in _flows(g)]
        lines = []
        for name in dict.fromkeys(map(_line_name, of_link)):
            same = [g for g in of_link if _line_name(g) == name]
            lines += [Line(name, _points(same, link, "received_pps"))]
            lines += [Line(f"{name}, looped", _points(same, link, "rig_received_pps"), "asked")]
        if any(line.points for line in lines):
            yield Curve(
                slug=f"generators-{label}-{link}",
                title=f"What each generator delivers, {label}, link {link}",
                x_title="bytes with FCS of the mean frame",
                x="frame_bytes",
                y_title="received",
                y="received_pps",
                lines=tuple(line for line in lines if line.points),
                scale="log",
                note="Dashed, looped: from source straight to sink.",
            )


def _headlines(groups: Sequence[Group], label: str, book: NoteBook) -> Iterator[Headline]:
    """Yield the comparison of generators at the first frame size that two have, by link and sending host."""
    for link in dict.fromkeys(link for g in groups for link in _flows(g)):
        headlines = []
        for size in dict.fromkeys(g.cell.setting.size for g in groups):
            same = [g for g in groups if link in _flows(g) and g.cell.setting.size == size]
            named = [(_line_name(g), value_of(g, link, "received_pps", book)) for g in same]
            what = f"{size}-byte frames" if size.isdigit() else size
            headlines.append(compared(f"generators, {what} through {label}, link {link}", named, "received_pps", book))
        yield from first_of([h for h in headlines if h is not None])


def _line_name(group: Group) -> str:
    """Return the name of a line, as `trafgen` or `iperf3-udp ×2, from sink`: with streams unless 1, and host unless the link's source."""
    streams, sender = _setting(group).streams, _setting(group).sender
    return f"{_generator(group)}{'' if streams == 1 else f' ×{streams}'}{f', from {sender}' if _is_back(group) else ''}"


def _points(groups: Sequence[Group], link: str, figure: str) -> tuple[tuple[float, float], ...]:
    """Return (bytes of the mean frame, median over repeats), by ascending size."""
    points = []
    for group in groups:
        values = sorted(r.figures[link][figure] for r in group.measured if figure in r.figures.get(link, {}))
        sizes = [f.mean_frame_bytes for r in group.measured for f in r.flows if f.link == link]
        if values and sizes:
            points.append((sizes[0], values[len(values) // 2]))
    return tuple(sorted(points))
