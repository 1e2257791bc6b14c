"""Run folders: what a run leaves behind, written once, and read by everything downstream."""
