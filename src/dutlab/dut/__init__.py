"""Devices under test: families and their modes. A family is the file of its system's name, and what is called FAMILY there."""

from __future__ import annotations

from importlib import import_module

from dutlab.dut.mode import Family
from dutlab.systems import system_of


def family(name: str) -> Family:
    """The family called `name`; a system that brings no modes along is one without. Raises InputError that names the known ones."""
    if not system_of(name).modes:
        return Family(name, {})
    result: Family = import_module(f"dutlab.dut.{name.replace('-', '_')}").FAMILY
    return result
