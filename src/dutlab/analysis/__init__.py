"""What records mean: ceilings and statistics. Pure functions; nothing here reads a file, a clock or a network."""
