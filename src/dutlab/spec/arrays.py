"""Arrays of a host's drives: the words of modes that make one of md (Linux software RAID), and what a testbed may say of it.

    hosts:
      server: {ssh: root@192.0.2.20, drives: {…}, array: {chunk: 64k, stripe-cache: 4096, group-threads: 4}}

A mode `raid5` makes one array of all drives of the host. `raid5-degraded` has lost its last drive, `raid5-rebuilding` gets it back,
`raid5-rebuilt` has got it back. 50 and 60 are a stripe of two sets.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from dutlab.spec.drives import Positive, Size
from dutlab.spec.model import SpecModel

LEAST_DRIVES = {"raid0": 2, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 4, "raid50": 6, "raid60": 8}
"""Level → drives without which there is none (md(4); 50 and 60 have two sets)."""
SETS = 2
"""Sets of a level that is a stripe of sets."""
STATES = ("", "degraded", "rebuilding", "rebuilt")


def state_of(mode: str) -> tuple[str, str]:
    """Level and state of a mode of an array; ("", "") of any other."""
    level, _, state = mode.partition("-")
    return (level, state) if level in LEAST_DRIVES and state in STATES else ("", "")


def drives_fault(mode: str, drives: int) -> str:
    """Why so many drives make no array of this mode; empty if they do."""
    level, _ = state_of(mode)
    least = LEAST_DRIVES.get(level, 0)
    if drives < least:
        return f"mode {mode} needs {least} drives, and there are {drives}"
    if level in ("raid50", "raid60") and drives % SETS:
        return f"mode {mode} needs an even number of drives, and there are {drives}"
    return ""


class ArraySpec(SpecModel):
    """What the arrays of a host are made with; what is not said is md's default."""

    chunk: Annotated[Size | None, Field()] = None
    """Bytes on one drive before the next (mdadm --chunk)."""
    bitmap: Literal["none", "internal"] = "none"
    """Whether it keeps a record of what is being written (mdadm --bitmap)."""
    stripe_cache: Annotated[int | None, Strict(), Field(alias="stripe-cache", ge=17, le=32768)] = None
    """Entries of the stripe cache of RAID 5 and 6 (stripe_cache_size)."""
    group_threads: Annotated[int | None, Strict(), Field(alias="group-threads", ge=0, le=1024)] = None
    """Threads that work on stripes beside the first (group_thread_cnt)."""
    rebuild_bytes_per_s: Positive | None = None
    """How fast it is rebuilt while `rebuilding` is measured (sync_speed_min and _max); the kernel's own speed if it is not said."""
