"""Power, heat and loss by phase: the states of a device, its temperatures against their limits, and a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dutlab.doubts import DoubtKind
from dutlab.report.model.curve import Band, Curve, Line, Moment, usual_gap
from dutlab.report.model.figures import figure_of, value_of, value_or_dash
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, Value
from dutlab.report.model.words import PERCENT, Unit, unit_for, unit_of
from dutlab.report.sections.energy import energy_tables
from dutlab.report.sections.headline import compared
from dutlab.store.record import TrialRecord
from dutlab.subject import part_figure, share_part

STATES, HEAT, POWER, ERROR = "soak-power", "soak-power-heat", "power", "error of the meter, W"
"""Slug of the table of states, and the heads of its columns of watts and their error."""
_COLUMNS = (
    Column("received", "received_pps"),
    Column("lost or not taken", "loss_ratio"),
    Column(POWER, "watts"),
    Column("above idle", "above_idle_w"),
    Column("J per GB", "j_per_gb", Unit("", 1.0, 1)),
    Column("J per million packets", "j_per_mpkt", Unit("", 1.0, 1)),
)
_CELSIUS = Unit("°C", 1.0, 1)
_MINUTES = Unit("min", 60.0, 1)
_LEAD = (
    "The DUT was held in each state in turn. The last half of each phase counts, so that the phase before has no effect. "
    "Rates, losses and joules are of all links and directions together; a GB is 10⁹ bytes of frames with FCS."
)
_HEAT = (
    Column("temperature"),
    Column("idle", "idle_c", _CELSIUS),
    Column("under load", "load_c", _CELSIUS),
    Column("highest", "peak_c", _CELSIUS),
    Column("in phase"),
    Column("limit", "limit_c", _CELSIUS),
    Column("headroom", "headroom_c", _CELSIUS),
    Column("steady heat after", "steady_s", _MINUTES),
)
_Rows = Sequence[Mapping[str, float | str | None]]


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode and phase, a row per temperature, and the timeline of each cell's first repeat."""
    suffix = _simulated(groups)
    states = [row for g in groups for row in _states(g, book)]
    tables = [book.table(STATES, f"States of the DUT{_meter(groups)}{suffix}", _heads(states), states)]
    if shares := [row for g in groups for row in _shares(g, book)]:
        columns = (Column("load"), Column("received", "received_pps"), Column("frames a second and watt", "pps_per_w"))
        tables.append(book.table("soak-power-per-watt", f"Rate by watt{suffix}", columns, shares))
    if warm := [row for g in groups for row in _warmth(g)]:
        tables.append(Table(HEAT, f"Temperatures against their limits{suffix}", _HEAT, tuple(warm)))
    energy, valid = energy_tables(groups, suffix)
    return Section(
        slug="soak-power",
        workload="soak-power",
        title=f"Power and heat{suffix}",
        lead=_LEAD,
        tables=(*tables, *energy),
        curves=tuple(curve for g in groups for curve in _timeline(g, suffix)),
        words=(
            *(extremes := [words for g in groups for words in _extremes(g, book, suffix)]),
            *valid,
            *trial_notes(groups),
        ),
        answer=tuple(extremes),
        headlines=tuple(h for h in [_headline(groups, labels, book)] if h is not None),
    )


def _simulated(groups: Sequence[Group]) -> str:
    """Return ` (simulated)` if a sensor's readings are made up, else an empty string."""
    is_simulated = any(r.doubted(DoubtKind.SIMULATED_READINGS) for g in groups for r in g.measured)
    return " (simulated)" if is_simulated else ""


def _meter(groups: Sequence[Group]) -> str:
    """Return the meters, as `, watts by wall, in steps of 1 W`."""
    facts = [r.tool_facts for g in groups for r in g.measured if r.tool_facts.get("meter")]
    names = dict.fromkeys(", ".join(filter(None, (of["meter"], of.get("meter_error")))) for of in facts)
    return f", watts by {' and '.join(names)}" if names else ""


def _phases(record: TrialRecord) -> _Rows:
    return record.tables.get("phases", [])


