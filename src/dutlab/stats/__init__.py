"""Statistics: medians and their intervals, rank tests, rates over time, loss ratios and searches. Pure: no I/O, no clock."""
