"""Command line: arguments and wiring, no decisions."""

import gc

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""Objects between two garbage collections. Records are many objects with almost no cycles: with Python's default of 700, collections take
a seventh of the CPU time of a report of 20,000 trials. A short command makes fewer objects than this."""
gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)  # before the imports, which make most objects of a short command
