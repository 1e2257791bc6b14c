"""Processes whose CPU time belongs to a host of the testbed, in addition to those of dutlab and the kernel's forwarding threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.model import SpecModel, fault


class AccountSpec(SpecModel):
    """Processes, control groups and systemd units that belong to the device under test."""

    processes: tuple[str, ...] = ()
    """Names of programs, as `ps -o comm` prints them."""
    cgroups: tuple[str, ...] = ()
    """Paths of control groups, from any level: `vpp.slice`, `machine.slice/router`."""
    units: tuple[str, ...] = ()
    """Names of systemd units: `vpp.service`."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that each name can match a process, but not all processes."""
        for key in ("processes", "cgroups", "units"):
            for n, name in enumerate(data.get(key) or () if isinstance(data.get(key), (list, tuple)) else ()):
                if isinstance(name, str) and (not name.strip("/ ") or (key != "cgroups" and "/" in name)):
                    yield fault((key, n), f"{name!r} names no {key.removesuffix('es').removesuffix('s')}", FaultKind.INVALID)
