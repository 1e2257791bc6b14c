"""Specification of a run's hosts and the diagram of its testbed, as publications print them."""

from __future__ import annotations

from dataclasses import replace

from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Table
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.testbed_plot import plot_of_testbed
from dutlab.report.sections.device import SLUG


def specification_tables(prefix: str, report: RunReport) -> tuple[Table, ...]:
    """Return the tables of hosts whose specification is stated; facts that were only read from a host are in the full report."""
    tables = (table for s in report.sections if s.slug == SLUG for table in s.tables if not table.folded)
    return tuple(replace(table, slug=f"{prefix}{table.slug}") for table in tables)


def diagrams_of(report: RunReport) -> tuple[Plot, ...]:
    """Return the diagram of the run's testbed, for the page of a publication."""
    return tuple(plot_of_testbed(of) for s in report.sections for of in s.diagrams)
