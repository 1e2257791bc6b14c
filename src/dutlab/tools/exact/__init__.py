"""Instructions per frame of a Linux router, in a simulated processor."""
