"""Latency under load: a row per mode, link and load; load and latency over one time axis; and a sentence to quote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.measures import MeasureUnit, measure_unit
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Table, Value
from dutlab.report.model.words import MILLISECONDS, bit_rate_unit, latency_text
from dutlab.report.sections import latency_times
from dutlab.spec.workloads.bloat import BloatSetting, LoadWay
from dutlab.store.record import TrialRecord
from dutlab.subject import back_of, joined

WORKLOAD = "bloat"
LEAD = """TCP fills the queues of the link while small frames, sent each way in a separate flow, are timed. A value there and back is the
sum of both directions. The increase is latency under load less the median without load. Round trips a minute are the responsiveness of
draft-ietf-ippm-responsiveness for TCP alone."""
_BOTH_WAYS = (
    ("without load, median", "idle/latency_p50_ns"),
    ("increase, median", "latency_increase_p50_ns"),
    ("95 %", "latency_increase_p95_ns"),
    ("99 %", "latency_increase_p99_ns"),
    ("round trips a minute", "round_trips_per_min"),
    ("queues empty after", "settle_s"),
)
_ONE_WAY = (
    ("without load, median", "idle/latency_p50_ns"),
    ("under load, median", "loaded/latency_p50_ns"),
    ("95 %", "loaded/latency_p95_ns"),
    ("99 %", "loaded/latency_p99_ns"),
    ("longest", "loaded/latency_max_ns"),
    ("probes lost", "loaded/loss_ratio"),
    ("round trip of the load, median", "load/rtt_p50_ns"),
)
_WAYS = {LoadWay.UP: "up", LoadWay.DOWN: "down", LoadWay.BOTH: "both at once"}
_INCREASE = "latency_increase_p95_ns"
_DEVIATES = (
    "bloat: responsiveness has medians in place of trimmed means, and the kernel's round trip in place of a request on a loaded "
    "connection (draft-ietf-ippm-responsiveness-09 section 5.3.1)"
)
_GREW_NS = 5_000_000
"""CoDel's target delay (RFC 8289 section 4.4): a queue that stays below it does not show the limit of the load."""
_GAP_S = 0.5
"""Longest time between two readings that are joined by a line, in seconds."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table of round trips, one of each direction, and a plot of each cell."""
    whole = [_whole(g, book) for g in groups]
    ways = [_way(g, back, book) for g in groups for back in (False, True)]
    heads = (Column("link"), Column("load"))
    goodput = (Column("goodput up", "goodput_bps"), Column("goodput down", "goodput_bps"))
    tables = (
        _table("bloat", "Latency there and back, and goodput", (*heads, *goodput, *_columns(_BOTH_WAYS)), whole, book),
        _table("bloat-ways", "Latency one way", (*heads, Column("way"), *_columns(_ONE_WAY)), ways, book),
    )
    return Section(
        slug=WORKLOAD,
        workload=WORKLOAD,
        title="Latency under load",
        lead=LEAD,
        tables=tables,
        curves=tuple(curve for g in groups if (curve := _curve(g)) is not None),
        words=(
            *(f"{g.label}, link {g.cell.links[0]}: {sentence}" for g in groups for r in g.measured[:1] if (sentence := _quoted([r]))),
            *(f"{g.label}, link {g.cell.links[0]}: {limit}." for g in groups for r in g.measured[:1] for limit in _limits(r)),
            *dict.fromkeys(f"{g.label}, {_load_of(g)}: {note}." for g in groups for r in g.measured for note in r.notes),
            *latency_times.words(groups),
        ),
        deviations=(_DEVIATES,),
    )


def sentences(read: ReadRun) -> Iterator[str]:
    """Yield the result in a sentence to quote, then limits and notes, for a terminal."""
    records = [r for r in read.records if r.cell.workload == WORKLOAD and r.status == "measured"]
    if sentence := _quoted(records):
        yield sentence
    yield from (f"{limit[:1].upper()}{limit[1:]}." for r in records for limit in _limits(r))
    yield from dict.fromkeys(f"{note[:1].upper()}{note[1:]}." for r in records for note in r.notes)


