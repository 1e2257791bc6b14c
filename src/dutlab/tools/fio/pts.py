"""Workload `pts`: purge, preconditioning, and rounds of all cells until the tracked cell is steady.

The write saturation test instead writes to a fresh drive for a set time. The reports of every round are kept raw, so `again` can compute
the verdict from them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.pts import PtsSetting
from dutlab.stats.steady import WINDOW, Steadiness, first_steady, steadiness
from dutlab.subject import part_figure
from dutlab.tools.fio.output import JobOutput, jobs_of, total
from dutlab.tools.fio.program import FioResult, Found, doubts_of, drives_of, facts_of, run
from dutlab.tools.fio.purge import purge
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.json_text import read_object

STEADY, NOT_REACHED, FRESH = "steady", "not reached", "fresh"
_NAMES = {STEADY: "steady", NOT_REACHED: "unsteady", FRESH: "fresh"}
"""State → name of the tracked cell's IOPS. The name depends on the state, so that figures of different states are never compared."""
_ROUND = re.compile(r"round-(?P<round>\d+)-reads-(?P<reads>\d+)-(?P<size>\w+)-fio-(?P<host>.+)\.json")
_FIGURES = ("iops", "bytes_per_s", "clat_mean_ns", "clat_max_ns")
_Place = tuple[int, str]
Rounds = Sequence[Mapping[_Place, JobOutput]]


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run one test on one set of drives. Raises MeasurementError, HostError."""
    setting = cell.setting_as(PtsSetting)
    drives_by_host = await drives_of(site, cell)
    if setting.purge != "none":
        for host, drives in drives_by_host.items():
            for drive in drives.values():
                await purge(site.hosts[host], drive, setting.purge)
    before = await run(site, drives_by_host, setting.preconditioning) if setting.passes else None
    rounds: list[dict[_Place, JobOutput]] = []
    every: list[tuple[str, FioResult]] = []
    last = 1 if setting.test == "write-saturation" else setting.most_rounds
    while len(rounds) < last and first_steady(_tracked(setting, rounds)) is None:
        rounds.append({})
        for reads, size in setting.cells:
            fio_result = await run(site, drives_by_host, setting.at(reads, size))
            rounds[-1][reads, size] = fio_result.whole
            every.append((f"round-{len(rounds):02d}-reads-{reads}-{size}", fio_result))
    stages = _stages(before, every)
    record = _measured(cell, setting, drives_by_host, rounds, every)
    filled = () if before is None else before.readings
    return replace(record, readings=[*filled, *record.readings], tables={**record.tables, **({"stages": stages} if stages else {})})


def _stages(before: FioResult | None, every: Sequence[tuple[str, FioResult]]) -> list[Row]:
    """Return the time of the first reading of preconditioning and of each round, in seconds since 1970."""
    start_by_stage: dict[str, float] = {}
    for name, fio_result in ([] if before is None else [("preconditioning", before)]) + [
        (name.partition("-reads-")[0], fio_result) for name, fio_result in every
    ]:
        if fio_result.readings:
            start_by_stage.setdefault(name, min(reading.at_s for reading in fio_result.readings))
    return [{"stage": name.replace("-", " "), "began_s": at} for name, at in start_by_stage.items()]


def figures_of(setting: PtsSetting, rounds: Rounds) -> dict[str, float]:
    """Return the mean of each cell's figures over the steady window, or over the last rounds if none was steady."""
    window = _window(setting, rounds)
    window_rounds = rounds[window.first - 1 :][:WINDOW] if window else rounds
    figure_by_name: dict[str, float] = {"rounds": float(len(rounds))}
    for reads, size in setting.cells:
        of = [output.both.figures for each in window_rounds if (output := each.get((reads, size))) is not None]
        for name in _FIGURES:
            values = [figures[name] for figures in of if name in figures]
            if values:
                figure_by_name[part_figure(f"r{reads}_{size}", name)] = max(values) if name == "clat_max_ns" else fmean(values)
    reads, size = setting.tracked
    return {
        **figure_by_name,
        part_figure(_NAMES[state_of(setting, rounds)], "iops"): figure_by_name[part_figure(f"r{reads}_{size}", "iops")],
    }


