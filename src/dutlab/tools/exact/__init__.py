"""Instructions a frame of a Linux router in a simulated processor."""
