"""Ladder of a drive array: rungs from the drives' rating down to the measured rate, each as requests a second of one size."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.physics.ceilings.ceiling import insist, number, positive
from dutlab.physics.ceilings.path import BlockLoad, DataPath, Path, Rung
from dutlab.physics.ceilings.storage import Array, DriveRating, memory_ceilings

ARITHMETIC = "RAID arithmetic"
"""Name of the array's rung."""


@dataclass(frozen=True)
class Load:
    """Requests of one size in bytes. `writes` is the share of writes, 0 to 1."""

    block: int
    writes: float = 0.0


@dataclass(frozen=True)
class Ladder:
    """The rungs from the drives downwards. Shares are relative to the first rung."""

    rungs: tuple[Rung, ...]
    block: int

    @property
    def binds(self) -> Rung:
        """Lowest rung, which limits the array; of equal ones the first."""
        return min(self.rungs, key=lambda rung: rung.iops)

    def share(self, iops: float) -> float:
        """Return `iops` as a share of the drives' rating."""
        return iops / self.rungs[0].iops


def rated_iops(drive: DriveRating, load: Load) -> float | None:
    """Return the rated IOPS of one drive for a load; None if a needed rating is not known.

    Reads and writes take turns, each for the time that its own rating gives. No request is faster than the drive's bytes a second allow.
    """
    needed = 0.0
    for share, iops, rate in (
        (1 - load.writes, drive.read_iops, drive.read_bytes_per_s),
        (load.writes, drive.write_iops, drive.write_bytes_per_s),
    ):
        if not share:
            continue
        at_most = [limit for limit in (iops, rate / load.block if rate else None) if limit]
        if not at_most:
            return None
        needed += share / min(at_most)
    return 1 / needed


def ladder(drives: int, drive: DriveRating, load: Load, *, array: Array | None = None, path: DataPath | None = None) -> Ladder:
    """Return the rungs that follow from the known facts. Raises ValueError."""
    insist([
        positive(drives, "the number of drives"),
        positive(load.block, "the block size"),
        "" if 0 <= load.writes <= 1 else f"the share of writes must be between 0 and 1, not {load.writes:g}",
        "" if array is None or array.drives == drives else f"the array has {array.drives} drives, not {drives}",
    ])  # fmt: skip
    one = rated_iops(drive, load)
    if one is None:
        raise ValueError("the rating of the drives does not state what such requests need: read or write IOPS, or bytes a second")
    rungs = [Rung("drives, added up", drives * one, f"{drives} × {number(one)}")]
    to_read, to_write = 1 - load.writes, load.writes
    if array is not None:
        reads, writes = (array.md_write_reads, 1 + array.parity) if array.parity else (0, array.copies)
        to_read, to_write = to_read + load.writes * reads, load.writes * writes
        rungs.append(_of_array(drives, drive, load.block, to_read, to_write))
    where = path or Path()
    rungs += where.rungs(drives, BlockLoad(load.block, to_read, to_write))
    if where.memory is not None:
        (peak,) = memory_ceilings(*where.memory)
        passes = load.block * (to_read + to_write)
        rungs.append(Rung("memory", peak.value / passes, f"{peak.formula} / {passes:g}"))
    return Ladder(tuple(rungs), load.block)


def _of_array(drives: int, drive: DriveRating, block: int, to_read: float, to_write: float) -> Rung:
    """Return the rung of the array: each request to it costs several requests to drives, each at the rate of its kind."""
    needs = [(share, rated_iops(drive, Load(block, writes))) for share, writes in ((to_read, 0.0), (to_write, 1.0)) if share]
    known = [(share, rate) for share, rate in needs if rate]
    if len(known) < len(needs):
        raise ValueError("the array's writes need the drives' ratings of reads and of writes")
    spent = sum(share / rate for share, rate in known)
    return Rung(ARITHMETIC, drives / spent, f"{drives} / ({' + '.join(f'{share:g} / {number(rate)}' for share, rate in known)})")
