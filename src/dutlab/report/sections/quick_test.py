"""Quick test: a row per frame size, open questions, and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv6Interface, ip_interface

from dutlab.report.model.figures import ceiling_of, computed_value, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row
from dutlab.report.model.words import bit_rate_unit, duration_words, latency_text, pps_text
from dutlab.report.sections import latency_times
from dutlab.report.sections.headline import NO_UPPER
from dutlab.spec.workloads.quick_test import QuickTestSetting
from dutlab.store.record import TrialRecord
from dutlab.subject import by_part

WORKLOAD = "quick-test"
LEAD = """NDR is the highest rate without loss in at least half of three 1-s trials (RFC 9971). PDR is the same with at most 0.5 % of the
frames lost. Both are found to 2 %. Latency is one-way, of all frames sent at half of the NDR. A frame that the device's port did not
take counts as lost."""
TERMS = "NDR: the highest rate without loss. PDR: the highest rate at which at most 0.5 % of the frames were lost. Latency: one-way."
_TRIAL_S = 60
"""Least duration of a trial (RFC 2544 section 24), in seconds."""
_FIGURES = (
    ("NDR", "ndr/lower_pps"),
    ("PDR", "pdr/lower_pps"),
    ("NDR, L1", "ndr/lower_bps_l1"),
    ("lost", "half/loss_ratio"),
    ("least", "half/latency_min_ns"),
    ("median", "half/latency_p50_ns"),
    ("99.9 %", "half/latency_p999_ns"),
)
_LINE, _RIG = Column("of line rate", "ndr/line_ratio"), Column("headroom", "headroom_ratio")


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table with a row per mode, link and frame size."""
    known = {name for g in groups for r in g.measured for name in r.figures.get(g.cell.link_label, ())}
    lines = any(ceiling_of(g, g.cell.link_label, "received_pps") for g in groups)
    columns = [
        Column("frames"),
        *(Column(head, figure) for head, figure in _FIGURES),
        *([_LINE] if lines else []),
        *([_RIG] if _RIG.figure in known else []),
    ]
    rows = [_row(g, columns, book) for g in groups]
    records = [r for g in groups for r in g.measured]
    return Section(
        slug=WORKLOAD,
        workload=WORKLOAD,
        title="Quick test",
        lead=LEAD,
        tables=(
            book.table(WORKLOAD, "Rates; loss and latency at half of the NDR; rate of the rig without the device ÷ NDR", columns, rows),
        ),
        words=(*_path(read), TERMS, *_found(records), *latency_times.words(groups), *_notes(records), *_next_steps(read)),
        unknown=tuple(_not_known(read)),
        deviations=tuple(_deviations(records)),
    )


def sentences(read: ReadRun) -> Iterator[str]:
    """Yield the answer in sentences, for a terminal."""
    records = [r for r in read.records if r.cell.workload == WORKLOAD and r.status == "measured"]
    yield from (*_path(read), TERMS, *_found(records), *(f"Not known: {what}." for what in _not_known(read)), *_next_steps(read))


def _row(group: Group, columns: Sequence[Column], book: NoteBook) -> Row:
    cell, link = group.cell, group.cell.link_label
    size, line = cell.setting.size, ceiling_of(group, link, "received_pps")

    def of_line(record: TrialRecord) -> float | None:
        lower = record.figures.get(link, {}).get("ndr/lower_pps")
        return lower / line if lower is not None and line else None

    values = [
        computed_value(group, link, column.figure, of_line, book) if column is _LINE else value_of(group, link, column.figure, book)
        for column in columns[1:]
    ]
    return group.row((size, *values), link=link, size=size)


def _path(read: ReadRun) -> Iterator[str]:
    """Yield the path of the frames: ports, and the addresses of the box; a bridge has none."""
    for link in read.testbed.get("links", {}).values():
        source, _, _, sink = (port.partition(":")[2] for port in link["path"])
        here, *box, there = (address.partition("/")[0] for address in link["addresses"])
        at, back = (f" at {box[0]}", f" from {box[-1]}") if box else ("", "")
        yield f"Frames went out of {source} ({here}) to the box{at}, and came back{back} to {sink} ({there})."


def _found(records: Sequence[TrialRecord]) -> Iterator[str]:
    for record in records:
        size = record.cell.setting.size
        figures = record.figures.get(record.cell.link_label, {})
        yield f"{size + '-byte frames' if size.isdigit() else size}: {', '.join(_of_size(figures))}."


def _of_size(figures: Mapping[str, float]) -> Iterator[str]:
    parts = by_part(figures)
    for name in ("ndr", "pdr"):
        goal = parts.get(name, {})
        lower, upper = goal.get("lower_pps"), goal.get("upper_pps")
        if lower is None:
            yield f"{name.upper()} not found"
        else:
            on_wire = bit_rate_unit([rate]).text(rate) if (rate := goal.get("lower_bps_l1")) is not None else ""
            sent = f" in {duration_words(figures['search_sent_s'])}" if "search_sent_s" in figures else ""
            bound = f": {NO_UPPER}{sent}" if upper is None else ""
            yield f"{name.upper()} {'≥ ' if bound else ''}{pps_text(lower)}{f' ({on_wire} on the wire)' if on_wire else ''}{bound}"
    if (median := (half := parts.get("half", {})).get("latency_p50_ns")) is not None:
        yield f"median latency at half of the NDR {latency_text(median)}, 99.9 % within {latency_text(half['latency_p999_ns'])}"
    else:
        yield "no latency at half load"


def _notes(records: Sequence[TrialRecord]) -> Iterator[str]:
    yield from dict.fromkeys(f"{note[:1].upper()}{note[1:]}." for r in records for note in r.notes if "duration" in note or "half" in note)


def _not_known(read: ReadRun) -> Iterator[str]:
    unknown = read.resolved.get("unknown")
    yield from (str(what) for what in (unknown if isinstance(unknown, list) else ()))
    yield from _of_rig(read)


def _of_rig(read: ReadRun) -> Iterator[str]:
    """Yield sentences on unknown headroom: it may be that of the generator only, or missing."""
    rig = read.run.calibration.get("facts", {}).get("rig")
    if rig == "generator-alone":
        yield "the limit of the sink: the headroom is that of the generator only"
    elif rig is None:
        yield "the rate of the rig without the box: it could not be calibrated"


def _next_steps(read: ReadRun) -> Iterator[str]:
    if (testbed := read.run.path / "testbed.yaml").exists():
        yield f"The full suite: dutlab rfc2544 --testbed {testbed} --mode as-found{_sizes_of_suite(read)}"


def _sizes_of_suite(read: ReadRun) -> str:
    """Return the sizes of RFC 5180 as an option, if the shortest frame of the suite cannot hold a probe."""
    links = read.testbed.get("links", {}).values()
    return " --size rfc5180" if any(isinstance(ip_interface(link["addresses"][0]), IPv6Interface) for link in links) else ""


def _deviations(records: Sequence[TrialRecord]) -> Iterator[str]:
    finals = {float(row["final_s"] or 0) for r in records for row in r.tables.get("goals", ())}
    if finals and min(finals) < _TRIAL_S:
        yield f"{WORKLOAD}: trials last {min(finals):g} s, RFC 2544 section 24 asks for at least {_TRIAL_S} s"
    scales = {r.cell.setting_as(QuickTestSetting).scale for r in records}
    yield from (f"{WORKLOAD}: every duration is {scale:g} of what a quick test takes" for scale in sorted(scales) if scale != 1)
