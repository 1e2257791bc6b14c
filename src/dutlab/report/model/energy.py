"""Energy of a device by mode, from the phases of `soak-power` trials, and its numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.analysis.energy import MOST_LOSS, DeviceLoad, EnergyModel, NoModel, PhaseWatts, energy_model
from dutlab.doubts import DoubtKind
from dutlab.report.model.contests import entrant_label, varied_factors
from dutlab.report.model.words import MINUS
from dutlab.spec.factors import TRANSCEIVERS
from dutlab.spec.mixes import Mix
from dutlab.stats.summary import Interval
from dutlab.store.cell_figures import CellFigures, cells_of
from dutlab.store.record import TrialRecord

WORKLOAD = "soak-power"
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))


@dataclass(frozen=True)
class ModeEnergy:
    """Energy of the device in one mode, and at one level of every other varied factor."""

    label: str
    model: EnergyModel | NoModel
    sizes: Mapping[str, float]
    """Frame size or mix → mean bytes with FCS."""
    meter: str
    """Meters by name, with their errors if the testbed states them."""
    meter_error_w: float | None
    """Largest error of the meter by its data sheet, in watts; it is not part of any interval."""
    simulated: bool
    """True if the readings are made up."""


def energy_of(trials: Sequence[tuple[str, TrialRecord]]) -> tuple[ModeEnergy, ...]:
    """Return the energy by mode. Each record comes with the text that precedes its trial's number."""
    mine = [(prefix, record) for prefix, record in trials if record.cell.workload == WORKLOAD]
    cells = list(cells_of(record for _, record in mine).values())
    counted = all(cell.cell.factors.get(TRANSCEIVERS, "0").isdecimal() for cell in cells)
    varied = varied_factors(cells) - ({TRANSCEIVERS} if counted else set())
    by_label: dict[str, list[CellFigures]] = {}
    for cell in cells:
        by_label.setdefault(entrant_label(cell.cell, varied), []).append(cell)
    prefixes = {id(record): prefix for prefix, record in mine}
    return tuple(_energy(label, of, prefixes) for label, of in by_label.items())


def _energy(label: str, cells: Sequence[CellFigures], prefixes: Mapping[int, str]) -> ModeEnergy:
    records = [record for cell in cells for record in cell.records]
    phases, left_out = list[PhaseWatts](), list[str]()
    for record in records:
        for phase in _phases(record, f"{prefixes[id(record)]}trial {record.trial}"):
            if isinstance(phase, PhaseWatts):
                phases.append(phase)
            else:
                left_out.append(phase)
    errors = [float(e) for r in records for row in r.tables.get("phases", ()) if (e := row.get("error_w")) is not None]
    facts = dict.fromkeys(", ".join(filter(None, (r.tool_facts.get("meter"), r.tool_facts.get("meter_error")))) for r in records)
    return ModeEnergy(
        label,
        energy_model(phases, left_out),
        {cell.cell.setting.size: _mean_size(cell) for cell in cells if cell.cell.setting.size},
        " and ".join(filter(None, facts)),
        max(errors, default=None),
        any(record.doubted(DoubtKind.SIMULATED_READINGS) for record in records),
    )


def _mean_size(cell: CellFigures) -> float:
    mix = getattr(cell.cell.setting, "frame_size", None)
    return mix.mean if isinstance(mix, Mix) else 0.0


