"""The rig measured without the DUT, or its calibration found in the cache; and what it means for a result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab import labs
from dutlab.errors import InputError
from dutlab.hosts.facts import collect_facts
from dutlab.methods.calibrate import DURATION, HEADROOM, calibrate, doubts_of_headroom, headroom, mix_key
from dutlab.methods.mixes import mix_of
from dutlab.methods.ports import FrameMix, Measured
from dutlab.plan.cell import Cell
from dutlab.store.calibration import Calibration, cached, keep
from dutlab.tools.engine import Engine
from dutlab.units import Seconds

_FACTS = ("kernel", "cpu", "machine", "mitigations", "virtual", "memory_bytes", "clocksource")
_ENGINE_WORKLOADS = frozenset({"sweep", "search"})


@dataclass(frozen=True)
class Load:
    """Links loaded at once, and with what."""

    links: tuple[str, ...]
    mix: FrameMix


def loads_of(cells: Iterable[Cell]) -> list[Load]:
    """What the generator will send in these cells, each once; cells without a mix of frames need no calibration."""
    found: dict[tuple[tuple[str, ...], str], Load] = {}
    for cell in cells:
        if (load := _load(cell)) is not None:
            found.setdefault((load.links, mix_key(load.mix)), load)
    return list(found.values())


def _load(cell: Cell) -> Load | None:
    if cell.workload not in _ENGINE_WORKLOADS:
        return None
    try:
        return Load(cell.links, mix_of(cell))
    except InputError:
        return None


async def calibrated(
    lab: labs.Lab, engine_binary: str, loads: Sequence[Load], cache: Path, *, anew: Seconds | None = None
) -> tuple[Calibration, Path | None]:
    """The lab's rig for `loads`, from the cache as far as it has them; and where in the cache it is now.

    With `anew` every load is measured, for so long. Raises LabError, ToolMissing, MeasurementError, HostError.
    """
    hosts = lab.hosts()
    async with labs.direct_links(lab) as testbed:
        engine = Engine(hosts, testbed, lab.cpus, engine_binary)
        try:
            facts = await _facts(lab, engine, testbed.links[next(iter(testbed.links))].source.interface)
            known = cached(facts, cache) or Calibration(measured=datetime.now(UTC), facts=facts, points=[])
            for load in loads:
                if anew is not None or not known.has(load.links, mix_key(load.mix)):
                    points = await calibrate(engine, load.links, load.mix, duration=anew or DURATION)
                    known = known.with_points(points, datetime.now(UTC))
        finally:
            await engine.close()
            for host in hosts.values():
                await host.close()
    return known, keep(known, cache)


async def _facts(lab: labs.Lab, engine: Engine, port: str) -> dict[str, Any]:
    hosts = lab.hosts()
    try:
        found = await asyncio.gather(*(collect_facts(hosts[role], [port]) for role in ("source", "sink")))
    finally:
        for host in hosts.values():
            await host.close()
    told = {facts["host"]: {k: facts.get(k) for k in (*_FACTS, "interfaces")} for facts in found}
    return told | {
        "engine": await engine.check(),
        "lab": lab.testbed.lab,
        "layout": lab.layout,
        "cpus": {role: list(cpus) for role, cpus in lab.cpus.items()},
    }


def with_headroom(measured: Measured, cell: Cell, calibration: Calibration | None) -> Measured:
    """The same with its headroom among the figures, and a doubt where that is too little."""
    if calibration is None or (load := _load(cell)) is None:
        return measured
    ratios = headroom(measured.figures, calibration.points, load.links, mix_key(load.mix))
    figures = {link: {**of, **({HEADROOM: ratios[link]} if link in ratios else {})} for link, of in measured.figures.items()}
    return replace(measured, figures=figures, doubts=(*measured.doubts, *doubts_of_headroom(ratios)))
