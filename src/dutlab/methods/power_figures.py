"""Figures of the phases of a `soak-power` trial from sensor readings: watts, joules, heat, and throttling by heat.

Only the last half of a phase counts, so that the effect of the previous phase has faded; of a load, only its time with frames, if the
generator reported it. Figures are of all links together:

    PHASE/watts, PHASE/above_idle_w              mean watts; mean watts less those of the first idle phase
    PHASE/j_per_gb, PHASE/j_per_mpkt             joules per 10^9 bytes of frames with FCS, and per million frames that arrived
    SHARE%/pps_per_w                             frames a second and watt at each share of the rate, on all links
    heaviest_load/watts                          watts of the phase with the greatest share
    heat_headroom_c                              the least distance of any temperature to its limit
    steady_heat_s                                from the start of the heaviest load until all temperatures stay within 1 degC of their end
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from dutlab.methods.dut_ports import SensedValue
from dutlab.methods.ports import Measured, Row
from dutlab.methods.soak_power import CELSIUS
from dutlab.plan.cell import Cell
from dutlab.spec.sensor import SensorSpec
from dutlab.spec.workloads.soak_power import SoakPowerSetting
from dutlab.stats.series import settled_after
from dutlab.subject import apart, of_part, part_figure, share_part
from dutlab.systems.sample_names import is_limit, limit_name

MOST_PIECES = 600
THROTTLED = "throttled"
HEAVIEST = part_figure("heaviest_load", "watts")
"""Figure of a trial with the DUT's watts under the heaviest load. It cannot be the name of a phase: those contain no `_`."""
_IN_WATTS = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
_METERS = ("meter", "snmp", "mqtt", "nut", "command", "redfish", "ipmi", "ipmi-local")
"""Kinds of sensors that may measure a whole device, the most reliable first; the processor's counter (RAPL) never does."""
_NEAR_C = 1.0
RPM = "rpm"
"""Unit of fans."""

_Key = tuple[str, str, str]
"""Place, sensor, name."""
_Points = Sequence[tuple[float, float]]


def with_readings(measured: Measured, cell: Cell, readings: Sequence[SensedValue], sensors: Mapping[str, SensorSpec]) -> Measured:
    """Add the figures of the phases; notes explain figures that no sensor measures."""
    setting = cell.setting_as(SoakPowerSetting)
    series = defaultdict[_Key, list[tuple[float, float]]](list)
    units = dict[_Key, str]()
    for r in readings:
        series[r.where, r.sensor, r.name].append((r.t_s, r.value))
        units[r.where, r.sensor, r.name] = r.unit
    phases = measured.tables.get("phases", ())
    meter = _meter(setting.meter, units, sensors)
    watts = [(t, v * _IN_WATTS[units[meter]]) for t, v in series[meter]] if meter else []
    heat = {key: points for key, points in series.items() if units[key] == CELSIUS and not is_limit(key[2])}
    limits = {key: series[limit][0][1] for key in heat if (limit := (*key[:2], limit_name(key[2]))) in series}
    throttled = {key[0]: points for key, points in series.items() if key[2] == THROTTLED}
    step_w, share = _resolution(meter, units, sensors), _accuracy(meter, sensors)
    fine = _fine(step_w, share)
    loads = measured.tables.get("loads", ())
    rows = [_row(row, _counted(row, loads), watts, (step_w, share), throttled) for row in phases]
    rows = _above_idle(rows)
    figures, notes = _figures(rows, cell, meter), [*measured.notes]
    if meter is None:
        notes.append("no sensor read the watts of the device: its phases have none")
    notes += [f"phase {row['phase']}: no reading of {meter[1]} in its last half" for row in rows if meter and row["watts"] is None]
    notes += _throttling(throttled, rows)
    temperatures = _temperatures(heat, limits, rows)
    if headrooms := [float(row["headroom_c"]) for row in temperatures if row["headroom_c"] is not None]:
        figures["heat_headroom_c"] = min(headrooms)
    steady = [row["steady_s"] for row in temperatures]
    if steady and (known := [float(s) for s in steady if s is not None]) and len(known) == len(steady):
        figures["steady_heat_s"] = max(known)
    return replace(
        measured,
        figures={**measured.figures, cell.link_label: {**measured.figures.get(cell.link_label, {}), **figures}},
        notes=notes,
        facts={**measured.facts, **({"meter": _words(meter)} if meter else {}), **({"meter_error": fine} if fine else {})},
        tables={
            **measured.tables,
            "phases": rows,
            "temperatures": temperatures,
            "conditions": list(_conditions(series, units, rows)),
            **_course(watts, heat, series, rows),
        },
    )


