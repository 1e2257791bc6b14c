"""One file for each program that produces numbers, with its helpers beside it."""
