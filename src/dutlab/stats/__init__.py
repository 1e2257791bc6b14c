"""Numerics: medians and their intervals, rank tests, rates over time, loss ratios and the searches among them. Pure: no I/O, no clock."""
