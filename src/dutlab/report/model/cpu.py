"""Processor time in a report: the load of each core, and the cost of a frame in each mode."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import Unit

PERCENT = Unit("%", 1.0, 1)


@dataclass(frozen=True)
class CpuRow:
    """One core in one mode: kind of work → percentage, the mean over all trials."""

    label: str
    core: int
    shares: dict[str, float]
    trials: int

    @property
    def busy(self) -> float:
        """Percent that the core was not idle."""
        return sum(self.shares.values())


@dataclass(frozen=True)
class Cpu:
    """Per-core load of a host during one workload."""

    workload: str
    host: str
    rows: tuple[CpuRow, ...]

    @property
    def table(self) -> Table:
        """Table with a row for each mode and core, and a column for each kind of work."""
        kinds = list(dict.fromkeys(kind for row in self.rows for kind in row.shares))
        columns = (Column("core", align="right"), *(Column(head, unit=PERCENT) for head in ("busy", *kinds)))
        rows = (Row(row.label, (str(row.core), row.busy, *(row.shares.get(kind, 0.0) for kind in kinds))) for row in self.rows)
        return Table(f"cores-{self.host}-{self.workload}", f"Cores of {self.host} during {self.workload}, % busy", columns, tuple(rows))


@dataclass(frozen=True)
class ModeCost:
    """Cost of a frame in one mode."""

    mode: str
    times: float
    """Multiple of the cost in the cheapest mode, over all cells."""
    proven: bool
    """True if it is proven to cost more than the cheapest mode."""
    ns_per_frame: float | None
    """Geometric mean of the medians of cells whose figure is in frames; None without such a cell."""
    instructions_per_frame: float | None = None
    """Instructions per frame of the same cells; None where the machine does not count them."""


@dataclass(frozen=True)
class CpuCost:
    """The modes of a run by processor time per frame, the cheapest first."""

    modes: tuple[ModeCost, ...]
    cells: int
    """Settings that every mode was measured with."""
    attempts: int
    disturbed: int
    """Attempts that other work disturbed; they are included."""
    forwarding: bool
    """True if the time is of the forwarding threads only; otherwise it is of all threads of the testbed."""
    at_equal_speed: bool = False
    """True if costs are in units of a fixed piece of work, which removes the effect of the processor's speed in a trial."""
    unplaced: tuple[str, ...] = ()
    """Modes of the run that are missing from `modes`."""

    @property
    def words(self) -> str:
        """Verdict in sentences."""
        first, *others = self.modes
        costs = [f"{of.mode} costs {of.times:.2f} × {first.mode}{'' if of.proven else ' (not proven)'}" for of in others]
        whose = "the threads that forward" if self.forwarding else "all threads of the testbed"
        spent = ", ".join(f"{of.mode} {of.ns_per_frame:.0f}" for of in self.modes if of.ns_per_frame is not None)
        each = f" In ns a frame: {spent}." if spent else ""
        counted = ", ".join(f"{of.mode} {of.instructions_per_frame:.0f}" for of in self.modes if of.instructions_per_frame is not None)
        each += f" In instructions a frame: {counted}." if counted else " This machine counts no instructions." if spent else ""
        cells = f"{self.cells} {'cell' if self.cells == 1 else 'cells'}"
        return (
            f"By processor time per frame of {whose}{', at equal speed of the processor' if self.at_equal_speed else ''}, "
            f"over {cells} and {self.attempts} attempts, "
            f"{self.disturbed} of them disturbed: {', '.join(costs)}.{each}"
        )
