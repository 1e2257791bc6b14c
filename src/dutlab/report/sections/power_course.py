"""Watts and temperatures over a whole run, from its first trial to its last: the states and loads of its trials as bands above."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import fmean

from dutlab.report.model.curve import Band, Curve, Line, usual_gap
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun
from dutlab.report.model.words import Unit
from dutlab.report.sections.watched import made_up
from dutlab.store.record import TrialRecord
from dutlab.store.samples import query_samples
from dutlab.systems.sample_names import is_limit, limit_name

MOST_TRIALS, MOST_BANDS, MOST_LINES, POINTS = 200, 24, 6, 400
"""Largest numbers of trials, of bands with text, and of lines of temperatures, and the number of points of a line."""
_WORDS = {"watts": "power", "celsius": "temperature"}
_WATTS, _CELSIUS = Unit("W", 1.0, 1), Unit("°C", 1.0, 1)
_OF_UNIT = """
SELECT file, sensor, host, name, floor(t_s), avg(value)
FROM samples WHERE unit = getvariable('wanted') AND isfinite(value) GROUP BY ALL ORDER BY ALL
"""
_Points = dict[str, list[tuple[float, float]]]
"""Label → time since the first trial, in seconds, and value."""


def power_course(read: ReadRun) -> tuple[Curve, ...]:
    """Return one figure of watts and temperatures over all trials; none for a single trial, and for runs without watts."""
    trials = sorted(((r, g) for g in read.groups for r in g.measured), key=lambda of: of[0].started)
    if not 1 < len(trials) <= MOST_TRIALS:
        return ()
    kept = [(r, path) for r, _ in trials if (path := read.run.samples_path(r.trial))]
    records, paths = [r for r, _ in kept], [path for _, path in kept]
    zero = trials[0][0].started
    watts, _ = _lines(query_samples(paths, _OF_UNIT, wanted="W"), records, zero)
    if not watts:
        return ()
    heat, limits = _lines(query_samples(paths, _OF_UNIT, wanted="degC"), records, zero)
    hottest = sorted(heat, key=lambda label: -max(value for _, value in heat[label]))[:MOST_LINES]
    span = (0.0, max((r.ended - zero).total_seconds() for r, _ in trials))
    shown = {f"limit {limit:g} °C": limit for label in hottest if (limit := limits.get(label)) is not None}
    below = _curve("celsius", _CELSIUS, {label: heat[label] for label in hottest}, span) if hottest else None
    simulated = next((made_up(str(name), read.testbed) for name in _sensors(read) if made_up(str(name), read.testbed)), "")
    whole = _curve("watts", _WATTS, watts, span)
    lower = replace(below, limits=tuple(shown.items())) if below is not None else None
    return (replace(whole, title=f"Power over the whole run{simulated}", bands=tuple(_bands(trials, zero)), below=lower),)


def _sensors(read: ReadRun) -> Mapping[object, object]:
    sensors = read.testbed.get("sensors")
    return sensors if isinstance(sensors, Mapping) else {}


def _lines(rows: Sequence[tuple[object, ...]], records: Sequence[TrialRecord], zero: datetime) -> tuple[_Points, dict[str, float]]:
    """Return the readings by `host: name`, and the last limit of each temperature."""
    points, limits = defaultdict[str, list[tuple[float, float]]](list), dict[tuple[str, str], float]()
    names: dict[str, tuple[str, str]] = {}
    for file, sensor, host, name, second, value in rows:
        if is_limit(str(name)):
            limits[str(host), str(name)] = float(str(value))
            continue
        start = (records[int(str(file))].started - zero).total_seconds()
        label = str(sensor) if name in {sensor, ""} else f"{host}: {name}".removesuffix("_celsius").removesuffix("_watts")
        names[label] = (str(host), str(name))
        points[label].append((start + float(str(second)), float(str(value))))
    thin = {label: _thinned(sorted(of)) for label, of in points.items()}
    own = {label: limits[host, limit_name(name)] for label, (host, name) in names.items() if (host, limit_name(name)) in limits}
    return thin, own


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most POINTS points, each the mean of its neighbours."""
    step = -(-len(points) // POINTS)
    parts = [points[n : n + step] for n in range(0, len(points), step)]
    return [(fmean(x for x, _ in part), fmean(y for _, y in part)) for part in parts]


def _curve(figure: str, unit: Unit, points: _Points, span: tuple[float, float]) -> Curve:
    lines, words = tuple(Line(label, tuple(of), gap=usual_gap(of)) for label, of in points.items()), _WORDS[figure]
    return Curve(
        slug=f"power-course-{figure}", title=words, x_title="since the first trial", x="time_s", y_title=words, y=figure, lines=lines,
        x_span=span, y_unit=unit,
    )  # fmt: skip


def _bands(trials: Sequence[tuple[TrialRecord, Group]], zero: datetime) -> Iterator[Band]:
    """Yield the phases of each trial, or the trial itself; neighbours with the same words and load are one band."""
    several = len({g.label for _, g in trials}) > 1
    bands: list[Band] = []
    for record, group in trials:
        start, end = ((at - zero).total_seconds() for at in (record.started, record.ended))
        phases = record.tables.get("phases", [])
        own = [
            Band(
                start + float(p["from_s"] or 0.0), start + float(p["to_s"] or 0.0), str(p["phase"]), float(p["share_percent"] or 0.0) / 100
            )
            for p in phases
        ] or [Band(start, end, f"{group.label}, {group.cell.workload}" if several else group.cell.workload, 1.0)]
        for band in own:
            if bands and (bands[-1].words, bands[-1].load) == (band.words, band.load):
                bands[-1] = Band(bands[-1].start, band.end, band.words, band.load)
            else:
                bands.append(band)
    has_room = len(bands) <= MOST_BANDS
    yield from (band if has_room else Band(band.start, band.end, "", band.load) for band in bands)
