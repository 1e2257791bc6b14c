"""VPP, a router in user space on a Linux, whose ports are its own."""

from __future__ import annotations

from dataclasses import replace

from dutlab.systems.linux import LINUX

VPP = replace(LINUX, name="vpp", title="VPP", ports=(), kernel_tables=False, runs_engine=False)
