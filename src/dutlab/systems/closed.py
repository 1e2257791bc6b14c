"""Devices without commands: one that is measured as it is found, and one that a person sets."""

from __future__ import annotations

from dataclasses import replace

from dutlab.systems.linux import LINUX
from dutlab.systems.modes import AS_FOUND, FIREWALL_UNTRACKED

# They have no shell, so its words are never used.
BLACK_BOX = replace(
    LINUX,
    name="black-box",
    title="black box",
    kernel="",
    modes=(AS_FOUND,),
    ports=(),
    has_way_in=False,
    kernel_tables=False,
    runs_engine=False,
    counters_path="",
    cores_path="",
)
MANUAL = replace(BLACK_BOX, name="manual", title="device that a person sets", modes=FIREWALL_UNTRACKED)
