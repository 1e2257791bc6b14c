"""Pages to watch and browse runs: what `dutlab serve` answers to a browser. It reads run folders and starts `dutlab` commands, no more."""
