"""Web pages of `dutlab serve`, to watch and browse runs. It only reads run folders and starts `dutlab` commands."""
