"""A box whose watts are known, behind a meter with noise, on a simulated clock; and runs of `soak-power` on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from cells import cell_of
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.dut_ports import SensedValue
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Bench, Measured, Offer, Outcome
from dutlab.methods.power_figures import with_readings
from dutlab.methods.soak_power import measure
from dutlab.spec.mixes import Mix
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.sensors import CommandSensor
from dutlab.spec.workloads.soak_power import PowerPhase
from dutlab.units import Seconds

SENSORS = {
    "wall": CommandSensor(name="wall", host="dut", command="true", unit="W"),
    "fan": CommandSensor(name="fan", host="dut", command="true", unit="rpm"),
}
NOW = datetime(2026, 11, 21, tzinfo=UTC)
LENGTH = Seconds(60.0)


def phase(name: str, share: float = 0.0, **more: Any) -> PowerPhase:
    return PowerPhase(name=name, share=share, duration=LENGTH, **more)


PHASES = (
    phase("idle"),
    phase("one-link-idle", down=("b",)),
    phase("half", 0.5),
    phase("full", 1.0),
    phase("one-link", 1.0, links=("a",), down=("b",)),
)


@dataclass
class PowerBox:
    """Four ports on links a and b. Each frame that it forwards takes energy once; readings have relative noise."""

    base_w: float = 40.0
    port_w: float = 4.0
    transceiver_w: float = 1.5
    frame_j: float = 200e-6
    bit_j: float = 20e-9
    noise: float = 0.01
    seed: int = 1
    transceivers: int = 0
    stuck_at_w: float | None = None
    silent: bool = False
    loss: float = 0.0
    period_s: float = 0.5
    now: float = 0.0
    down: tuple[str, ...] = ()
    pps: float = 0.0
    bps: float = 0.0
    readings: list[SensedValue] = field(default_factory=list)
    changes: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def watts(self) -> float:
        static = self.base_w + self.port_w * self.ports_up(self.down) + self.transceiver_w * self.transceivers
        return static + self.frame_j * self.pps + self.bit_j * self.bps

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now + self.period_s <= until + 1e-9:
            self.now += self.period_s
            shown = self.watts() * (1 + self.random.gauss(0.0, self.noise)) if self.stuck_at_w is None else self.stuck_at_w
            if not self.silent:
                self.readings.append(SensedValue(self.now, "dut", "wall", "wall", "W", shown))
            self.readings.append(SensedValue(self.now, "dut", "fan", "fan", "rpm", 3000.0 + self.random.gauss(0.0, 10.0)))
        self.now = until

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    def now_s(self) -> float:
        return self.now

    def since(self, from_s: float) -> list[SensedValue]:
        return [r for r in self.readings if r.t_s >= from_s]

    def ports_up(self, down: Sequence[str]) -> int:
        return 4 - 2 * len(set(down))

    async def hold_down(self, links: Sequence[str]) -> None:
        if set(links) != set(self.down):
            self.changes.append(tuple(links))
        self.down = tuple(links)

    async def offer(self, offer: Offer) -> Outcome:
        assert not set(offer.links) & set(self.down), "nothing is sent on a link that is down"
        flows = offer.flow_names
        frames = round(float(offer.rate or 0.0) * offer.duration)
        got = round(frames * (1 - self.loss))
        self.pass_time(1.0)  # a generator starts, and ends after its last frame, without load
        if offer.begun:
            offer.begun()
        self.pps = got / offer.duration * len(flows)
        self.bps = self.pps * 8 * offer.mix.mean
        self.pass_time(offer.duration)
        self.pps = self.bps = 0.0
        self.pass_time(2.0)
        of = {"seconds": offer.duration, "frame_bytes": offer.mix.mean, "reordered_frames": 0}
        return Outcome(tuple(Flow.counted(name, asked=frames, sent=frames, received=got, **of) for name in flows))


def measured(box: PowerBox, size: int | str, phases: Sequence[PowerPhase] = PHASES, **cell: Any) -> Imported:
    """Carry the phases out with frames of one size."""
    mix = Mix.model_validate(size, context=FILE_CONTEXT)
    given = {"rate_pps": 15_000.0, "directions": "both", "window_s": 30.0, "drain_s": 0.0, **cell}
    factors = {"transceivers": str(box.transceivers)} if box.transceivers else None
    of = cell_of("soak-power", links=("a", "b"), frame_size=mix, phases=tuple(phases), factors=given.pop("factors", factors), **given)
    bench = Bench(box, readings=box, links=box)
    return Imported(of, with_readings(asyncio.run(measure(bench, of, sleep=box.sleep)), of, box.readings, SENSORS), {})


def power_run(folder: Path, box: PowerBox, sizes: Sequence[int | str] = (64, 512, 1518), phases: Sequence[PowerPhase] = PHASES) -> Path:
    """Write a run with a trial of each size."""
    trials = [measured(replace(box, seed=box.seed * 100 + n, readings=[], changes=[]), size, phases) for n, size in enumerate(sizes)]
    return write_imported(folder, "energy", trials, command=(), now=NOW).path


__all__ = ["LENGTH", "NOW", "PHASES", "SENSORS", "Measured", "PowerBox", "measured", "phase", "power_run"]
