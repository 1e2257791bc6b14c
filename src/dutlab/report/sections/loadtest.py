"""Ramp: intended, offered and received rate by second, the saturation, and a table of the best second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.plan.cell import Cell as Place
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import load_value, rate_unit, value_of
from dutlab.report.model.groups import Group, by_size
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Value, figure_text
from dutlab.report.model.words import PERCENT, SECONDS, SIZES, Unit, alike_names, plural, pps_text, setting_words
from dutlab.report.sections.headline import bounds
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.loadtest import LoadtestSetting
from dutlab.store.loads import BACKPRESSURE, DELIVERED
from dutlab.store.record import TrialRecord
from dutlab.subject import Way, joined, subject_of, sums_first
from dutlab.units import si

_Row = Mapping[str, int | float | str | None]
_COLUMNS = (
    ("most", "max_received_pps"),
    ("most L1", "max_received_bps_l1"),
    ("of line rate", "max_line_ratio"),
    ("saturated", "saturation_pps"),
    ("saturated L1", "saturation_bps_l1"),
    ("of line rate", "saturation_line_ratio"),
    ("after", "saturation_s"),
    ("back-pressure", BACKPRESSURE),
    ("delivered", DELIVERED),
    ("lost in all", "loss_ratio"),
)
_SATURATED = {"saturation_pps", "saturation_bps_l1", "saturation_line_ratio", "saturation_s"}
_CAPTION = "Received in the best second, and in the first saturated second, with its time since the ramp began"
FEW = 6
"""Largest number of cells with a sentence each; more are only in the table."""
_WAYS = {Way.FORWARD: "there", Way.BACK: "back", Way.BOTH: "both directions"}
_NO_BREAK = "\u00a0"
_LINES = (("intended", "intended_pps"), ("offered", "offered_pps"), ("received", "received_pps"))


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, frame size and direction, sums first, and a curve per mode and frame size."""
    groups = by_size(groups, labels)
    unit, wire = rate_unit(groups, "max_received_pps"), rate_unit(groups, "max_received_bps_l1")
    profile = {id(g): words for g, words in zip(groups, profiles(groups), strict=True)}
    notes = [_answer(g, profile[id(g)], book, unit, wire) for g in groups if g.measured] if len(groups) <= FEW else []
    notes += [f"{g.label}, {profile[id(g)]}: {note}." for g in groups for r in g.measured for note in r.notes]
    rows = [row for g in groups for row in _rows(g, profile[id(g)], book)]
    thresholds = dict.fromkeys(f"{percent:g} %" for g in groups if (percent := ramp_of(g.cell).threshold_percent) is not None)
    above = f"above {' or '.join(thresholds)}" if thresholds else "too high"
    columns = (Column("profile"), Column("direction"), *(Column(head, figure) for head, figure in _COLUMNS))
    return Section(
        slug="loadtest",
        workload="loadtest",
        title="Load test: the ramp",
        lead=f"The load rises from nothing to a share of the line rate. Saturation is the first second from which the loss stays {above} "
        "to the end; frames that the DUT refuses count as lost there. Bits are on the wire, with preamble and gap; of both directions "
        "together they can be twice the line rate of one.",
        tables=(book.table("loadtest", _CAPTION, columns, rows),),
        curves=tuple(curve for g in groups if (curve := _curve(g, profile[id(g)])) is not None),
        words=tuple(dict.fromkeys(notes)),
        answer=tuple(bounds(groups, ("max_received_pps",), book, _ended)),
    )


def profiles(groups: Sequence[Group]) -> list[str]:
    """Return the profile of each group: its frame size, and the settings that distinguish it from others of its mode, size and links."""
    keys = [(g.label, g.cell.setting.size, g.cell.links) for g in groups]
    if len(set(keys)) == len(keys):
        return [g.cell.setting.size for g in groups]
    same = alike_names(g.cell.setting for g in groups)
    own = [setting_words(g.cell.setting, without={*same, *SIZES}) for g in groups]
    flows = [g.cell.setting.traffic.flow_count if isinstance(g.cell.setting, LoadtestSetting) else 1 for g in groups]
    if len(set(flows)) > 1:  # one flow is the default, which has no words
        own = [", ".join(filter(None, (words, "1 flow" if count == 1 else ""))) for words, count in zip(own, flows, strict=True)]
    return [f"{g.cell.setting.size}, {words}" if words else g.cell.setting.size for g, words in zip(groups, own, strict=True)]