def _heads(rows: Sequence[Row]) -> tuple[Column, ...]:
    throttled = any(row.cells[-1] != "" for row in rows)
    own = (Column("phase"), Column("load"), Column("lasted", "lasted_s", _MINUTES))
    errors = any(row.cells[-2] != "" for row in rows)
    return (*own, *_COLUMNS, Column(ERROR, shown=errors), Column("throttled, times", shown=throttled))


def _states(group: Group, book: NoteBook) -> Iterator[Row]:
    first = next(iter(group.measured), None)
    for row in _phases(first) if first is not None else ():
        name, error, hot = str(row["phase"]), row.get("error_w"), row.get("throttled")
        values = [value_or_dash(group, part_figure(name, c.figure), book) for c in _COLUMNS]
        lasted = float(row["to_s"] or 0.0) - float(row["from_s"] or 0.0)
        ended = {"yes": ", until stable", "no": ", not stable in time"}.get(str(row.get("stable")), "")
        more = ("" if error is None else f"± {float(error):.3g}", "" if hot is None else f"{hot:.0f}")
        yield group.row((name, f"{_load(row)}{ended}", lasted, *values, *more))


def _load(row: Mapping[str, float | str | None]) -> str:
    down = f", {row['down']} down" if row.get("down") else ""
    if row["state"] != "load":
        return "off" if row["state"] == "off" else f"none{down}"
    on = f", link {row['links']} only" if row["links"] else ""
    return f"{float(row['share_percent'] or 0.0):g} %{on}{down}"


def _shares(group: Group, book: NoteBook) -> Iterator[Row]:
    """Yield a row per share of the rate that was sent on all links."""
    first = next(iter(group.measured), None)
    known = set[str]()
    for row in _phases(first) if first is not None else ():
        figure = part_figure(share_part(float(row.get("share_percent") or 0.0)), "pps_per_w")
        value = value_of(group, group.cell.link_label, figure, book)
        if isinstance(value, Missing) or figure in known or not row.get("received_pps"):
            continue
        known.add(figure)
        rate = value_of(group, group.cell.link_label, part_figure(str(row["phase"]), "received_pps"), book)
        yield group.row((f"{float(row['share_percent'] or 0.0):g} %", rate, value))


def _warmth(group: Group) -> Iterator[Row]:
    """Yield a row per temperature with medians over repeats; a dash if unknown."""
    names = dict.fromkeys((str(row["where"]), str(row["what"])) for r in group.measured for row in r.tables.get("temperatures", ()))
    for where, what in names:
        of = {
            r.trial: row for r in group.measured for row in r.tables.get("temperatures", ()) if (row["where"], row["what"]) == (where, what)
        }

        def middle(column: str, of: Mapping[int, Mapping[str, float | str | None]] = of) -> Value | str:
            values = {trial: float(value) for trial, row in of.items() if (value := row.get(column)) is not None}
            return figure_of(values, len(group.planned)) if values else "–"

        hottest = ", ".join(dict.fromkeys(str(row["peak_in"]) for row in of.values() if row.get("peak_in")))
        cells = (f"{where}: {what}", middle("idle_c"), middle("load_c"), middle("peak_c"), hottest, middle("limit_c"), middle("headroom_c"))
        yield group.row((*cells, middle("steady_s")))


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Headline | None:
    """Return the comparison of modes at full load."""
    figure = part_figure(share_part(100), "pps_per_w")
    cells = {g.label: g for g in groups}
    named = [(label, value_of(g, g.cell.link_label, figure, book)) for label in labels if (g := cells.get(label))]
    return compared("frames a second and watt at 100 %", named, figure, book)


def _extremes(group: Group, book: NoteBook, suffix: str) -> Iterator[str]:
    """Yield a sentence on the phases with the highest and the lowest power."""
    phases = [
        (v.median, name)
        for name in _names(group)
        if isinstance(v := value_of(group, group.cell.link_label, part_figure(name, "watts"), book), Figure)
    ]
    if len(phases) > 1:
        most, least = max(phases), min(phases)
        watts = unit_of("watts").text
        yield f"{group.label}: {watts(most[0])} in phase {most[1]}, {watts(least[0])} in phase {least[1]}{suffix}."


