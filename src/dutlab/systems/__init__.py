"""Systems of hosts: one module and one record each, and the list of all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dutlab.errors import InputError
from dutlab.systems.closed import BLACK_BOX, MANUAL
from dutlab.systems.freebsd import FREEBSD, FREEBSD_PF, PFSENSE
from dutlab.systems.linux import EXACT, LINUX, MDRAID, VYOS
from dutlab.systems.macos import MACOS
from dutlab.systems.openbsd import OPENBSD, OPENBSD_PF
from dutlab.systems.system import System
from dutlab.systems.vpp import VPP
from dutlab.systems.windows import WINDOWS

_KNOWN = (LINUX, EXACT, MDRAID, VYOS, VPP, FREEBSD, FREEBSD_PF, PFSENSE, OPENBSD, OPENBSD_PF, MACOS, WINDOWS, BLACK_BOX, MANUAL)
_BY_NAME = {known.name: known for known in _KNOWN}
SYSTEMS: Mapping[str, System] = MappingProxyType(_BY_NAME)
"""Values of a host's `family` in a testbed."""


def system_of(name: str) -> System:
    """Return the system of this name. Raises InputError that lists the known names."""
    try:
        return SYSTEMS[name]
    except KeyError:
        raise InputError(f"{name!r}: unknown family", remedy=f"known families: {', '.join(sorted(SYSTEMS))}") from None