def state_of(setting: PtsSetting, rounds: Rounds) -> str:
    """Return the state of the drives: steady, not reached, or fresh."""
    if setting.test == "write-saturation":
        return FRESH
    return STEADY if first_steady(_tracked(setting, rounds)) is not None else NOT_REACHED


def again(setting: PtsSetting, raw: Mapping[str, bytes]) -> Rounds:
    """Return the rounds from a trial's raw files. Raises UnreadableError; ValueError if rounds or cells are missing."""
    hosts: dict[tuple[int, _Place], list[JobOutput]] = defaultdict(list)
    for name, data in raw.items():
        if (of := _ROUND.fullmatch(name)) is not None:
            document, _ = read_object(data)
            hosts[int(of["round"]), (int(of["reads"]), of["size"])] += jobs_of(document)
    rounds = [
        {place: total(hosts[number, place]) for _, place in keys}
        for number, keys in groupby(sorted(hosts, key=lambda k: k[0]), key=lambda k: k[0])
    ]
    if not rounds or any(set(each) != set(setting.cells) for each in rounds):
        raise ValueError(f"{len(rounds)} rounds are kept, and not each has all of its {len(setting.cells)} cells")
    return rounds


def _tracked(setting: PtsSetting, rounds: Rounds) -> list[float]:
    return [each[setting.tracked].both.figures["iops"] for each in rounds]


def _window(setting: PtsSetting, rounds: Rounds) -> Steadiness | None:
    """Return the steady window, else the last one; None if there are too few rounds."""
    tracked = _tracked(setting, rounds)
    return first_steady(tracked) or steadiness(tracked)


def _measured(cell: Cell, setting: PtsSetting, found: Found, rounds: Rounds, every: Sequence[tuple[str, FioResult]]) -> Measured:
    state, window = state_of(setting, rounds), _window(setting, rounds)
    doubts = [doubt for _, fio_result in every for doubt in fio_result.doubts]
    if state == NOT_REACHED:
        doubts.append(Doubt(DoubtKind.NOT_STEADY, detail=f"after {len(rounds)} rounds"))
    if setting.purge == "none":
        doubts.append(Doubt(DoubtKind.NOT_PURGED))
    drives = [drive for of_host in found.values() for drive in of_host.values()]
    verdict: dict[str, float | str | None] = {"state": state, "purge": setting.purge, "rounds": float(len(rounds))}
    verdict |= {"capacity_bytes": float(sum(drive.size_bytes for drive in drives))}
    if window is not None:
        verdict |= {
            "first_round": float(window.first),
            "mean_iops": window.mean,
            "range_iops": window.spread,
            "slope_iops": window.excursion,
        }
    rows: list[Row] = [
        {
            "round": float(number),
            "reads_percent": float(reads),
            "bs": size,
            **output.both.figures,
        }
        for number, each in enumerate(rounds, 1)
        for (reads, size), output in each.items()
    ]
    return Measured(
        figures={cell.link_label: figures_of(setting, rounds)},
        doubts=(*dict.fromkeys(doubts), *doubts_of(found)),
        raw={f"{name}-{file}": data for name, fio_result in every for file, data in fio_result.raw.items() if file.endswith(".json")},
        facts={**facts_of(found, every[0][1]), "state": state},
        notes=[_words(setting, state, window, len(rounds))],
        readings=[reading for _, fio_result in every for reading in fio_result.readings],
        tables={"verdict": [verdict], "rounds": rows},
    )


def _words(setting: PtsSetting, state: str, window: Steadiness | None, count: int) -> str:
    purged = "not purged" if setting.purge == "none" else f"purged by {setting.purge}"
    before = f"{purged}, {setting.passes} times its capacity written in order" if setting.passes else purged
    if window is None:
        return f"{state}: {before}, {count} round{'s' if count > 1 else ''}"
    shares = f"range {window.spread / window.mean:.1%}, slope {window.excursion / window.mean:.1%} of the mean" if window.mean else "no I/O"
    return f"{state}: {before}, rounds {window.first} to {window.first + WINDOW - 1} of {count}, {shares}"
