"""Sections of a report: a file for each workload that has one, and those of every run."""
