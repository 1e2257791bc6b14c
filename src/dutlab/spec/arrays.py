"""Arrays of a host's drives: the words of modes that make one, and what a testbed may say of it.

    hosts:
      server: {ssh: root@192.0.2.20, drives: {…}, array: {chunk: 64k, stripe-cache: 4096, group-threads: 4}}

A mode `raid5` makes one array of all drives of the host, with md (Linux software RAID). `raid5-degraded` has lost its last drive,
`raid5-rebuilding` gets it back, `raid5-rebuilt` has got it back. 50 and 60 are a stripe of two sets. Another engine is the mode's first
word: `lvm-raid5-degraded`, `btrfs-raid1`, `zfs-raidz2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, Strict

from dutlab.spec.drives import Positive, Size
from dutlab.spec.model import SpecModel

LEAST_DRIVES = {"raid0": 2, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 4, "raid50": 6, "raid60": 8}
"""Level → drives without which there is none (md(4); 50 and 60 have two sets)."""
MD, LVM, BTRFS, ZFS = "md", "lvm", "btrfs", "zfs"
LEVELS: Mapping[str, Mapping[str, int]] = {
    MD: LEAST_DRIVES,
    LVM: {"raid0": 2, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 5},
    BTRFS: {"raid0": 2, "raid1": 2, "raid10": 4},
    ZFS: {"stripe": 2, "mirror": 2, "raidz1": 3, "raidz2": 4},
}
"""Engine → its levels, each with its least drives (lvmraid(7), mkfs.btrfs(8), zpoolconcepts(7))."""
STRIPES = frozenset({"raid0", "stripe"})
"""Levels that can lose no drive."""
SETS = 2
"""Sets of a level that is a stripe of sets."""
STATES = ("", "degraded", "rebuilding", "rebuilt")


def engine_of(mode: str) -> str:
    """What makes its array; empty for a mode that makes none."""
    first, _, rest = mode.partition("-")
    engine, words = (first, rest) if first in LEVELS else (MD, mode)
    level, _, state = words.partition("-")
    return engine if level in LEVELS[engine] and state in STATES else ""


def state_of(mode: str) -> tuple[str, str]:
    """Level and state of a mode of an array; ("", "") of any other."""
    if not (engine := engine_of(mode)):
        return ("", "")
    level, _, state = (mode if engine == MD else mode.partition("-")[2]).partition("-")
    return (level, state)


def drives_fault(mode: str, drives: int) -> str:
    """Why so many drives make no array of this mode; empty if they do."""
    level, _ = state_of(mode)
    least = LEVELS[engine_of(mode)][level] if level else 0
    if drives < least:
        return f"mode {mode} needs {least} drives, and there are {drives}"
    if (level in ("raid50", "raid60") or (level, engine_of(mode)) == ("raid10", LVM)) and drives % SETS:
        return f"mode {mode} needs an even number of drives, and there are {drives}"
    return ""


class ArraySpec(SpecModel):
    """What the arrays of a host are made with; what is not said is the engine's default."""

    chunk: Annotated[Size | None, Field()] = None
    """Bytes on one drive before the next (mdadm --chunk, lvcreate --stripesize)."""
    bitmap: Literal["none", "internal"] = "none"
    """Whether md keeps a record of what is being written (mdadm --bitmap)."""
    stripe_cache: Annotated[int | None, Strict(), Field(alias="stripe-cache", ge=17, le=32768)] = None
    """Entries of md's stripe cache of RAID 5 and 6 (stripe_cache_size)."""
    group_threads: Annotated[int | None, Strict(), Field(alias="group-threads", ge=0, le=1024)] = None
    """Threads of md that work on stripes beside the first (group_thread_cnt)."""
    rebuild_bytes_per_s: Positive | None = None
    """How fast it is rebuilt while `rebuilding` is measured (md: sync_speed_min and _max, LVM: --maxrecoveryrate)."""
