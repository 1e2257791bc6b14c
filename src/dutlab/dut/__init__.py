"""Devices under test: families and their modes."""

from __future__ import annotations

from dutlab.dut import black_box
from dutlab.dut.linux import LINUX
from dutlab.dut.mode import Family
from dutlab.errors import InputError

_FAMILIES: dict[str, Family] = {made.name: made for made in (LINUX, black_box.FAMILY)}


def family(name: str) -> Family:
    """The family called `name`. Raises InputError that names the known ones."""
    try:
        return _FAMILIES[name]
    except KeyError:
        known = ", ".join(sorted(_FAMILIES))
        raise InputError(f"no DUT family {name!r}", remedy=f"known families: {known}; other modes can be written out as commands") from None
