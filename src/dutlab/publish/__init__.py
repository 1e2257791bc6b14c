"""Publish runs: a static site of devices and runs, claims checked against raw files, and merging of sites."""
