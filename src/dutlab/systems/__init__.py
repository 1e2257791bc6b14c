"""Systems of hosts: one module and one record each, and the list of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dutlab.by_path import ByPath
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.systems.system import System

_PATHS = {
    "linux": "dutlab.systems.linux:LINUX",
    "linux-exact": "dutlab.systems.linux:EXACT",
    "mdraid": "dutlab.systems.linux:MDRAID",
    "vyos": "dutlab.systems.linux:VYOS",
    "vpp": "dutlab.systems.vpp:VPP",
    "freebsd": "dutlab.systems.freebsd:FREEBSD",
    "freebsd-pf": "dutlab.systems.freebsd:FREEBSD_PF",
    "pfsense": "dutlab.systems.freebsd:PFSENSE",
    "openbsd": "dutlab.systems.openbsd:OPENBSD",
    "openbsd-pf": "dutlab.systems.openbsd:OPENBSD_PF",
    "macos": "dutlab.systems.macos:MACOS",
    "windows": "dutlab.systems.windows:WINDOWS",
    "black-box": "dutlab.systems.closed:BLACK_BOX",
    "manual": "dutlab.systems.closed:MANUAL",
}
SYSTEMS: Mapping[str, System] = ByPath(_PATHS)
"""Values of a host's `family` in a testbed. A test compares these names with those of the records."""


def system_of(name: str) -> System:
    """Return the system of this name. Raises InputError that lists the known names."""
    try:
        return SYSTEMS[name]
    except KeyError:
        raise InputError(f"{name!r}: unknown family", remedy=f"known families: {', '.join(sorted(SYSTEMS))}") from None
