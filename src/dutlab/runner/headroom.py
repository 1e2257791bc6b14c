"""Headroom of results: the loads of the rig for comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dutlab.choices import Rig
from dutlab.methods.calibrate import HEADROOM, LOADS, LOADS_ALONE, doubts_of_headroom, full_speed, headroom, mix_key
from dutlab.methods.ports import Measured, flow_names
from dutlab.plan.cell import Cell
from dutlab.spec.generators import ENGINE, GeneratorFeature, GeneratorModel
from dutlab.spec.mixes import Mix
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.setting import FrameSetting
from dutlab.store.calibration import Calibration
from dutlab.subject import joined
from dutlab.workload_plug import Headroom
from dutlab.workloads import plug_of


@dataclass(frozen=True)
class RigLoad:
    """Links that are loaded at once, with frames and generator of the load."""

    links: tuple[str, ...]
    mix: Mix
    generator: GeneratorModel = ENGINE
    directions: Directions = Directions.FORWARD
    shares: tuple[float | None, ...] = LOADS
    """Loads as shares of the rate received at full speed, as in methods.calibrate."""

    @property
    def loads(self) -> tuple[float | None, ...]:
        """Shares that the generator can send."""
        return LOADS[:1] if GeneratorFeature.RATE in self.generator.missing else self.shares

    def under(self, rig: Rig) -> tuple[float | None, ...]:
        """Return the shares that are useful for this part of the rig."""
        return self.loads if rig is Rig.LOOPED else tuple(share for share in self.loads if share in LOADS_ALONE)

    def known_to(self, calibration: Calibration, rig: Rig = Rig.LOOPED) -> bool:
        """Return whether `calibration` has this load."""
        return calibration.has(self.flows, mix_key(self.mix), self.generator, loads=len(self.under(rig)))

    @property
    def flows(self) -> tuple[str, ...]:
        """Names of the flows that are loaded at once."""
        return flow_names(self.links, self.directions)


def loads_of(cells: Iterable[Cell]) -> list[RigLoad]:
    """Return the generator loads of these cells, each once. Cells without a mix of frames need no calibration."""
    loads: dict[tuple[tuple[str, ...], str, GeneratorModel], RigLoad] = {}
    for cell in cells:
        if (load := _load(cell)) is not None:
            key = (load.flows, mix_key(load.mix), load.generator)
            loads[key] = max(loads.get(key, load), load, key=lambda of: len(of.shares))
    return list(loads.values())


def _load(cell: Cell) -> RigLoad | None:
    if (compared := plug_of(cell.workload).headroom) is Headroom.NONE or not isinstance(cell.setting, FrameSetting):
        return None
    loads = LOADS[:1] if compared is Headroom.FULL_SPEED else LOADS
    return RigLoad(cell.links, cell.setting.frame_size, cell.setting.generator or ENGINE, cell.setting.ways, loads)


def with_headroom(measured: Measured, cell: Cell, calibration: Calibration | None) -> Measured:
    """Return `measured` with headroom among its figures, and a doubt where headroom is too small."""
    if calibration is None or (load := _load(cell)) is None:
        return measured
    points = [p for p in calibration.points if p.generator == load.generator]
    directions, compared = joined(load.flows), plug_of(cell.workload).headroom
    results = {directions if compared is Headroom.TOGETHER else link: of for link, of in measured.figures.items()}
    ratios = headroom(results, points, load.flows, mix_key(load.mix))
    if compared is Headroom.TOGETHER and directions in ratios:
        ratios = {cell.link_label: ratios[directions]}
    figures = {link: {**of, **({HEADROOM: ratios[link]} if link in ratios else {})} for link, of in measured.figures.items()}
    if compared is Headroom.FULL_SPEED:  # the rig is part of the figure, so no other limit can be distinguished
        return replace(measured, figures={link: {**of, **full_speed(points, load.flows, load.mix, link)} for link, of in figures.items()})
    return replace(measured, figures=figures, doubts=(*measured.doubts, *doubts_of_headroom(ratios)))
