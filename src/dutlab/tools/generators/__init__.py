"""One file for each generator that sends in the engine's place, and what they have in common."""
