"""Devices under test: families and their modes. A family is the `FAMILY` of the module named after its system."""

from __future__ import annotations

from importlib import import_module

from dutlab.dut.mode import Family
from dutlab.systems import system_of


def family(name: str) -> Family:
    """Return the family called `name`, without modes if its system has none. Raises InputError that lists the known names."""
    if not system_of(name).modes:
        return Family(name, {})
    result: Family = import_module(f"dutlab.dut.{name.replace('-', '_')}").FAMILY
    return result
