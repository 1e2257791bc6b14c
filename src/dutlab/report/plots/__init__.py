"""Plots of reports, drawn as SVG."""
