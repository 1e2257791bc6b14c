"""How a number is found. Methods see the world through `ports.py` alone."""
