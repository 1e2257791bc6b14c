"""Verdicts on records: comparisons, factors, limits. This package reads no files and no clock."""
