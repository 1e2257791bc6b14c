"""Tables of a Linux DUT, read and changed while it forwards."""
