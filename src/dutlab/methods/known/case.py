"""Case: a known device, and a figure with its expected value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dutlab.choices import KnownMethod
from dutlab.errors import MeasurementError
from dutlab.methods.ports import Bench, Method
from dutlab.plan.cell import Cell
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.setting import Setting
from dutlab.units import Seconds

FRAME = frame_mix(128)
DRAINED = Seconds(0.2)
LINK = "a"


@dataclass(frozen=True)
class Known:
    """A figure and its expected value. `tolerance` is absolute, in the unit of the figure's name; 0 is exact."""

    device: str
    method: str
    figure: str
    expected: float
    found: float | None
    """Value that the method found; None if it found none."""
    tolerance: float
    why: str = ""
    """Reason why there is no value."""
    disturbed: str = ""
    """Other work on the machine during the measurement: the reason why a figure that does not hold proves nothing; else empty."""

    @property
    def error(self) -> float | None:
        """Found less expected value."""
        return None if self.found is None else self.found - self.expected

    @property
    def holds(self) -> bool:
        """True if the figure differs from the expected value by no more than the tolerance."""
        return self.error is not None and abs(self.error) <= self.tolerance

    @property
    def is_off(self) -> bool:
        """True if the figure is wrong, or missing, and other work does not explain that."""
        return not self.holds and not self.disturbed


class FaultyDevice(Protocol):
    """A running device."""

    async def altered_frames(self) -> int:
        """Return how many frames it dropped, duplicated, swapped or corrupted so far."""

    async def forget(self) -> None:
        """Delete every connection of a translating device."""


Measure = Callable[[Bench, FaultyDevice], Awaitable[list[Known]]]


@dataclass(frozen=True)
class Case:
    """A device, and how it is measured. `wrong` is its behaviour, as arguments of the program that simulates it."""

    name: str
    method: KnownMethod
    wrong: tuple[str, ...]
    measure: Measure
    seconds: float = 2.0
    """Approximate duration in seconds."""

    @property
    def quick(self) -> bool:
        """True if it takes at most QUICK_S."""
        return self.seconds <= QUICK_S


QUICK_S = 15.0


def policer(pps: int, depth: int) -> tuple[str, ...]:
    """Return the arguments of a policer with `pps` frames a second and a bucket of `depth`, full at the start."""
    return ("polices", str(pps), "--depth", str(depth))


def policed(pps: int, depth: int) -> str:
    """Return the name of a policer."""
    return f"polices {pps} pps, bucket {depth}"


def cell(setting: Setting) -> Cell:
    """Return a cell with this setting on the link of these cases."""
    return Cell(mode="known", factors={}, tool="engine", links=(LINK,), setting=setting, repeat=1)


@dataclass(frozen=True)
class MethodResult:
    """The figures of a method, or the reason why it has none."""

    method: str
    figures: Mapping[str, float]
    why: str

    def against(self, device: str, answers: Sequence[tuple[str, float, float]], *, beyond: float = 0.0) -> list[Known]:
        """Compare the figures with each (figure, answer, tolerance), after subtracting `beyond` from them."""
        why = self.why or "it was not found"
        return [
            Known(device, self.method, figure, expected, self.figures[figure] - beyond, tolerance)
            if figure in self.figures
            else Known(device, self.method, figure, expected, None, tolerance, why)
            for figure, expected, tolerance in answers
        ]


async def found_by(measure: Method, bench: Bench, setting: Setting) -> MethodResult:
    """Return the result of a method on the link of these cases. Raises ToolFailed, HostError."""
    try:
        measured = await measure(bench, cell(setting))
    except MeasurementError as e:
        return MethodResult(setting.workload, {}, str(e))
    return MethodResult(setting.workload, measured.figures[LINK], "; ".join(measured.notes))
