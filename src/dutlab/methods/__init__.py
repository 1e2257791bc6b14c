"""Methods: how a number is found. They see the world through `ports.py` alone."""
