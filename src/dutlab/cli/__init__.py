"""Command line: arguments and wiring, no decisions."""
