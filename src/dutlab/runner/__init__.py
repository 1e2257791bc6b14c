"""Carries a plan out: phases, journal, resume, undo."""
