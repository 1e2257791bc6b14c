"""Verdict and figures of a trial of `pts`, from the outputs of its parts alone, so that kept reports give the same again.

A part is one run of fio on all drives of the trial: `round-03-reads-65-64k`, `pre-02` (a tracked minute of preconditioning), `pause-5s`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from dutlab.methods.ports import Row
from dutlab.spec.workloads.pts_setting import (
    BEFORE,
    DEMANDS,
    FRESH,
    HISTOGRAM,
    NAMES,
    NOT_REACHED,
    POINTS,
    ROUNDS,
    STEADY,
    STIMULI,
    PtsSetting,
    cell_name,
    demand_name,
)  # fmt: skip
from dutlab.stats.steady import WINDOW, Steadiness, first_all_steady, steadiness
from dutlab.subject import of_part, part_figure
from dutlab.tools.fio.histogram import LEAST_BEYOND, merged, percentile
from dutlab.tools.fio.output import JobOutput

RECOVERED = 0.9
"""Share of the first load's last rate at which the same load counts as recovered; half of the range that steady state allows."""
_FIGURES = ("iops", "bytes_per_s", "clat_mean_ns", "clat_max_ns")
_FIVE_NINES = 0.99999
Place = tuple[int, str]


@dataclass(frozen=True)
class Parts:
    """Outputs of a trial's parts, in the order of measurement."""

    outputs: Mapping[str, JobOutput]
    written_bytes_per_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Part → mean rate of writes in each successive `duration` of it, for cross-stimulus recovery."""


def part_of(number: int, reads: int, size: str) -> str:
    """Return the name of a cell of a round."""
    return f"{round_of(number)}-reads-{reads}-{size}"


def round_of(number: int) -> str:
    """Return the beginning of the names of a round's parts."""
    return f"round-{number:02d}"


def demand_part(number: int, threads: int, depth: int) -> str:
    """Return the name of a cell of a round of demand."""
    return f"{round_of(number)}-t{threads}-q{depth}"


def before_part(number: int) -> str:
    """Return the name of a tracked minute of preconditioning."""
    return f"pre-{number:02d}"


def tracked_values(setting: PtsSetting, parts: Parts) -> dict[str, dict[str, list[float]]]:
    """Return phase → tracked variable → its value by round. Every variable of every phase must be steady."""
    phases: dict[str, dict[str, list[float]]] = {}
    if setting.test in {"host-idle-recovery", *DEMANDS}:
        phases[BEFORE] = {"writes": _by_round(parts, before_part, "iops")}
    if setting.test in DEMANDS:
        threads, depth = setting.demands[0]
        phases[ROUNDS] = {demand_name(threads, depth): _by_round(parts, partial(demand_part, threads=threads, depth=depth), "iops")}
    elif setting.test not in {"host-idle-recovery", "cross-stimulus-recovery"}:
        phases[ROUNDS] = {
            cell_name(reads, size): _by_round(parts, partial(part_of, reads=reads, size=size), setting.tracked_figure)
            for reads, size in setting.tracked
        }
    return phases


def _by_round(parts: Parts, name: Callable[[int], str], figure: str) -> list[float]:
    values: list[float] = []
    while (output := parts.outputs.get(name(len(values) + 1))) is not None:
        values.append(output.both.figures[figure])
    return values


def steady_round(setting: PtsSetting, parts: Parts, phase: str) -> int | None:
    """Return the round that ends the first window in which all variables of a phase are steady; None if there is none."""
    return first_all_steady(list(tracked_values(setting, parts)[phase].values()))


def state_of(setting: PtsSetting, parts: Parts) -> str:
    """Return the state of the drives: steady, not reached, or fresh for tests that need no steady state."""
    phases = tracked_values(setting, parts)
    steady = bool(phases) and all(first_all_steady(list(of.values())) is not None for of in phases.values())
    if steady:
        return STEADY
    return FRESH if setting.test in {"write-saturation", "cross-stimulus-recovery"} else NOT_REACHED


def windows_of(setting: PtsSetting, parts: Parts) -> list[tuple[str, str, Steadiness]]:
    """Return (phase, tracked variable, its window): the steady window, else that of the last rounds. Too few rounds have none."""
    windows = []
    for phase, variables in tracked_values(setting, parts).items():
        end = first_all_steady(list(variables.values()))
        of = [(phase, name, steadiness(values[:end])) for name, values in variables.items()]
        windows += [(phase, name, window) for phase, name, window in of if window is not None]
    return windows


def window_rounds(setting: PtsSetting, parts: Parts, phase: str = ROUNDS) -> range:
    """Return the numbers of the rounds of a phase whose means are its figures: its window, or all if there are too few."""
    for of_phase, _, window in windows_of(setting, parts):
        if of_phase == phase:
            return range(window.first, window.last + 1)
    variables = tracked_values(setting, parts).get(phase, {})
    return range(1, min(map(len, variables.values()), default=0) + 1)


