"""Analyses of existing runs: comparisons, effects of factors, and claims."""