def _names(group: Group) -> list[str]:
    return list(dict.fromkeys(str(row["phase"]) for r in group.measured for row in _phases(r)))


def _timeline(group: Group, text: str) -> Iterator[Curve]:
    """Yield curves over one time axis: rate, loss, watts, temperatures; vertical lines at the beginnings of phases."""
    record = next((r for r in group.measured if r.tables.get("course")), None)
    if record is None:
        return
    phases, course, heat = _phases(record), record.tables["course"], record.tables.get("heat", [])
    span = (min(float(row["from_s"] or 0.0) for row in phases), max(float(row["to_s"] or 0.0) for row in phases))
    moments = tuple(Moment(float(row["from_s"] or 0.0), str(row["phase"])) for row in phases)
    note = "" if len(group.measured) == 1 else f"The first of {len(group.measured)} repeats is drawn."
    places = dict.fromkeys((str(row["where"]), str(row["what"])) for row in heat)
    of_heat = [(f"{w}: {x}", _points([r for r in heat if (r["where"], r["what"]) == (w, x)], "celsius")) for w, x in places]
    drawn: list[tuple[str, str, str, Unit, list[tuple[str, tuple[tuple[float, float], ...]]]]] = [
        ("rate", "received", "received_pps", unit_for("received_pps", [v for _, v in _points(course, "received_pps")]),
         [("received", _points(course, "received_pps"))]),
        ("loss", "lost, of what was offered", "loss_ratio", PERCENT, [("lost", _points(course, "loss_ratio"))]),
        ("power", f"power{text}", "watts", unit_of("watts"), [(record.tool_facts.get("meter", "watts"), _points(course, "watts"))]),
        ("heat", f"temperature{text}", "celsius", _CELSIUS, of_heat),
    ]  # fmt: skip
    limits = {float(limit) for row in record.tables.get("temperatures", ()) if (limit := row.get("limit_c")) is not None}
    curves = {
        slug: Curve(
            slug=f"soak-power-{group.planned[0]}-{slug}",
            title=f"{words[0].upper()}{words[1:]}, {group.label}, link {group.cell.link_label}",
            x_title="time",
            x="time_s",
            y_title=words,
            y=figure,
            lines=tuple(Line(label, points, gap=usual_gap(points)) for label, points in lines if points),
            limits=tuple((f"limit {limit:g} °C", limit) for limit in sorted(limits)) if slug == "heat" else (),
            moments=moments,
            x_span=span,
            y_unit=unit,
            note=note,
        )
        for slug, words, figure, unit, lines in drawn
        if any(points for _, points in lines)
    }
    if "power" in curves and "heat" in curves:  # short titles of the axes, since the panels are low; the title says what is simulated
        curves |= {slug: replace(curves[slug], y_title=words) for slug, words in (("power", "power"), ("heat", "temperature"))}
        below = replace(curves.pop("heat"), moments=(), below=replace(curves.pop("rate"), moments=()) if "rate" in curves else None)
        title = f"The whole course{text}, {group.label}, link {group.cell.link_label}"
        yield replace(curves.pop("power"), slug=f"soak-power-{group.planned[0]}-course", title=title, bands=_bands(phases), below=below)
    yield from curves.values()


def _bands(phases: _Rows) -> tuple[Band, ...]:
    """Return each phase with its load; a phase of the DUT switched off states it."""
    return tuple(
        Band(
            float(row["from_s"] or 0.0), float(row["to_s"] or 0.0),
            f"{row['phase']}{' (off)' if row['state'] == 'off' and row['phase'] != 'off' else ''}",
            float(row["share_percent"] or 0.0) / 100,
        )
        for row in phases
    )  # fmt: skip


def _points(rows: _Rows, name: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(row["at_s"] or 0.0), float(value)) for row in rows if isinstance(value := row.get(name), int | float))