def _quoted(records: Sequence[TrialRecord]) -> str:
    """Return a sentence, as `Under TCP load up 9.6 Mb/s with 98.10 ms more latency (…, 400.0 µs without load).`; empty without figures."""
    clauses, idle = [], list[float]()
    for record in records:
        link, way = record.cell.links[0], record.cell.setting_as(BloatSetting).load
        both = record.figures.get(_both(link), {})
        rates = [of["goodput_bps"] for place in (link, back_of(link)) if "goodput_bps" in (of := record.figures.get(place, {}))]
        timed = both if _INCREASE in both else record.figures.get(link, {})
        more, rpm = timed.get(_INCREASE), both.get("round_trips_per_min")
        if not rates or more is None:
            continue
        idle.append(timed["idle/latency_p50_ns"])
        rate = " and ".join(bit_rate_unit([r]).text(r) for r in rates)
        responsive = f" and {rpm:.0f} round trips a minute" if rpm is not None else ""
        clauses.append(f"{_WAYS[way]} {rate} with {latency_text(max(0.0, more))} more latency{responsive}")
    if not clauses:
        return ""
    return f"Under TCP load {'; '.join(clauses)} (95 % of probes there and back, {latency_text(min(idle))} without load)."


def _limits(record: TrialRecord) -> Iterator[str]:
    """Yield the limit of each direction with TCP load, as far as latency shows it."""
    link, load = record.cell.links[0], _WAYS[record.cell.setting_as(BloatSetting).load]
    for way, place in (("up", link), ("down", back_of(link))):
        figures = record.figures.get(place, {})
        rate, late_ns = figures.get("goodput_bps"), figures.get("latency_increase_p99_ns")
        if rate is None or late_ns is None:
            continue
        about = way if load == way else f"{way}, {load}"
        if late_ns < _GREW_NS:
            yield f"{about}: no queue that other flows share grew, so the limit is not known"
        else:
            queue_bytes = late_ns * rate / 8e9
            limit = f"a place that passes {bit_rate_unit([rate]).text(rate)}"
            yield f"{about}: limited by {limit}; its queue holds about {queue_bytes / 1e3:.0f} kB"


def _columns(of: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(head, figure, unit=MILLISECONDS if measure_unit(figure) is MeasureUnit.NS else None) for head, figure in of)


def _table(slug: str, title: str, columns: tuple[Column, ...], rows: Sequence[Row], book: NoteBook) -> Table:
    return book.table(slug, title, columns, rows)


def _both(link: str) -> str:
    return joined((link, back_of(link)))


def _load_of(group: Group) -> str:
    return _WAYS[group.cell.setting_as(BloatSetting).load]


def _shown(group: Group, place: str, figure: str, book: NoteBook) -> Value | str:
    """Return the value, or a dash if a measured cell cannot have it, such as goodput against the load's direction."""
    value = value_of(group, place, figure, book)
    return value if isinstance(value, Figure) or not group.measured else "–"


def _whole(group: Group, book: NoteBook) -> Row:
    (link,) = group.cell.links
    goodputs = [_shown(group, place, "goodput_bps", book) for place in (link, back_of(link))]
    values = [_shown(group, _both(link), figure, book) for _, figure in _BOTH_WAYS]
    return Row(group.label, (link, _load_of(group), *goodputs, *values), links=link, link=_both(link))


def _way(group: Group, back: bool, book: NoteBook) -> Row:  # noqa: FBT001 -- as flows have it
    (link,) = group.cell.links
    place = back_of(link) if back else link
    values = [_shown(group, place, figure, book) for _, figure in _ONE_WAY]
    return Row(group.label, (link, _load_of(group), "down" if back else "up", *values), links=link, link=place)


def _curve(group: Group) -> Curve | None:
    """Return the curve of the first repeat: goodput above, latency below."""
    record = next((r for r in group.measured if r.tables.get("course")), None)
    if record is None:
        return None
    (link,), rows = group.cell.links, record.tables["course"]
    named = {link: "up", back_of(link): "down"}

    def lines(figure: str) -> tuple[Line, ...]:
        points = {flow: [(float(r["at_s"] or 0.0), float(r[figure] or 0.0)) for r in rows if r["link"] == flow and r[figure] is not None]
                  for flow in named}  # fmt: skip
        return tuple(Line(named[flow], tuple(of), gap=_GAP_S) for flow, of in points.items() if of)

    load, latency = lines("goodput_bps"), lines("latency_mean_ns")
    if not load or not latency:
        return None
    ends_s = max(x for line in load for x, _ in line.points)
    slug = f"bloat-{group.planned[0]}"
    return Curve(
        slug=slug,
        title=f"Load and latency, {group.label}, link {link}, {_load_of(group)}",
        x_title="after the load began",
        x="at_s",
        y_title="goodput",
        y="goodput_bps",
        lines=load,
        note="" if len(group.measured) == 1 else f"The first of {len(group.measured)} repeats is drawn.",
        below=Curve(
            slug=f"{slug}-latency",
            title="Latency",
            x_title="after the load began",
            x="at_s",
            y_title="latency, one way",
            y="latency_mean_ns",
            y_unit=MILLISECONDS,
            lines=latency,
            moments=(Moment(0.0, "load begins"), Moment(ends_s, "load ends")),
        ),
    )
