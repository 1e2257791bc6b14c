"""Processors needed for a rate, from a measured rate and the processors that made it."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.physics.ceilings.ceiling import Ceiling, insist, number, positive

_LINEAR = "Assumes that each core forwards at the same rate, and that no bus, card or lock limits them. Shown only by a measurement."


def share_needed(wanted: float, measured: float) -> float:
    """Return the wanted rate ÷ the measured one, in one unit. Raises ValueError for numbers that are not above zero."""
    insist([positive(wanted, "the wanted rate"), positive(measured, "the measured rate")])
    return wanted / measured


def share_ceilings(wanted: float, measured: float, cores: float | None) -> Sequence[Ceiling]:
    """Return the share needed, and with `cores` (those that made the measured rate) the cores that the wanted rate takes.

    Raises ValueError for numbers that are not above zero.
    """
    needed = share_needed(wanted, measured)
    formula = f"{number(wanted)} / {number(measured)}"
    of = [Ceiling("needed_ratio", "", "share needed", needed, "", formula, "By definition.")]
    if cores is not None:
        insist([positive(cores, "the number of cores")])
        of.append(Ceiling("needed_cores", "", "cores needed", needed * cores, "", f"{number(cores)} × {formula}", _LINEAR))
    return tuple(of)
