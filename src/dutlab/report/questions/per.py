"""Figures of runs divided by an amount of each device: per watt, per core, per price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dutlab.errors import InputError
from dutlab.measures import Better, MeasureKind, MeasureUnit, measure_of, measure_unit, side_of
from dutlab.methods.power_figures import HEAVIEST
from dutlab.report.questions.sides import ComparedRun
from dutlab.stats.summary import median
from dutlab.store.read import dut_of
from dutlab.subject import Figures

CORE, WATT = "core", "watt"


@dataclass(frozen=True)
class Per:
    """Divisor of each run's figures."""

    word: str
    """Name of the amount: `watt`, `core`, `euro`."""
    amounts: tuple[float, ...]
    """Amount of each run, in the order of the runs."""


def per_of(text: str, runs: Sequence[ComparedRun]) -> Per:
    """Parse `watt=90,25`, a value per run; `core` alone uses the DUT's facts, `watt` the figures of `soak-power`. Raises InputError."""
    word, separator, values = text.partition("=")
    if not separator:
        if word == WATT:
            return Per(WATT, tuple(_watts(run) for run in runs))
        if word != CORE:
            raise InputError(f"--per {text}: of how much {word}?", remedy=f"write one for each run in turn, as in --per {word}=90,25")
        return Per(CORE, tuple(_cores(run) for run in runs))
    try:
        amounts = tuple(float(v) for v in values.split(","))
    except ValueError:
        amounts = ()
    if not word or len(amounts) != len(runs) or not all(0 < a < float("inf") for a in amounts):
        raise InputError(f"--per {text}: needs {len(runs)} numbers above 0, one a run", remedy="as in --per watt=90,25")
    return Per(word, amounts)


def divided(run: ComparedRun, amount: float, declared: Mapping[str, Better] | None = None) -> ComparedRun:
    """Divide every figure of which more is better by `amount`; `declared` has directions of undeclared figures."""
    records = []
    for record in run.records:
        figures = {
            link: {name: value / amount if _is_shared(name, declared or {}) else value for name, value in of_link.items()}
            for link, of_link in record.figures.items()
        }
        records.append(record.model_copy(update={"figures": Figures(figures)}))
    return replace(run, records=tuple(records))


def _is_shared(figure: str, declared: Mapping[str, Better]) -> bool:
    unit = measure_unit(figure)
    is_divisible = unit.kind is MeasureKind.RATE and unit is not MeasureUnit.PER_CPU_S
    return side_of(figure, declared) == "higher" and (is_divisible or measure_of(figure) is None)


def _cores(run: ComparedRun) -> float:
    """Return the number of the DUT's processor threads, from its facts."""
    hosts = run.facts.get("hosts")
    cpu = hosts.get(dut_of(run.facts), {}).get("cpu") if isinstance(hosts, Mapping) else None
    if not isinstance(cpu, Mapping) or not isinstance(cpu.get("cores"), int):
        raise InputError(f"{run.name}: the facts of its DUT do not state its cores", remedy=f"write them, as in --per {CORE}=2,8")
    return float(cpu["cores"])


def _watts(run: ComparedRun) -> float:
    """Return the median watts over modes and repeats."""
    if watts := [of[HEAVIEST] for record in run.records for of in record.figures.values() if HEAVIEST in of]:
        return median(watts)
    raise InputError(f"{run.name}: it has no watts of workload soak-power", remedy=f"write them, as in --per {WATT}=90,25")
