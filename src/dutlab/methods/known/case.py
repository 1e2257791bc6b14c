"""A known device, and a figure of it with its answer."""

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
    """A figure and its answer. `tolerance` is absolute, in the unit that the name of the figure ends with; 0 is exact."""

    device: str
    method: str
    figure: str
    expected: float
    found: float | None
    """None: the method found none."""
    tolerance: float
    why: str = ""
    """Why there is none."""

    @property
    def error(self) -> float | None:
        """Found less expected."""
        return None if self.found is None else self.found - self.expected

    @property
    def holds(self) -> bool:
        """True if the figure is as near to its answer as it must be."""
        return self.error is not None and abs(self.error) <= self.tolerance


class FaultyDevice(Protocol):
    """A device that is in place."""

    async def wronged(self) -> int:
        """Frames that it dropped, doubled, swapped or damaged so far."""

    async def forget(self) -> None:
        """Has one that translates forget every connection."""


Measure = Callable[[Bench, FaultyDevice], Awaitable[list[Known]]]


@dataclass(frozen=True)
class Case:
    """A device, and how it is measured. `wrong` is what it does, in the words of the program that is it."""

    name: str
    method: KnownMethod
    wrong: tuple[str, ...]
    measure: Measure
    seconds: float = 2.0
    """About what it takes."""

    @property
    def quick(self) -> bool:
        """True if it takes a few seconds at most."""
        return self.seconds <= QUICK_S


QUICK_S = 15.0


def policer(pps: int, depth: int) -> tuple[str, ...]:
    """The words for one that lets `pps` frames a second through, with a bucket of `depth`; the bucket is full when it begins."""
    return ("polices", str(pps), "--depth", str(depth))


def policed(pps: int, depth: int) -> str:
    """Return the name of such a policer."""
    return f"polices {pps} pps, bucket {depth}"


def cell(setting: Setting) -> Cell:
    """A trial of a method on the link of these cases."""
    return Cell(mode="known", factors={}, tool="engine", links=(LINK,), setting=setting, repeat=1)


@dataclass(frozen=True)
class Found:
    """The figures of a method, or why it has none."""

    method: str
    figures: Mapping[str, float]
    why: str

    def against(self, device: str, answers: Sequence[tuple[str, float, float]], *, beyond: float = 0.0) -> list[Known]:
        """Each (figure, answer, tolerance); what is found counts from `beyond` on."""
        why = self.why or "it was not found"
        return [
            Known(device, self.method, figure, expected, self.figures[figure] - beyond, tolerance)
            if figure in self.figures
            else Known(device, self.method, figure, expected, None, tolerance, why)
            for figure, expected, tolerance in answers
        ]


async def found_by(measure: Method, bench: Bench, setting: Setting) -> Found:
    """Return the result of a method on the link of these cases. Raises ToolFailed, HostError."""
    try:
        measured = await measure(bench, cell(setting))
    except MeasurementError as e:
        return Found(setting.workload, {}, str(e))
    return Found(setting.workload, measured.figures[LINK], "; ".join(measured.notes))