def figures_of(setting: PtsSetting, parts: Parts) -> dict[str, float]:
    """Return the figures of a trial. Those of rounds are means over the window; a maximum is that of all its rounds."""
    match setting.test:
        case "host-idle-recovery":
            own = _of_pauses(setting, parts)
        case "cross-stimulus-recovery":
            own = _of_loads(setting, parts)
        case "demand-intensity" | "composite":
            own = _of_demand(setting, parts)
        case _:
            own = _of_cells(setting, parts)
    if (histogram := parts.outputs.get(HISTOGRAM)) is not None:
        own |= of_part(HISTOGRAM, response_times(histogram))
    if setting.test == "cross-stimulus-recovery":
        return {**own, part_figure(NAMES[FRESH], "iops"): own[part_figure("load2", "iops")]}
    state = NAMES[state_of(setting, parts)]
    phase = next(reversed(tracked_values(setting, parts)))
    variables = tracked_values(setting, parts)[phase]
    name = next(iter(variables))
    if phase == ROUNDS:
        own[part_figure(state, "iops")] = own[part_figure(name, "iops")]
    else:
        of = window_rounds(setting, parts, phase)
        own[part_figure(state, "iops")] = fmean(variables[name][number - 1] for number in of)
    return {"rounds": float(len(variables[name])), **own}


def response_times(output: JobOutput) -> dict[str, float]:
    """Return IOPS and latencies of a part, with the percentile 99.999 where enough I/Os are beyond it."""
    both = output.both
    wanted = ("iops", "bytes_per_s", "clat_mean_ns", "clat_p50_ns", "clat_p99_ns", "clat_p999_ns", "clat_p9999_ns", "clat_max_ns")
    return {**{name: both.figures[name] for name in wanted if name in both.figures}, **_five_nines([output])}


def _five_nines(outputs: Iterable[JobOutput]) -> dict[str, float]:
    bins = merged(output.both.clat.bins for output in outputs)
    enough = bins.total() * (1 - _FIVE_NINES) >= LEAST_BEYOND
    return {"clat_p99999_ns": float(percentile(bins, _FIVE_NINES))} if enough else {}


def _means(outputs: Sequence[JobOutput]) -> dict[str, float]:
    figures = {}
    for name in _FIGURES:
        if values := [output.both.figures[name] for output in outputs if name in output.both.figures]:
            figures[name] = max(values) if name == "clat_max_ns" else fmean(values)
    return figures


def _of_cells(setting: PtsSetting, parts: Parts) -> dict[str, float]:
    figures: dict[str, float] = {}
    for reads, size in setting.cells:
        of = [parts.outputs[part_of(number, reads, size)] for number in window_rounds(setting, parts)]
        extra = _five_nines(of) if setting.test == "latency" else {}
        figures |= of_part(cell_name(reads, size), {**_means(of), **extra})
    if setting.test == "write-saturation":
        first = parts.outputs[part_of(1, *setting.cells[0])]
        figures[part_figure("first", "iops")] = first.both.figures["iops"]
        figures["written_bytes"] = sum(written_bytes(output) for name, output in parts.outputs.items() if name != HISTOGRAM)
    return figures


def written_bytes(output: JobOutput) -> float:
    """Return the bytes that a part wrote, from its mean rate and its duration."""
    writes = output.ways.get("write")
    return 0.0 if writes is None or writes.bytes_per_s is None else writes.bytes_per_s * output.lasted_ms / 1e3


def _of_pauses(setting: PtsSetting, parts: Parts) -> dict[str, float]:
    """Return the figures of the bursts with each pause, and of the writes without pause after them."""
    figures: dict[str, float] = {}
    for wait_s in setting.waits_s:
        bursts, base = parts.outputs[f"pause-{wait_s:g}s"], parts.outputs[f"base-{wait_s:g}s"]
        iops, base_iops = bursts.ios / setting.bursts_s, base.both.figures["iops"]
        figures |= of_part(f"pause{wait_s:g}s", {**response_times(bursts), "iops": iops})
        figures[part_figure(f"pause{wait_s:g}s", "after_idle_ratio")] = iops / base_iops if base_iops else 0.0
        figures.pop(part_figure(f"pause{wait_s:g}s", "bytes_per_s"), None)  # fio's mean has the pauses in it
        figures |= of_part(f"base{wait_s:g}s", _means([base]))
    return figures


def _of_loads(setting: PtsSetting, parts: Parts) -> dict[str, float]:
    """Return the figures of each load, its rate at its end, and how long the third took until it was as fast as the first was."""
    figures: dict[str, float] = {}
    for number in range(1, len(STIMULI) + 1):
        name = f"load-{number}"
        figures |= of_part(f"load{number}", _means([parts.outputs[name]]))
        if rates := parts.written_bytes_per_s.get(name):
            figures[part_figure(f"load{number}_end", "bytes_per_s")] = fmean(rates[-WINDOW:])
    if (seconds := recovery_s(setting, parts)) is not None:
        figures["recovery_s"] = seconds
    return figures


