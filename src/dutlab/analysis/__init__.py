"""Verdicts on records: comparisons, factors, limits. Pure: nothing here reads a file or a clock."""