def _answer(group: Group, profile: str, book: NoteBook, unit: Unit, wire: Unit) -> str:
    """Return the sentence that the section begins with."""
    name = _names(group)[0]
    most, bits, share, point, at = (
        value_of(group, name, figure, book)
        for figure in ("max_received_pps", "max_received_bps_l1", "max_line_ratio", "saturation_pps", "saturation_s")
    )
    sentence = f"{group.label}, {profile}, {_direction(name)}: "
    if isinstance(most, Figure) and isinstance(bits, Figure) and isinstance(share, Figure):
        sentence += (
            f"{'' if most.at_least else 'at most '}{figure_text(most, unit)} received in a second, {figure_text(bits, wire)} on the wire, "
        )
        sentence += f"{figure_text(share, PERCENT)} of {'the line rate of one direction' if subject_of(name).is_sum else 'line rate'}; "
    if isinstance(point, Figure) and isinstance(at, Figure):
        return f"{sentence}saturated {figure_text(at, SECONDS)} after the ramp began, at {figure_text(point, unit)}."
    return f"{sentence}{_ended(group)}." if any(r.tables.get("seconds") for r in group.measured) else f"{sentence}saturation: not reported."


def ramp_of(cell: Place) -> LoadtestSetting | ImportedSetting:
    """Return the settings of the ramp, or those that an imported file gives."""
    return cell.setting if isinstance(cell.setting, ImportedSetting) else cell.setting_as(LoadtestSetting)


def _ended(group: Group) -> str:
    """Return `the ramp ended at its target, 1 Gb/s, without saturation`; the target is per direction."""
    percent = ramp_of(group.cell).target_percent
    lines = [
        of["max_received_bps_l1"] / of["max_line_ratio"]
        for r in group.measured
        for of in r.figures.values()
        if of.get("max_line_ratio") and "max_received_bps_l1" in of
    ]
    if not lines or percent is None:
        return "the ramp ended without saturation"
    return f"the ramp ended at its target, {si(lines[0] * percent / 100, 'b/s')}, without saturation"


def _names(group: Group) -> list[str]:
    """Return all directions together, then each."""
    return sums_first(name for r in group.measured for name in r.figures) or [group.cell.link_label]


def _rows(group: Group, profile: str, book: NoteBook) -> list[Row]:
    return [
        group.row(
            (profile, _direction(name).replace(" ", _NO_BREAK), *(_value(group, name, figure, book) for _, figure in _COLUMNS)),
            link=name, size=group.cell.setting.size,
        )
        for name in _names(group)
    ]  # fmt: skip


def _value(group: Group, link: str, figure: str, book: NoteBook) -> Value:
    value = (load_value if figure in (BACKPRESSURE, DELIVERED) else value_of)(group, link, figure, book)
    if isinstance(value, Missing) and figure in _SATURATED and group.measured:
        return Missing("not reached: the loss did not stay above the threshold up to the last second", value.trials)
    return value


def _direction(name: str) -> str:
    try:
        of = subject_of(name)
    except ValueError:  # a table that was edited by hand
        return name
    if len(of.places) > 1:
        return f"{plural(len(of.flows), 'direction')} together"
    return f"{of.places[0]}, {_WAYS[of.way]}"


def _curve(group: Group, profile: str) -> Curve | None:
    """Return the curve of the first repeat, all directions together."""
    record = next((r for r in group.measured if r.tables.get("seconds")), None)
    if record is None:
        return None
    by_direction: dict[str, list[_Row]] = {}
    for row in record.tables["seconds"]:
        by_direction.setdefault(str(row["direction"]), []).append(row)
    seconds = list(zip(*by_direction.values(), strict=False))
    ramp_at = (ramp_of(record.cell).warmup_s or 0.0) + 1.0  # a second is reported at its end, and drawn at its beginning
    series = ((label, _points(seconds, name, ramp_at)) for label, name in _LINES)
    lines = [Line(label, points, "asked" if label == "intended" else "found") for label, points in series if points]
    saturated = _saturated(record, joined(by_direction))
    repeats = len(group.measured)
    return Curve(
        slug=f"loadtest-{group.planned[0]}",
        title=f"Ramp of {profile}, {group.label}, {_direction(joined(by_direction))}",
        x_title="after the ramp began",
        x="at_s",
        y_title="frames a second",
        y="rate_pps",
        lines=tuple(lines),
        moments=() if saturated is None else (saturated,),
        note="" if repeats == 1 else f"Drawn: the first of {repeats} repeats; the table has all.",
    )


def _points(seconds: Sequence[Sequence[_Row]], name: str, ramp_at: float) -> tuple[tuple[float, float], ...]:
    whole = [of for of in seconds if all(row.get(name) is not None for row in of)]
    return tuple((round(float(of[0]["at_s"] or 0.0) - ramp_at, 3), sum(float(row[name] or 0.0) for row in of)) for of in whole)


def _saturated(record: TrialRecord, label: str) -> Moment | None:
    figures = record.figures.get(label, {})
    if "saturation_s" not in figures:
        return None
    return Moment(figures["saturation_s"], f"saturated: {pps_text(figures['saturation_pps'])}")
