"""Devices under test: families and their modes."""

from __future__ import annotations

from dutlab.dut.black_box import BLACK_BOX
from dutlab.dut.freebsd_pf import FREEBSD_PF
from dutlab.dut.linux import LINUX
from dutlab.dut.manual import MANUAL
from dutlab.dut.mode import Family
from dutlab.dut.openbsd_pf import OPENBSD_PF
from dutlab.dut.pfsense import PFSENSE
from dutlab.dut.vpp import VPP
from dutlab.dut.vyos import VYOS
from dutlab.errors import InputError

_KNOWN = (LINUX, FREEBSD_PF, PFSENSE, OPENBSD_PF, VYOS, VPP, MANUAL, BLACK_BOX)
_FAMILIES: dict[str, Family] = {known.name: known for known in _KNOWN}


def family(name: str) -> Family:
    """The family called `name`. Raises InputError that names the known ones."""
    try:
        return _FAMILIES[name]
    except KeyError:
        known = ", ".join(sorted(_FAMILIES))
        raise InputError(f"no DUT family {name!r}", remedy=f"known families: {known}; other modes can be written out as commands") from None
