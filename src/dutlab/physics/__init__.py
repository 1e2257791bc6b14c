"""What a link, a slot, a drive or a processor can do at most, and what other work takes of it: pure functions."""
