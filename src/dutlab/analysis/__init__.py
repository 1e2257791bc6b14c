"""What records mean: ceilings, statistics, comparisons, factors, what limited a result. Pure: nothing reads a file, a clock or a network."""
