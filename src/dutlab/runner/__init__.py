"""Execution of plans: phases, journal, resume, undo."""
