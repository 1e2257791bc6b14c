"""Energy models of runs, and loads to predict as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pydantic import ValidationError

from dutlab.analysis.energy import DeviceLoad, EnergyModel, TermEstimate
from dutlab.errors import InputError
from dutlab.report.model.energy import WORKLOAD, ModeEnergy, energy_of
from dutlab.spec.mixes import Mix
from dutlab.spec.model import FILE_CONTEXT
from dutlab.store.read import reading
from dutlab.store.record import TrialRecord
from dutlab.store.record_reader import FIGURES_ONLY
from dutlab.store.run_folder import RunFolder
from dutlab.units import UnitError, parse_amount, parse_pps

_KEYS = ("ports", "transceivers", "rate", "size", "mode")


class NoTrials(InputError):
    """No trial of the workload."""


def energy_of_runs(paths: Sequence[Path]) -> tuple[ModeEnergy, ...]:
    """Return the energy of the device of these runs, by mode. Raises NoTrials without trials of `soak-power`, StoreError."""
    trials, faults = list[tuple[str, TrialRecord]](), list[str]()
    for path in paths:
        with reading(path):
            run = RunFolder.open(path)
            records = run.readable_records(faults, without=FIGURES_ONLY - {"tables", "notes"})
            trials += [(f"{run.name} " if len(paths) > 1 else "", record) for record in records]
    if not any(record.cell.workload == WORKLOAD for _, record in trials):
        why = f"; {faults[0]}" if faults else ""
        raise NoTrials(
            f"no trial of {WORKLOAD} in {', '.join(p.name for p in paths)}{why}", remedy="measure one: see docs/method/energy.md"
        )
    return energy_of(trials)


def frame_energy(paths: Sequence[Path], wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], TermEstimate]:
    """Return (mode, frame size) → joules of one more frame, for those of `wanted` that runs of `soak-power` determine.

    Empty if the runs have no such trials. Raises StoreError.
    """
    try:
        models = {of.label: of.model for of in energy_of_runs(paths)}
    except NoTrials:
        return {}
    estimates = dict[tuple[str, str], TermEstimate]()
    for mode, size in wanted:
        model = models.get(mode)
        if isinstance(model, EnergyModel) and (mean := _mean_size(size)) is not None:
            estimate = model.frame_joules(mean)
            if estimate.value is not None:
                estimates[mode, size] = estimate
    return estimates


def _mean_size(size: str) -> float | None:
    try:
        return Mix.model_validate(size, context=FILE_CONTEXT).mean
    except ValidationError:
        return None


def load_of(text: str) -> tuple[DeviceLoad, str]:
    """Parse `ports=4 rate=8kpps size=imix`, a load to predict; return it with the mode that it names, else empty. Raises InputError."""
    words = dict[str, str]()
    for word in text.split():
        key, separator, value = word.partition("=")
        if not separator or not value or key not in _KEYS or key in words:
            what = "is named twice" if key in words else "is not KEY=VALUE"
            raise InputError(f"--predict {text!r}: {word!r} {what}", remedy=f"write {', '.join(_KEYS)}, as in ports=4 rate=8kpps size=imix")
        words[key] = value
    try:
        pps = float(parse_pps(words["rate"])) if "rate" in words else 0.0
        counts = {key: parse_amount(words[key]) for key in ("ports", "transceivers") if key in words}
        size = Mix.model_validate(words["size"], context=FILE_CONTEXT).mean if "size" in words else None
    except UnitError as error:
        raise InputError(f"--predict {text!r}: {error}") from None
    except ValidationError as error:
        raise InputError(f"--predict {text!r}: size: {error.errors()[0]['msg']}") from None
    if pps and size is None:
        raise InputError(f"--predict {text!r}: frames of which size?", remedy="write size=imix, or bytes with FCS, as size=64")
    return DeviceLoad(pps, pps * 8 * (size or 0.0), counts.get("ports"), counts.get("transceivers")), words.get("mode", "")
