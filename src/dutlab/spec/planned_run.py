"""One planned run of a campaign. It is in a separate module because the process of each run needs nothing else of a campaign's file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedRun:
    """One run of a campaign."""

    number: int
    experiment: str
    """Name of the experiment."""
    testbed: str
    """Name of a lab, or of a testbed's file. Runs on the same testbed are carried out one after another."""
    version: str
    """Name of the version; empty where the campaign has none."""
    night: int
    arguments: tuple[str, ...]
    """Arguments of `dutlab run`."""
