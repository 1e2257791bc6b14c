"""The rig measured without the DUT, or its calibration found in the cache; and what it means for a result."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from dutlab import labs
from dutlab.ending import closing
from dutlab.errors import MeasurementError
from dutlab.hosts.facts import collect_facts
from dutlab.methods.calibrate import (
    DURATION,
    HEADROOM,
    LOADS,
    LOADS_ALONE,
    Rig,
    RigPoint,
    calibrate,
    doubts_of_headroom,
    full_speed,
    headroom,
    mix_key,
)
from dutlab.methods.ports import Generator, Measured, flow_names
from dutlab.methods.undisturbed import Undisturbed
from dutlab.plan.cell import Cell
from dutlab.sensors.cpu_account import accounts_of
from dutlab.spec.generators import ENGINE, GeneratorFeature, generator_of
from dutlab.spec.mixes import Mix
from dutlab.spec.testbed import Link
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.setting import FrameSetting, directions_of
from dutlab.store.calibration import Calibration, cached, keep
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators.registry import make
from dutlab.units import Seconds
from dutlab.workloads import Headroom, plug_of

FACTS = ("kernel", "cpu", "machine", "mitigations", "virtual", "memory_bytes", "clocksource")
MOST_AGAIN = 2
"""So often is a load of the rig offered again that other work disturbed: without headroom a result is still a result."""


@dataclass(frozen=True)
class RigLoad:
    """Links loaded at once, and with what."""

    links: tuple[str, ...]
    mix: Mix
    generator: str = ENGINE.kind
    """As a cell's params say it."""
    directions: Directions = Directions.FORWARD
    shares: tuple[float | None, ...] = LOADS
    """Of what comes back at full speed, as methods.calibrate has them."""

    @property
    def loads(self) -> tuple[float | None, ...]:
        """Those shares that the generator can be asked for."""
        return LOADS[:1] if GeneratorFeature.RATE in generator_of(self.generator).missing else self.shares

    def under(self, rig: Rig) -> tuple[float | None, ...]:
        """Those of them that tell something of so much of the rig."""
        return self.loads if rig is Rig.LOOPED else tuple(share for share in self.loads if share in LOADS_ALONE)

    def known_to(self, calibration: Calibration, rig: Rig = Rig.LOOPED) -> bool:
        """Whether it is among what was measured."""
        return calibration.has(self.flows, mix_key(self.mix), self.generator, loads=len(self.under(rig)))

    @property
    def flows(self) -> tuple[str, ...]:
        """What is loaded at once, by name."""
        return flow_names(self.links, self.directions)


Disturbed = Literal["repeat", "count"]
"""What becomes of a load that other work disturbed, as the experiment file has it."""
DISTURBED_VARIABLE = "DUTLAB_DISTURBED"
"""Environment variable: `count` is as `disturbed: count` in the experiment, for test suites on machines that are never quiet."""

Failed = Callable[[RigLoad, MeasurementError], None]
"""Told of a load that could not be measured."""


def disturbed_by_environment() -> Disturbed:
    """What DISTURBED_VARIABLE says; without it, disturbed loads are repeated."""
    return "count" if os.environ.get(DISTURBED_VARIABLE) == "count" else "repeat"


def loads_of(cells: Iterable[Cell]) -> list[RigLoad]:
    """What the generator will send in these cells, each once; cells without a mix of frames need no calibration."""
    found: dict[tuple[tuple[str, ...], str, str], RigLoad] = {}
    for cell in cells:
        if (load := _load(cell)) is not None:
            key = (load.flows, mix_key(load.mix), load.generator)
            found[key] = max(found.get(key, load), load, key=lambda of: len(of.shares))
    return list(found.values())


def _load(cell: Cell) -> RigLoad | None:
    if (compared := plug_of(cell.workload).headroom) is Headroom.NONE or not isinstance(cell.setting, FrameSetting):
        return None
    text = (cell.setting.generator or ENGINE).text()
    loads = LOADS[:1] if compared is Headroom.FULL_SPEED else LOADS
    return RigLoad(cell.links, cell.setting.frame_size, text, directions_of(cell.setting), loads)


