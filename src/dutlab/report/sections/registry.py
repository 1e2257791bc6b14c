"""Which workloads bring a section of their own into the report, and the module that writes it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Section
from dutlab.store.run_folder import RunFolder

Builder = Callable[[RunFolder, Sequence[Group], Sequence[str], NoteBook], Section]
"""Run, the workload's cells, labels in their order, doubts → its section."""

SECTIONS: Mapping[str, str] = {
    "generators": "dutlab.report.sections.generators",
    "quick-test": "dutlab.report.sections.quick_test",
    "datagrams": "dutlab.report.sections.datagrams",
    "matrix": "dutlab.report.sections.matrix",
    "rfc2544": "dutlab.report.sections.rfc2544",
    "path-mtu": "dutlab.report.sections.path_mtu",
    "latency": "dutlab.report.sections.latency",
    "loadtest": "dutlab.report.sections.loadtest",
    "soak": "dutlab.report.sections.soak",
    "reconf": "dutlab.report.sections.reconf",
    "search": "dutlab.report.sections.search",
    "routes": "dutlab.report.sections.routes",
    "state": "dutlab.report.sections.state",
    "steps": "dutlab.report.sections.steps",
    "fio": "dutlab.report.sections.tool_figures",
    "flent": "dutlab.report.sections.tool_figures",
}
"""Workload → the module whose `section` is its Builder."""


def sections(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Section, ...]:
    """One of each workload that has one, in the order of SECTIONS."""
    out = []
    for workload, module in SECTIONS.items():
        if kept := [g for g in groups if g.cell.workload == workload]:
            build: Builder = importlib.import_module(module).section
            out.append(build(run, kept, labels, book))
    return tuple(out)
