"""The sections of a report that workloads bring: the registry of workloads says which module writes which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Section
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import WORKLOADS, named, plug_of

Builder = Callable[[RunFolder, Sequence[Group], Sequence[str], NoteBook], Section]
"""Run, the workload's cells, labels in their order, doubts → its section."""


def sections(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Section, ...]:
    """One of each workload, in the order of WORKLOADS; those that only other tools' files know come last."""
    of: dict[str, list[Group]] = {}
    for one in groups:
        of.setdefault(one.cell.workload, []).append(one)
    known = [name for name in WORKLOADS if name in of]
    return tuple(_builder(name)(run, of[name], labels, book) for name in (*known, *sorted(of.keys() - WORKLOADS.keys())))


def _builder(workload: str) -> Builder:
    found: Builder = named(plug_of(workload).section)
    return found
