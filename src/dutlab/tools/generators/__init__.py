"""One file for each generator that replaces the engine, and the code that they share."""
