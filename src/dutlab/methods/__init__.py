"""Methods: procedures that find a figure. They use the testbed through the protocols of `ports.py` and its siblings alone."""
