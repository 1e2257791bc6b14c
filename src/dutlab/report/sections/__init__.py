"""Sections of a report: a file for each workload with its own section, and files for the sections of every run."""