def _phases(record: TrialRecord, trial: str) -> Iterator[PhaseWatts | str]:
    """Yield each phase of a trial, or the reason why it does not count. A DUT that is off has no terms."""
    level = record.cell.factors.get(TRANSCEIVERS, "")
    conditions: dict[str, dict[str, float]] = {}
    for row in record.tables.get("conditions", ()):
        unit = {"degC": "°C"}.get(str(row["unit"]), str(row["unit"]))
        conditions.setdefault(str(row["phase"]), {})[f"{row['where']}: {row['what']}, {unit}"] = float(row["mean"] or 0.0)
    for row in record.tables.get("phases", ()):
        name, watts, loss = str(row["phase"]), row.get("watts"), row.get("loss_ratio")
        if row["state"] == "off":
            continue
        if watts is None:
            yield f"{trial}, {name}: no reading of a meter"
        elif loss is not None and float(loss) > MOST_LOSS:
            yield f"{trial}, {name}: {float(loss):.1%} of the frames were lost or not taken, and lost frames take energy, too"
        else:
            ports, deviation = row.get("ports_up"), row.get("watts_deviation_w")
            load = DeviceLoad(
                float(row.get("received_pps") or 0.0),
                float(row.get("received_bps") or 0.0),
                None if ports is None else float(ports),
                float(level) if level.isdecimal() else None,
            )
            yield PhaseWatts(trial, name, load, float(watts), None if deviation is None else float(deviation), conditions.get(name, {}))


def quantity(value: float, unit: str, interval: Interval | None = None) -> str:
    """Return watts or joules with a prefix and the digits that half the interval allows: `203 µJ`, `40.2 W`."""
    size = max(abs(value), abs(interval.high - interval.low) / 2 if interval else 0.0)
    factor, prefix = next(((f, p) for f, p in _SMALL if size >= f), _SMALL[-1])
    if unit == "W":
        factor, prefix = 1.0, ""
    return f"{_number(value / factor, interval, factor)} {prefix}{unit}"


def interval_text(value: float, unit: str, interval: Interval | None) -> str:
    """Return the interval in the unit of quantity(), as `199 to 207`; `none` without one."""
    if interval is None:
        return "none"
    *_, name = quantity(value, unit, interval).split()
    factor = next(f for f, p in _SMALL if name == f"{p}{unit}")
    return f"{_number(interval.low / factor, interval, factor)} to {_number(interval.high / factor, interval, factor)}"


def _number(value: float, interval: Interval | None, factor: float) -> str:
    half = (interval.high - interval.low) / 2 / factor if interval else abs(value) * 5e-3
    digits = (
        max(0, min(6, -math.floor(math.log10(half)) + (1 if half < 2 * 10.0 ** math.floor(math.log10(half)) else 0))) if half > 0 else 3
    )
    rounded = round(value, digits)
    return f"{MINUS if rounded < 0 else ''}{abs(rounded):.{digits}f}"


def validity(of: ModeEnergy) -> Iterator[str]:
    """Yield sentences on the range in which a model is valid, and on effects that it omits."""
    model = of.model
    if isinstance(model, NoModel):
        return
    words = []
    for name, unit, scale in (("ports", "ports", 1.0), ("transceivers", "transceivers", 1.0), ("pps", "kpps", 1e3), ("bps", "Mb/s", 1e6)):
        if (seen := model.seen(name)) is not None:
            low, high = seen[0] / scale, seen[1] / scale
            words.append(f"{low:.4g} {unit}" if low == high else f"{low:.4g} to {high:.4g} {unit}")
    if (size := model.seen("size")) is not None:
        words.append(f"frames of {size[0]:.0f} to {size[1]:.0f} bytes")
    yield f"{of.label}: measured with {', '.join(words)}, in {len(model.phases)} phases."
    for condition in model.conditions:
        yield f"{of.label}: {condition.name}: {condition.low:.4g} to {condition.high:.4g} in these phases" + (
            ", and the residuals follow it: outside of this range the terms do not hold." if condition.follows else "."
        )
    if not model.conditions:
        yield f"{of.label}: no temperature and no fan was read, so their effect on the watts is not known."
    if (deviation := model.fit.deviation) is not None:
        yield f"{of.label}: one phase differs from the model by {deviation:.2g} W (standard deviation)."
    if of.meter_error_w is not None:
        error = f"{of.meter_error_w:.2g} W"
        yield f"{of.label}: the meter ({of.meter}) may be wrong by {error} in all phases alike; no interval has that error."
    for phase in model.left_out:
        yield f"{of.label}: left out: {phase}."
