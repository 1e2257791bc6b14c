"""A run folder as it was read, which every form of report and every section of it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dutlab.plan.cell import Cell
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

if TYPE_CHECKING:
    from dutlab.analysis.doctor import Finding


@dataclass(frozen=True)
class ReadRun:
    """A run folder, read: what every form of report is made from."""

    run: RunFolder
    resolved: Mapping[str, Any]
    experiment: Mapping[str, Any]
    testbed: Mapping[str, Any]
    plan: Mapping[str, Any]
    planned: Mapping[int, Cell]
    records: list[TrialRecord]
    aside: list[TrialRecord]
    """Of attempts that do not count."""
    lost: list[TrialRecord]
    """Of those the ones that lost a host."""
    facts: Mapping[str, Mapping[str, Any]]
    """Of hosts."""
    findings: tuple[Finding, ...]
    """Of every time that the testbed was examined; the same finding once. Runs of other tools, and older ones, have none."""
    groups: Sequence[Group]
    labels: tuple[str, ...]
    """In their order."""
    book: NoteBook
    faults: list[str]
    """What could not be read."""
