"""Which workloads bring a section of their own into the report, and the module that writes it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

from dutlab.report.groups import Group
from dutlab.report.model import Section
from dutlab.report.notes import NoteBook
from dutlab.store.run_folder import RunFolder

Builder = Callable[[RunFolder, Sequence[Group], Sequence[str], NoteBook], Section]
"""Run, the workload's cells, labels in their order, doubts → its section."""

SECTIONS: Mapping[str, str] = {
    "generators": "dutlab.report.generators_section",
    "quick-test": "dutlab.report.quick_test_section",
    "datagrams": "dutlab.report.datagrams_section",
    "matrix": "dutlab.report.matrix_section",
    "rfc2544": "dutlab.report.rfc2544_section",
    "path-mtu": "dutlab.report.path_mtu_section",
    "latency": "dutlab.report.latency_section",
    "loadtest": "dutlab.report.loadtest_section",
    "soak": "dutlab.report.soak_section",
    "reconf": "dutlab.report.reconf_section",
    "search": "dutlab.report.search_section",
    "routes": "dutlab.report.routes_section",
    "state": "dutlab.report.state_section",
    "steps": "dutlab.report.steps_section",
    "fio": "dutlab.report.figures_section",
    "flent": "dutlab.report.figures_section",
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
