"""One run that a campaign is to make. By itself, because the process of each run needs nothing else of a campaign's file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedRun:
    """One run of a campaign."""

    number: int
    experiment: str
    """Its name."""
    testbed: str
    """The name of a lab, or of a testbed's file. Runs of one testbed follow each other."""
    version: str
    """Nothing where the campaign names none."""
    night: int
    arguments: tuple[str, ...]
    """Arguments of `dutlab run`."""
