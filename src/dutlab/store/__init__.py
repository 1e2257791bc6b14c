"""Run folders: the files of a run, written once, and read by all later stages."""
