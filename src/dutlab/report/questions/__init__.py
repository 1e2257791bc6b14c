"""What is asked of runs that are there already: how they compare, what a factor does, what a claim rests on."""
