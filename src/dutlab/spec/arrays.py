"""What a testbed may say of the arrays of a host's drives; systems/modes.py has the modes that make them.

    hosts:
      server: {ssh: root@192.0.2.20, drives: {…}, array: {chunk: 64k, stripe-cache: 4096, group-threads: 4}}

A mode `raid5` makes one array of all drives of the host, with md (Linux software RAID). `raid5-degraded` has lost its last drive,
`raid5-rebuilding` gets it back, `raid5-rebuilt` has got it back. 50 and 60 are a stripe of two sets. Another engine is the mode's first
word: `lvm-raid5-degraded`, `btrfs-raid1`, `zfs-raidz2`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from dutlab.spec.drives import Positive, Size
from dutlab.spec.model import SpecModel


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