async def calibrated(
    lab: labs.Lab,
    engine_binary: str,
    loads: Sequence[RigLoad],
    cache: Path,
    *,
    anew: Seconds | None = None,
    versions: Mapping[str, str] | None = None,
    failed: Failed | None = None,
    disturbed: Disturbed = "repeat",
) -> tuple[Calibration, Path | None]:
    """The lab's rig for `loads`, from the cache as far as it has them; and where in the cache it is now.

    `versions` is generator → its version now. With `anew` every load is measured, for so long. Where one cannot be, `failed` is told and
    the others are; without it, that is raised. A load that other work disturbed each time is such a load, and is not cached.

    Raises LabError, ToolMissing, MeasurementError, HostError.
    """
    hosts = lab.hosts()
    async with closing(*hosts.values()), labs.direct_links(lab) as testbed:
        engine = Engine(hosts, testbed, lab.cpus, engine_binary)
        async with closing(engine):
            facts = await _facts(lab, engine, testbed.links[next(iter(testbed.links))])
            known = cached(facts, cache, now=datetime.now(UTC), versions=versions, disturbed=disturbed) or Calibration(
                measured=datetime.now(UTC), facts=facts, points=[]
            )
            place = GeneratorSite(hosts, testbed, lab.cpus, engine)
            known = await with_loads(known, loads, place, anew=anew, failed=failed, disturbed=disturbed)
    return known, keep(known, cache)


async def with_loads(
    known: Calibration,
    loads: Sequence[RigLoad],
    place: GeneratorSite,
    *,
    anew: Seconds | None = None,
    failed: Failed | None = None,
    rig: Rig = Rig.LOOPED,
    disturbed: Disturbed = "repeat",
) -> Calibration:
    """The same with those of `loads` that it lacks, or with all of them measured for `anew` each. Raises as calibrated()."""
    accounts = accounts_of(place.hosts)
    undisturbed = partial(Undisturbed, accounts=accounts, most_again=MOST_AGAIN if disturbed == "repeat" else 0)
    for load in loads:
        if anew is None and load.known_to(known, rig):
            continue
        try:
            points = await _points(load, place, anew or DURATION, rig, undisturbed)
        except MeasurementError as e:
            if failed is None:
                raise
            failed(load, e)
            continue
        known = known.with_points(points, datetime.now(UTC))
    return known


async def _points(
    load: RigLoad, place: GeneratorSite, duration: Seconds, rig: Rig, undisturbed: Callable[[Generator], Generator]
) -> list[RigPoint]:
    """Each load that the generator can be asked for, offered again where other work disturbed it. Raises MachineTooBusy too."""
    generator = make(generator_of(load.generator), place)
    shares, name = load.under(rig), load.generator
    async with closing(*([] if generator is place.engine else [generator])):
        version = await generator.check()
        return await calibrate(
            undisturbed(generator),
            load.links,
            load.mix,
            duration=duration,
            loads=shares,
            name=name,
            version=version,
            rig=rig,
            directions=load.directions,
        )


async def _facts(lab: labs.Lab, engine: Engine, link: Link) -> dict[str, Any]:
    hosts = lab.hosts()
    async with closing(*hosts.values()):
        found = await asyncio.gather(*(collect_facts(hosts[end], [link.source.interface]) for end in link.ends))
    told = {facts["host"]: {k: facts.get(k) for k in (*FACTS, "interfaces")} for facts in found}
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
    points = [p for p in calibration.points if p.generator == load.generator]
    directions, compared = "+".join(load.flows), plug_of(cell.workload).headroom
    results = {directions if compared is Headroom.TOGETHER else link: of for link, of in measured.figures.items()}
    ratios = headroom(results, points, load.flows, mix_key(load.mix))
    if compared is Headroom.TOGETHER and directions in ratios:
        ratios = {cell.link_label: ratios[directions]}
    figures = {link: {**of, **({HEADROOM: ratios[link]} if link in ratios else {})} for link, of in measured.figures.items()}
    if compared is Headroom.FULL_SPEED:  # the rig is half of the answer, and there is no other limit to be told from
        return replace(measured, figures={link: {**of, **full_speed(points, load.flows, load.mix, link)} for link, of in figures.items()})
    return replace(measured, figures=figures, doubts=(*measured.doubts, *doubts_of_headroom(ratios)))
