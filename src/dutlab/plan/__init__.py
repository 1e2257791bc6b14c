"""From an experiment to an ordered list of trials, with a time estimate. Touches no host."""