def _meter(asked: str | None, units: Mapping[_Key, str], sensors: Mapping[str, SensorSpec]) -> _Key | None:
    """Return the meter that is asked for, or the first of the kinds that measure a whole device, in their order."""
    kinds = {name: spec.kind for name, spec in sensors.items()}
    meters = [key for key, unit in units.items() if unit in _IN_WATTS and kinds.get(key[1]) in _METERS and asked in (None, key[1])]
    order = list(sensors)
    return min(meters, key=lambda key: (_METERS.index(kinds[key[1]]), order.index(key[1]), "dcmi" not in key[2]), default=None)


def _resolution(meter: _Key | None, units: Mapping[_Key, str], sensors: Mapping[str, SensorSpec]) -> float | None:
    step = getattr(sensors.get(meter[1]), "resolution", None) if meter else None
    return step * _IN_WATTS[units[meter]] if meter and step is not None else None


def _accuracy(meter: _Key | None, sensors: Mapping[str, SensorSpec]) -> float | None:
    accuracy = getattr(sensors.get(meter[1]), "accuracy", None) if meter else None
    return float(accuracy) if accuracy is not None else None


def _fine(step_w: float | None, share: float | None) -> str:
    """Return the meter's error as the testbed file states it: `in steps of 1 W, within 2 %`."""
    step = None if step_w is None else f"in steps of {step_w:g} W"
    return ", ".join(filter(None, (step, None if share is None else f"within {share * 100:g} %")))


def _error(mean: float | None, step_w: float | None, share: float | None) -> float | None:
    """Return the error in watts: a step plus the share of the reading."""
    return None if mean is None or (step_w is None and share is None) else (step_w or 0.0) + (share or 0.0) * abs(mean)


def _words(key: _Key) -> str:
    return key[1] if key[1] == key[2] else f"{key[1]}: {key[2]}"


def _inside(points: _Points, from_s: float, to_s: float) -> list[float]:
    return [value for t, value in points if from_s <= t <= to_s]


def _span(row: Row) -> tuple[float, float]:
    return float(row["from_s"] or 0.0), float(row["to_s"] or 0.0)


def _counted(row: Row, loads: Sequence[Row]) -> list[tuple[float, float]]:
    """Return the spans of a phase in which readings count."""
    from_s, to_s = _span(row)
    middle = (from_s + to_s) / 2
    spans = [_span(of) for of in loads if of["phase"] == row["phase"]] or [(middle, to_s)]
    return [(max(start, middle), end) for start, end in spans if end > middle]


def _row(
    row: Row,
    counted: Sequence[tuple[float, float]],
    watts: _Points,
    fine: tuple[float | None, float | None],
    throttled: Mapping[str, _Points],
) -> dict[str, float | str | None]:
    from_s, to_s = _span(row)
    of = [value for span in counted for value in _inside(watts, *span)]
    mean = fmean(of) if of else None
    pps, bps = row.get("received_pps"), row.get("received_bps")
    return {
        **row,
        "watts": mean,
        "watts_deviation_w": pstdev(of) if of else None,
        "readings": float(len(of)),
        "error_w": _error(mean, *fine),
        "above_idle_w": None,
        "j_per_gb": mean * 8e9 / float(bps) if mean is not None and bps else None,
        "j_per_mpkt": mean * 1e6 / float(pps) if mean is not None and pps else None,
        "pps_per_w": float(pps) / mean if mean and pps else None,
        "throttled": sum(sum(_inside(points, from_s, to_s)) for points in throttled.values()) if throttled else None,
    }


def _above_idle(rows: Sequence[dict[str, float | str | None]]) -> list[dict[str, float | str | None]]:
    idle = next((float(row["watts"]) for row in rows if row["state"] == "idle" and row["watts"] is not None), None)
    return [{**row, "above_idle_w": float(row["watts"]) - idle if idle is not None and row["watts"] is not None else None} for row in rows]


def _figures(rows: Sequence[Row], cell: Cell, meter: _Key | None) -> dict[str, float]:
    figures = dict[str, float]()
    for row in rows if meter else ():
        figures |= _of_phase(row, "watts", "above_idle_w", "j_per_gb", "j_per_mpkt")
        on_all = row["links"] is None or set(apart(str(row["links"]))) == set(cell.links)
        if on_all and row["pps_per_w"] is not None:
            figures[part_figure(share_part(float(row["share_percent"] or 0.0)), "pps_per_w")] = float(row["pps_per_w"])
    if (heaviest := _heaviest(rows)) is not None and heaviest["watts"] is not None:
        figures[HEAVIEST] = float(heaviest["watts"])
    for row in rows:
        figures |= _of_phase(row, "received_pps", "loss_ratio")
    return figures


