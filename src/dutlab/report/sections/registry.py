"""The sections of a report that workloads bring: the registry of workloads says which module writes which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Section
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import WORKLOADS, named

Builder = Callable[[RunFolder, Sequence[Group], Sequence[str], NoteBook], Section]
"""Run, the workload's cells, labels in their order, doubts → its section."""


def sections(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Section, ...]:
    """One of each workload that has one, in the order of WORKLOADS."""
    out = []
    for plug in WORKLOADS.values():
        if plug.section and (kept := [g for g in groups if g.cell.workload == plug.name]):
            build: Builder = named(plug.section)
            out.append(build(run, kept, labels, book))
    return tuple(out)