def recovery_s(setting: PtsSetting, parts: Parts) -> float | None:
    """Return the end of the first `duration` of the third load with RECOVERED of the rate at the first load's end; None if none has."""
    first, third = (parts.written_bytes_per_s.get(f"load-{number}", ()) for number in (1, 3))
    if not first:
        return None
    enough = RECOVERED * fmean(first[-WINDOW:])
    return next(((number + 1) * bin_s(setting) for number, rate in enumerate(third) if rate >= enough), None)


def bin_s(setting: PtsSetting) -> float:
    """Return the seconds over which rates within a load are averaged: `duration`, at least one second as in fio's logs."""
    return max(1.0, round(setting.duration_s))


def _of_demand(setting: PtsSetting, parts: Parts) -> dict[str, float]:
    figures: dict[str, float] = {}
    for threads, depth in setting.demands:
        of = [parts.outputs[demand_part(number, threads, depth)] for number in window_rounds(setting, parts)]
        figures |= of_part(demand_name(threads, depth), _means(of))
    for name in POINTS:
        if (output := parts.outputs.get(name)) is not None:
            figures |= of_part(name, response_times(output))
    return figures


def operating_points(setting: PtsSetting, parts: Parts) -> dict[str, tuple[int, int]]:
    """Return the threads and depth of each operating point.

    The maximum has the most IOPS of all demands with a mean latency below `most_latency_s`; without any, that with the least latency. The
    minimum has the fewest threads and least depth. The middle is nearest to the mean of the IOPS of these two.
    """
    figures = _of_demand(setting, parts)
    iops = {demand: figures[part_figure(demand_name(*demand), "iops")] for demand in setting.demands}
    latency_ns = {demand: figures[part_figure(demand_name(*demand), "clat_mean_ns")] for demand in setting.demands}
    least = setting.demands[-1]
    quick = [demand for demand in setting.demands if latency_ns[demand] < setting.most_latency_s * 1e9]
    most = max(quick, key=lambda demand: iops[demand]) if quick else min(setting.demands, key=lambda demand: latency_ns[demand])
    middle = (iops[most] + iops[least]) / 2
    return {"max": most, "mid": min(quick or [most], key=lambda demand: abs(iops[demand] - middle)), "min": least}


def tables_of(setting: PtsSetting, parts: Parts) -> dict[str, list[Row]]:
    """Return the tables of a record: the tracked windows, the cells of each round, pauses, loads, operating points, histograms."""
    tables: dict[str, list[Row]] = {"windows": _windows(setting, parts)}
    if setting.test in DEMANDS:
        tables["demands"] = [
            {"round": float(number), "threads": float(threads), "depth": float(depth), **_means([output])}
            for number in range(1, len(tracked_values(setting, parts)[ROUNDS].popitem()[1]) + 1)
            for threads, depth in setting.demands
            if (output := parts.outputs.get(demand_part(number, threads, depth))) is not None
        ]
        points = operating_points(setting, parts)
        tables["points"] = [{"point": name, "threads": float(t), "depth": float(q)} for name, (t, q) in points.items()]
    elif ROUNDS in (phases := tracked_values(setting, parts)):
        count = min(map(len, phases[ROUNDS].values()), default=0)
        tables[ROUNDS] = [
            {"round": float(number), "reads_percent": float(reads), "bs": size, **parts.outputs[part_of(number, reads, size)].both.figures}
            for number in range(1, count + 1)
            for reads, size in setting.cells
        ]
    if setting.test in {"host-idle-recovery", *DEMANDS}:
        values = tracked_values(setting, parts)[BEFORE]["writes"]
        tables[BEFORE] = [{"round": float(number), "iops": value} for number, value in enumerate(values, 1)]
    histograms = {name: output for name, output in parts.outputs.items() if name in (HISTOGRAM, *POINTS)}
    if histograms:
        tables["response_times"] = [
            {"part": name, "clat_ns": float(value), "ios": float(count)}
            for name, output in histograms.items()
            for value, count in sorted(output.both.clat.bins.items())
        ]
    return {name: rows for name, rows in tables.items() if rows}


def _windows(setting: PtsSetting, parts: Parts) -> list[Row]:
    figure = setting.tracked_figure
    return [
        {
            "phase": phase,
            "variable": name,
            "first_round": float(window.first),
            "last_round": float(window.last),
            "steady": float(window.is_steady),
            f"mean_{figure}": window.mean,
            "range_ratio": window.spread / window.mean if window.mean else None,
            "slope_ratio": window.excursion / window.mean if window.mean else None,
            "slope_per_round": window.slope,
            "intercept": window.intercept,
            "correlation": window.correlation,
        }
        for phase, name, window in windows_of(setting, parts)
    ]
