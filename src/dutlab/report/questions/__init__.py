"""Questions about existing runs: how they compare, what a factor does, what a claim rests on."""
