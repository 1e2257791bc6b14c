"""All plots of a run's report, in the order of the page."""

from __future__ import annotations

from dataclasses import replace

from dutlab.report.model.run_report import DrawnTable, RunReport
from dutlab.report.model.table import Table
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.factor_plot import effects_plot_of, factor_plot
from dutlab.report.plots.flame_plot import flame_plot
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.row_plots import cpu_plot, link_plot
from dutlab.report.plots.size_plot import SIZE_PLOTS, size_plot
from dutlab.report.plots.testbed_plot import plot_of_testbed


def plots_of(report: RunReport) -> list[Plot]:
    """Return every plot of a run; names are unique within it."""
    table_plots = [plot for drawing, table in report.drawn for plot in plots_of_table(drawing, table, report)]
    curves = [curve_plot(curve, report.labels) for s in report.sections for curve in s.curves]
    flames = [flame_plot(flame) for s in report.sections for flame in s.flames]
    cores = [cpu_plot(cpu, report.labels) for cpu in report.watched.cpus]
    diagrams = [plot_of_testbed(of) for s in report.sections for of in s.diagrams]
    source = f"{report.name} · {report.course.started} · dutlab"
    return [replace(plot, source=source) for plot in (*table_plots, *curves, *flames, *cores, *diagrams) if plot is not None]


def plots_of_table(drawing: DrawnTable, table: Table, report: RunReport) -> list[Plot]:
    """Return the plots of one table, of the kind that `drawing` names."""
    if drawing.kind == "links":
        plots = [link_plot(table, report.labels)]
    elif drawing.kind == "factors":
        plots = [factor_plot(table)]
    elif drawing.kind == "effects":
        plots = [effects_plot_of(table)]
    else:
        plots = [size_plot(table, wanted, report.labels) for wanted in SIZE_PLOTS]
    return [replace(plot, below=drawing.below) for plot in plots if plot is not None]
