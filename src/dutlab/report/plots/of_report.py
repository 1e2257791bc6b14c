"""Every plot that a run's figures allow, in the order of the page."""

from __future__ import annotations

from dutlab.report.model.run_report import RunReport
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.row_plots import cpu_plot, matrix_plot
from dutlab.report.plots.size_plot import SIZE_PLOTS, size_plot


def plots_of(report: RunReport) -> list[Plot]:
    """Names are unique within a run."""
    found = [matrix_plot(m, report.labels) for m in report.matrices]
    found += [size_plot(s, wanted, report.labels) for s in report.sweeps if s.main for wanted in SIZE_PLOTS]
    found += [curve_plot(curve, report.labels) for s in report.sections for curve in s.curves]
    found += [cpu_plot(cpu, report.labels) for cpu in report.cpus]
    return [plot for plot in found if plot is not None]
