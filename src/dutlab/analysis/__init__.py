"""What records mean: comparisons, factors, what limited a result. Pure: nothing here reads a file or a clock."""