def _of_phase(row: Row, *measures: str) -> dict[str, float]:
    return of_part(str(row["phase"]), {name: float(value) for name in measures if (value := row[name]) is not None})


def _throttling(throttled: Mapping[str, _Points], rows: Sequence[Row]) -> Iterable[str]:
    for where, points in sorted(throttled.items()):
        if first := next((t for t, count in points if count > 0), None):
            at = next((str(row["phase"]) for row in rows if _span(row)[0] <= first <= _span(row)[1]), "no phase")
            yield f"heat throttled {where} {sum(v for _, v in points):.0f} times, for the first time after {first:.0f} s, in phase {at}"


def _heaviest(rows: Sequence[Row]) -> Row | None:
    """Return the phase with the greatest share of the rate on the most links, the longest of several."""
    loaded = [row for row in rows if row["state"] == "load"]
    weight = [(float(row["share_percent"] or 0.0), row["links"] is None, _span(row)[1] - _span(row)[0]) for row in loaded]
    return loaded[weight.index(max(weight))] if loaded else None


def _temperatures(heat: Mapping[_Key, _Points], limits: Mapping[_Key, float], rows: Sequence[Row]) -> list[Row]:
    """Return one row a temperature: its peak and the place of it, its limit, and how long the heaviest load took to heat it."""
    heaviest = _heaviest(rows)
    table = list[Row]()
    for key, points in sorted(heat.items()):
        inside = [(t, v) for t, v in points if rows and _span(rows[0])[0] <= t <= _span(rows[-1])[1]]
        if not inside:
            continue
        at_s, peak = max(inside, key=lambda point: point[1])
        limit = limits.get(key)
        table.append({
            "where": key[0],
            "what": _words(key),
            "idle_c": _mean_of(points, next((row for row in rows if row["state"] == "idle"), None)),
            "load_c": _mean_of(points, heaviest),
            "peak_c": peak,
            "peak_in": next((str(row["phase"]) for row in rows if _span(row)[0] <= at_s <= _span(row)[1]), None),
            "limit_c": limit,
            "headroom_c": None if limit is None else limit - peak,
            "steady_s": None if heaviest is None else settled_after(points, *_span(heaviest), within=_NEAR_C),
        })  # fmt: skip
    return table


def _conditions(series: Mapping[_Key, _Points], units: Mapping[_Key, str], rows: Sequence[Row]) -> Iterable[Row]:
    """Yield the mean of every temperature and fan in the last half of each phase, since these may change the watts too."""
    for key, points in sorted(series.items()):
        if units[key] in (CELSIUS, RPM) and not is_limit(key[2]):
            for row in rows:
                if (mean := _mean_of(points, row)) is not None:
                    yield {"phase": row["phase"], "where": key[0], "what": _words(key), "unit": units[key], "mean": mean}


def _mean_of(points: _Points, row: Row | None) -> float | None:
    if row is None:
        return None
    from_s, to_s = _span(row)
    of = _inside(points, (from_s + to_s) / 2, to_s)
    return fmean(of) if of else None


def _course(watts: _Points, heat: Mapping[_Key, _Points], series: Mapping[_Key, _Points], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the trial in at most MOST_PIECES pieces; pieces without readings have no values."""
    if not rows:
        return {}
    begin, end = _span(rows[0])[0], _span(rows[-1])[1]
    each = max(1.0, (end - begin) / MOST_PIECES)

    def pieces(points: _Points) -> dict[int, float]:
        of = defaultdict[int, list[float]](list)
        for t, value in points:
            if begin <= t <= end:
                of[int((t - begin) / each)].append(value)
        return {n: fmean(values) for n, values in of.items()}

    flows = {
        name: [pieces(points) for key, points in series.items() if key[2] == name] for name in ("offered_pps", "received_pps", "lost_pps")
    }
    sums = {name: {n: sum(one.get(n, 0.0) for one in of) for n in set().union(*of)} if of else {} for name, of in flows.items()}
    power = pieces(watts)
    course: list[Row] = [
        {
            "at_s": round(begin + (n + 0.5) * each, 3),
            "received_pps": sums["received_pps"].get(n),
            "loss_ratio": sums["lost_pps"][n] / sums["offered_pps"][n] if n in sums["lost_pps"] and sums["offered_pps"].get(n) else None,
            "watts": power.get(n),
        }
        for n in sorted({*power, *sums["received_pps"]})
    ]
    warmth: list[Row] = [
        {"where": key[0], "what": _words(key), "at_s": round(begin + (n + 0.5) * each, 3), "celsius": value}
        for key, points in sorted(heat.items())
        for n, value in sorted(pieces(points).items())
    ]
    return {"course": course, "heat": warmth}
