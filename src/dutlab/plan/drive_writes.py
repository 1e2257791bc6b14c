"""Writes of a plan to each drive: the most bytes, and their share of its endurance.

A trial writes for as long as its setting says, no faster than the drive's rating and the setting's own rate allow. Where an array is made,
its synchronisation may write every drive completely (on btrfs, the test file does), and a rebuild once more. An array may write larger
blocks than those asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dutlab.plan.plan import Plan
from dutlab.spec.drives import DriveSpec
from dutlab.spec.known import mode_of
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads.on_drives import DriveSetting, WritingTime
from dutlab.systems.modes import BTRFS
from dutlab.units import si

_LEAST_PERCENT = 0.01


@dataclass(frozen=True)
class Written:
    """Writes to one drive."""

    bytes: float | None
    """Most bytes written; None if a fact of the testbed is missing."""
    missing: tuple[str, ...]
    """Names of the missing facts of the testbed."""
    endurance_bytes: float | None

    @property
    def words(self) -> str:
        """One clause for the plan, without the drive's name."""
        if self.bytes is None:
            amount = f"how much is not known, since the testbed does not state {' and '.join(self.missing)}"
        else:
            amount = f"at most {si(self.bytes, 'B')}"
        if self.endurance_bytes is None:
            return f"{amount}; endurance not known"
        total = si(self.endurance_bytes, "B")
        if self.bytes is None:
            return f"{amount}; endurance {total}"
        percent = 100 * self.bytes / self.endurance_bytes
        return f"{amount}, {'less than 0.01' if percent < _LEAST_PERCENT else f'{percent:.2f}'} % of its endurance of {total}"


def drive_writes(plan: Plan, testbed: Testbed) -> dict[str, Written]:
    """Return the writes to each drive that is written, by `host:drive`. Trials repeated because of other work are not included."""
    sums, missing = dict[str, float](), dict[str, set[str]]()
    for name, (amount, lacks) in _each(plan, testbed):
        sums[name] = sums.get(name, 0.0) + amount
        missing.setdefault(name, set()).update(lacks)
    return {
        name: Written(
            None if missing[name] else sums[name],
            tuple(sorted(missing[name])),
            None if (rated := testbed.drives[name].rated) is None else rated.endurance_bytes,
        )
        for name in testbed.drives
        if name in sums
    }


def _each(plan: Plan, testbed: Testbed) -> Iterator[tuple[str, tuple[float, set[str]]]]:
    groups = set[int]()
    for trial in plan.trials:
        array = mode_of(testbed.dut_family, trial.cell.mode).array
        if array and trial.group not in groups:
            groups.add(trial.group)
            passes = (array.redundant or array.engine == BTRFS) + (array.state in ("rebuilding", "rebuilt"))
            yield from ((name, _passes(passes, drive)) for name, drive in testbed.drives.items() if passes)
        setting = trial.cell.setting
        if isinstance(setting, DriveSetting) and setting.writes:
            for name in trial.cell.links:
                drive = testbed.drives[name]
                times = (WritingTime(*time) for time in setting.writing)
                yield from ((name, _stretch(time._replace(block_bytes=None) if array else time, drive)) for time in times)
                if setting.fills:
                    yield name, _passes(setting.fills, drive)


def _passes(times: int, drive: DriveSpec) -> tuple[float, set[str]]:
    size = drive.size or (drive.rated and drive.rated.capacity_bytes)
    return (times * size, set()) if size else (0.0, {"capacity_bytes"})


def _stretch(time: WritingTime, drive: DriveSpec) -> tuple[float, set[str]]:
    rated, block = drive.rated, time.block_bytes
    rates = [] if rated is None else [rated.write_bytes_per_s, rated.write_iops * block if rated.write_iops and block else None]
    known = [rate for rate in (*rates, time.most_bytes_per_s) if rate]
    return (time.most_s * min(known), set()) if known else (0.0, {"write_iops or write_bytes_per_s" if block else "write_bytes_per_s"})
