"""The command line: arguments and wiring, no decisions."""
